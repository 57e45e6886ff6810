package lmb

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Effect describes what one command does. An Expect counts as one load, the minimum, and a bulk
// copy as accesses of the command's width.
type Effect struct {
	Loads, Stores uint64 // accesses
	Written       uint64 // bytes stored
	// Bytes loaded; bytes that are compared with golden data count only as Compared
	Read, Compared uint64
	Bulk           bool
	Size           uint64 // size of the range that the command accesses from Offset on; 0: none
	UsesWindow     bool   // the command accesses or points its window
	WaitUs         uint64 // deadline or delay

	// Only Walk sets the following fields.
	Command *fbs.Command
	Index   int         // index of the command in the image
	Window  *fbs.Window // nil: the command uses no window
	Spread  uint64      // the most that a ring adds to Address; Size includes it
	// Address of the first accessed byte: in the BAR, in the tiles to which the window points, in
	// the host buffer, or in configuration space
	Address uint64
}

// EffectOf returns the effect of a command, as the table in FORMAT.md defines it, without the place
// of its accesses.
func EffectOf(c *fbs.Command) Effect {
	width, amount := uint64(c.Width), uint64(c.Amount)
	accesses := (amount + width - 1) / max(width, 1) // if amount is in bytes
	e := Effect{Size: width, UsesWindow: true}
	switch c.Opcode {
	case gen.OpcodeWrite, gen.OpcodeRelocate:
		e.Stores, e.Written = 1, width
	case gen.OpcodeModify:
		e.Loads, e.Stores, e.Written, e.Read = 1, 1, width, width
	case gen.OpcodeCopyIn, gen.OpcodeFill:
		e.Stores, e.Size, e.Written = accesses, amount, amount
	case gen.OpcodeCopyOut:
		e.Loads, e.Size, e.Read = accesses, amount, amount
	case gen.OpcodeCompare:
		e.Loads, e.Size, e.Compared = accesses, amount, amount
	case gen.OpcodeExpect:
		e.Loads, e.WaitUs, e.Read = 1, amount, width
	case gen.OpcodePoint:
		return Effect{UsesWindow: true}
	case gen.OpcodeDelay:
		return Effect{WaitUs: amount}
	default:
		return Effect{}
	}
	// The modes of an Expect are conditions
	if access := gen.Access(c.Mode); c.Opcode != gen.OpcodeExpect {
		e.Bulk = access == gen.AccessBulk
		if access == gen.AccessFixed {
			e.Size = width
		}
	}
	return e
}

// Moved returns the number of bytes that a command moves in either direction.
func (e *Effect) Moved() uint64 { return e.Written + e.Read + e.Compared }
