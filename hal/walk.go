package hal

// This file declares the type Walk, which executes the commands of an image on mapped
// memory. Assembly implements the loop over the commands (walk_amd64.s, walk_arm64.s).

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Walk executes a list of commands of a verified image, one after another, on windows that are
// mapped memory. One call of Run is called a walk. Run executes each command as follows:
//
//   - Write, CopyIn, Fill, Fence, and a Point that EncodePoint has encoded: Run executes the
//     command.
//   - CopyOut: Run executes the command, and stops if the last copied byte is 0xff.
//   - CopyIn, Fill, CopyOut and Compare: Run stops between two accesses if Budget does not allow
//     all of them, and makes the others when it is called again.
//   - Compare: Run stops at the first difference.
//   - Expect: Run loads the value. Run goes on if the condition is Equal, the value meets the
//     condition, and the value is not all ones. Otherwise Run stops, and the caller must finish the
//     command.
//   - Modify: Run loads the value and stops. The caller must finish the command.
//   - All other commands: Run stops before any access. The caller must execute the command.
//
// After a stop, the caller reads Next and StopReason. It may call Advance and Run to
// continue with the command after Next.
type Walk struct {
	// Next points to the command that Run executes first. Run sets Next before each command.
	// Therefore Next points to the command at which Run stopped, or to the command that faulted.
	Next *fbs.Command

	// WindowAddresses points to the first entry of a table. The entry with the index command.Window
	// is the address at which this window of the image is mapped, or 0 if the window is not mapped
	// memory.
	WindowAddresses *uintptr

	// BufferAddresses points to the first entry of a table. The entry with the index command.Index
	// is the address of a buffer in host memory, for CopyIn, CopyOut and Compare commands.
	BufferAddresses *uintptr

	// Budget is the time, in microseconds, that Run may still use: commandUs for each command, 1
	// for each access of a copy, fill or compare, and pointExtraUs for each Point. Run stops when
	// it is not above 0.
	Budget int64

	StopReason     uint64 // why Run stopped: one of the values below
	Got            uint64 // after StopLoaded or StopMismatch: the value loaded from the device
	Want           uint64 // after StopMismatch: the expected element of the golden data
	MismatchOffset uint64 // after StopMismatch: offset of the element in the range, in bytes

	// TLBWindowBases points to the first entry of a table. The window of the image with the
	// index command.Window is a part of a TLB window. The table entry with the same index is the
	// address of the first byte of that TLB window. Only a Point command that EncodePoint has
	// encoded uses this table.
	TLBWindowBases *uintptr

	DoneBytes uint64 // bytes of Next that Run has copied, filled or compared; 0 before Next begins
}

// Times of commands in microseconds, as in FORMAT.md section 6.3.
const (
	commandUs    = 2 // the command, and the one access of a Write or Expect
	pointExtraUs = 3 // the other accesses of a Point
)

// Values of Walk.StopReason.
const (
	StopBeforeNext = iota // the Budget is used up, or Run cannot execute Next
	StopLoaded            // Next is an Expect or a Modify; Run has only loaded the value Got
	StopMismatch          // Next is a Compare; the device has the element Got, but Want is expected
	StopAllOnes           // Next is a CopyOut that has run; its last byte is 0xff: device gone?
)

// Run executes commands from Next on, until it must stop. Go's scheduler cannot preempt Run.
func (w *Walk) Run() { executeWalk(w) }

// Advance sets Next to the following command of the list, and charges the command. Next must not
// point to the last command.
//
// Advance adds the size of a command to Next as a number. If Advance assigned a pointer, the
// compiler would assume that the list of commands escapes to the heap, and a caller with a short
// list on the stack would allocate memory.
func (w *Walk) Advance() {
	next := (*uintptr)(unsafe.Pointer(&w.Next))
	*next += unsafe.Sizeof(*w.Next)
	w.Budget -= commandUs
}

// NextIndex returns the index of the command to which Next points. The index counts from the first
// command of the given list. Next must point into this list.
func (w *Walk) NextIndex(list []fbs.Command) int {
	next := uintptr(unsafe.Pointer(w.Next))
	first := uintptr(unsafe.Pointer(unsafe.SliceData(list)))
	return int((next - first) / unsafe.Sizeof(list[0]))
}

// executeOne executes the command c on the mapped aperture a, with a Walk of its own. An Expect or
// a Modify stops this walk after the load, and executeOne returns the loaded value. For other
// commands the result has no meaning. executeOne does not allocate memory.
func (a *Aperture) executeOne(c fbs.Command) (loaded uint64) {
	list := [2]fbs.Command{c}
	w := Walk{Next: &list[0], Budget: 1, WindowAddresses: &a.Base}
	w.Run()
	return w.Got
}

// toPointer converts the address of mapped memory to a pointer. The conversion would be wrong for
// memory that Go manages, because Go may move or free such memory. go vet rejects the expression
// unsafe.Pointer(address), so toPointer reads the variable `address` through a pointer of another
// type.
func toPointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// AddressOf returns the address of the first byte of mem, for the tables of a Walk. As long as the
// address is in use, the caller must keep a pointer to mem.
//
// AddressOf is a variable, because mem must not be on the stack of a goroutine, which Go may move.
// The compiler does not know which function the variable contains, and therefore allocates mem on
// the heap.
var AddressOf = func(mem []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
}

// TextOf returns the bytes as a string without a copy. They must not change while it is in use.
func TextOf(bytes []byte) string { return unsafe.String(unsafe.SliceData(bytes), len(bytes)) }

// command has the fields of fbs.Command. The type exists for the assembly, which needs the offsets
// of these fields: the compiler writes the field offsets of this package's types to the header
// go_asm.h, under names such as command_Window. The file fbs/layout.go checks at compile time that
// the fields have the offsets and sizes that the assembly expects.
type command fbs.Command

// Opcodes, condition and access modes for the assembly. The compiler writes the constants of this
// package to the header go_asm.h, under names such as const_opWrite.
const (
	opWrite        = gen.OpcodeWrite
	opModify       = gen.OpcodeModify
	opCopyIn       = gen.OpcodeCopyIn
	opFill         = gen.OpcodeFill
	opCopyOut      = gen.OpcodeCopyOut
	opExpect       = gen.OpcodeExpect
	opCompare      = gen.OpcodeCompare
	opPoint        = gen.OpcodePoint
	opFence        = gen.OpcodeFence
	conditionEqual = gen.ConditionEqual
	accessFixed    = gen.AccessFixed
	accessBulk     = gen.AccessBulk
)
