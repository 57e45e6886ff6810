package hal

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// What no target links (tools/house looks): ports that are stand-ins for a
// device, single accesses for tests, and the walk in plain Go that the assembly
// is tested against.

// Standin is embedded by devices that aim no windows, never reach memory by
// themselves, are always there, and hold nothing.
type Standin struct{}

// Aim implements Device: Point does it.
func (Standin) Aim(*Aperture, fbs.Target, uint64, *fbs.Command) (registers, home uintptr, code Code) {
	return 0, 0, OK
}

// The rest of what a Device needs that does nothing.

func (Standin) Point(*Aperture, fbs.Target, uint64) Code { return Internal }
func (Standin) Reach(*Aperture, Device) error            { return nil }
func (Standin) Master(bool) error                        { return nil }
func (Standin) Alive() bool                              { return true }
func (Standin) Diagnose() Code                           { return OK }
func (Standin) Close() error                             { return nil }

// Answers is Diagnose of a device that may be gone.
func Answers(d Device) Code {
	if !d.Alive() {
		return DeviceGone
	}
	return OK
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
	block, _ := port.(BlockPort) // asked now: to ask may allocate
	carry := func(w *Walk, lead uint64) Code { return w.step(port, block, 0, lead) }
	return Aperture{Port: port, carry: carry, Size: size, Slot: slot}
}

// Load makes one load of width bytes. On mapped memory the code is OK.
func (a *Aperture) Load(offset uint32, width uint8) (uint64, Code) {
	if a.Port != nil {
		return a.Port.Load(uint64(offset), width)
	}
	return a.do(unheld(offset, width)), OK
}

// unheld is a Check that never holds, and so a load.
func unheld(offset uint32, width uint8) fbs.Command {
	return fbs.Command{Opcode: gen.OpcodeCheck, Width: width, Mode: uint8(gen.ConditionEqual), Offset: offset, Value: 1}
}

// Store makes one store of width bytes; bits of value above them are ignored.
// On mapped memory the code is OK, and the store may still be on its way.
func (a *Aperture) Store(offset uint32, width uint8, value uint64) Code {
	if a.Port != nil {
		return a.Port.Store(uint64(offset), width, value)
	}
	a.do(fbs.Command{Opcode: gen.OpcodeWrite, Width: width, Offset: offset, Value: value})
	return OK
}

// Copy carries out a CopyIn or CopyOut of data.
func (a *Aperture) Copy(opcode gen.Opcode, offset uint64, width uint8, access gen.Access, data []byte) Code {
	list, address := [2]fbs.Command{{Opcode: opcode, Width: width, Mode: uint8(access), Offset: uint32(offset), Amount: uint32(len(data))}}, AddressOf(data)
	w := Walk{Next: &list[0], Stop: &list[1], Windows: &a.Base, Memories: &address}
	if a.Base == 0 {
		return w.On(a, 0)
	}
	w.Run()
	return OK
}

// step is what a command means on a port. base is added to the port's offsets.
func (w *Walk) step(p Port, block BlockPort, base, lead uint64) (code Code) {
	c := w.Next
	w.Why = Left
	at := base + uint64(c.Offset)
	bulk := block != nil && gen.Access(c.Mode) == gen.AccessBulk
	switch c.Opcode {
	case gen.OpcodeWrite:
		code = p.Store(at, c.Width, c.Value)
	case gen.OpcodeCheck, gen.OpcodeChange:
		code = w.check(p, at)
	case gen.OpcodeFill:
		code = w.fill(p, at)
	case gen.OpcodeCompare:
		code = w.compare(p, at)
	case gen.OpcodeCopyIn:
		if data := w.memory(); bulk {
			code = block.CopyIn(at, data)
		} else {
			code = w.copyIn(p, at, lead, data)
		}
	case gen.OpcodeCopyOut:
		data := w.memory()
		if bulk {
			code = block.CopyOut(at, data)
		} else {
			code = w.copyOut(p, at, lead, data)
		}
		if data[len(data)-1] == 0xff {
			w.Why = Taken
		}
	default:
		return OK
	}
	if code == OK && w.Why == Left {
		w.Skip()
	}
	return code
}

func (w *Walk) check(p Port, at uint64) Code {
	c := w.Next
	got, code := p.Load(at, c.Width)
	if gen.Condition(c.Mode) != gen.ConditionEqual || got&c.Mask != c.Value || got == fbs.WidthMask(c.Width) {
		w.Why, w.Got = Loaded, got
	}
	return code
}

// memory is the range that the next command's index, value and amount name.
func (w *Walk) memory() []byte {
	c := w.Next
	return bytesAt(*entry(w.Memories, c.Index)+uintptr(c.Value), c.Amount)
}

