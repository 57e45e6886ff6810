package hal

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Aperture is a window of an image, open for access. The zero value has size
// zero and must not be accessed. Nothing here checks bounds, alignment or
// width: the verifier and the board's rules did that before the first store.
//
// A load or store on mapped memory that the device answers with a bus error is
// a fault of the processor; debug.SetPanicOnFault makes it a panic that can be
// recovered, as these methods do not.
type Aperture struct {
	base  uintptr   // address of byte 0 where the range is mapped, else 0
	port  Port      // where it is not mapped
	block BlockPort // the port again, if it has block copies
	size  uint64
	slot  int  // hardware window of a Tlb window, else -1
	wc    bool // mapped write-combining: bulk copies use wide streaming stores

	// Bus is the address other devices reach byte 0 at, 0 if they cannot.
	Bus uint64
}

// BlockPort is a Port that copies ranges of memory in one go, as a simulator
// does. It serves access Bulk only.
type BlockPort interface {
	CopyIn(offset uint64, data []byte) Code
	CopyOut(offset uint64, data []byte) Code
}

// NewAperture is an aperture of size bytes onto a port. slot is the hardware
// window of a Tlb window, -1 for every other kind.
func NewAperture(port Port, size uint64, slot int) Aperture {
	block, _ := port.(BlockPort)
	return Aperture{port: port, block: block, size: size, slot: slot}
}

// MappedAperture is an aperture onto the size bytes at an offset in mapped
// memory. slot is as for NewAperture; wc tells that the mapping is
// write-combining. The aperture keeps the address alone: the caller keeps mem
// mapped, and reachable where it is memory that Go manages.
func MappedAperture(mem []byte, offset, size uint64, slot int, wc bool) Aperture {
	return Aperture{base: addressOf(mem[offset : offset+size]), size: size, slot: slot, wc: wc}
}

// Size is the number of bytes the aperture spans.
func (a *Aperture) Size() uint64 { return a.size }

// Slot is the hardware window behind the aperture, -1 if there is none.
func (a *Aperture) Slot() int { return a.slot }

// Load makes one load of width bytes. On mapped memory the code is OK.
func (a *Aperture) Load(offset uint64, width uint8) (uint64, Code) {
	if a.base == 0 {
		return a.port.Load(offset, width)
	}
	return load(a.base+uintptr(offset), width), OK
}

// Store makes one store of width bytes; bits of value above them are ignored.
// On mapped memory the code is OK, and the store may still be on its way.
func (a *Aperture) Store(offset uint64, width uint8, value uint64) Code {
	if a.base == 0 {
		return a.port.Store(offset, width, value)
	}
	store(a.base+uintptr(offset), width, value)
	return OK
}

// StoreRun makes the stores of the plain Writes that run starts with: those of
// the first one's width and window, 4 or 8 bytes wide, in mapped memory. at,
// which names the first, is one more after each. The result is how many were
// made; 0 where the first is no such Write, or the aperture is not mapped.
func (a *Aperture) StoreRun(run []fbs.Command, at *int32) uint64 {
	first := &run[0]
	if a.base == 0 || gen.Source(first.Mode) != gen.SourceImmediate || first.Mask != fbs.WidthMask(first.Width) {
		return 0
	}
	switch first.Width {
	case 4:
		return storeRun32(a.base, first, uint64(len(run)), at)
	case 8:
		return storeRun64(a.base, first, uint64(len(run)), at)
	}
	return 0
}

// CopyIn stores data at an offset. With access Exact and Fixed every store has
// width bytes, in order, and the length of data is a multiple of width; with
// Bulk width matters to a port only. A port's first code that is not OK ends
// the copy.
func (a *Aperture) CopyIn(offset uint64, width uint8, access gen.Access, data []byte) Code {
	switch {
	case a.base == 0:
		return a.copyInPort(offset, width, access, data)
	case access != gen.AccessBulk:
		copyIn(a.base+uintptr(offset), step(width, access), width, data)
	case a.wc:
		streamIn(a.base+uintptr(offset), data)
		fence()
	default:
		bulkIn(a.base+uintptr(offset), data)
	}
	return OK
}

