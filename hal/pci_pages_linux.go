package hal

import "lightmetal/fbs"

const (
	pagemapPath = "/proc/self/pagemap"

	// pagemap has an entry of 64 bits for each page of the process's address space (Linux,
	// Documentation/admin-guide/mm/pagemap.rst).
	pagePresentBit = 1 << 63   // the page is in memory, not swapped out
	pageFrameMask  = 1<<55 - 1 // physical address / page size
)

// physicalAddress also reports whether the pages of mem are contiguous in physical memory.
func (p *pciBackend) physicalAddress(pagemapFD int, mem []byte) (
	start uint64, contiguous bool, err error) {
	for offset := uint64(0); offset < uint64(len(mem)); offset += pageSize() {
		address, present := pageAddress(pagemapFD, mem[offset:])
		switch {
		case !present:
			return 0, false, p.dev.fault(NoDevice, "cannot find host memory in "+pagemapPath+
				"; use `vfio:`")
		case address == 0:
			return 0, false, p.dev.fault(Denied,
				"reading physical addresses requires CAP_SYS_ADMIN; run as root, or use `vfio:`")
		case offset == 0:
			start = address
		case address != start+offset:
			return start, false, nil
		}
	}
	return start, true, nil
}

// pageAddress is for the page of mem's first byte. Without CAP_SYS_ADMIN, the kernel returns
// address 0.
func pageAddress(pagemapFD int, mem []byte) (physical uint64, present bool) {
	var entry [8]byte
	entryOffset := uint64(AddressOf(mem)) / pageSize() * uint64(len(entry))
	n, err := syscalls.pread(pagemapFD, entry[:], int64(entryOffset))
	value := fbs.ReadStruct[uint64](entry[:])
	present = err == nil && n == len(entry) && value&pagePresentBit != 0
	return value & pageFrameMask * pageSize(), present
}
