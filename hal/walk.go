package hal

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Walk executes a list of commands of a verified image, one after another, on windows that are
// mapped memory:
//
//   - Write, CopyIn, Fill, Fence and an encoded Point (EncodePoint): executed.
//   - CopyOut: executed. Run stops if the last byte is 0xff.
//   - Compare: Run stops at the first difference.
//   - Expect: Run goes on if the condition is Equal, it is met, and the value is not all ones. Else
//     it stops after the load, and the caller finishes the command.
//   - Modify: Run stops after the load, and the caller finishes the command.
//   - All others: Run stops before any access.
//
// Run interrupts a CopyIn, Fill, CopyOut or Compare between two accesses if Budget does not allow
// all accesses; the next Run makes the rest. After a stop, the caller may call Advance and then Run
// again.
type Walk struct {
	// The command to execute. Run sets it before each command, so that it names the command that
	// stopped or faulted.
	Next *fbs.Command

	// First entry of a table, by command.Window: the window's address; 0: not mapped.
	WindowAddresses *uintptr

	// First entry of a table, by command.Index: the address of a buffer in host memory.
	BufferAddresses *uintptr

	// Microseconds that Run may use: commandUs for each command, 1 for each access of a copy, fill
	// or compare, and pointExtraUs for each Point. Run stops when Budget is not above 0.
	Budget int64

	StopReason     uint64 // why Run stopped: one of the values below
	Got            uint64 // after StopLoaded or StopMismatch: the value loaded from the device
	Want           uint64 // after StopMismatch: the expected element of the golden data
	MismatchOffset uint64 // after StopMismatch: offset of the element in the range, in bytes

	// First entry of a table, by command.Window: the address of the TLB window, of which the window
	// may be a part. Only encoded Points use this table.
	TLBWindowBases *uintptr

	DoneBytes uint64 // bytes of Next that Run has copied, filled or compared; 0 before Next begins
}

// Microseconds, from FORMAT.md section 6.3.
const (
	commandUs    = 2 // 1 for the command, 1 for the access of a Write or Expect
	pointExtraUs = 3 // a Point takes 5, of which commandUs has 2
)

// Values of Walk.StopReason.
const (
	StopBeforeNext = iota // the Budget is used up, or Run cannot execute Next
	StopLoaded            // Next is an Expect or a Modify; Run has only loaded the value Got
	StopMismatch          // Next is a Compare; the device has the element Got, but Want is expected
	StopAllOnes           // Next is a CopyOut that has run; its last byte is 0xff: device gone?
)

// Run executes commands from Next on, until it must stop. Go's scheduler cannot preempt it.
func (w *Walk) Run() { executeWalk(w) }

// Advance moves Next to the following command of the list, which must exist, and charges the
// present command.
//
// It adds to Next as to a number: if it assigned a pointer, the compiler would move a caller's list
// to the heap.
func (w *Walk) Advance() {
	next := (*uintptr)(unsafe.Pointer(&w.Next))
	*next += unsafe.Sizeof(*w.Next)
	w.Budget -= commandUs
}

// NextIndex returns the index of Next in a list, which must contain it.
func (w *Walk) NextIndex(list []fbs.Command) int {
	next := uintptr(unsafe.Pointer(w.Next))
	first := uintptr(unsafe.Pointer(unsafe.SliceData(list)))
	return int((next - first) / unsafe.Sizeof(list[0]))
}

// executeOne executes c on the mapped aperture without allocating. It returns the value with which
// an Expect or Modify stopped.
func (a *Aperture) executeOne(c fbs.Command) (loaded uint64) {
	list := [2]fbs.Command{c}
	w := Walk{Next: &list[0], Budget: 1, WindowAddresses: &a.Base}
	w.Run()
	return w.Got
}

// toPointer is for mapped memory only: Go may move its own memory. go vet accepts this conversion.
func toPointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// AddressOf returns the address of mem, for the tables of a Walk. The caller must keep a pointer to
// mem while the address is in use.
//
// AddressOf is a variable so that the compiler puts mem on the heap: Go may move the stack.
var AddressOf = func(mem []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
}

// TextOf returns the bytes as a string, without a copy. The bytes must not change while the string
// is in use.
func TextOf(bytes []byte) string { return unsafe.String(unsafe.SliceData(bytes), len(bytes)) }

// command is for the assembly: go_asm.h has the offsets of fields only for types of this package,
// such as command_Window. fbs/layout.go checks the offsets at compile time.
type command fbs.Command

// For the assembly: go_asm.h has them as const_opWrite and so on.
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
