package hal

// Aperture is a range of a device's address space: mapped memory, whose address
// goes into the table of a Walk, or a port.
type Aperture struct {
	Base  uintptr // address of byte 0 where the range is mapped, else 0
	Port  Port    // where it is not mapped
	carry carrier // of the port, nil where it has none
	Size  uint64
	Slot  int    // hardware window of a Tlb window, else -1
	Bus   uint64 // address other devices reach byte 0 at, 0 if they cannot
}

// MappedAperture is an aperture onto the size bytes at an offset in mapped
// memory. slot is as for NewAperture. The aperture keeps the address alone: the
// caller keeps mem mapped, and reachable where it is memory that Go manages.
func MappedAperture(mem []byte, offset, size uint64, slot int) Aperture {
	return Aperture{Base: addressOf(mem[offset : offset+size]), Size: size, Slot: slot}
}
