//go:build backend_pci || !(backend_vfio || backend_tt)

package hal

// Physical addresses of host memory, for the backend pci:, and huge pages that are adjacent.

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	pagemap = "/proc/self/pagemap"

	// An entry of pagemap (Linux, Documentation/admin-guide/mm/pagemap.rst).
	pagePresent = 1 << 63
	pageFrame   = 1<<55 - 1
)

// physicalAddress returns the address of mem on a bus without an IOMMU, and reports whether its
// pages are contiguous there. table is the open pagemap.
func (p *pci) physicalAddress(table int, mem []byte) (start uint64, contiguous bool, err error) {
	for offset := uint64(0); offset < uint64(len(mem)); offset += pageSize() {
		address, present := pageAddress(table, mem[offset:])
		switch {
		case !present:
			return 0, false, p.dev.fault(NoDevice, pagemap+" does not show host memory")
		case address == 0:
			return 0, false, p.dev.fault(Denied, "this user may not know physical addresses "+
				"(CAP_SYS_ADMIN); run as root, or use vfio:")
		case offset == 0:
			start = address
		case address != start+offset:
			return start, false, nil
		}
	}
	return start, true, nil
}

// pageAddress returns the physical address of the page that mem begins in, 0 for a user who may
// not know it, and reports whether the page is present.
func pageAddress(table int, mem []byte) (address uint64, present bool) {
	var entry [8]byte
	at := uint64(AddressOf(mem)) / pageSize() * uint64(len(entry))
	n, err := syscalls.pread(table, entry[:], int64(at))
	value := fbs.ReadStruct[uint64](entry[:])
	present = err == nil && n == len(entry) && value&pagePresent != 0
	return value & pageFrame * pageSize(), present
}

// poolPage is a huge page of the kernel's pool, at an offset of a file of such pages.
type poolPage struct {
	address uint64 // physical
	offset  int64
}

// poolTries is the number of pool pages that replacePages examines in addition to four times the
// pages that it needs. The kernel clears each, which takes from 0.1 to 2 ms.
const poolTries = 1024

// replacePages puts other pages of the pool in place of the huge pages mem, so that they are
// adjacent in physical memory, and reports whether it found such. The pool returns pages in any
// order, after a boot from the last to the first. A file of huge pages can be mapped page by page
// in any order; pages that are not needed go back to the pool.
func replacePages(table int, mem []byte) (replaced bool) {
	fd, err := syscalls.memfd(unix.MFD_CLOEXEC | unix.MFD_HUGETLB | hugePageLog)
	if err != nil {
		return false
	}
	// The pages of mem go back first: they may be adjacent to others.
	_ = mapOver(mem, -1, 0, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	count := len(mem) / hugePage
	var found []poolPage // sorted by address
	for tries := range 4*count + poolTries {
		// Take the next page from the pool and look where it is.
		offset := int64(tries) * hugePage
		err := mapPoolPage(mem, fd, offset)
		address, present := pageAddress(table, mem)
		if err != nil || !present {
			break // the pool is empty
		}
		found = insertPage(found, poolPage{address, offset})
		first := findAdjacent(found, count)
		if first < 0 {
			continue
		}
		// Map the adjacent pages in order. If one of these calls fails, another page is mapped
		// there, or none, which physicalAddress notices.
		for i, page := range found[first:][:count] {
			_ = mapPoolPage(mem[i*hugePage:], fd, page.offset)
		}
		returnPages(fd, found[:first])
		returnPages(fd, found[first+count:])
		replaced = true
		break
	}
	_ = syscalls.close(fd)
	return replaced
}

// returnPages returns pages of a file to the pool.
func returnPages(fd int, pages []poolPage) {
	for _, page := range pages {
		const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		_ = unix.Fallocate(fd, mode, page.offset, hugePage)
	}
}

// mapOver maps a file, or memory if fd is -1, in place of the mapping at mem.
func mapOver(mem []byte, fd int, offset int64, protection, flags int) error {
	at, size := toPointer(AddressOf(mem)), uintptr(len(mem))
	_, err := unix.MmapPtr(fd, offset, at, size, protection, flags|unix.MAP_FIXED)
	return err
}

// mapPoolPage maps a page of a file of huge pages at the beginning of mem. The kernel takes a
// page that is new in the file from the pool.
func mapPoolPage(mem []byte, fd int, offset int64) error {
	const flags = unix.MAP_SHARED | unix.MAP_POPULATE
	return mapOver(mem[:hugePage], fd, offset, unix.PROT_READ|unix.PROT_WRITE, flags)
}

// insertPage inserts a page into pages that are sorted by address.
func insertPage(pages []poolPage, page poolPage) []poolPage {
	pages = append(pages, page)
	for i := len(pages) - 1; i > 0 && pages[i-1].address > page.address; i-- {
		pages[i], pages[i-1] = pages[i-1], page
	}
	return pages
}

// findAdjacent returns the index of the first of count adjacent pages, -1 if there are none.
func findAdjacent(pages []poolPage, count int) int {
	length := 0
	for i := range pages {
		if i > 0 && pages[i].address != pages[i-1].address+hugePage {
			length = 0
		}
		if length++; length == count {
			return i - count + 1
		}
	}
	return -1
}
