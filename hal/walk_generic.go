package hal

import (
	"sync/atomic"

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
			w.Skip()
			continue
		case gen.OpcodePoint:
			if c.Width == 0 {
				return
			}
			w.point(memory{})
			continue
		case gen.OpcodeWrite, gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCheck, gen.OpcodeCompare:
			base = *entry(w.Windows, c.Window)
		}
		if base == 0 {
			return
		}
		w.step(memory{}, nil, uint64(base), 0)
	}
}

// point stores what an Aim put into a Point, loads the last of it, and moves the
// window.
func (w *Walk) point(p Port) {
	c := w.Next
	at := uint64(*entry(w.Windows, c.Index)) + uint64(c.Offset)
	fenced.Add(1)
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
	fenced.Add(1)
	*entry(w.Windows, c.Window) = *entry(w.Homes, c.Window) + uintptr(c.Amount)
	w.Skip()
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
