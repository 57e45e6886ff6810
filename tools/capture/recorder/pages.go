//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of userfaultfd and PAGEMAP_SCAN (linux/userfaultfd.h, linux/fs.h).
const (
	// UFFD_USER_MODE_ONLY requires no privilege. Asynchronous write protection still tracks writes
	// that the kernel makes.
	uffdUserModeOnly = 1

	uffdioAPI              = 0xc018aa3f // UFFDIO_API
	uffdioRegister         = 0xc020aa00 // UFFDIO_REGISTER
	uffdAPIVersion         = 0xaa
	uffdFeatureShared      = 1 << 12 // UFFD_FEATURE_WP_HUGETLBFS_SHMEM
	uffdFeatureUnpopulated = 1 << 13 // UFFD_FEATURE_WP_UNPOPULATED
	uffdFeatureAsync       = 1 << 15 // UFFD_FEATURE_WP_ASYNC
	uffdRegisterModeWP     = 2       // UFFDIO_REGISTER_MODE_WP

	pagemapScan   = 0xc0606610
	scanProtect   = 1 << 0 // PM_SCAN_WP_MATCHING
	scanOnlyAsync = 1 << 1 // PM_SCAN_CHECK_WPASYNC
	pageWritten   = 1 << 1 // PAGE_IS_WRITTEN
)

// pageScan is struct pm_scan_arg.
type pageScan struct {
	size, flags, start, end, walkEnd   uint64
	found                              *pageRange
	length, maxPages                   uint64
	inverted, mask, anyOf, returnsMask uint64
}

// pageRange is struct page_region.
type pageRange struct{ start, end, _ uint64 }

func ioctl(fd int, request uint, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request),
		uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// writeTracker has the files by which the kernel reports which pages a program writes.
type writeTracker struct {
	openTried            bool
	userfaultfd, pagemap *os.File // nil: the kernel does not track writes
}

// trackWrites makes the kernel track which pages of m the program writes, and reports whether it
// does. The kernel does not track writes of devices, because they do not use the program's page
// tables.
func (r *recording) trackWrites(t *thread, m *dmaRange) bool {
	p := &t.space.writeTracker
	if !r.tracksWrites(t) {
		return false
	}
	start, end := m.start&^(pageSize-1), roundUpToPage(m.start+m.size)
	if p.register(start, end) != nil {
		return false
	}
	_, known := p.written(start, end, true)
	return known
}

// tracksWrites reports whether the kernel can track the writes of a process.
func (r *recording) tracksWrites(t *thread) bool {
	p := &t.space.writeTracker
	if !p.openTried && !r.options.IgnoreTracking {
		p.openTried = true
		if err := r.openTracker(t, p); err != nil || !r.probeTracker(t, p) {
			p.close()
		}
	}
	return p.userfaultfd != nil
}

// openTracker opens the files of a writeTracker. The program itself opens the userfaultfd, because
// it is for the memory of the process that opens it.
func (r *recording) openTracker(t *thread, p *writeTracker) error {
	fd, err := r.injectCall(t, unix.SYS_USERFAULTFD,
		unix.O_CLOEXEC|unix.O_NONBLOCK|uffdUserModeOnly)
	if err != nil {
		return err
	}
	own, err := copyFD(t, int(fd))
	_, cerr := r.injectCall(t, unix.SYS_CLOSE, fd)
	if err != nil || cerr != nil {
		return fmt.Errorf("%v, %v", err, cerr)
	}
	p.userfaultfd = os.NewFile(uintptr(own), "userfaultfd")
	api := struct{ version, features, requests uint64 }{uffdAPIVersion,
		uffdFeatureShared | uffdFeatureUnpopulated | uffdFeatureAsync, 0}
	if err := ioctl(own, uffdioAPI, unsafe.Pointer(&api)); err != nil {
		return err
	}
	p.pagemap, err = os.Open(fmt.Sprintf("/proc/%d/pagemap", t.tid))
	return err
}

func (p *writeTracker) close() {
	p.userfaultfd.Close()
	p.pagemap.Close()
	p.userfaultfd, p.pagemap = nil, nil
}

func (p *writeTracker) register(start, end uint64) error {
	argument := struct{ start, length, mode, requests uint64 }{start, end - start,
		uffdRegisterModeWP,
		0}
	return ioctl(int(p.userfaultfd.Fd()), uffdioRegister, unsafe.Pointer(&argument))
}

// written returns the pages between two addresses that the program has written since the last call
// with reset set.
func (p *writeTracker) written(start, end uint64, reset bool) (list []pageRange, ok bool) {
	for start < end {
		var found [64]pageRange
		scan := pageScan{
			size: uint64(unsafe.Sizeof(pageScan{})), flags: scanOnlyAsync, start: start, end: end,
			found: &found[0], length: uint64(len(found)), mask: pageWritten,
			returnsMask: pageWritten,
		}
		if reset {
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

// written returns the pages of m between two addresses that the program has written since the last
// call with reset set. ok is false if the kernel does not track them.
func (m *dmaRange) written(start, end uint64, reset bool) (list []pageRange, ok bool) {
	if !m.isTracked {
		return nil, false
	}
	return m.space.writeTracker.written(start&^(pageSize-1), roundUpToPage(end), reset)
}

// probeTracker checks with a temporary page that the kernel tracks writes: some kernels report
// success but track nothing.
func (r *recording) probeTracker(t *thread, p *writeTracker) bool {
	const rights = unix.PROT_READ | unix.PROT_WRITE
	at, err := r.injectCall(t, unix.SYS_MMAP, 0, pageSize, rights,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS,
		^uint64(0), 0)
	if err != nil {
		return false
	}
	defer func() { _, _ = r.injectCall(t, unix.SYS_MUNMAP, at, pageSize) }()
	one := []byte{1}
	if writeMemory(t.tid, at, one) != 1 || p.register(at, at+pageSize) != nil {
		return false
	}
	_, ok := p.written(at, at+pageSize, true)
	before, ok2 := p.written(at, at+pageSize, true)
	if !ok || !ok2 || len(before) != 0 || writeMemory(t.tid, at, one) != 1 {
		return false
	}
	after, ok := p.written(at, at+pageSize, true)
	return ok && len(after) == 1
}
