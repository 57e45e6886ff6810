//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What is needed of userfaultfd and PAGEMAP_SCAN (linux/userfaultfd.h, linux/fs.h).
const (
	// UFFD_USER_MODE_ONLY: takes no privilege, and asynchronous protection holds for the kernel's
	// writes all the same
	faultsOfUser = 1

	faultsAPI      = 0xc018aa3f // UFFDIO_API
	faultsRegister = 0xc020aa00 // UFFDIO_REGISTER
	faultsVersion  = 0xaa
	protectShared  = 1 << 12 // UFFD_FEATURE_WP_HUGETLBFS_SHMEM
	protectEmpty   = 1 << 13 // UFFD_FEATURE_WP_UNPOPULATED
	protectAsync   = 1 << 15 // UFFD_FEATURE_WP_ASYNC
	registerWrites = 2       // UFFDIO_REGISTER_MODE_WP

	pagemapScan   = 0xc0606610
	scanProtect   = 1 << 0 // PM_SCAN_WP_MATCHING
	scanOnlyAsync = 1 << 1 // PM_SCAN_CHECK_WPASYNC
	pageWritten   = 1 << 1 // PAGE_IS_WRITTEN
)

// pageScan is struct pm_scan_arg.
type pageScan struct {
	size, flags, start, end, walkEnd   uint64
	found                              *pageRange
	length, most                       uint64
	inverted, mask, anyOf, returnsMask uint64
}

// pageRange is struct page_region.
type pageRange struct{ start, end, _ uint64 }

func request(fd int, request uint, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request),
		uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// pageFiles are the files by which a kernel reports which pages a program writes.
type pageFiles struct {
	tried           bool
	faults, pagemap *os.File // nil: it does not
}

// scans has the kernel note which pages of m the program writes. A device does
// not write through the program's page tables, and leaves no note.
func (r *recording) scans(t *thread, m *reached) bool {
	p := &t.space.pages
	if !p.tried && !r.options.Compare {
		p.tried = true
		if err := r.openPages(t, p); err != nil || !r.probe(t, p) {
			p.close()
		}
	}
	if p.faults == nil {
		return false
	}
	start, end := m.start&^(page-1), pages(m.start+m.size())
	if p.register(start, end) != nil {
		return false
	}
	_, known := p.written(start, end, true)
	return known
}

// openPages makes the descriptors: a userfaultfd is of the process that asks.
func (r *recording) openPages(t *thread, p *pageFiles) error {
	fd, err := r.inject(t, unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|faultsOfUser)
	if err != nil {
		return err
	}
	own, err := takeDescriptor(t, int(fd))
	_, cerr := r.inject(t, unix.SYS_CLOSE, fd)
	if err != nil || cerr != nil {
		return fmt.Errorf("%v, %v", err, cerr)
	}
	p.faults = os.NewFile(uintptr(own), "userfaultfd")
	api := struct{ version, features, requests uint64 }{faultsVersion,
		protectShared | protectEmpty | protectAsync, 0}
	if err := request(own, faultsAPI, unsafe.Pointer(&api)); err != nil {
		return err
	}
	p.pagemap, err = os.Open(fmt.Sprintf("/proc/%d/pagemap", t.tid))
	return err
}

func (p *pageFiles) close() {
	p.faults.Close()
	p.pagemap.Close()
	p.faults, p.pagemap = nil, nil
}

func (p *pageFiles) register(start, end uint64) error {
	argument := struct{ start, length, mode, requests uint64 }{start, end - start, registerWrites,
		0}
	return request(int(p.faults.Fd()), faultsRegister, unsafe.Pointer(&argument))
}

// written returns the pages that the program has written since the last call with again
// set, which resets what the kernel has noted.
func (p *pageFiles) written(start, end uint64, again bool) (list []pageRange, ok bool) {
	for start < end {
		var found [64]pageRange
		scan := pageScan{
			size: uint64(unsafe.Sizeof(pageScan{})), flags: scanOnlyAsync, start: start, end: end,
			found: &found[0], length: uint64(len(found)), mask: pageWritten,
			returnsMask: pageWritten,
		}
		if again {
			scan.flags |= scanProtect
		}
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, p.pagemap.Fd(), pagemapScan,
			uintptr(unsafe.Pointer(&scan)))
		if errno != 0 || scan.walkEnd <= start {
			return nil, false
		}
		list = append(list, found[:n]...)
		start = scan.walkEnd
	}
	return list, true
}

// written returns the pages of m that the program has written. ok is false if the kernel
// does not note them.
func (m *reached) written(start, end uint64, again bool) (list []pageRange, ok bool) {
	if !m.scan {
		return nil, false
	}
	return m.space.pages.written(start&^(page-1), pages(end), again)
}

// probe has a page written that is watched: kernels have said that all is well
// and then noted nothing.
func (r *recording) probe(t *thread, p *pageFiles) bool {
	const rights = unix.PROT_READ | unix.PROT_WRITE
	at, err := r.inject(t, unix.SYS_MMAP, 0, page, rights, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS,
		^uint64(0), 0)
	if err != nil {
		return false
	}
	defer func() { _, _ = r.inject(t, unix.SYS_MUNMAP, at, page) }()
	one := []byte{1}
	if writeMemory(t.tid, at, one) != 1 || p.register(at, at+page) != nil {
		return false
	}
	_, ok := p.written(at, at+page, true)
	before, ok2 := p.written(at, at+page, true)
	if !ok || !ok2 || len(before) != 0 || writeMemory(t.tid, at, one) != 1 {
		return false
	}
	after, ok := p.written(at, at+page, true)
	return ok && len(after) == 1
}
