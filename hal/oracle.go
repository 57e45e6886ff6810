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
type BaseDevice struct{}

// Aim implements Device: Point does it.
func (BaseDevice) EncodeWindow(*Aperture, fbs.TileRange, uint64, *fbs.Command) (registers,
	home uintptr, code Code) {
	return 0, 0, OK
}

// The rest of what a Device needs that does nothing.

func (BaseDevice) ProgramWindow(*Aperture, fbs.TileRange, uint64) Code { return Internal }
func (BaseDevice) AssignBusAddress(*Aperture, Device) error            { return nil }
func (BaseDevice) SetBusMaster(bool) error                             { return nil }
func (BaseDevice) Alive() bool                                         { return true }
func (BaseDevice) Diagnose() Code                                      { return OK }
func (BaseDevice) Close() error                                        { return nil }

// Answers is Diagnose of a device that may be gone.
func DiagnoseAlive(d Device) Code {
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
	carry := func(w *Walk, lead uint64) Code { return w.executeCommand(port, block, 0, lead) }
	return Aperture{Port: port, execute: carry, Size: size, Slot: slot}
}

// Load makes one load of width bytes. On mapped memory the code is OK.
func (a *Aperture) Load(offset uint32, width uint8) (uint64, Code) {
	if a.Port != nil {
		return a.Port.Load(uint64(offset), width)
	}
	return a.executeOne(loadCommand(offset, width)), OK
}

// unheld is a Check that never holds, and so a load.
func loadCommand(offset uint32, width uint8) fbs.Command {
	return fbs.Command{Opcode: gen.OpcodeExpect, Width: width, Mode: uint8(gen.ConditionEqual),
		Offset: offset, Value: 1}
}

// Store makes one store of width bytes; bits of value above them are ignored.
// On mapped memory the code is OK, and the store may still be on its way.
func (a *Aperture) Store(offset uint32, width uint8, value uint64) Code {
	if a.Port != nil {
		return a.Port.Store(uint64(offset), width, value)
	}
	a.executeOne(fbs.Command{Opcode: gen.OpcodeWrite, Width: width, Offset: offset, Value: value})
	return OK
}

// Copy carries out a CopyIn or CopyOut of data.
func (a *Aperture) Copy(opcode gen.Opcode, offset uint64, width uint8, access gen.Access,
	data []byte) Code {
	list, address := [2]fbs.Command{{Opcode: opcode, Width: width, Mode: uint8(access),
		Offset: uint32(offset), Amount: uint32(len(data))}}, AddressOf(data)
	w := Walk{Next: &list[0], Stop: &list[1], Windows: &a.Base, Memories: &address}
	if a.Base == 0 {
		return w.ExecuteOnPort(a, 0)
	}
	w.Run()
	return OK
}

// step is what a command means on a port. base is added to the port's offsets.
func (w *Walk) executeCommand(p Port, block BlockPort, base, lead uint64) (code Code) {
	c := w.Next
	w.StopReason = Unhandled
	at := base + uint64(c.Offset)
	bulk := block != nil && gen.Access(c.Mode) == gen.AccessBulk
	switch c.Opcode {
	case gen.OpcodeWrite:
		code = p.Store(at, c.Width, c.Value)
	case gen.OpcodeExpect, gen.OpcodeModify:
		code = w.expect(p, at)
	case gen.OpcodeFill:
		code = w.fill(p, at)
	case gen.OpcodeCompare:
		code = w.compare(p, at)
	case gen.OpcodeCopyIn:
		if data := w.commandMemory(); bulk {
			code = block.CopyIn(at, data)
		} else {
			code = w.copyIn(p, at, lead, data)
		}
	case gen.OpcodeCopyOut:
		data := w.commandMemory()
		if bulk {
			code = block.CopyOut(at, data)
		} else {
			code = w.copyOut(p, at, lead, data)
		}
		if data[len(data)-1] == 0xff {
			w.StopReason = AllOnes
		}
	default:
		return OK
	}
	if code == OK && w.StopReason == Unhandled {
		w.Advance()
	}
	return code
}

func (w *Walk) expect(p Port, at uint64) Code {
	c := w.Next
	got, code := p.Load(at, c.Width)
	if gen.Condition(c.Mode) != gen.ConditionEqual || got&c.Mask != c.Value ||
		got == fbs.WidthMask(c.Width) {
		w.StopReason, w.Got = Loaded, got
	}
	return code
}

// memory is the range that the next command's index, value and amount name.
func (w *Walk) commandMemory() []byte {
	c := w.Next
	return bytesAt(*tableEntry(w.Memories, c.Index)+uintptr(c.Value), c.Amount)
}

