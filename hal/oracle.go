package hal

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// This file holds what no target links (tools/house checks that): parts of mock
// devices, single accesses for tests, and the walk in plain Go, to which tests compare
// the assembly.

// BaseDevice implements parts of Device for mocks to embed: a device without TLB
// windows and DMA that is always present and has nothing to release.
type BaseDevice struct{}

// EncodeWindow implements Device: no register programs a window.
func (BaseDevice) EncodeWindow(*Aperture, fbs.TileRange, uint64, *fbs.Command) (
	registers, home uintptr, code Code) {
	return 0, 0, OK
}

// ProgramWindow implements Device: there are no TLB windows.
func (BaseDevice) ProgramWindow(*Aperture, fbs.TileRange, uint64) Code { return Internal }

// AssignBusAddress implements Device and assigns none.
func (BaseDevice) AssignBusAddress(*Aperture, Device) error { return nil }

// SetBusMaster implements Device and does nothing.
func (BaseDevice) SetBusMaster(bool) error { return nil }

// Alive implements Device and returns true.
func (BaseDevice) Alive() bool { return true }

// Diagnose implements Device and returns OK.
func (BaseDevice) Diagnose() Code { return OK }

// Close implements Device and does nothing.
func (BaseDevice) Close() error { return nil }

// DiagnoseAlive returns DeviceGone if d is not alive, else OK. Mocks whose device may
// be gone use it as their Diagnose.
func DiagnoseAlive(d Device) Code {
	if !d.Alive() {
		return DeviceGone
	}
	return OK
}

// BlockPort is a Port that copies a range of memory in one call, as a simulator does.
// Only bulk copies use it.
type BlockPort interface {
	CopyIn(offset uint64, data []byte) Code
	CopyOut(offset uint64, data []byte) Code
}

// NewAperture returns an aperture of size bytes onto a port, on which every command can
// be executed. slot is the number of the TLB window, -1 for other kinds of windows.
func NewAperture(port Port, size uint64, slot int) Aperture {
	block, _ := port.(BlockPort) // here, because a type assertion may allocate
	execute := func(w *Walk, lead uint64) Code {
		return w.executeCommand(port, block, 0, lead)
	}
	return Aperture{Port: port, execute: execute, Size: size, Slot: slot}
}

// Load makes one load of width bytes. On mapped memory the code is always OK.
func (a *Aperture) Load(offset uint32, width uint8) (uint64, Code) {
	if a.Port != nil {
		return a.Port.Load(uint64(offset), width)
	}
	return a.executeOne(loadCommand(offset, width)), OK
}

// loadCommand returns an Expect whose condition is never true: it stops the walk, which
// then has the loaded value. Its mask is 0 and its value 1.
func loadCommand(offset uint32, width uint8) fbs.Command {
	return fbs.Command{
		Opcode: gen.OpcodeExpect,
		Width:  width,
		Mode:   uint8(gen.ConditionEqual),
		Offset: offset,
		Value:  1,
	}
}

// Store makes one store of width bytes and ignores higher bits of value. On mapped
// memory the code is always OK, and the store may not have reached the device yet.
func (a *Aperture) Store(offset uint32, width uint8, value uint64) Code {
	if a.Port != nil {
		return a.Port.Store(uint64(offset), width, value)
	}
	a.executeOne(fbs.Command{Opcode: gen.OpcodeWrite, Width: width, Offset: offset, Value: value})
	return OK
}

// Copy executes a CopyIn or CopyOut of data.
func (a *Aperture) Copy(opcode gen.Opcode, offset uint64, width uint8, access gen.Access,
	data []byte) Code {
	list := [2]fbs.Command{{
		Opcode: opcode,
		Width:  width,
		Mode:   uint8(access),
		Offset: uint32(offset),
		Amount: uint32(len(data)),
	}}
	address := AddressOf(data)
	w := Walk{Next: &list[0], Stop: &list[1], Windows: &a.Base, Memories: &address}
	if a.Base == 0 {
		return w.ExecuteOnPort(a, 0)
	}
	w.Run()
	return OK
}

// executeCommand executes Next on a port. It defines what each command does. base is
// added to the port's offsets; lead is as for ExecuteOnPort. block is p if p copies
// ranges, else nil.
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

// expect makes the load of an Expect or Modify. It stops the walk unless the condition
// is Equal and true. All ones stop it too: the device may be gone. A Modify has no
// condition and always stops the walk.
func (w *Walk) expect(p Port, at uint64) Code {
	c := w.Next
	got, code := p.Load(at, c.Width)
	isEqual := gen.Condition(c.Mode) == gen.ConditionEqual && got&c.Mask == c.Value
	if !isEqual || got == fbs.WidthMask(c.Width) {
		w.StopReason, w.Got = Loaded, got
	}
	return code
}

// commandMemory returns the memory that Next copies from or to, or compares with.
func (w *Walk) commandMemory() []byte {
	c := w.Next
	return bytesAt(*tableEntry(w.Memories, c.Index)+uintptr(c.Value), c.Amount)
}

// tableEntry returns the pointer to an entry of a table of the Walk.
func tableEntry(table *uintptr, index uint16) *uintptr {
	offset := uintptr(index) * unsafe.Sizeof(*table)
	return (*uintptr)(unsafe.Add(unsafe.Pointer(table), offset))
}

// bytesAt returns the size bytes at an address.
func bytesAt(address uintptr, size uint32) []byte {
	return unsafe.Slice((*byte)(toPointer(address)), size)
}

// compare loads a range element by element and stops the walk at the first that differs
// from the golden data.
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

// copyIn stores data to the device.
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

// copyOut loads data from the device.
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

// fill stores one value to a range.
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

// loadLittleEndian returns the value of the bytes of one access.
func loadLittleEndian(data []byte) (value uint64) {
	for i := len(data) - 1; i >= 0; i-- {
		value = value<<8 | uint64(data[i])
	}
	return value
}

// storeLittleEndian sets the bytes of one access to a value.
func storeLittleEndian(data []byte, value uint64) {
	for i := range data {
		data[i] = byte(value)
		value >>= 8
	}
}

// nextWidth returns the width of the next access of a copy, at an address and with size
// bytes left: the command's width, or in a bulk copy the widest naturally aligned one up
// to the command's width.
func nextWidth(c *fbs.Command, address, size uint64) uint8 {
	width := c.Width
	if gen.Access(c.Mode) == gen.AccessBulk {
		for uint64(width) > size || address%uint64(width) != 0 {
			width /= 2
		}
	}
	return width
}

// addressStep returns what an access of n bytes adds to the device's address.
func addressStep(c *fbs.Command, n uint8) uint64 {
	if gen.Access(c.Mode) == gen.AccessFixed {
		return 0
	}
	return uint64(n)
}

// walkGeneric is the walk in plain Go. It replaces the assembly on other processors, and
// the assembly is tested against it.
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
			if c.Width == 0 { // EncodeWindow has not encoded it
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

// programWindow stores the registers that EncodeWindow put into a Point, and loads the
// last of them, so that they have taken effect. Then it moves the window's entry in
// Windows.
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

// fenceCount counts fences. The atomic addition orders accesses to memory; Go without
// assembly offers no stronger barrier.
var fenceCount atomic.Uint32

// memoryPort is a port whose offsets are addresses of mapped memory.
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
