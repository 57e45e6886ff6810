//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageByPage returns anonymous memory, which a device reaches page by page from
// bus address 10000 on, and the steps that this, one look and the end of it took.
func pageByPage(t *testing.T, n int) (mapping, looking, unmapping uint64) {
	t.Helper()
	size := uint64(n) * pageSize
	r, self, text := inside(t, Options{HostMemoryLimit: 2 * size, IgnoreTracking: true})
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	for at := uint64(0); at < size; at += pageSize {
		r.addDMARangeOfKind(self, address(b)+at, pageSize, 0x10000+at, dmaRange{byVFIO: true})
	}
	mapping = r.hostMemory.workSteps
	b[pageSize*uint64(n/2)+8] = 0x22
	r.recordChanges(byProgram)
	looking = r.hostMemory.workSteps - mapping
	for at := uint64(0); at < size; at += pageSize {
		request := make([]byte, 24) // struct vfio_iommu_type1_dma_unmap
		copy(request[8:], little(0x10000+at))
		copy(request[16:], little(pageSize))
		c := &call{arguments: [6]uint64{2: address(request)}}
		r.recordBeforeDMAUnmap(self, c)
		r.removeDMAMapping(self, c, 0)
	}
	unmapping = r.hostMemory.workSteps - looking - mapping
	got := text()
	if len(r.hostMemory.ranges) != 0 || r.hostMemory.bytes != 0 ||
		r.hostMemory.retiredBytes != size ||
		strings.Count(got, "\nMEM ") != n ||
		!strings.Contains(got, fmt.Sprintf("\nHR %x 8 2200000000000000\n", 0x10008+n/2*pageSize)) {
		t.Errorf("%d parts, %d and %d bytes are left: %.300s", len(r.hostMemory.ranges),
			r.hostMemory.bytes,
			r.hostMemory.retiredBytes, got)
	}
	return mapping, looking, unmapping
}

func little(v uint64) []byte {
	return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24), byte(v >> 32), byte(v >> 40),
		byte(v >> 48), byte(v >> 56)}
}

// TestMemoryMappedPageByPageIsOnePart: a look at it takes as many steps as at one
// page, and four times the pages take not much more than four times the steps.
func TestMemoryMappedPageByPageIsOnePart(t *testing.T) {
	const pages = 512
	mapping, looking, unmapping := pageByPage(t, pages)
	mapping4, looking4, unmapping4 := pageByPage(t, 4*pages)
	t.Logf("evidence: %d pages: %d steps to map, %d to look, %d to unmap; four times as many: "+
		"%d, %d, %d", pages, mapping, looking, unmapping, mapping4,
		looking4, unmapping4)
	if looking4 > looking+2 || mapping4 > 5*mapping || unmapping4 > 5*unmapping {
		t.Error("the steps are not in proportion to the pages")
	}
}

// TestScatteredMemoryIsFoundWithoutASearchThroughAll: pages that are no
// neighbours in the program stay parts of their own.
func TestScatteredMemoryIsFoundWithoutASearchThroughAll(t *testing.T) {
	steps := func(n int) uint64 {
		r, self, _ := inside(t, Options{HostMemoryLimit: 1 << 30, IgnoreTracking: true})
		b, err := unix.Mmap(-1, 0, n*pageSize, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(b) }()
		for i := range uint64(n) {
			r.addDMARange(self, address(b)+i*pageSize, pageSize, 0x10000000-i*pageSize)
		}
		return r.hostMemory.workSteps
	}
	if few, many := steps(256), steps(1024); many > 6*few {
		t.Errorf("%d steps for 256 pages, %d for 1024", few, many)
	}
}

// TestPartOfNeighboursIsUnmappedAlone, and comes back with what the record says of it.
func TestPartOfNeighboursIsUnmappedAlone(t *testing.T) {
	r, self, text := inside(t, Options{HostMemoryLimit: 16 * pageSize, IgnoreTracking: true})
	b := buffer(5*pageSize, 0x11)
	at := address(b)
	for i := range uint64(4) {
		r.addDMARange(self, at+i*pageSize, pageSize, 0x10000+i*pageSize)
	}
	r.removeDMARanges(self, 0x11000, 2*pageSize)
	b[pageSize+8], b[3*pageSize] = 0x33, 0x44
	r.recordChanges(byProgram)
	r.addDMARange(self, at+pageSize, pageSize, 0x11000)
	const want = "LMRECORD 2\nMEM 10000 1000\nHR 10000 8 0000000000000011\nMEM 11000 1000\nMEM " +
		"12000 1000\nMEM 13000 1000\n" +
		"HR 13000 8 4400000000000000\nMEM 11000 1000\nHR 11008 8 3300000000000000\n"
	if got := text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(r.hostMemory.ranges) != 2 || r.hostMemory.bytes != 3*pageSize ||
		r.hostMemory.retiredBytes != pageSize {
		t.Errorf("%d parts, %d bytes, %d former ones", len(r.hostMemory.ranges), r.hostMemory.bytes,
			r.hostMemory.retiredBytes)
	}
}

// TestNeighbourThatTheProgramUnmapsHidesNoOther: what is left is still compared.
func TestNeighbourThatTheProgramUnmapsHidesNoOther(t *testing.T) {
	r, self, text := inside(t, Options{HostMemoryLimit: 16 * pageSize, IgnoreTracking: true})
	b, err := unix.Mmap(-1, 0, 4*pageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	at := address(b)
	for i := range uint64(4) {
		r.addDMARange(self, at+i*pageSize, pageSize, 0x10000+i*pageSize)
	}
	if err := unix.MunmapPtr(unsafe.Pointer(&b[pageSize]), pageSize); err != nil {
		t.Fatal(err)
	}
	b[0], b[3*pageSize] = 0x55, 0x66
	r.recordChanges(byProgram)
	if got := text(); !strings.Contains(got,
		"HR 10000 8 5500000000000000\nHR 13000 8 6600000000000000\n") {
		t.Error(got)
	}
}

// TestProgressSaysWhatTakesLong: mappings while there is no access, comparisons after that.
func TestProgressSaysWhatTakesLong(t *testing.T) {
	var said bytes.Buffer
	r, self, _ := inside(t, Options{HostMemoryLimit: 16 * pageSize, IgnoreTracking: true,
		Progress: &said})
	b := buffer(pageSize, 0x11)
	r.addDMARange(self, address(b), pageSize, 0x10000)
	r.printProgress()
	want := "0 accesses recorded; host memory mapped 1 times (4 KiB now)"
	if !strings.Contains(said.String(), want) {
		t.Errorf("%q, not %q", said.String(), want)
	}
	said.Reset()
	r.lastProgress, r.compareTime, r.accesses = time.Now().Add(-time.Hour), 45*time.Minute, 7
	r.printProgress()
	want = "7 accesses recorded; comparing 4 KiB of host memory before each store takes "
	if !strings.Contains(said.String(), want) {
		t.Errorf("%q, not %q", said.String(), want)
	}
}
