package hal

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// This file contains code for mocks and tests: default methods of mock devices, single loads and
// stores, and Walk.Run in plain Go. Tests compare the assembly with this Go code. Programs that
// drive hardware on amd64 or arm64 do not contain the code of this file; a test in
// tools/check/house checks that.

// BlockPort is implemented by a Port that can also copy many bytes in one call, such as the port of
// a simulator. Only copy commands with the access mode Bulk use these methods.
type BlockPort interface {
	// CopyIn copies `data` to the port's range. The first byte goes to the given offset.
	CopyIn(offset uint64, data []byte) Code

	// CopyOut fills `data` from the port's range. The first byte comes from the given offset.
	CopyOut(offset uint64, data []byte) Code
}

// NewAperture returns an aperture of `size` bytes whose loads and stores go to `port`. The
// aperture accepts every command. `tlbWindow` is the number of the TLB window, or -1 if the
// window is not a Tlb window.
func NewAperture(port Port, size uint64, tlbWindow int) Aperture {
	// Make this type assertion only once, not for each command, because it may allocate memory.
	block, _ := port.(BlockPort)
	execute := func(w *Walk, barOffset uint64) Code {
		return w.executeCommand(port, block, 0, barOffset)
	}
	return Aperture{Port: port, executeCommand: execute, Size: size, TLBWindow: tlbWindow}
}

// executeCommand executes the command w.Next with loads and stores on the port `p`. This function
// defines what each command does. The parameters:
//
//	block      `p` if `p` implements BlockPort, otherwise nil
//	base       offset of the window on the port `p`
//	barOffset  offset of the window in its BAR: bulk copies are aligned relative to the BAR
func (w *Walk) executeCommand(p Port, block BlockPort, base, barOffset uint64) (code Code) {
	c := w.Next
	w.StopReason = StopBeforeNext
	address := base + uint64(c.Offset)
	switch c.Opcode {
	case gen.OpcodeWrite:
		code = p.Store(address, c.Width, c.Value)
	case gen.OpcodeExpect, gen.OpcodeModify:
		code = w.executeLoad(p, address)
	case gen.OpcodeFill, gen.OpcodeCompare, gen.OpcodeCopyIn, gen.OpcodeCopyOut:
		return w.executeTransfer(p, block, address, barOffset)
	default:
		return OK
	}
	if code == OK && w.StopReason == StopBeforeNext {
		w.Advance()
	}
	return code
}

// executeTransfer makes the accesses of a copy, fill or compare, as many as the budget allows.
func (w *Walk) executeTransfer(p Port, block BlockPort, address, barOffset uint64) (code Code) {
	c, done := w.Next, w.DoneBytes
	address += addressStep(c, done)
	part, isLast := w.chargePart(address + barOffset)
	if w.DoneBytes = 0; part != 0 {
		code = w.executePart(p, block, address, barOffset, done, part)
	}
	switch {
	case code != OK || w.StopReason == StopMismatch:
	case !isLast:
		w.DoneBytes, w.Budget = done+part, 0
	case c.Opcode == gen.OpcodeCopyOut && w.commandBuffer()[c.Amount-1] == 0xff:
		w.StopReason = StopAllOnes
	default:
		w.Advance()
	}
	return code
}

// chargePart charges the accesses of a copy, fill or compare that are left. If they are too many,
// it returns how many bytes the run may transfer with one access fewer than the budget, and leaves
// a budget of 1. A bulk copy must make the same accesses as without an interruption: it is
// interrupted after a multiple of 128 bytes from the first address that is a multiple of 32.
func (w *Walk) chargePart(address uint64) (part uint64, isLast bool) {
	c, left := w.Next, uint64(w.Next.Amount)-w.DoneBytes
	accesses := int64(left / uint64(c.Width))
	if accesses < w.Budget {
		w.Budget -= accesses
		return left, true
	}
	bytes := max(w.Budget-1, 0) * int64(c.Width)
	w.Budget = 1
	if gen.Access(c.Mode) == gen.AccessBulk {
		toAlign := int64(-address & 31)
		if bytes = (bytes - toAlign) &^ 127; bytes <= 0 {
			return 0, false
		}
		bytes += toAlign
	}
	return uint64(bytes), false
}

