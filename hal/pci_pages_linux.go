//go:build backend_pci || !(backend_vfio || backend_tt)

package hal

// For the backend pci:, this file finds the physical addresses of host memory, and searches the
// kernel's pool for huge pages that are adjacent in physical memory.

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	pagemap = "/proc/self/pagemap"

	// Bits of an entry of `pagemap` (Linux, Documentation/admin-guide/mm/pagemap.rst).
	pagePresent = 1 << 63   // the page is in memory
	pageFrame   = 1<<55 - 1 // mask of the physical address in units of pages
)

// physicalAddress returns the physical address of the first page of mem, and reports whether the
// pages of mem are contiguous in physical memory. Without an IOMMU, physical addresses are bus
// addresses. pagemapFD is the file descriptor of pagemap.
func (p *pci) physicalAddress(pagemapFD int, mem []byte) (
	start uint64, contiguous bool, err error) {
	for offset := uint64(0); offset < uint64(len(mem)); offset += pageSize() {
		address, present := pageAddress(pagemapFD, mem[offset:])
		switch {
		case !present:
			return 0, false, p.dev.fault(NoDevice, "cannot find host memory in "+pagemap)
		case address == 0:
			return 0, false, p.dev.fault(Denied, "reading physical addresses requires "+
				"CAP_SYS_ADMIN; run as root, or use `vfio:`")
		case offset == 0:
			start = address
		case address != start+offset:
			return start, false, nil
		}
	}
	return start, true, nil
}

// pageAddress returns the physical address of the page in which mem begins, and reports whether
// that page is present. The address is 0 if this process lacks CAP_SYS_ADMIN.
func pageAddress(pagemapFD int, mem []byte) (address uint64, present bool) {
	var entry [8]byte
	entryOffset := uint64(AddressOf(mem)) / pageSize() * uint64(len(entry))
	n, err := syscalls.pread(pagemapFD, entry[:], int64(entryOffset))
	value := fbs.ReadStruct[uint64](entry[:])
	present = err == nil && n == len(entry) && value&pagePresent != 0
	return value & pageFrame * pageSize(), present
}

// poolPage is a huge page that a hugetlb file has taken from the kernel's pool.
type poolPage struct {
	address uint64 // physical address
	offset  int64  // bytes from the beginning of the hugetlb file
}

// extraPoolPages bounds the search of replacePages: it examines four times as many pages as it
// needs, and this number of pages in addition. The kernel clears each page that leaves the pool,
// which takes from 0.1 to 2 ms.
const extraPoolPages = 1024

// replacePages replaces the huge pages at mem with pages that are adjacent in physical memory,
// and reports whether the pool had enough of them. The pool hands out pages in any order, soon
// after boot from the highest address to the lowest. Therefore replacePages takes pages from the
// pool through a hugetlb file until enough of them are adjacent. It maps those in the right order
// and returns the remaining pages to the pool.
func replacePages(pagemapFD int, mem []byte) (replaced bool) {
	fd, err := syscalls.memfd(unix.MFD_CLOEXEC | unix.MFD_HUGETLB | mapHuge2MB)
	if err != nil {
		return false
	}
	// First return the old pages of mem to the pool: they may be adjacent to pages in the pool.
	_ = mapOver(mem, -1, 0, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	count := len(mem) / hugePageSize
	var found []poolPage // sorted by address
	for index := range 4*count + extraPoolPages {
		// Take a page from the pool, and find out its physical address.
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
		// Map the adjacent pages in order of their addresses. Errors can be ignored: after a failed
		// call the address range has a wrong page or no page, which physicalAddress detects.
		for i, page := range found[first:][:count] {
			_ = mapPoolPage(mem[i*hugePageSize:], fd, page.offset)
		}
		returnPages(fd, found[:first])
		returnPages(fd, found[first+count:])
		replaced = true
		break
	}
	_ = syscalls.close(fd)
	return replaced
}

// returnPages returns the given pages of a hugetlb file to the pool.
func returnPages(fd int, pages []poolPage) {
	for _, page := range pages {
		const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		_ = unix.Fallocate(fd, mode, page.offset, hugePageSize)
	}
}

// mapOver replaces the mapping at mem by a mapping of the file fd, or by anonymous memory if fd is
// -1.
func mapOver(mem []byte, fd int, offset int64, protection, flags int) error {
	start, size := toPointer(AddressOf(mem)), uintptr(len(mem))
	_, err := unix.MmapPtr(fd, offset, start, size, protection, flags|unix.MAP_FIXED)
	return err
}

// mapPoolPage maps the page at an offset of a hugetlb file at the beginning of mem. If the file
// has no page at that offset yet, the kernel takes one from the pool.
func mapPoolPage(mem []byte, fd int, offset int64) error {
	const flags = unix.MAP_SHARED | unix.MAP_POPULATE
	return mapOver(mem[:hugePageSize], fd, offset, unix.PROT_READ|unix.PROT_WRITE, flags)
}

// insertPage inserts page into pages, which are sorted by address, and returns the longer slice.
func insertPage(pages []poolPage, page poolPage) []poolPage {
	pages = append(pages, page)
	for i := len(pages) - 1; i > 0 && pages[i-1].address > page.address; i-- {
		pages[i], pages[i-1] = pages[i-1], page
	}
	return pages
}

// findAdjacent searches pages, which are sorted by address, for count pages that are adjacent in
// physical memory. It returns the index of the first of them, -1 if no such pages exist.
func findAdjacent(pages []poolPage, count int) int {
	length := 0 // number of adjacent pages that end with the current page
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
