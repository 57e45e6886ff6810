package hal

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// This file contains code that no target program links, which a test in tools/check/house
// checks: parts of mock devices, single accesses for tests, and the walk in plain Go.
// Tests compare the assembly with the walk in plain Go.

// BaseDevice implements parts of Device for mocks that embed it. The embedding mock is a
// device without TLB windows and without DMA; it is always present, and its Close has
// nothing to release.
type BaseDevice struct{}

// EncodeWindow implements Device for a device that has no registers of TLB windows.
func (BaseDevice) EncodeWindow(*Aperture, fbs.TileRange, uint64, *fbs.Command) (
	registers, windowBase uintptr, code Code) {
	return 0, 0, OK
}

// ProgramWindow implements Device and always fails, because the device has no TLB windows.
func (BaseDevice) ProgramWindow(*Aperture, fbs.TileRange, uint64) Code { return Internal }

// AssignBusAddress implements Device and leaves the bus address unchanged.
func (BaseDevice) AssignBusAddress(*Aperture, Device) error { return nil }

// SetBusMaster implements Device and does nothing.
func (BaseDevice) SetBusMaster(bool) error { return nil }

// Alive implements Device and returns true.
func (BaseDevice) Alive() bool { return true }

// Diagnose implements Device and returns OK.
func (BaseDevice) Diagnose() Code { return OK }

// Close implements Device and does nothing.
func (BaseDevice) Close() error { return nil }

// DeviceGoneUnlessAlive returns DeviceGone if d is not alive, else OK. Mocks that can simulate a removed
// device implement Diagnose with it.
func DeviceGoneUnlessAlive(d Device) Code {
	if !d.Alive() {
		return DeviceGone
	}
	return OK
}

// BlockPort is a Port that can also copy a range of memory in one call. A simulator
// implements it. Only copies with bulk access use these two methods.
type BlockPort interface {
	CopyIn(offset uint64, data []byte) Code
	CopyOut(offset uint64, data []byte) Code
}

// NewAperture returns an aperture of size bytes onto a port, on which every command can
// be executed. slot is the number of the TLB window, or -1 for other kinds of windows.
func NewAperture(port Port, size uint64, slot int) Aperture {
	// The type assertion may allocate; therefore it is made here and not for each command.
	block, _ := port.(BlockPort)
	execute := func(w *Walk, barOffset uint64) Code {
		return w.executeCommand(port, block, 0, barOffset)
	}
	return Aperture{Port: port, execute: execute, Size: size, Slot: slot}
}

// Load makes one load of width bytes. On mapped memory the returned code is always OK.
func (a *Aperture) Load(offset uint32, width uint8) (uint64, Code) {
	if a.Port != nil {
		return a.Port.Load(uint64(offset), width)
	}
	return a.executeOne(loadAsExpect(offset, width)), OK
}

// loadAsExpect returns an Expect whose condition is never true, because its mask is 0 and
// its value is 1. Therefore the Expect always stops the walk, with the loaded value in
// Walk.Got.
func loadAsExpect(offset uint32, width uint8) fbs.Command {
	return fbs.Command{
		Opcode: gen.OpcodeExpect,
		Width:  width,
		Mode:   uint8(gen.ConditionEqual),
		Offset: offset,
		Value:  1,
	}
}

// Store makes one store of width bytes and ignores the higher bits of value. On mapped
// memory the returned code is always OK, and Store may return before the stored value has
// reached the device.
func (a *Aperture) Store(offset uint32, width uint8, value uint64) Code {
	if a.Port != nil {
		return a.Port.Store(uint64(offset), width, value)
	}
	a.executeOne(fbs.Command{Opcode: gen.OpcodeWrite, Width: width, Offset: offset, Value: value})
	return OK
}

// Copy executes a CopyIn from data or a CopyOut to data; opcode selects which.
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

