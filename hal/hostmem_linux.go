package hal

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	hugePageSize = 2 << 20 // bytes

	// MAP_HUGE_2MB of linux/mman.h: bits 26 to 31 have the logarithm of the page size
	mapHuge2MB = 21 << 26
)

type hostMemory struct {
	mappings        [][]byte // Close unmaps them
	unusedHugePages []byte   // end of the last mapping of huge pages, for later windows
}

// mapHostMem maps memory that the device reaches at fixedBus, or at any address if fixedBus is 0.
func (d *device) mapHostMem(size, fixedBus uint64) (*Aperture, error) {
	mem, huge, err := d.allocatePages(fbs.RoundUp(size, pageSize()))
	if err != nil {
		return nil, err
	}
	var bus uint64
	if d.needsIATU() {
		// Any bus address: tiles use the address of the iATU's region instead.
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

// allocatePages prefers huge pages, which the kernel does not move. Small windows may share a huge
// page. The kernel may move ordinary pages to make room for huge pages
// (vm.compact_unevictable_allowed), unless a driver pins them, as VFIO and tt-kmd do.
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

// mmapLocked maps zeroed memory until Close. The kernel allocates this memory at once and does not
// swap it out.
func (d *device) mmapLocked(size uint64, flags int) ([]byte, error) {
	mem, err := syscalls.mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE|unix.MAP_LOCKED|flags)
	if err != nil {
		return nil, d.fault(Denied, fbs.Text("cannot lock %x bytes of host memory: ", size)+
			err.Error()+MemlockAdvice)
	}
	// Otherwise, after a fork, this process would store to a copy of the page, but the device would
	// use the original.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	d.hostMemory.mappings = append(d.hostMemory.mappings, mem)
	return mem, nil
}

// MemlockAdvice ends messages about locked memory, which includes what a driver pins.
const MemlockAdvice = "; raise RLIMIT_MEMLOCK with `ulimit -l unlimited`, or to what `lm info` " +
	"prints, or free memory"

func (m *hostMemory) unmapAll() {
	for _, mem := range m.mappings {
		_ = syscalls.munmap(mem) // munmap of anonymous memory cannot fail
	}
	*m = hostMemory{}
}
