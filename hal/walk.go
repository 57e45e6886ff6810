package hal

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Walk carries out commands of an image that have been verified, on mapped
// memory: Write, CopyIn, Fill, CopyOut, Compare, Fence, Check where Equal holds
// and not all ones are read, and a Point that Aim completed. Of a Change it makes
// the load. What ends it is for the caller, who looks at Next and Why, and may go
// on behind it, or have a Check loaded again.
type Walk struct {
	// where to begin, and then what ended the walk; noted before each command, so that it is whose
	// access faulted
	Next           *fbs.Command
	Windows        *uintptr     // table of the addresses of windows' first bytes, 0: not mapped
	Memories       *uintptr     // table of the addresses of what a copy's index names
	Stop           *fbs.Command // where to end; nil: where nothing else does
	StopReason     uint64       // Left, Loaded, Differs or Taken
	Got            uint64       // what was loaded
	Want           uint64       // Differs: the golden element
	MismatchOffset uint64       // Differs: bytes in front of it
	// table of the addresses of the hardware windows behind windows that registers aim
	TLBWindows *uintptr
}

// Why a walk ended.
const (
	Unhandled = iota // nothing of Next was done: it is Stop, not mapped, or not for a Walk
	Loaded           // Next is a Check or a Change; its one load gave Got
	Mismatch         // Next is a Compare, with an element that is Got and not Want
	AllOnes          // Next is a CopyOut that was carried out; the last byte is all ones
)

// Run carries out commands until one ends it. It is not preempted.
func (w *Walk) Run() { walk(w) }

// Skip goes on behind Next, which lies in a list that does not end there. It
// adds to a number: the compiler takes a pointer stored through another as one
// that escapes, and a list on the stack is to stay there.
func (w *Walk) Advance() { *(*uintptr)(unsafe.Pointer(&w.Next)) += unsafe.Sizeof(*w.Next) }

// Index is that of Next in its list.
func (w *Walk) NextIndex(list []fbs.Command) int {
	return int((uintptr(unsafe.Pointer(w.Next)) - uintptr(
		unsafe.Pointer(unsafe.SliceData(list)))) / unsafe.Sizeof(list[0]))
}

// do carries out one command on a mapped aperture, by the way of a run, and gives
// what it loaded. It allocates nothing.
func (a *Aperture) executeOne(c fbs.Command) uint64 {
	list := [2]fbs.Command{c}
	w := Walk{Next: &list[0], Stop: &list[1], Windows: &a.Base}
	w.Run()
	return w.Got
}

// pointer makes an address of mapped memory a pointer. Vet takes the plain
// conversion for a mistake, which it is for memory that Go manages.
func toPointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// AddressOf is the address of the first byte of mem, for the tables of a Walk.
// The caller keeps mem reachable. It is a variable, so that mem escapes: a buffer
// on a stack would move.
var AddressOf = func(mem []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
}

// What the assembly knows of commands, beside the fields of a Walk and why one
// ends: the compiler writes it to go_asm.h.
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
