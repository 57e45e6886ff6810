package hal

// This file declares the walk, the loop that executes commands on mapped memory. The
// assembly implements the loop.

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Walk executes the commands of a verified image on mapped memory: Write, CopyIn, Fill,
// CopyOut, Compare, Fence, and a Point that EncodeWindow has encoded. It also executes an
// Expect whose condition is Equal and true, unless the Expect loads all ones. Of a Modify
// it makes only the load. Every other command stops the walk. The caller then reads Next
// and StopReason, and may call Advance and Run to continue.
type Walk struct {
	// Next is the command to execute, and after Run the command that stopped the walk.
	// Run sets Next before each command, so that Next names a command that faults.
	Next     *fbs.Command
	Windows  *uintptr     // first entry of the table of window addresses; entry 0: not mapped
	Memories *uintptr     // first entry of the table of buffers; command.Index selects one
	Stop     *fbs.Command // the walk stops before this command; nil: no such command

	StopReason     uint64 // why Run stopped: Unhandled, Loaded, Mismatch or AllOnes
	Got            uint64 // after Loaded or Mismatch: the value loaded from the device
	Want           uint64 // after Mismatch: the golden element
	MismatchOffset uint64 // after Mismatch: offset of the element in the range, in bytes

	// TLBWindows points to the first entry of the table of TLB windows' addresses. Only
	// a Point that EncodeWindow has encoded uses the table.
	TLBWindows *uintptr
}

// Values of Walk.StopReason.
const (
	Unhandled = iota // Next is Stop, or Run cannot execute Next: Run made no access for it
	Loaded           // Next is an Expect or Modify, whose load has returned the value in Got
	Mismatch         // Next is a Compare: an element of the device is Got instead of Want
	AllOnes          // Next is a complete CopyOut, and the last byte that it copied is 0xff
)

// Run executes commands until one of them stops the walk. Go does not preempt Run.
func (w *Walk) Run() { walk(w) }

// Advance moves Next to the following command, which must exist in the list. Advance
// adds to Next as a number because the compiler assumes that a pointer stored through
// another pointer escapes to the heap. A list of commands on the stack must not escape.
func (w *Walk) Advance() {
	next := (*uintptr)(unsafe.Pointer(&w.Next))
	*next += unsafe.Sizeof(*w.Next)
}

// NextIndex returns the index of Next in the given list.
func (w *Walk) NextIndex(list []fbs.Command) int {
	next := uintptr(unsafe.Pointer(w.Next))
	first := uintptr(unsafe.Pointer(unsafe.SliceData(list)))
	return int((next - first) / unsafe.Sizeof(list[0]))
}

// executeOne executes one command on a mapped aperture in the same way as Run, and
// returns the value that the command loaded. It does not allocate.
func (a *Aperture) executeOne(c fbs.Command) uint64 {
	list := [2]fbs.Command{c}
	w := Walk{Next: &list[0], Stop: &list[1], Windows: &a.Base}
	w.Run()
	return w.Got
}

// toPointer converts an address of mapped memory to a pointer. It does so through a
// pointer to the address because go vet rejects the direct conversion, which is a mistake
// for memory that Go manages.
func toPointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// AddressOf returns the address of the first byte of mem, for the tables of a Walk. The
// caller must keep mem reachable. AddressOf is a variable because the argument of a call
// through a variable escapes to the heap: a buffer on a stack could move.
var AddressOf = func(mem []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
}

// The compiler writes the following constants, and the offsets of the fields of Walk and
// command, to go_asm.h. The assembly includes that file.
type command fbs.Command

const (
	opWrite   = gen.OpcodeWrite
	opModify  = gen.OpcodeModify
	opCopyIn  = gen.OpcodeCopyIn
	opFill    = gen.OpcodeFill
	opCopyOut = gen.OpcodeCopyOut
	opExpect  = gen.OpcodeExpect
	opCompare = gen.OpcodeCompare
	opPoint   = gen.OpcodePoint
	opFence   = gen.OpcodeFence
	equal     = gen.ConditionEqual
	fixed     = gen.AccessFixed
	bulk      = gen.AccessBulk
)

// The assembly relies on this layout of command. If a field has another offset or size, a
// constant expression below is negative and does not compile, because its type is unsigned.
const (
	// The opcode must be byte 0 and the width byte 1: one comparison covers both bytes.
	_ = -unsafe.Offsetof(command{}.Opcode)
	_ = -(unsafe.Offsetof(command{}.Width) - 1)

	_ = -(unsafe.Sizeof(command{}.Opcode) - 1)
	_ = -(unsafe.Sizeof(command{}.Width) - 1)
	_ = -(unsafe.Sizeof(command{}.Mode) - 1)
	_ = -(unsafe.Sizeof(command{}.Window) - 2)
	_ = -(unsafe.Sizeof(command{}.Index) - 2)
	_ = -(unsafe.Sizeof(command{}.Offset) - 4)
	_ = -(unsafe.Sizeof(command{}.Amount) - 4)
	_ = -(unsafe.Sizeof(command{}.Value) - 8)
	_ = -(unsafe.Sizeof(command{}.Mask) - 8)
)
