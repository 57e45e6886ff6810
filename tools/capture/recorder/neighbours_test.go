//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stepsPageByPage maps n pages of anonymous memory for a device, page by page from bus address
// 10000 on, compares them once and unmaps them page by page. It returns the work steps of each
// part.
func stepsPageByPage(t *testing.T, n int) (mapping, comparing, unmapping uint64) {
	t.Helper()
	size := uint64(n) * pageSize
	r, self, text := newHostRecording(t, 2*uint64(n))
	b := mapPages(t, n)
	for at := uint64(0); at < size; at += pageSize {
		r.addDMARangeOfKind(self, addressOf(b)+at, pageSize, 0x10000+at, dmaRange{byVFIO: true})
	}
	mapping = r.hostMemory.workSteps
	b[pageSize*uint64(n/2)+8] = 0x22
	r.recordChanges(byProgram)
	comparing = r.hostMemory.workSteps - mapping
	for at := uint64(0); at < size; at += pageSize {
		request := make([]byte, 24) // struct vfio_iommu_type1_dma_unmap
		binary.NativeEndian.PutUint64(request[8:], 0x10000+at)
		binary.NativeEndian.PutUint64(request[16:], pageSize)
		c := &call{arguments: [6]uint64{2: addressOf(request)}}
		r.recordBeforeDMAUnmap(self, c)
		r.removeDMAMapping(self, c, 0)
	}
	unmapping = r.hostMemory.workSteps - comparing - mapping
	got := text()
	if len(r.hostMemory.ranges) != 0 || r.hostMemory.bytes != 0 ||
		r.hostMemory.retiredBytes != size ||
		strings.Count(got, "\nMEM ") != n ||
		!strings.Contains(got, fmt.Sprintf("\nHR %x 8 2200000000000000\n", 0x10008+n/2*pageSize)) {
		t.Errorf("after unmapping, %d ranges of %d bytes and %d retired bytes, want 0, 0 and %d; "+
			"record:\n%.300s", len(r.hostMemory.ranges), r.hostMemory.bytes,
			r.hostMemory.retiredBytes, size, got)
	}
	return mapping, comparing, unmapping
}

// TestMemoryMappedPageByPageIsOneRange: comparing the range takes as many steps as comparing one
// page. Mapping four times the pages takes not much more than four times the steps.
func TestMemoryMappedPageByPageIsOneRange(t *testing.T) {
	const pages = 512
	mapping, comparing, unmapping := stepsPageByPage(t, pages)
	mapping4, comparing4, unmapping4 := stepsPageByPage(t, 4*pages)
	t.Logf("evidence: %d pages: %d steps to map, %d to look, %d to unmap; four times as many: "+
		"%d, %d, %d", pages, mapping, comparing, unmapping, mapping4,
		comparing4, unmapping4)
	if comparing4 > comparing+2 || mapping4 > 5*mapping || unmapping4 > 5*unmapping {
		t.Errorf("steps to map, compare and unmap: %d, %d, %d for %d pages, %d, %d, %d for four "+
			"times as many; want at most five times the steps, and as many to compare", mapping,
			comparing, unmapping, pages, mapping4, comparing4, unmapping4)
	}
}

// TestScatteredMemoryIsFoundWithoutALinearSearch: pages that are not adjacent in the program stay
// separate ranges.
func TestScatteredMemoryIsFoundWithoutALinearSearch(t *testing.T) {
	steps := func(n int) uint64 {
		r, self, _ := newHostRecording(t, 2*uint64(n))
		b := mapPages(t, n)
		for i := range uint64(n) {
			r.addDMARange(self, addressOf(b)+i*pageSize, pageSize, 0x10000000-i*pageSize)
		}
		return r.hostMemory.workSteps
	}
	if few, many := steps(256), steps(1024); many > 6*few {
		t.Errorf("%d steps for 256 pages, %d for 1024, want at most six times as many", few, many)
	}
}

// TestPartOfARangeIsUnmappedAlone unmaps two of four pages, and maps one of them again. It is
// compared with the data that the record has of it.
func TestPartOfARangeIsUnmappedAlone(t *testing.T) {
	r, self, text := newHostRecording(t, 16)
	b := buffer(5*pageSize, 0x11)
	at := addressOf(b)
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
	compareRecord(t, text(), want)
	if len(r.hostMemory.ranges) != 2 || r.hostMemory.bytes != 3*pageSize ||
		r.hostMemory.retiredBytes != pageSize ||
		r.hostMemory.retired[0].bus != 0x12000 {
		t.Errorf("%d ranges, %d bytes, %d retired bytes; want 2, %d, %d", len(r.hostMemory.ranges),
			r.hostMemory.bytes, r.hostMemory.retiredBytes, 3*pageSize, pageSize)
	}
}

// TestUnmappedPageDoesNotHideItsNeighbours: if the program unmaps a page of a range, the recorder
// still compares the other pages.
func TestUnmappedPageDoesNotHideItsNeighbours(t *testing.T) {
	r, self, text := newHostRecording(t, 16)
	b := mapPages(t, 4)
	at := addressOf(b)
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
		t.Errorf("the record lacks the changes before and after the unmapped page:\n%s", got)
	}
}

// TestProgressReportsMappingsAndComparisons: progress lines report mappings before the first
// access, and comparisons after that.
func TestProgressReportsMappingsAndComparisons(t *testing.T) {
	var progress bytes.Buffer
	r, self, _ := newTestRecording(t, Options{HostMemoryLimit: 16 * pageSize, IgnoreTracking: true,
		Progress: &progress})
	b := buffer(pageSize, 0x11)
	r.addDMARange(self, addressOf(b), pageSize, 0x10000)
	r.printProgress()
	want := "0 accesses recorded; host memory mapped 1 time (4 KiB now)"
	if !strings.Contains(progress.String(), want) {
		t.Errorf("progress %q, want %q", progress.String(), want)
	}
	progress.Reset()
	r.lastProgress, r.compareTime, r.accesses = time.Now().Add(-time.Hour), 45*time.Minute, 7
	r.printProgress()
	want = "7 accesses recorded; comparing 4 KiB of host memory before each store takes "
	if !strings.Contains(progress.String(), want) {
		t.Errorf("progress %q, want %q", progress.String(), want)
	}
}