// executeCommand executes the command Next on the port p. It defines what each command
// does. block is p if p implements BlockPort, else nil. base is added to every offset
// that is passed to p. barOffset is the offset of the window in its BAR, to which bulk
// copies are aligned.
func (w *Walk) executeCommand(p Port, block BlockPort, base, barOffset uint64) (code Code) {
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
			code = w.copyIn(p, at, barOffset, data)
		}
	case gen.OpcodeCopyOut:
		data := w.commandMemory()
		if bulk {
			code = block.CopyOut(at, data)
		} else {
			code = w.copyOut(p, at, barOffset, data)
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

// expect performs the load of an Expect or Modify. After an Expect the walk continues only if the
// condition is of kind Equal, the condition holds, and the loaded value is not all ones. All ones
// stop the walk because the device may be gone. After a Modify the walk always stops.
func (w *Walk) expect(p Port, at uint64) Code {
	c := w.Next
	got, code := p.Load(at, c.Width)
	isEqual := gen.Condition(c.Mode) == gen.ConditionEqual && got&c.Mask == c.Value
	if !isEqual || got == fbs.WidthMask(c.Width) {
		w.StopReason, w.Got = Loaded, got
	}
	return code
}

// commandMemory returns the memory that the command Next copies from, copies to, or
// compares with the device.
func (w *Walk) commandMemory() []byte {
	c := w.Next
	return bytesAt(*tableEntry(w.Memories, c.Index)+uintptr(c.Value), c.Amount)
}

// tableEntry returns the pointer to the entry with the given index of a table. The
// pointer table must point to the first entry.
func tableEntry(table *uintptr, index uint16) *uintptr {
	offset := uintptr(index) * unsafe.Sizeof(*table)
	return (*uintptr)(unsafe.Add(unsafe.Pointer(table), offset))
}

// bytesAt returns a slice of the size bytes of mapped memory at an address.
func bytesAt(address uintptr, size uint32) []byte {
	return unsafe.Slice((*byte)(toPointer(address)), size)
}

// compare loads a range element by element and stops the walk at the first element that
// differs from the golden data.
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

// copyIn stores data to the device, from the offset at upwards.
func (w *Walk) copyIn(p Port, at, barOffset uint64, data []byte) Code {
	for c := w.Next; len(data) > 0; {
		n := nextWidth(c, at+barOffset, uint64(len(data)))
		if code := p.Store(at, n, loadLittleEndian(data[:n])); code != OK {
			return code
		}
		data = data[n:]
		at += addressStep(c, n)
	}
	return OK
}

// copyOut fills data with values loaded from the device, from the offset at upwards.
func (w *Walk) copyOut(p Port, at, barOffset uint64, data []byte) Code {
	for c := w.Next; len(data) > 0; {
		n := nextWidth(c, at+barOffset, uint64(len(data)))
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

// fill stores the command's value to each element of a range.
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

// loadLittleEndian returns the little-endian number in data, which is 1 to 8 bytes long.
func loadLittleEndian(data []byte) (value uint64) {
	for i := len(data) - 1; i >= 0; i-- {
		value = value<<8 | uint64(data[i])
	}
	return value
}

// storeLittleEndian sets data to the lowest bytes of value, in little-endian order.
func storeLittleEndian(data []byte, value uint64) {
	for i := range data {
		data[i] = byte(value)
		value >>= 8
	}
}

// nextWidth returns the width of the next access of a copy, which is at the given address
// and has size bytes left. The result is the command's width. In a bulk copy it is the
// widest naturally aligned width that is not above the command's width or size.
func nextWidth(c *fbs.Command, address, size uint64) uint8 {
	width := c.Width
	if gen.Access(c.Mode) == gen.AccessBulk {
		for uint64(width) > size || address%uint64(width) != 0 {
			width /= 2
		}
	}
	return width
}

// addressStep returns by how many bytes the device's address advances after an access of n
// bytes: by n, or by 0 if the command accesses a fixed address.
func addressStep(c *fbs.Command, n uint8) uint64 {
	if gen.Access(c.Mode) == gen.AccessFixed {
		return 0
	}
	return uint64(n)
}

// walkGeneric is the walk in plain Go. It replaces the assembly on processors other than
// amd64 and arm64, and tests compare the assembly with it.
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
			if c.Width == 0 { // EncodeWindow has not encoded this Point: the caller executes it
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

// programWindow executes the Point Next, which EncodeWindow has encoded. It stores the
// registers of the TLB window and loads the last one: the load returns only after the
// stores have taken effect. Then it sets the window's entry in Windows to its new address.
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

// fenceCount is the number of fences that walkGeneric has executed. Only the atomic
// addition matters: it orders accesses to memory, and Go without assembly offers no
// stronger barrier.
var fenceCount atomic.Uint32

// memoryPort is a Port whose offsets are addresses in mapped memory.
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
