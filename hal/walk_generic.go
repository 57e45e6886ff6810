package hal

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Walk.Run in Go, for purego builds, other processors and Ports. Tests compare the assembly with
// it. Programs that drive hardware on amd64 or arm64 do not link it, which tools/check/house
// checks.

// BlockPort is a Port that can also copy many bytes in one call, for commands with the access mode
// Bulk.
type BlockPort interface {
	// CopyIn copies data to the range, from offset on.
	CopyIn(offset uint64, data []byte) Code

	// CopyOut fills data from the range, from offset on.
	CopyOut(offset uint64, data []byte) Code
}

// NewAperture returns an aperture on which every command works through `port`; on configuration
// space only an Expect does. `tlbWindow` is -1 if the window is no Tlb window.
func NewAperture(port Port, size uint64, tlbWindow int) Aperture {
	// Here and not in each command: the conversion may allocate.
	block, _ := port.(BlockPort)
	execute := func(w *Walk, barOffset uint64) Code {
		return w.executeCommand(port, block, 0, barOffset)
	}
	return Aperture{Port: port, executeCommand: execute, Size: size, TLBWindow: tlbWindow}
}

// executeCommand defines what each command does. `block` is p if p is a BlockPort, else nil. The
// window begins at `base` on p, and at `barOffset` in its BAR, to which bulk copies are aligned.
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

// chargePart returns how many bytes the budget allows, and charges their accesses. If that is not
// all, the budget becomes 1. A bulk copy must make the same accesses as without an interruption:
// its part ends a multiple of 128 bytes after the first address that is a multiple of 32.
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

// executePart executes w.Next for its bytes from `done` to `done` + `part`.
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

// executeLoad completes an Expect only if its condition is Equal and met, and the value is not all
// ones. The caller completes any other Expect, and a Modify.
func (w *Walk) executeLoad(p Port, address uint64) Code {
	c := w.Next
	got, code := p.Load(address, c.Width)
	isEqual := gen.Condition(c.Mode) == gen.ConditionEqual && got&c.Mask == c.Value
	if !isEqual || got == fbs.WidthMask(c.Width) {
		w.StopReason, w.Got = StopLoaded, got
	}
	return code
}

// commandBuffer is a CopyIn's source, a CopyOut's destination, or a Compare's golden data.
func (w *Walk) commandBuffer() []byte {
	c := w.Next
	return bytesAt(*tableEntry(w.BufferAddresses, c.Index)+uintptr(c.Value), c.Amount)
}

func tableEntry(table *uintptr, index uint16) *uintptr {
	offset := uintptr(index) * unsafe.Sizeof(*table)
	return (*uintptr)(unsafe.Add(unsafe.Pointer(table), offset))
}

func bytesAt(address uintptr, size uint32) []byte {
	return unsafe.Slice((*byte)(toPointer(address)), size)
}

// executeCompare stops at the first difference. `golden` is the command's data from `done` on.
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

// loadLittleEndian is for 1 to 8 bytes.
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

// nextAccessWidth returns c.Width. In a bulk copy it returns the largest power of two that divides
// the address and is at most c.Width and bytesLeft.
func nextAccessWidth(c *fbs.Command, address, bytesLeft uint64) uint8 {
	width := c.Width
	if gen.Access(c.Mode) == gen.AccessBulk {
		for uint64(width) > bytesLeft || address%uint64(width) != 0 {
			width /= 2
		}
	}
	return width
}

func addressStep(c *fbs.Command, width uint64) uint64 {
	if gen.Access(c.Mode) == gen.AccessFixed {
		return 0
	}
	return width
}

// walkGeneric implements Walk.Run.
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

// windowAddress returns 0 if the command accesses no mapped window.
func (w *Walk) windowAddress() uintptr {
	switch c := w.Next; c.Opcode {
	case gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeFill, gen.OpcodeCopyIn, gen.OpcodeCopyOut,
		gen.OpcodeExpect, gen.OpcodeCompare:
		return *tableEntry(w.WindowAddresses, c.Window)
	}
	return 0
}

// programWindow executes an encoded Point: a fence, the stores, a load of the last register, a
// fence. The load returns only after the stores have taken effect. See walk_amd64.s.
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

// An atomic addition is the fence: Go has no stronger barrier. Only tests read the number.
var walkGenericFenceCount atomic.Uint32

// memoryPort is this process's memory; an offset is an address.
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
