package hal

// Host memory: pages that are zeroed, present and locked, and that the device reaches.

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	hugePage    = 2 << 20
	hugePageLog = 21 << 26 // MAP_HUGE_2MB: the binary logarithm in the upper bits (linux/mman.h)
)

// hostMemory is the host memory of a device's Host windows.
type hostMemory struct {
	mappings [][]byte // until Close
	hugeRest []byte   // unused end of the last huge page
}

// mapHost reserves host memory that the device reaches.
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

// allocatePages reserves whole pages of host memory, huge ones if the kernel has some: those stay
// where they are, and several small buffers share one. The kernel may move ordinary pages when it
// makes room for large ones (vm.compact_unevictable_allowed), unless a driver pins them: VFIO and
// Tenstorrent's do.
func (d *device) allocatePages(size uint64) (mem []byte, huge bool, err error) {
	m := &d.memory
	if size > uint64(len(m.hugeRest)) {
		pages, err := d.mapLocked(fbs.RoundUp(size, hugePage), unix.MAP_HUGETLB|hugePageLog)
		if err != nil {
			mem, err = d.mapLocked(size, 0)
			return mem, false, err
		}
		m.hugeRest = pages
	}
	mem, m.hugeRest = m.hugeRest[:size:size], m.hugeRest[size:]
	return mem, true, nil
}

// mapLocked maps memory that is zeroed, present and locked, until Close.
func (d *device) mapLocked(size uint64, flags int) ([]byte, error) {
	mem, err := syscalls.mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE|unix.MAP_LOCKED|flags)
	if err != nil {
		return nil, d.fault(Denied, fbs.Text("%x bytes of host memory cannot be locked: ", size)+
			err.Error()+raiseMemlock+", or free memory")
	}
	// After a fork, the next store here would leave the original pages, which the device uses, to
	// the child.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	d.memory.mappings = append(d.memory.mappings, mem)
	return mem, nil
}

const raiseMemlock = "; raise RLIMIT_MEMLOCK (`ulimit -l unlimited`)"

// unmap releases all memory.
func (m *hostMemory) unmap() {
	for _, mem := range m.mappings {
		_ = syscalls.munmap(mem) // cannot fail on anonymous memory
	}
	*m = hostMemory{}
}
