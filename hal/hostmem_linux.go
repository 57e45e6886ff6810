package hal

// This file allocates host memory for Host windows: zeroed pages that are locked in memory and that
// the device reaches.

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	hugePageSize = 2 << 20 // bytes of a huge page

	// MAP_HUGE_2MB: a flag of mmap that selects the size of huge pages. The upper 6 bits are the
	// binary logarithm of the size (linux/mman.h).
	mapHuge2MB = 21 << 26
)

// hostMemory is the host memory of a device's Host windows.
type hostMemory struct {
	mappings   [][]byte // all mappings of host memory, which Close releases
	unusedHuge []byte   // unused end of the last mapping of huge pages; empty if none is left
}

// mapHost allocates size bytes of host memory, makes them accessible to the device, and returns an
// aperture with the address at which the device reaches them.
func (d *device) mapHost(size uint64) (*Aperture, error) {
	mem, huge, err := d.allocatePages(fbs.RoundUp(size, pageSize()))
	if err != nil {
		return nil, err
	}
	bus, err := d.backend.mapForDevice(mem, huge)
	if err == nil && d.hasOutbound() {
		bus, err = d.addOutboundRegion(bus, uint64(len(mem)))
	}
	if err != nil {
		return nil, err
	}
	a := MappedAperture(mem, 0, size, -1)
	a.Bus, a.isHost = bus, true
	return &a, nil
}

// allocatePages allocates size bytes of host memory; size must be a multiple of the page size. It
// prefers huge pages, because the kernel does not move them. Several small windows share a huge
// page. If the kernel has no huge pages left, allocatePages returns ordinary pages, and huge is
// false. The kernel may move ordinary pages to make room for huge ones
// (vm.compact_unevictable_allowed), unless a driver pins them, as VFIO and Tenstorrent's driver do.
func (d *device) allocatePages(size uint64) (mem []byte, huge bool, err error) {
	m := &d.memory
	if size > uint64(len(m.unusedHuge)) {
		pages, err := d.mapLocked(fbs.RoundUp(size, hugePageSize), unix.MAP_HUGETLB|mapHuge2MB)
		if err != nil {
			mem, err = d.mapLocked(size, 0)
			return mem, false, err
		}
		m.unusedHuge = pages
	}
	mem, m.unusedHuge = m.unusedHuge[:size:size], m.unusedHuge[size:]
	return mem, true, nil
}

// mapLocked maps size bytes of zeroed memory until Close, and locks them: the kernel provides all
// pages at once and does not swap them out. The given flags are added to those of mmap.
func (d *device) mapLocked(size uint64, flags int) ([]byte, error) {
	mem, err := syscalls.mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE|unix.MAP_LOCKED|flags)
	if err != nil {
		return nil, d.fault(Denied, fbs.Text("cannot lock %x bytes of host memory: ", size)+
			err.Error()+memlockAdvice+", or free memory")
	}
	// Keep the pages out of forked child processes. If a child shared them, the next store of this
	// process would go to a copy of the page, but the device would still use the original page.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	d.memory.mappings = append(d.memory.mappings, mem)
	return mem, nil
}

// memlockAdvice is the end of a message: how to raise the limit on locked and pinned memory.
const memlockAdvice = "; raise RLIMIT_MEMLOCK with `ulimit -l unlimited`"

// unmap unmaps all host memory.
func (m *hostMemory) unmap() {
	for _, mem := range m.mappings {
		_ = syscalls.munmap(mem) // munmap of anonymous memory cannot fail
	}
	*m = hostMemory{}
}
