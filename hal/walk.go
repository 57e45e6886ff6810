package hal

// This file declares the walk: the loop over commands that the assembly executes on
// mapped memory.

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Walk executes the commands of a verified image on mapped memory: Write, CopyIn,
// Fill, CopyOut, Compare, Fence, a Point that EncodeWindow has encoded, and an Expect
// whose condition is Equal and holds, unless it loads all ones. Of a Modify it makes
// the load. Every other command stops the walk. The caller then reads Next and
// StopReason, and may Advance and Run again.
type Walk struct {
	// Next is the first command, and later the command that stopped the walk. It is
	// stored before each command, so that it names the command whose access faults.
	Next     *fbs.Command
	Windows  *uintptr     // table of the addresses of windows' first bytes, 0: not mapped
	Memories *uintptr     // table of the addresses that a copy's Index selects from
	Stop     *fbs.Command // where to stop; nil: only where a command stops the walk

	StopReason     uint64 // Unhandled, Loaded, Mismatch or AllOnes
	Got            uint64 // Loaded, Mismatch: the value that was loaded
	Want           uint64 // Mismatch: the golden element
	MismatchOffset uint64 // Mismatch: the element's offset in the range, in bytes

	// TLBWindows is a table of the addresses of TLB windows' first bytes, for windows
	// that registers program.
	TLBWindows *uintptr
}

// Values of Walk.StopReason.
const (
	Unhandled = iota // Next was not started: it is Stop, not mapped, or not for a Walk
	Loaded           // Next is an Expect or Modify, and Got is what its one load returned
	Mismatch         // Next is a Compare with an element that is Got instead of Want
	AllOnes          // Next is a CopyOut that is complete, and its last byte is 0xff
)

// Run executes commands until one stops it. It is not preempted.
func (w *Walk) Run() { walk(w) }

// Advance moves Next to the following command; there must be one in the list. It adds
// to a number because the compiler assumes that a pointer stored through another
// pointer escapes, and a list on the stack must stay there.
func (w *Walk) Advance() {
	next := (*uintptr)(unsafe.Pointer(&w.Next))
	*next += unsafe.Sizeof(*w.Next)
}

// NextIndex returns the index of Next in its list.
func (w *Walk) NextIndex(list []fbs.Command) int {
	next := uintptr(unsafe.Pointer(w.Next))
	first := uintptr(unsafe.Pointer(unsafe.SliceData(list)))
	return int((next - first) / unsafe.Sizeof(list[0]))
}

// executeOne executes one command on a mapped aperture, as a run would, and returns
// the value that it loaded. It does not allocate.
func (a *Aperture) executeOne(c fbs.Command) uint64 {
	list := [2]fbs.Command{c}
	w := Walk{Next: &list[0], Stop: &list[1], Windows: &a.Base}
	w.Run()
	return w.Got
}

// toPointer returns the pointer to an address of mapped memory. go vet rejects the
// plain conversion, which is a mistake for memory that Go manages.
func toPointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// AddressOf returns the address of the first byte of mem, for the tables of a Walk.
// The caller keeps mem reachable. It is a variable so that mem escapes to the heap: a
// buffer on a stack would move.
var AddressOf = func(mem []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
}

// The compiler writes these constants and the offsets of the fields of Walk and
// command to go_asm.h, which the assembly includes.
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

// The assembly relies on this layout. A constant expression below is negative, and does
// not compile, if a field has another offset or size.
const (
	// The opcode and width are compared as one word.
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
