package hal

// This file declares the type Walk, which executes the commands of an image on mapped
// memory. Assembly implements the loop over the commands (walk_amd64.s, walk_arm64.s).

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Walk executes a list of commands of a verified image, one after another, on windows that
// are mapped memory. One call of Run is called a walk. Run completely executes these
// commands: Write, CopyIn, Fill, CopyOut, Compare, Fence, and a Point that EncodeWindow has
// encoded.
//
// Run executes an Expect completely only if its condition is Equal, the loaded value meets
// the condition, and the loaded value is not all ones. For any other Expect, and for a
// Modify, Run makes only the load. Then Run stops, so that the caller can finish the
// command. At all other commands, Run stops before any access. Run also stops if a Compare
// finds a difference, or if the last byte that a CopyOut has copied is 0xff.
//
// After a stop, the caller reads Next and StopReason. It may call Advance and Run to
// continue with the command after Next.
type Walk struct {
	// Next points to the command that Run executes first. After Run, Next points to the
	// command at which Run stopped. Run sets Next before each command. Therefore, if a
	// command faults, Next points to that command.
	Next *fbs.Command

	// Windows points to the first entry of a table with the address of each window. The
	// index of an entry is command.Window. The entry of a window that is not mapped is 0.
	Windows *uintptr

	// Memories points to the first entry of a table with the address of each buffer in host
	// memory. The index of an entry is command.Index.
	Memories *uintptr

	StopAt *fbs.Command // Run stops before it executes this command; nil: no such command

	StopReason     uint64 // why Run stopped: StopUnhandled, StopLoaded, StopMismatch or StopAllOnes
	Got            uint64 // after StopLoaded or StopMismatch: the value loaded from the device
	Want           uint64 // after StopMismatch: the expected element of the golden data
	MismatchOffset uint64 // after StopMismatch: offset of the element in the range, in bytes

	// TLBWindows points to the first entry of a table. The entry with the index
	// command.Window is the address at which the TLB window of that window is mapped. Only a
	// Point that EncodeWindow has encoded uses the table.
	TLBWindows *uintptr
}

// Values of Walk.StopReason.
const (
	StopUnhandled = iota // Next equals StopAt, or Run cannot execute Next; no access was made
	StopLoaded           // Next is an Expect or a Modify; Run made its load and set Got
	StopMismatch         // Next is a Compare; an element on the device is Got, but should be Want
	StopAllOnes          // Next is a CopyOut; Run completed it, and the last copied byte is 0xff
)

// Run executes commands from Next on, until it must stop. Go's scheduler cannot preempt Run.
func (w *Walk) Run() { walk(w) }

// Advance sets Next to the following command of the list. Next must not be the last one.
//
// Advance treats Next as a number and adds the size of a command to it. If Advance assigned
// a pointer instead, the compiler would assume that the list of commands escapes to the
// heap. A caller that keeps a short list on the stack would then allocate memory.
func (w *Walk) Advance() {
	next := (*uintptr)(unsafe.Pointer(&w.Next))
	*next += unsafe.Sizeof(*w.Next)
}

// NextIndex returns the index of the command Next in the given list. Next must point into
// that list.
func (w *Walk) NextIndex(list []fbs.Command) int {
	next := uintptr(unsafe.Pointer(w.Next))
	first := uintptr(unsafe.Pointer(unsafe.SliceData(list)))
	return int((next - first) / unsafe.Sizeof(list[0]))
}

// executeOne executes the command c on the mapped aperture a by a Walk. If the command stops
// the walk with the reason StopLoaded, executeOne returns the loaded value. It does not allocate
// memory.
func (a *Aperture) executeOne(c fbs.Command) (loaded uint64) {
	list := [2]fbs.Command{c}
	w := Walk{Next: &list[0], StopAt: &list[1], Windows: &a.Base}
	w.Run()
	return w.Got
}

// toPointer converts the address of mapped memory to a pointer. It converts a pointer to the
// variable `address`, because go vet rejects the direct conversion of an address. For memory that
// Go manages, the conversion would be an error: Go may move or free such memory. Go neither moves
// nor frees mapped memory.
func toPointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// AddressOf returns the address of the first byte of mem, for the tables of a Walk. The
// caller must keep mem reachable.
//
// AddressOf is a variable, not a function, so that the compiler allocates mem on the heap: the
// compiler does not know which function the variable contains. On the stack of a goroutine, mem
// could move, and its address would become invalid.
var AddressOf = func(mem []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
}

// command has the fields of fbs.Command. For each type of this package, the compiler writes the
// offsets of the fields to the header go_asm.h, under names such as command_Window. The header also
// contains the constants of this package. The assembly includes this header. The file fbs/layout.go
// checks at compile time that the fields of a command have the offsets and sizes that the assembly
// expects.
type command fbs.Command

// These constants make the opcodes, the condition Equal and the access modes available to
// the assembly, under names such as const_opWrite.
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
