package hal

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	hugePage    = 2 << 20
	hugePageLog = 21 << 26 // MAP_HUGE_2MB: the binary logarithm in the upper bits (linux/mman.h)
)

// mapHost reserves host memory that the device reaches.
func (d *function) mapHost(size uint64) (Aperture, error) {
	bus := uint64(0)
	mem, huge, err := d.allocatePages(fbs.RoundUp(size, uint64(unix.Getpagesize())))
	if err == nil {
		bus, err = d.backend.mapForDevice(mem, huge)
	}
	if err == nil && d.outbound != nil {
		bus, err = d.addOutboundRegion(bus, uint64(len(mem)))
	}
	if err != nil {
		return Aperture{}, err
	}
	a := MappedAperture(mem, 0, size, -1)
	a.Bus, a.isHost = bus, true
	return a, nil
}

// pages reserves whole pages of host memory, of huge ones where the kernel has some:
// those stay where they are, and several small buffers share one. The kernel may move
// ordinary ones when it makes room for large ones (vm.compact_unevictable_allowed),
// unless a driver pins them: VFIO and Tenstorrent's do.
func (d *function) allocatePages(size uint64) (mem []byte, huge bool, err error) {
	if size > uint64(len(d.hugePageRest)) {
		spare, err := d.mapLocked(fbs.RoundUp(size, hugePage), unix.MAP_HUGETLB|hugePageLog)
		if err != nil {
			mem, err = d.mapLocked(size, 0)
			return mem, false, err
		}
		d.hugePageRest = spare
	}
	mem, d.hugePageRest = d.hugePageRest[:size:size], d.hugePageRest[size:]
	return mem, true, nil
}

// reserve gives host memory that is zeroed, present and locked, until Close.
func (d *function) mapLocked(size uint64, flags int) ([]byte, error) {
	mem, err := syscalls.mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE|unix.MAP_LOCKED|flags)
	if err != nil {
		return nil, NewFault(Denied, d.identity.Name+
			fbs.Text(": %x bytes of host memory cannot be locked: ", size)+err.Error()+
			"; raise RLIMIT_MEMLOCK (`ulimit -l unlimited`), or free memory")
	}
	// A fork would leave the pages to the child at the next store here, and the
	// device with them.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	d.hostMemory = append(d.hostMemory, mem)
	return mem, nil
}
