package hal

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs/gen"
)

// walkGeneric is the walk in plain Go: a port that is memory. It is what there
// is without assembly, and what the assembly is tested against.
func walkGeneric(w *Walk) {
	w.Why = Left
	for w.Next != w.Stop && w.Why == Left {
		c, base := w.Next, uintptr(0)
		switch c.Opcode {
		case gen.OpcodeFence:
			fenced.Add(1)
			w.Next = after(c)
			continue
		case gen.OpcodeWrite, gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCheck, gen.OpcodeCompare:
			base = *(*uintptr)(unsafe.Add(unsafe.Pointer(w.Windows), uintptr(c.Window)*unsafe.Sizeof(base)))
		}
		if base == 0 {
			return
		}
		w.step(memory{}, uint64(base), 0)
	}
}

// fenced orders memory, which is as much as Go without assembly offers.
var fenced atomic.Uint32

// memory is a port whose offsets are addresses.
type memory struct{}

func (memory) Load(address uint64, width uint8) (uint64, Code) {
	switch p := pointer(uintptr(address)); width {
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

func (memory) Store(address uint64, width uint8, value uint64) Code {
	switch p := pointer(uintptr(address)); width {
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
