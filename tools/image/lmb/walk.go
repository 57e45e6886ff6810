package lmb

import (
	"cmp"
	"iter"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Walk yields the effects of the commands of a sequence in order, without End. Each pointer is
// valid only until the next command.
//
// Walk remembers where Points point TLB windows. It yields a Call, but not the commands of the
// called sequence. A sequence must point its windows before it accesses them, and again after each
// Call, so each call of a sequence accesses the same addresses. A consumer therefore walks a called
// sequence once, and multiplies its effects by RunCounts.
func Walk(view *fbs.View, sequence int) iter.Seq[*Effect] {
	return func(yield func(*Effect) bool) {
		s := &view.Sequences[sequence]
		pointed := map[uint16]uint64{} // address to which each TLB window points
		steps := map[uint16]uint64{}   // of the last Advance of each ring
		spread := uint64(0)
		e := new(Effect)
		for i := int(s.First); i < int(s.First+s.Count)-1; i++ {
			c := &view.Commands[i]
			*e = EffectOf(c)
			e.Command, e.Index = c, i
			switch c.Opcode {
			case gen.OpcodePoint:
				pointed[c.Window] = c.Value
			case gen.OpcodeAdvance:
				steps[c.Index] = c.Value
			case gen.OpcodeWith:
				if gen.Place(c.Mode) == gen.PlaceOffset {
					spread = (view.Rings[c.Index].End - steps[c.Index]) >> c.Amount
				}
			default:
				e.Spread, spread = spread, 0
				e.Size += e.Spread
			}
			if e.UsesWindow {
				e.Window = &view.Windows[c.Window]
				e.Address = uint64(c.Offset)
				switch e.Window.Kind {
				case gen.WindowKindBar:
					e.Address += e.Window.Offset
				case gen.WindowKindTlb:
					e.Address += pointed[c.Window]
				}
			}
			if !yield(e) {
				return
			}
		}
	}
}

// RunCounts returns how often a run of a sequence executes each sequence: the sequence itself once,
// and a called sequence once for each Call. Called sequences contain no Call.
func RunCounts(view *fbs.View, sequence int) []uint64 {
	counts := make([]uint64, len(view.Sequences))
	counts[sequence] = 1
	for e := range Walk(view, sequence) {
		if e.Command.Opcode == gen.OpcodeCall {
			counts[e.Command.Index]++
		}
	}
	return counts
}

// SequenceOf returns the index of the sequence that contains a command, and the number of the
// command in it.
func SequenceOf(view *fbs.View, command int) (sequence, number int) {
	sequence, _ = slices.BinarySearchFunc(view.Sequences, command,
		func(s fbs.Sequence, at int) int { return cmp.Compare(int(s.First+s.Count)-1, at) })
	return sequence, command - int(view.Sequences[sequence].First)
}