// executePart makes the accesses of a part of a copy, fill or compare: of `part` bytes after the
// first `done` bytes. If the access mode is Bulk and `block` is not nil, one call of `block` copies
// all bytes.
func (w *Walk) executePart(p Port, block BlockPort, address, barOffset, done, part uint64) Code {
	c := w.Next
	if c.Opcode == gen.OpcodeFill {
		return w.executeFill(p, address, part)
	}
	data := w.commandBuffer()[done:][:part]
	isBlock := block != nil && gen.Access(c.Mode) == gen.AccessBulk
	switch {
	case c.Opcode == gen.OpcodeCompare:
		return w.executeCompare(p, address, done, data)
	case isBlock && c.Opcode == gen.OpcodeCopyIn:
		return block.CopyIn(address, data)
	case isBlock:
		return block.CopyOut(address, data)
	case c.Opcode == gen.OpcodeCopyIn:
		return w.executeCopyIn(p, address, barOffset, data)
	}
	return w.executeCopyOut(p, address, barOffset, data)
}

// executeLoad executes the load of an Expect or Modify command. An Expect is complete if its
// condition is Equal, the loaded value meets the condition, and the value is not all ones (all ones
// can mean that the device is gone). In all other cases, the walk stops with the loaded value in
// w.Got, and the caller must complete the command.
func (w *Walk) executeLoad(p Port, address uint64) Code {
	c := w.Next
	got, code := p.Load(address, c.Width)
	isEqual := gen.Condition(c.Mode) == gen.ConditionEqual && got&c.Mask == c.Value
	if !isEqual || got == fbs.WidthMask(c.Width) {
		w.StopReason, w.Got = StopLoaded, got
	}
	return code
}

// commandBuffer returns the buffer in host memory for the command w.Next: the source of a
// CopyIn, the destination of a CopyOut, or the golden data of a Compare.
func (w *Walk) commandBuffer() []byte {
	c := w.Next
	return bytesAt(*tableEntry(w.BufferAddresses, c.Index)+uintptr(c.Value), c.Amount)
}

// tableEntry returns a pointer to the entry with the given index in a table of addresses.
// The parameter `table` points to the first entry.
func tableEntry(table *uintptr, index uint16) *uintptr {
	offset := uintptr(index) * unsafe.Sizeof(*table)
	return (*uintptr)(unsafe.Add(unsafe.Pointer(table), offset))
}

// bytesAt returns a slice of `size` bytes of mapped memory, which begin at the given address.
func bytesAt(address uintptr, size uint32) []byte {
	return unsafe.Slice((*byte)(toPointer(address)), size)
}

// executeCompare loads a range element by element, and stops the walk at the first element that
// differs from the golden (expected) data, which begin `done` bytes into those of the command.
func (w *Walk) executeCompare(p Port, address, done uint64, golden []byte) Code {
	c := w.Next
	for i := uint64(0); i < uint64(len(golden)); i += uint64(c.Width) {
		got, code := p.Load(address+i, c.Width)
		if code != OK {
			return code
		}
		if want := loadLittleEndian(golden[i:][:c.Width]); got != want {
			w.StopReason, w.Got, w.Want, w.MismatchOffset = StopMismatch, got, want,
				done+i
			return OK
		}
	}
	return OK
}

func (w *Walk) executeCopyIn(p Port, address, barOffset uint64, data []byte) Code {
	for c := w.Next; len(data) > 0; {
		n := nextAccessWidth(c, address+barOffset, uint64(len(data)))
		if code := p.Store(address, n, loadLittleEndian(data[:n])); code != OK {
			return code
		}
		data = data[n:]
		address += addressStep(c, uint64(n))
	}
	return OK
}

func (w *Walk) executeCopyOut(p Port, address, barOffset uint64, data []byte) Code {
	for c := w.Next; len(data) > 0; {
		n := nextAccessWidth(c, address+barOffset, uint64(len(data)))
		value, code := p.Load(address, n)
		if code != OK {
			return code
		}
		storeLittleEndian(data[:n], value)
		data = data[n:]
		address += addressStep(c, uint64(n))
	}
	return OK
}