// CopyOut loads data from an offset, as CopyIn stores it.
func (a *Aperture) CopyOut(offset uint64, width uint8, access gen.Access, data []byte) Code {
	switch {
	case a.base == 0:
		return a.copyOutPort(offset, width, access, data)
	case access != gen.AccessBulk:
		copyOut(a.base+uintptr(offset), step(width, access), width, data)
	default:
		bulkOut(a.base+uintptr(offset), data)
	}
	return OK
}

// Fill stores size bytes at an offset, as CopyIn does with data that repeats
// the lower width bytes of value.
func (a *Aperture) Fill(offset uint64, width uint8, access gen.Access, value, size uint64) Code {
	switch {
	case access == gen.AccessBulk:
		return a.fillBulk(offset, width, value, size)
	case a.base == 0:
		return a.fillPort(offset, width, access, value, size)
	}
	fill(a.base+uintptr(offset), step(width, access), width, value, size/uint64(width))
	return OK
}

// FenceStores is a full barrier. To know that a store has arrived, load from the
// same device afterwards.
func FenceStores() { fence() }

func (a *Aperture) copyInPort(offset uint64, width uint8, access gen.Access, data []byte) Code {
	if access == gen.AccessBulk && a.block != nil {
		return a.block.CopyIn(offset, data)
	}
	for len(data) > 0 {
		n := next(offset, uint64(len(data)), width, access)
		if c := a.port.Store(offset, n, get(data[:n])); c != OK {
			return c
		}
		data = data[n:]
		offset += uint64(step(n, access))
	}
	return OK
}

func (a *Aperture) copyOutPort(offset uint64, width uint8, access gen.Access, data []byte) Code {
	if access == gen.AccessBulk && a.block != nil {
		return a.block.CopyOut(offset, data)
	}
	for len(data) > 0 {
		n := next(offset, uint64(len(data)), width, access)
		v, c := a.port.Load(offset, n)
		if c != OK {
			return c
		}
		put(data[:n], v)
		data = data[n:]
		offset += uint64(step(n, access))
	}
	return OK
}

func (a *Aperture) fillPort(offset uint64, width uint8, access gen.Access, value, size uint64) Code {
	for ; size > 0; size -= uint64(width) {
		if c := a.port.Store(offset, width, value); c != OK {
			return c
		}
		offset += uint64(step(width, access))
	}
	return OK
}

// fillBulk repeats value up to eight bytes, so that the middle of a mapped
// range is a fill of width 8 whatever the width, and rotates them where the
// range does not begin or end at a multiple of eight.
func (a *Aperture) fillBulk(offset uint64, width uint8, value, size uint64) Code {
	for n := width; n < 8; n *= 2 {
		value = value&fbs.WidthMask(n) | value<<(8*n)
	}
	if a.base != 0 {
		width = 8
	}
	for size > 0 {
		n := uint64(fit(uint64(a.base)+offset, size, width))
		if a.base != 0 && n == 8 {
			n = size &^ 7
			fill(a.base+uintptr(offset), 8, 8, value, n/8)
		} else if c := a.Store(offset, uint8(n), value&fbs.WidthMask(uint8(n))); c != OK {
			return c
		}
		value = value>>(8*(n%8)) | value<<(64-8*(n%8))
		offset += n
		size -= n
	}
	if a.wc {
		fence()
	}
	return OK
}

// next is the width of the next access of a copy with size bytes left.
func next(offset, size uint64, width uint8, access gen.Access) uint8 {
	if access == gen.AccessBulk {
		return fit(offset, size, width)
	}
	return width
}

// step is how far an access moves the device address.
func step(width uint8, access gen.Access) uintptr {
	if access == gen.AccessFixed {
		return 0
	}
	return uintptr(width)
}

// fit is the widest naturally aligned access of at most width bytes at an
// offset with size bytes left. It is no narrower than both are multiples of.
func fit(offset, size uint64, width uint8) uint8 {
	for uint64(width) > size || offset%uint64(width) != 0 {
		width /= 2
	}
	return width
}

// get and put hold the bytes of one access as they lie on the bus: little endian.
func get(data []byte) (value uint64) {
	for i := len(data) - 1; i >= 0; i-- {
		value = value<<8 | uint64(data[i])
	}
	return value
}

func put(data []byte, value uint64) {
	for i := range data {
		data[i] = byte(value)
		value >>= 8
	}
}
