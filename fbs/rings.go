package fbs

import "lightmetal/fbs/gen"

// ringState is what the commands so far say about a ring.
type ringState struct {
	step  uint64 // of the last Advance, if the ring is in commandChecker.advanced
	steps uint64 // begin, first and the steps of all Advances, ORed
	unit  uint64 // bits that must be 0 in steps, so that moved accesses are aligned
}

// Sets of the opcodes whose value or offset a With may change: bit n for opcode n.
const (
	movableValues = 1<<gen.OpcodeWrite | 1<<gen.OpcodeRelocate | 1<<gen.OpcodeFill |
		1<<gen.OpcodeExpect
	movableOffsets = movableValues | 1<<gen.OpcodeCopyIn | 1<<gen.OpcodeCopyOut |
		1<<gen.OpcodeCompare
)

// NextRingValue returns the value of a ring at `position` after an Advance by `step`, and whether a
// lap begins. The step must be at most the size of the ring.
func NextRingValue(r *Ring, position, step uint64) (value uint64, isNewLap bool) {
	if step > r.End-position {
		return r.Begin, true
	}
	return position, false
}

func (t *tableChecker) checkRing(index int) (problem string) {
	r := &t.Rings[index]
	if r.Begin > r.First || r.First > r.End {
		return Text("first is %x, but must lie between begin %x and end %x", r.First, r.Begin,
			r.End)
	}
	if r.Reserved != 0 {
		return reservedProblem
	}
	return t.checkName(r.Name)
}

func (c *commandChecker) checkRingCommand(m *Command, f *opcodeForm) (problem string) {
	if int(m.Index) >= len(c.rings) {
		return Text("ring %d does not exist", uint64(m.Index))
	}
	ring, state := &c.view.Rings[m.Index], &c.rings[m.Index]
	switch m.Opcode {
	case gen.OpcodeWith:
		us := c.worstCaseUs - uint64(m.Amount) // longestUs has added the shift as a time
		problem = c.checkWith(m, f, ring, state)
		c.worstCaseUs = us
		return problem
	case gen.OpcodeReset:
		c.advanced &^= 1 << m.Index
		return ""
	}
	if m.Value == 0 || m.Value > ring.End-ring.Begin {
		return Text("value is %x, but must be between 1 and %x, the size of the ring", m.Value,
			ring.End-ring.Begin)
	}
	state.step = m.Value
	state.steps |= ring.Begin | ring.First | m.Value
	c.advanced |= 1 << m.Index
	return ""
}

// checkWith checks the command that m changes, with the largest value of the ring. The unchanged
// command is checked in its turn.
func (c *commandChecker) checkWith(m *Command, f *opcodeForm, ring *Ring,
	state *ringState) (problem string) {
	if f.modes>>m.Mode&1 == 0 {
		return f.describeInvalidMode(m)
	}
	if m.Amount > 63 {
		return Text("amount is %d bits, but must be at most 63", uint64(m.Amount))
	}
	if c.advanced>>m.Index&1 == 0 {
		return Text("ring %d needs an advance command first, and another after each call or reset",
			uint64(m.Index))
	}
	largest := (ring.End - state.step) >> m.Amount
	// The last command of a sequence is an End, so another command follows each With.
	changed := *following(m)
	if gen.Place(m.Mode) == gen.PlaceOffset {
		state.unit |= uint64(changed.Width)<<m.Amount - 1
		return c.checkMovedOffset(m, changed, largest)
	}
	if changed.Opcode == gen.OpcodeWith && gen.Place(changed.Mode) == gen.PlaceOffset {
		changed = *following(following(m))
	}
	return c.checkMovedValue(m, changed, largest)
}

