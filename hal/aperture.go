package hal

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Aperture is a range of a device's address space: mapped memory, whose address
// goes into the table of a Walk, or a port.
type Aperture struct {
	base  uintptr   // address of byte 0 where the range is mapped, else 0
	port  Port      // where it is not mapped
	block BlockPort // the port again, if it has block copies
	size  uint64
	slot  int // hardware window of a Tlb window, else -1

	// Bus is the address other devices reach byte 0 at, 0 if they cannot.
	Bus uint64
}

// NewAperture is an aperture of size bytes onto a port. slot is the hardware
// window of a Tlb window, -1 for every other kind.
func NewAperture(port Port, size uint64, slot int) Aperture {
	block, _ := port.(BlockPort) // asked now: to ask may allocate
	return Aperture{port: port, block: block, size: size, slot: slot}
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

// Load makes one load of width bytes. On mapped memory the code is OK.
func (a *Aperture) Load(offset uint64, width uint8) (uint64, Code) {
	if a.port != nil {
		return a.port.Load(offset, width)
	}
	return a.walk(unheld(uint32(offset), width)), OK
}

// unheld is a Check that never holds, and so a load.
func unheld(offset uint32, width uint8) fbs.Command {
	return fbs.Command{Opcode: gen.OpcodeCheck, Width: width, Mode: uint8(gen.ConditionEqual), Offset: offset, Value: 1}
}

// Store makes one store of width bytes; bits of value above them are ignored.
// On mapped memory the code is OK, and the store may still be on its way.
func (a *Aperture) Store(offset uint64, width uint8, value uint64) Code {
	if a.port != nil {
		return a.port.Store(offset, width, value)
	}
	a.walk(fbs.Command{Opcode: gen.OpcodeWrite, Width: width, Offset: uint32(offset), Value: value})
	return OK
}

// Copy carries out a CopyIn or CopyOut of data.
func (a *Aperture) Copy(opcode gen.Opcode, offset uint64, width uint8, access gen.Access, data []byte) Code {
	list, address := [2]fbs.Command{{Opcode: opcode, Width: width, Mode: uint8(access), Offset: uint32(offset), Amount: uint32(len(data))}}, AddressOf(data)
	w := Walk{Next: &list[0], Stop: &list[1], Windows: &a.base, Memories: &address}
	if a.base == 0 {
		return w.On(a, 0)
	}
	w.Run()
	return OK
}

// walk carries out one load or store of a mapped aperture, and allocates nothing.
func (a *Aperture) walk(c fbs.Command) uint64 {
	list := [2]fbs.Command{c}
	w := Walk{Next: &list[0], Stop: &list[1], Windows: &a.base}
	w.Run()
	return w.Got
}
