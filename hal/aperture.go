package hal

// Aperture is a range of a device's address space: mapped memory, whose address
// goes into the table of a Walk, or a port.
type Aperture struct {
	base  uintptr // address of byte 0 where the range is mapped, else 0
	port  Port    // where it is not mapped
	carry carrier // of the port, nil where it has none
	size  uint64
	slot  int // hardware window of a Tlb window, else -1

	// Bus is the address other devices reach byte 0 at, 0 if they cannot.
	Bus uint64
}

// MappedAperture is an aperture onto the size bytes at an offset in mapped
// memory. slot is as for NewAperture. The aperture keeps the address alone: the
// caller keeps mem mapped, and reachable where it is memory that Go manages.
func MappedAperture(mem []byte, offset, size uint64, slot int) Aperture {
	return Aperture{base: addressOf(mem[offset : offset+size]), size: size, slot: slot}
}

// Base is the address of byte 0, 0 where accesses go through Port.
func (a *Aperture) Base() uintptr { return a.base }

// Port is what carries accesses where the aperture is not mapped.
func (a *Aperture) Port() Port { return a.port }

// Size is the number of bytes the aperture spans.
func (a *Aperture) Size() uint64 { return a.size }

// Slot is the hardware window behind the aperture, -1 if there is none.
func (a *Aperture) Slot() int { return a.slot }
