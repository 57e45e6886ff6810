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
	size := uint64(n) * page
	r, self, text := inside(t, Options{HostMemory: 2 * size, Compare: true})
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	for at := uint64(0); at < size; at += page {
		r.reachBy(self, address(b)+at, page, 0x10000+at, reached{vfio: true})
	}
	mapping = r.hosts.steps
	b[page*uint64(n/2)+8] = 0x22
	r.recordChanges(byProgram)
	looking = r.hosts.steps - mapping
	for at := uint64(0); at < size; at += page {
		request := make([]byte, 24) // struct vfio_iommu_type1_dma_unmap
		copy(request[8:], little(0x10000+at))
		copy(request[16:], little(page))
		c := &call{arguments: [6]uint64{2: address(request)}}
		r.unmapsBus(self, c)
		r.unmapped(self, c, 0)
	}
	unmapping = r.hosts.steps - looking - mapping
	got := text()
	if len(r.hosts.reached) != 0 || r.hosts.bytes != 0 || r.hosts.retiredBytes != size ||
		strings.Count(got, "\nMEM ") != n ||
		!strings.Contains(got, fmt.Sprintf("\nHR %x 8 2200000000000000\n", 0x10008+n/2*page)) {
		t.Errorf("%d parts, %d and %d bytes are left: %.300s", len(r.hosts.reached), r.hosts.bytes,
			r.hosts.retiredBytes, got)
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
		r, self, _ := inside(t, Options{HostMemory: 1 << 30, Compare: true})
		b, err := unix.Mmap(-1, 0, n*page, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(b) }()
		for i := range uint64(n) {
			r.reach(self, address(b)+i*page, page, 0x10000000-i*page)
		}
		return r.hosts.steps
	}
	if few, many := steps(256), steps(1024); many > 6*few {
		t.Errorf("%d steps for 256 pages, %d for 1024", few, many)
	}
}

// TestPartOfNeighboursIsUnmappedAlone, and comes back with what the record says of it.
func TestPartOfNeighboursIsUnmappedAlone(t *testing.T) {
	r, self, text := inside(t, Options{HostMemory: 16 * page, Compare: true})
	b := buffer(5*page, 0x11)
	at := address(b)
	for i := range uint64(4) {
		r.reach(self, at+i*page, page, 0x10000+i*page)
	}
	r.unreach(self, 0x11000, 2*page)
	b[page+8], b[3*page] = 0x33, 0x44
	r.recordChanges(byProgram)
	r.reach(self, at+page, page, 0x11000)
	const want = "LMRECORD 2\nMEM 10000 1000\nHR 10000 8 0000000000000011\nMEM 11000 1000\nMEM " +
		"12000 1000\nMEM 13000 1000\n" +
		"HR 13000 8 4400000000000000\nMEM 11000 1000\nHR 11008 8 3300000000000000\n"
	if got := text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(r.hosts.reached) != 2 || r.hosts.bytes != 3*page || r.hosts.retiredBytes != page {
		t.Errorf("%d parts, %d bytes, %d former ones", len(r.hosts.reached), r.hosts.bytes,
			r.hosts.retiredBytes)
	}
}

// TestNeighbourThatTheProgramUnmapsHidesNoOther: what is left is still compared.
func TestNeighbourThatTheProgramUnmapsHidesNoOther(t *testing.T) {
	r, self, text := inside(t, Options{HostMemory: 16 * page, Compare: true})
	b, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	at := address(b)
	for i := range uint64(4) {
		r.reach(self, at+i*page, page, 0x10000+i*page)
	}
	if err := unix.MunmapPtr(unsafe.Pointer(&b[page]), page); err != nil {
		t.Fatal(err)
	}
	b[0], b[3*page] = 0x55, 0x66
	r.recordChanges(byProgram)
	if got := text(); !strings.Contains(got,
		"HR 10000 8 5500000000000000\nHR 13000 8 6600000000000000\n") {
		t.Error(got)
	}
}

// TestProgressSaysWhatTakesLong: mappings while there is no access, comparisons after that.
func TestProgressSaysWhatTakesLong(t *testing.T) {
	var said bytes.Buffer
	r, self, _ := inside(t, Options{HostMemory: 16 * page, Compare: true, Progress: &said})
	b := buffer(page, 0x11)
	r.reach(self, address(b), page, 0x10000)
	r.progress()
	want := "0 accesses recorded; host memory mapped 1 times (4 KiB now)"
	if !strings.Contains(said.String(), want) {
		t.Errorf("%q, not %q", said.String(), want)
	}
	said.Reset()
	r.told, r.comparing, r.accesses = time.Now().Add(-time.Hour), 45*time.Minute, 7
	r.progress()
	want = "7 accesses recorded; comparing 4 KiB of host memory before each store takes "
	if !strings.Contains(said.String(), want) {
		t.Errorf("%q, not %q", said.String(), want)
	}
}
