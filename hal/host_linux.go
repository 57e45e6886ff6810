package hal

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	hugePage    = 2 << 20
	hugePageLog = 21 << 26 // MAP_HUGE_2MB: the binary logarithm in the upper bits (linux/mman.h)
)

// hostMemory is the host memory of one device's Host windows: zeroed, present
// and locked. It is cut from huge pages where the kernel has some: those stay
// where they are, and several small buffers share one. Else it is ordinary
// pages, which the kernel may move when it makes room for large ones
// (vm.compact_unevictable_allowed), unless a driver pins them: VFIO and
// Tenstorrent's do, and the pci lane refuses them.
type hostMemory struct {
	mapped [][]byte
	rest   []byte // of the last huge page
}

// mapHost reserves host memory that the device reaches.
func (d *function) mapHost(size uint64) (Aperture, error) {
	mem, huge, err := d.host.take(d.identity.Name, size)
	if err != nil {
		return Aperture{}, err
	}
	a := MappedAperture(mem, 0, size, -1)
	a.Bus, err = d.lane.expose(mem, huge)
	if err == nil && d.outbound != nil {
		a.Bus, err = d.show(a.Bus, uint64(len(mem)))
	}
	return a, err
}

// take reserves whole pages for size bytes; huge tells of which kind.
func (h *hostMemory) take(name string, size uint64) (mem []byte, huge bool, err error) {
	page := uint64(unix.Getpagesize())
	size = fbs.RoundUp(size, page)
	if size > uint64(len(h.rest)) {
		rest, err := h.add(fbs.RoundUp(size, hugePage), unix.MAP_HUGETLB|hugePageLog)
		if err != nil {
			if mem, err = h.add(size, 0); err != nil {
				return nil, false, &Fault{Denied, name + fbs.Text(": %x bytes of host memory cannot be locked: ", size) + err.Error() + "; raise RLIMIT_MEMLOCK (`ulimit -l unlimited`), or free memory"}
			}
			return mem, false, nil
		}
		h.rest = rest
	}
	mem = h.rest[:size:size]
	h.rest = h.rest[size:]
	return mem, true, nil
}

func (h *hostMemory) add(size uint64, flags int) ([]byte, error) {
	mem, err := system.mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE|unix.MAP_LOCKED|flags)
	if err == nil {
		// A fork would leave the pages to the child at the next store here, and
		// the device with them.
		_ = unix.Madvise(mem, unix.MADV_DONTFORK)
		h.mapped = append(h.mapped, mem)
	}
	return mem, err
}

// holds tells whether an aperture is onto this memory.
func (h *hostMemory) holds(a *Aperture) bool {
	for _, mem := range h.mapped {
		if start := addressOf(mem); a.Base >= start && a.Base-start < uintptr(len(mem)) {
			return true
		}
	}
	return false
}

func (h *hostMemory) free() {
	for _, mem := range h.mapped {
		_ = system.munmap(mem) // of anonymous memory cannot fail
	}
	*h = hostMemory{}
}