func (c *commandChecker) checkMovedOffset(m *Command, moved Command,
	largest uint64) (problem string) {
	isBulk := gen.Access(moved.Mode) == gen.AccessBulk && moved.Opcode != gen.OpcodeExpect
	if movableOffsets>>moved.Opcode&1 == 0 || isBulk {
		return "an offset moves only in a write, relocate, copy that is not bulk, fill, expect " +
			"or compare, which must be the next command"
	}
	if m.Mask != 0 {
		return Text("mask is %x, but an offset has no bit that changes with each lap; must be 0",
			m.Mask)
	}
	if int(moved.Window) >= len(c.windowStates) {
		return describeMissingWindow(moved.Window)
	}
	if c.view.Windows[moved.Window].Kind == gen.WindowKindConfig {
		return "the next command accesses configuration space, which has no rings"
	}
	first := uint64(moved.Offset)
	moved.Offset = uint32(first + largest)
	if largest >= WindowSizeMax || uint64(moved.Offset) != first+largest {
		return Text("offset %x + %x is larger than a window", first, largest)
	}
	problem = c.checkCommand(&moved)
	if s := &c.windowStates[moved.Window]; problem == "" && first < s.first {
		problem = Text("offset %x is outside the access rule that then applies: %x to %x of the "+
			"window", first, s.first, s.end-1)
	}
	return describeAtLargest(problem, largest)
}

func (c *commandChecker) checkMovedValue(m *Command, moved Command,
	largest uint64) (problem string) {
	if movableValues>>moved.Opcode&1 == 0 {
		return "a write, relocate, fill or expect must follow a with of mode 1 (value); only a " +
			"with of mode 2 (offset) may stand between"
	}
	bits := WidthMask(moved.Width)
	switch moved.Opcode {
	case gen.OpcodeRelocate:
		bits = 0
	case gen.OpcodeExpect:
		bits = moved.Mask
		if largest != 0 && bits&(bits+1) != 0 {
			return Text("the mask of the expect is %x, but must be 2^n - 1, because the ring is "+
				"added to its value", bits)
		}
	}
	if m.Mask&^bits != 0 {
		return Text("mask %x must have only bits of %x, which the next command stores or compares",
			m.Mask, bits)
	}
	moved.Value += largest
	if moved.Value < largest {
		return describeAtLargest("the value is not below 2^64", largest)
	}
	return describeAtLargest(c.checkCommand(&moved), largest)
}

func describeAtLargest(problem string, largest uint64) string {
	if problem == "" {
		return ""
	}
	return Text("if the ring adds %x: ", largest) + problem
}

// verifyRings checks what depends on all commands, and sets NeededRings.
func (c *commandChecker) verifyRings() *Error {
	for i := range c.rings {
		if r := &c.rings[i]; r.steps&r.unit != 0 {
			problem := Text("begin, first or an advance has bits of %x: accesses would not be "+
				"aligned", r.unit)
			return &Error{Place: Text("ring %d", uint64(i)), Reason: problem}
		}
	}
	v := c.view
	v.findNeededRings()
	if safe := v.SequenceByName("safe"); safe >= 0 && v.NeededRings[safe] != 0 {
		return &Error{
			Place:  Text("sequence %d", uint64(safe)),
			Reason: "advances a ring before it resets it, but after a failure no ring is set",
		}
	}
	return nil
}

func (v *View) findNeededRings() {
	v.NeededRings = make([]uint32, len(v.Sequences))
	resetIn := make([]uint32, len(v.Sequences))
	for range 2 { // twice: called sequences may come after their callers
		for i, s := range v.Sequences {
			needed, reset := uint32(0), uint32(0)
			for at := s.First; at < s.First+s.Count; at++ {
				switch m := &v.Commands[at]; m.Opcode {
				case gen.OpcodeAdvance:
					needed |= 1 << m.Index &^ reset
				case gen.OpcodeReset:
					reset |= 1 << m.Index
				case gen.OpcodeCall:
					needed |= v.NeededRings[m.Index] &^ reset
					reset |= resetIn[m.Index]
				}
			}
			v.NeededRings[i], resetIn[i] = needed, reset
		}
	}
}