// entry is an element of a table.
func entry(table *uintptr, index uint16) *uintptr {
	return (*uintptr)(unsafe.Add(unsafe.Pointer(table), uintptr(index)*unsafe.Sizeof(*table)))
}

// bytesAt is the size bytes at an address.
func bytesAt(address uintptr, size uint32) []byte {
	return unsafe.Slice((*byte)(pointer(address)), size)
}

func (w *Walk) compare(p Port, at uint64) Code {
	c, golden := w.Next, w.memory()
	for i := uint64(0); i < uint64(len(golden)); i += uint64(c.Width) {
		got, code := p.Load(at+i, c.Width)
		if code != OK {
			return code
		}
		if want := get(golden[i:][:c.Width]); got != want {
			w.Why, w.Got, w.Want, w.At = Differs, got, want, i
			return OK
		}
	}
	return OK
}

func (w *Walk) copyIn(p Port, at, lead uint64, data []byte) Code {
	for c := w.Next; len(data) > 0; {
		n := next(c, at+lead, uint64(len(data)))
		if code := p.Store(at, n, get(data[:n])); code != OK {
			return code
		}
		data = data[n:]
		at += step(c, n)
	}
	return OK
}

func (w *Walk) copyOut(p Port, at, lead uint64, data []byte) Code {
	for c := w.Next; len(data) > 0; {
		n := next(c, at+lead, uint64(len(data)))
		value, code := p.Load(at, n)
		if code != OK {
			return code
		}
		put(data[:n], value)
		data = data[n:]
		at += step(c, n)
	}
	return OK
}

func (w *Walk) fill(p Port, at uint64) Code {
	c := w.Next
	for size := c.Amount; size > 0; size -= uint32(c.Width) {
		if code := p.Store(at, c.Width, c.Value); code != OK {
			return code
		}
		at += step(c, c.Width)
	}
	return OK
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

// next is the width of the next access of a copy at an address with size bytes
// left: that of the command, or in bulk the widest naturally aligned one that is
// no wider.
func next(c *fbs.Command, address, size uint64) uint8 {
	width := c.Width
	if gen.Access(c.Mode) == gen.AccessBulk {
		for uint64(width) > size || address%uint64(width) != 0 {
			width /= 2
		}
	}
	return width
}

// step is how far an access of n bytes moves the device's address.
func step(c *fbs.Command, n uint8) uint64 {
	if gen.Access(c.Mode) == gen.AccessFixed {
		return 0
	}
	return uint64(n)
}

// walkGeneric is the walk in plain Go: a port that is memory. It is what there
// is without assembly, and what the assembly is tested against.
func walkGeneric(w *Walk) {
	w.Why = Left
	for w.Next != w.Stop && w.Why == Left {
		c, base := w.Next, uintptr(0)
		switch c.Opcode {
		case gen.OpcodeFence:
			fenced.Add(1)
			w.Skip()
			continue
		case gen.OpcodePoint:
			if c.Width == 0 {
				return
			}
			w.point(memory{})
			continue
		case gen.OpcodeWrite, gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCheck, gen.OpcodeChange, gen.OpcodeCompare:
			base = *entry(w.Windows, c.Window)
		}
		if base == 0 {
			return
		}
		w.step(memory{}, nil, uint64(base), 0)
	}
}

// point stores what Aim put into a Point, loads the last of it, and moves the
// window.
func (w *Walk) point(p Port) {
	c := w.Next
	at := uint64(*entry(w.Windows, c.Index)) + uint64(c.Offset)
	fenced.Add(1)
	if c.Width == 8 {
		p.Store(at, 8, c.Value)
	} else {
		p.Store(at, 4, c.Value)
		at += 4
		p.Store(at, 4, c.Value>>32)
		at += 4
		p.Store(at, 4, c.Mask)
	}
	p.Load(at, c.Width)
	fenced.Add(1)
	*entry(w.Windows, c.Window) = *entry(w.Homes, c.Window) + uintptr(c.Amount)
	w.Skip()
}

// fenced orders memory, which is as much as Go without assembly offers.
var fenced atomic.Uint32

// memory is a port whose offsets are addresses.
type memory struct{}

func (memory) Load(address uint64, width uint8) (uint64, Code) {
	switch p := pointer(uintptr(address)); width {
	case 1:
		return uint64(*(*uint8)(p)), OK
	case 2:
		return uint64(*(*uint16)(p)), OK
	case 4:
		return uint64(*(*uint32)(p)), OK
	default:
		return *(*uint64)(p), OK
	}
}

func (memory) Store(address uint64, width uint8, value uint64) Code {
	switch p := pointer(uintptr(address)); width {
	case 1:
		*(*uint8)(p) = uint8(value)
	case 2:
		*(*uint16)(p) = uint16(value)
	case 4:
		*(*uint32)(p) = uint32(value)
	default:
		*(*uint64)(p) = value
	}
	return OK
}
