package hal

import (
	"unsafe"

	"lightmetal/fbs"
)

// Walk carries out commands of an image that have been verified, on mapped
// memory: Write, CopyIn, Fill, CopyOut, Compare, Fence, Check where Equal holds
// and not all ones are read, and a Point that an Aim was put into. What ends it
// is for the caller, who looks at Next and Why, and may go on behind it. No load
// is ever made twice.
type Walk struct {
	Next     *fbs.Command // where to begin, and then what ended the walk; noted before each command, so that it is whose access faulted
	Windows  *uintptr     // table of the addresses of windows' first bytes, 0: not mapped
	Memories *uintptr     // table of the addresses of what a copy's index names
	Stop     *fbs.Command // where to end; nil: where nothing else does
	Why      uint64       // Left, Loaded, Differs or Taken
	Got      uint64       // what was loaded
	Want     uint64       // Differs: the golden element
	At       uint64       // Differs: bytes in front of it
	Homes    *uintptr     // table of the addresses of the hardware windows behind windows that registers aim
}

// Why a walk ended.
const (
	Left    = iota // nothing of Next was done: it is Stop, not mapped, or not for a Walk
	Loaded         // Next is a Check; its one load gave Got
	Differs        // Next is a Compare, with an element that is Got and not Want
	Taken          // Next is a CopyOut that was carried out; the last byte is all ones
)

// Run carries out commands until one ends it. It is not preempted.
func (w *Walk) Run() { walk(w) }

// Skip goes on behind Next, which lies in a list that does not end there.
func (w *Walk) Skip() { w.Next = after(w.Next) }

// Index is that of Next in its list.
func (w *Walk) Index(list []fbs.Command) int {
	return int((uintptr(unsafe.Pointer(w.Next)) - uintptr(unsafe.Pointer(unsafe.SliceData(list)))) / unsafe.Sizeof(list[0]))
}

// The assembly's offsets of the fields of a Walk and of a command.
const (
	_ = -(unsafe.Offsetof(Walk{}.Next) ^ 0)
	_ = -(unsafe.Offsetof(Walk{}.Windows) ^ 8)
	_ = -(unsafe.Offsetof(Walk{}.Memories) ^ 16)
	_ = -(unsafe.Offsetof(Walk{}.Stop) ^ 24)
	_ = -(unsafe.Offsetof(Walk{}.Why) ^ 32)
	_ = -(unsafe.Offsetof(Walk{}.Got) ^ 40)
	_ = -(unsafe.Offsetof(Walk{}.Want) ^ 48)
	_ = -(unsafe.Offsetof(Walk{}.At) ^ 56)
	_ = -(unsafe.Offsetof(Walk{}.Homes) ^ 64)
	_ = -(unsafe.Offsetof(fbs.Command{}.Width) ^ 1)
	_ = -(unsafe.Offsetof(fbs.Command{}.Mode) ^ 2)
	_ = -(unsafe.Offsetof(fbs.Command{}.Window) ^ 4)
	_ = -(unsafe.Offsetof(fbs.Command{}.Index) ^ 6)
	_ = -(unsafe.Offsetof(fbs.Command{}.Offset) ^ 8)
	_ = -(unsafe.Offsetof(fbs.Command{}.Amount) ^ 12)
	_ = -(unsafe.Offsetof(fbs.Command{}.Value) ^ 16)
	_ = -(unsafe.Offsetof(fbs.Command{}.Mask) ^ 24)
	_ = -(unsafe.Sizeof(fbs.Command{}) ^ 32)
)
