//go:build backend_pci || !(backend_vfio || backend_tt)

package hal

// This file is part of the backend pci. It finds the physical addresses of host memory. For a Host
// window that needs several huge pages, it also searches the kernel's pool of huge pages for pages
// that are adjacent in physical memory.

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	pagemapPath = "/proc/self/pagemap"

	// Bits of an entry of the file pagemap. The file has one entry of 64 bits for each page of the
	// process's address space (Linux, Documentation/admin-guide/mm/pagemap.rst).
	pagePresentBit = 1 << 63   // bit that is 1 if the page is in memory, not swapped out
	pageFrameMask  = 1<<55 - 1 // mask of the page frame number: physical address / page size
)

// physicalAddress returns the physical address of the first page of mem, and reports whether the
// pages of mem are contiguous in physical memory. pagemapFD is the descriptor of the file pagemap.
func (p *pciBackend) physicalAddress(pagemapFD int, mem []byte) (
	start uint64, contiguous bool, err error) {
	for offset := uint64(0); offset < uint64(len(mem)); offset += pageSize() {
		address, present := pageAddress(pagemapFD, mem[offset:])
		switch {
		case !present:
			return 0, false, p.dev.fault(NoDevice, "cannot find host memory in "+pagemapPath+
				"; use `vfio:`")
		case address == 0:
			return 0, false, p.dev.fault(Denied,
				"reading physical addresses requires CAP_SYS_ADMIN; run as root, or use `vfio:`")
		case offset == 0:
			start = address
		case address != start+offset:
			return start, false, nil
		}
	}
	return start, true, nil
}

// pageAddress returns the physical address of the page that contains the first byte of mem, and
// reports whether that page is in memory. The kernel returns address 0 to a process without
// CAP_SYS_ADMIN.
func pageAddress(pagemapFD int, mem []byte) (physical uint64, present bool) {
	var entry [8]byte
	entryOffset := uint64(AddressOf(mem)) / pageSize() * uint64(len(entry))
	n, err := syscalls.pread(pagemapFD, entry[:], int64(entryOffset))
	value := fbs.ReadStruct[uint64](entry[:])
	present = err == nil && n == len(entry) && value&pagePresentBit != 0
	return value & pageFrameMask * pageSize(), present
}

// poolPage describes a huge page that makeContiguous has taken from the kernel's pool through a
// hugetlb file.
type poolPage struct {
	address uint64 // physical address
	offset  int64  // offset of the page in the hugetlb file, in bytes
}

// extraPoolPages limits how many pages makeContiguous takes from the pool: four times the number of
// pages that it needs, plus extraPoolPages. The limit is necessary because the kernel clears each
// page that leaves the pool, which takes 0.1 to 2 ms per page.
const extraPoolPages = 1024

// makeContiguous replaces the huge pages of the mapping mem by huge pages that are adjacent in
// physical memory. It returns false if it does not find enough adjacent pages. In both cases the
// contents of mem are lost.
//
// The kernel does not hand out the pages of its pool in the order of their addresses. Therefore
// makeContiguous takes pages from the pool, through a hugetlb file, until enough of them are
// adjacent. It maps the adjacent pages in the order of their addresses, and returns all others to
// the pool.
func makeContiguous(pagemapFD int, mem []byte) (contiguous bool) {
	fd, err := syscalls.memfd(unix.MFD_CLOEXEC | unix.MFD_HUGETLB | mapHuge2MB)
	if err != nil {
		return false
	}
	// Return the old pages of mem to the pool first, because they may be adjacent to pages in the
	// pool. Keep the address range of mem reserved, but inaccessible.
	_ = mapFixed(mem, -1, 0, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	count := len(mem) / hugePageSize
	var found []poolPage // sorted by address
	for index := range 4*count + extraPoolPages {
		// Take a page from the pool, and read its physical address.
		offset := int64(index) * hugePageSize
		err := mapPoolPage(mem, fd, offset)
		address, present := pageAddress(pagemapFD, mem)
		if err != nil || !present {
			break // the pool is empty
		}
		found = insertPage(found, poolPage{address, offset})
		first := findAdjacent(found, count)
		if first < 0 {
			continue
		}
		// Map the adjacent pages in the order of their addresses. Ignore errors, because the caller
		// calls physicalAddress again, and detects a page that is wrong or missing.
		for i, page := range found[first:][:count] {
			_ = mapPoolPage(mem[i*hugePageSize:], fd, page.offset)
		}
		freePages(fd, found[:first])
		freePages(fd, found[first+count:])
		contiguous = true
		break
	}
	_ = syscalls.close(fd)
	return contiguous
}

// freePages returns the given pages of the hugetlb file poolFD to the kernel's pool, by punching
// holes into the file.
func freePages(poolFD int, pages []poolPage) {
	for _, page := range pages {
		const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		_ = unix.Fallocate(poolFD, mode, page.offset, hugePageSize)
	}
}

// mapFixed maps the file fd, from the given offset on, at the addresses of mem. If fd is -1, it
// maps anonymous memory there. The new mapping replaces the old mapping at these addresses.
func mapFixed(mem []byte, fd int, offset int64, protection, flags int) error {
	start, size := toPointer(AddressOf(mem)), uintptr(len(mem))
	_, err := unix.MmapPtr(fd, offset, start, size, protection, flags|unix.MAP_FIXED)
	return err
}

// mapPoolPage maps the page at the given offset of the hugetlb file fd at the address of mem. If
// the file has no page at that offset yet, the kernel takes a page from the pool.
func mapPoolPage(mem []byte, fd int, offset int64) error {
	const flags = unix.MAP_SHARED | unix.MAP_POPULATE
	return mapFixed(mem[:hugePageSize], fd, offset, unix.PROT_READ|unix.PROT_WRITE, flags)
}

// insertPage inserts page into the list `sorted`, which is sorted by address, and returns the new
// list.
func insertPage(sorted []poolPage, page poolPage) []poolPage {
	sorted = append(sorted, page)
	for i := len(sorted) - 1; i > 0 && sorted[i-1].address > page.address; i-- {
		sorted[i], sorted[i-1] = sorted[i-1], page
	}
	return sorted
}

// findAdjacent searches the list `pages`, which is sorted by address, for `count` pages that are
// adjacent in physical memory. It returns the index of the first of these pages, or -1 if the list
// contains no such pages.
func findAdjacent(pages []poolPage, count int) (first int) {
	length := 0 // length of the run of adjacent pages that ends with page i
	for i := range pages {
		if i > 0 && pages[i].address != pages[i-1].address+hugePageSize {
			length = 0
		}
		if length++; length == count {
			return i - count + 1
		}
	}
	return -1
}
