package fbs

import "lightmetal/fbs/gen"

// Effort is the most that a command does: accesses of its width, and
// microseconds of waiting beside them. A Check counts one load.
func (m *Command) Effort() (accesses, waitUs uint64) {
	switch m.Opcode {
	case gen.OpcodeChange:
		return 2, 0
	case gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCompare:
		return (uint64(m.Amount) + uint64(m.Width) - 1) / uint64(m.Width), 0
	case gen.OpcodeCheck:
		return 1, uint64(m.Amount)
	case gen.OpcodeDelay:
		return 0, uint64(m.Amount)
	}
	return uint64((m.Width + 7) / 8), 0 // 1, or 0 of what accesses nothing
}

// LongestUs is how many microseconds each sequence may take where an access
// takes one, called ones included, and 1 << 62 for more.
func (v *View) LongestUs() []uint64 {
	longest := make([]uint64, len(v.Sequences))
	for range 2 { // what is called calls nothing, and is known after the first pass
		for i := range v.Sequences {
			longest[i] = 0
			for _, c := range v.Commands[v.Sequences[i].First:][:v.Sequences[i].Count] {
				accesses, wait := c.Effort()
				if c.Opcode == gen.OpcodeCall {
					wait = longest[c.Index]
				}
				longest[i] = min(longest[i]+accesses+wait, 1<<62)
			}
		}
	}
	return longest
}