// entry is an element of a table.
func tableEntry(table *uintptr, index uint16) *uintptr {
	return (*uintptr)(unsafe.Add(unsafe.Pointer(table), uintptr(index)*unsafe.Sizeof(*table)))
}

// bytesAt is the size bytes at an address.
func bytesAt(address uintptr, size uint32) []byte {
	return unsafe.Slice((*byte)(toPointer(address)), size)
}

func (w *Walk) compare(p Port, at uint64) Code {
	c, golden := w.Next, w.commandMemory()
	for i := uint64(0); i < uint64(len(golden)); i += uint64(c.Width) {
		got, code := p.Load(at+i, c.Width)
		if code != OK {
			return code
		}
		if want := loadLittleEndian(golden[i:][:c.Width]); got != want {
			w.StopReason, w.Got, w.Want, w.MismatchOffset = Mismatch, got, want, i
			return OK
		}
	}
	return OK
}

func (w *Walk) copyIn(p Port, at, lead uint64, data []byte) Code {
	for c := w.Next; len(data) > 0; {
		n := nextWidth(c, at+lead, uint64(len(data)))
		if code := p.Store(at, n, loadLittleEndian(data[:n])); code != OK {
			return code
		}
		data = data[n:]
		at += addressStep(c, n)
	}
	return OK
}

func (w *Walk) copyOut(p Port, at, lead uint64, data []byte) Code {
	for c := w.Next; len(data) > 0; {
		n := nextWidth(c, at+lead, uint64(len(data)))
		value, code := p.Load(at, n)
		if code != OK {
			return code
		}
		storeLittleEndian(data[:n], value)
		data = data[n:]
		at += addressStep(c, n)
	}
	return OK
}

func (w *Walk) fill(p Port, at uint64) Code {
	c := w.Next
	for size := c.Amount; size > 0; size -= uint32(c.Width) {
		if code := p.Store(at, c.Width, c.Value); code != OK {
			return code
		}
		at += addressStep(c, c.Width)
	}
	return OK
}

// get and put hold the bytes of one access as they lie on the bus: little endian.
func loadLittleEndian(data []byte) (value uint64) {
	for i := len(data) - 1; i >= 0; i-- {
		value = value<<8 | uint64(data[i])
	}
	return value
}

func storeLittleEndian(data []byte, value uint64) {
	for i := range data {
		data[i] = byte(value)
		value >>= 8
	}
}

// next is the width of the next access of a copy at an address with size bytes
// left: that of the command, or in bulk the widest naturally aligned one that is
// no wider.
func nextWidth(c *fbs.Command, address, size uint64) uint8 {
	width := c.Width
	if gen.Access(c.Mode) == gen.AccessBulk {
		for uint64(width) > size || address%uint64(width) != 0 {
			width /= 2
		}
	}
	return width
}

// step is how far an access of n bytes moves the device's address.
func addressStep(c *fbs.Command, n uint8) uint64 {
	if gen.Access(c.Mode) == gen.AccessFixed {
		return 0
	}
	return uint64(n)
}

// walkGeneric is the walk in plain Go: a port that is memory. It is what there
// is without assembly, and what the assembly is tested against.
func walkGeneric(w *Walk) {
	w.StopReason = Unhandled
	for w.Next != w.Stop && w.StopReason == Unhandled {
		c, base := w.Next, uintptr(0)
		switch c.Opcode {
		case gen.OpcodeFence:
			fenceCount.Add(1)
			w.Advance()
			continue
		case gen.OpcodePoint:
			if c.Width == 0 {
				return
			}
			w.programWindow(memoryPort{})
			continue
		case gen.OpcodeWrite, gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeExpect,
			gen.OpcodeModify, gen.OpcodeCompare:
			base = *tableEntry(w.Windows, c.Window)
		}
		if base == 0 {
			return
		}
		w.executeCommand(memoryPort{}, nil, uint64(base), 0)
	}
}

// point stores what Aim put into a Point, loads the last of it, and moves the
// window.
func (w *Walk) programWindow(p Port) {
	c := w.Next
	at := uint64(*tableEntry(w.Windows, c.Index)) + uint64(c.Offset)
	fenceCount.Add(1)
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
	fenceCount.Add(1)
	*tableEntry(w.Windows, c.Window) = *tableEntry(w.TLBWindows, c.Window) + uintptr(c.Amount)
	w.Advance()
}

// fenced orders memory, which is as much as Go without assembly offers.
var fenceCount atomic.Uint32

// memory is a port whose offsets are addresses.
type memoryPort struct{}

func (memoryPort) Load(address uint64, width uint8) (uint64, Code) {
	switch p := toPointer(uintptr(address)); width {
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

func (memoryPort) Store(address uint64, width uint8, value uint64) Code {
	switch p := toPointer(uintptr(address)); width {
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
