package hal

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
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

// Skip goes on behind Next, which lies in a list that does not end there. It
// adds to a number: the compiler takes a pointer stored through another as one
// that escapes, and a list on the stack is to stay there.
func (w *Walk) Skip() { *(*uintptr)(unsafe.Pointer(&w.Next)) += unsafe.Sizeof(*w.Next) }

// Index is that of Next in its list.
func (w *Walk) Index(list []fbs.Command) int {
	return int((uintptr(unsafe.Pointer(w.Next)) - uintptr(unsafe.Pointer(unsafe.SliceData(list)))) / unsafe.Sizeof(list[0]))
}

// entry is an element of a table.
func entry(table *uintptr, index uint16) *uintptr {
	return (*uintptr)(unsafe.Add(unsafe.Pointer(table), uintptr(index)*unsafe.Sizeof(*table)))
}

// pointer makes an address of mapped memory a pointer. Vet takes the plain
// conversion for a mistake, which it is for memory that Go manages.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// bytesAt is the size bytes at an address.
func bytesAt(address uintptr, size uint32) []byte {
	return unsafe.Slice((*byte)(pointer(address)), size)
}

// AddressOf is the address of the first byte of mem, for the tables of a Walk.
// The caller keeps mem reachable. It calls through a variable, so that mem
// escapes: a buffer on a stack would move.
func AddressOf(mem []byte) uintptr { return addressOf(mem) }

var addressOf = func(mem []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
}

// The offsets of the fields of a Walk and of a command, and the numbers of
// image.fbs, that the assembly has.
const (
	_ = -unsafe.Offsetof(Walk{}.Next)
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
	_ = -(gen.OpcodeWrite ^ 1)
	_ = -(gen.OpcodeCopyIn ^ 4)
	_ = -(gen.OpcodeFill ^ 5)
	_ = -(gen.OpcodeCopyOut ^ 6)
	_ = -(gen.OpcodeCheck ^ 7)
	_ = -(gen.OpcodeCompare ^ 8)
	_ = -(gen.OpcodePoint ^ 9)
	_ = -(gen.OpcodeFence ^ 10)
	_ = -(gen.ConditionEqual ^ 1)
	_ = -(gen.AccessFixed ^ 2)
	_ = -(gen.AccessBulk ^ 3)
)