func (w *Walk) executeFill(p Port, address, size uint64) Code {
	c := w.Next
	for ; size > 0; size -= uint64(c.Width) {
		if code := p.Store(address, c.Width, c.Value); code != OK {
			return code
		}
		address += addressStep(c, uint64(c.Width))
	}
	return OK
}

// loadLittleEndian returns the number that `data` represents in little-endian order. `data`
// must have 1 to 8 bytes.
func loadLittleEndian(data []byte) (value uint64) {
	for i := len(data) - 1; i >= 0; i-- {
		value = value<<8 | uint64(data[i])
	}
	return value
}

// storeLittleEndian writes the lowest bytes of `value` to `data`, in little-endian order. It
// fills all bytes of `data`.
func storeLittleEndian(data []byte, value uint64) {
	for i := range data {
		data[i] = byte(value)
		value >>= 8
	}
}

// nextAccessWidth returns the width in bytes of the next access of the copy command `c`. `address`
// is the address of this access, and `bytesLeft` is the number of bytes that are not yet copied.
// The width is c.Width, except in a bulk copy. There the width is the largest power of two that
// divides `address` and is at most c.Width and at most `bytesLeft`.
func nextAccessWidth(c *fbs.Command, address, bytesLeft uint64) uint8 {
	width := c.Width
	if gen.Access(c.Mode) == gen.AccessBulk {
		for uint64(width) > bytesLeft || address%uint64(width) != 0 {
			width /= 2
		}
	}
	return width
}

// addressStep returns the number of bytes by which the device address increases after an access of
// `width` bytes: `width`, or 0 if the command `c` always accesses the same address.
func addressStep(c *fbs.Command, width uint64) uint64 {
	if gen.Access(c.Mode) == gen.AccessFixed {
		return 0
	}
	return width
}

// walkGeneric implements Walk.Run in plain Go. It replaces the assembly on processors other than
// amd64 and arm64. Tests compare the results of the assembly with those of walkGeneric.
func walkGeneric(w *Walk) {
	w.StopReason = StopBeforeNext
	for w.Budget > 0 && w.StopReason == StopBeforeNext {
		switch c := w.Next; {
		case c.Opcode == gen.OpcodeFence:
			walkGenericFenceCount.Add(1)
			w.Advance()
		case c.Opcode == gen.OpcodePoint && c.Width != 0: // EncodePoint has encoded the command
			w.programWindow(memoryPort{})
		default:
			base := w.windowAddress()
			if base == 0 {
				return // not mapped memory: the caller must execute the command
			}
			w.executeCommand(memoryPort{}, nil, uint64(base), 0)
		}
	}
}

// windowAddress returns the address of the window that the command w.Next accesses. It returns 0 if
// the window is not mapped memory, or if the command accesses no window.
func (w *Walk) windowAddress() uintptr {
	switch c := w.Next; c.Opcode {
	case gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeFill, gen.OpcodeCopyIn, gen.OpcodeCopyOut,
		gen.OpcodeExpect, gen.OpcodeCompare:
		return *tableEntry(w.WindowAddresses, c.Window)
	}
	return 0
}

// programWindow executes the Point command w.Next, which EncodePoint has encoded. After a fence,
// it stores to the registers of the TLB window. Then it loads the last of these registers, because
// that load returns only after the stores have taken effect. After another fence, it updates the
// address of the window in w.WindowAddresses.
func (w *Walk) programWindow(p Port) {
	c := w.Next
	at := uint64(*tableEntry(w.WindowAddresses, c.Index)) + uint64(c.Offset)
	walkGenericFenceCount.Add(1)
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
	walkGenericFenceCount.Add(1)
	tlbWindow := *tableEntry(w.TLBWindowBases, c.Window)
	*tableEntry(w.WindowAddresses, c.Window) = tlbWindow + uintptr(c.Amount)
	w.Budget -= pointExtraUs
	w.Advance()
}

// walkGenericFenceCount is the number of fences that walkGeneric has executed. An atomic addition
// to this variable serves as the fence: Go has no stronger memory barrier without assembly. Only
// tests read the number.
var walkGenericFenceCount atomic.Uint32

// memoryPort is a Port for the memory of this process. An offset on this port is an address in the
// process.
type memoryPort struct{}

// Load implements Port.
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

// Store implements Port.
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
