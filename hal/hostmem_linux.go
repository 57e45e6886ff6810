package hal

// This file allocates the host memory of Host windows. This memory consists of zeroed pages that
// the kernel does not swap out, and that the device reaches.

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	hugePageSize = 2 << 20 // size of a huge page in bytes

	// mapHuge2MB is the constant MAP_HUGE_2MB of linux/mman.h: an mmap flag that selects huge pages
	// of 2 MiB. Bits 26 to 31 of the mmap flags contain the binary logarithm of the page size, here
	// 21.
	mapHuge2MB = 21 << 26
)

// hostMemory is the memory of all Host windows of one device.
type hostMemory struct {
	mappings        [][]byte // all mappings of host memory; Close unmaps them
	unusedHugePages []byte   // unused end of the last mapping of huge pages, for later windows
}

// mapHostMem allocates host memory for a Host window of `size` bytes, makes this memory accessible
// to the device, and returns an aperture of the memory. The device reaches the memory at the
// address Aperture.BusAddress. If fixedBus is not 0, Aperture.BusAddress is fixedBus.
func (d *device) mapHostMem(size, fixedBus uint64) (*Aperture, error) {
	mem, huge, err := d.allocatePages(fbs.RoundUp(size, pageSize()))
	if err != nil {
		return nil, err
	}
	var bus uint64
	if d.needsIATU() {
		// Any bus address is suitable, because tiles do not use the bus address. They use an
		// address that addIATURegion returns, and the iATU translates it to the bus address.
		bus, err = d.backend.mapForDMA(mem, huge, 0)
		if err == nil {
			bus, err = d.addIATURegion(bus, uint64(len(mem)), fixedBus)
		}
	} else {
		bus, err = d.backend.mapForDMA(mem, huge, fixedBus)
	}
	if err != nil {
		return nil, err
	}
	a := MappedAperture(mem, 0, size, -1)
	a.BusAddress, a.isHostMemory = bus, true
	return &a, nil
}

// allocatePages allocates `size` bytes of host memory. `size` must be a multiple of the page size.
// allocatePages prefers huge pages, because the kernel does not move them. Several small windows
// may share one huge page. If the kernel has no huge pages left, allocatePages allocates ordinary
// pages instead. The result `huge` reports whether the memory consists of huge pages.
//
// The kernel may move ordinary pages to make room for huge pages (vm.compact_unevictable_allowed),
// unless a driver pins the ordinary pages. VFIO and Tenstorrent's driver pin them.
func (d *device) allocatePages(size uint64) (mem []byte, huge bool, err error) {
	m := &d.hostMemory
	if size > uint64(len(m.unusedHugePages)) {
		pages, err := d.mmapLocked(fbs.RoundUp(size, hugePageSize), unix.MAP_HUGETLB|mapHuge2MB)
		if err != nil {
			mem, err = d.mmapLocked(size, 0)
			return mem, false, err
		}
		m.unusedHugePages = pages
	}
	mem, m.unusedHugePages = m.unusedHugePages[:size:size], m.unusedHugePages[size:]
	return mem, true, nil
}

// mmapLocked maps `size` bytes of zeroed memory until Close, and locks this memory: the kernel
// allocates all pages immediately and does not swap them out. mmapLocked passes `flags` to mmap in
// addition to its own flags.
func (d *device) mmapLocked(size uint64, flags int) ([]byte, error) {
	mem, err := syscalls.mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE|unix.MAP_LOCKED|flags)
	if err != nil {
		return nil, d.fault(Denied, fbs.Text("cannot lock %x bytes of host memory: ", size)+
			err.Error()+MemlockAdvice)
	}
	// Exclude the pages from child processes. If a child process (fork) shared a page, this process
	// would get a copy of the page at its next store, but the device would still use the original.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	d.hostMemory.mappings = append(d.hostMemory.mappings, mem)
	return mem, nil
}

// MemlockAdvice is the end of some error messages. It says how to raise the limit on locked memory,
// which also applies to memory that a driver pins.
const MemlockAdvice = "; raise RLIMIT_MEMLOCK with `ulimit -l unlimited`, or to what `lm info` " +
	"prints, or free memory"

// unmapAll releases the memory of all Host windows.
func (m *hostMemory) unmapAll() {
	for _, mem := range m.mappings {
		_ = syscalls.munmap(mem) // munmap of anonymous memory cannot fail
	}
	*m = hostMemory{}
}
