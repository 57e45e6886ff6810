package oracle

// This file checks rings, and moves them (FORMAT.md section 6.4).

import (
	"fmt"
	"math/bits"
)

func (m *Image) isRing(i int) bool {
	r := &m.Rings[i]
	return r.Begin <= r.First && r.First <= r.End && r.Reserved == 0 && m.isName(r.Name)
}

// changedBy returns the command that the With at an index changes.
func (m *Image) changedBy(at int) *Command {
	next := &m.Commands[at+1]
	if m.Commands[at].Mode == placeValue && next.Opcode == opWith && next.Mode == placeOffset {
		next = &m.Commands[at+2]
	}
	return next
}

// isRightWith checks the With at an index: isRight also accepts the command that it changes with
// the largest value of the ring. The map has the last step of each ring that has a value.
func (m *Image) isRightWith(at int, advanced map[uint16]uint64, isRight func(*Command) bool) bool {
	with, moved := &m.Commands[at], *m.changedBy(at)
	step, hasValue := advanced[with.Index]
	if !hasValue {
		return false
	}
	largest := (m.Rings[with.Index].End - step) >> with.Amount
	switch moved.Opcode {
	case opWrite, opRelocate, opFill, opExpect:
	case opCopyIn, opCopyOut, opCompare:
		isBulk := moved.Opcode != opCompare && moved.Mode == modeBulk
		if with.Mode != placeOffset || isBulk {
			return false
		}
	default:
		return false
	}
	if with.Mode == placeValue {
		return mayMoveValue(with, &moved, largest) && isRight(&moved)
	}
	first := uint64(moved.Offset)
	sum, carry := bits.Add64(first, largest, 0)
	if with.Mask != 0 || carry != 0 || sum > 1<<32-1 {
		return false
	}
	moved.Offset = uint32(sum)
	return isRight(&moved) && m.Windows[moved.Window].Kind != kindConfig &&
		m.isOneRange(&m.Windows[moved.Window], first, sum)
}

// mayMoveValue adds the largest value of a ring to a command, and checks what does not depend on
// the command's window.
func mayMoveValue(with, moved *Command, largest uint64) bool {
	laps := widthBits(moved.Width)
	switch moved.Opcode {
	case opRelocate:
		laps = 0
	case opExpect:
		laps = moved.Mask
		if largest != 0 && bits.OnesCount64(laps+1) > 1 {
			return false
		}
	}
	var carry uint64
	moved.Value, carry = bits.Add64(moved.Value, largest, 0)
	return carry == 0 && with.Mask&^laps == 0
}

// isOneRange reports whether two bytes of a window are in one rule, if the window needs a rule.
func (m *Image) isOneRange(w *Window, first, last uint64) bool {
	if w.Kind != kindBar {
		return true
	}
	first, last = first+w.Offset, last+w.Offset
	if board := m.knownBoard(w.Device); board != nil {
		for _, r := range board.Rules {
			if r.Bar == w.Bar && r.First <= first && last <= r.Last {
				return true
			}
		}
		return false
	}
	for _, r := range m.Rules {
		if r.Device == w.Device && r.Bar == w.Bar && r.First <= first && last <= r.Last {
			return true
		}
	}
	return false
}

// checkRings checks what depends on all commands.
func (m *Image) checkRings() *Fault {
	for ring, r := range m.Rings {
		for i, with := range m.Commands {
			if with.Opcode != opWith || with.Mode != placeOffset || int(with.Index) != ring {
				continue
			}
			multiple := uint64(m.Commands[i+1].Width) << with.Amount // 0: of 2^64 or more
			isMultiple := func(n uint64) bool { return n == 0 || multiple != 0 && n%multiple == 0 }
			isRight := isMultiple(r.Begin) && isMultiple(r.First)
			for _, c := range m.Commands {
				if c.Opcode == opAdvance && int(c.Index) == ring && !isMultiple(c.Value) {
					isRight = false
				}
			}
			if !isRight {
				return badImage(fmt.Sprint("ring ", ring))
			}
		}
	}
	if safe := m.Find("safe"); safe >= 0 {
		if needed, _ := m.ringsOf(safe); len(needed) != 0 {
			return badImage(fmt.Sprint("sequence ", safe))
		}
	}
	return nil
}

// ringsOf returns the rings that a sequence advances before it resets them, and those that it
// resets.
func (m *Image) ringsOf(sequence int) (needed, reset map[uint16]bool) {
	needed, reset = map[uint16]bool{}, map[uint16]bool{}
	s := m.Sequences[sequence]
	for _, c := range m.Commands[s.First:][:s.Count] {
		switch c.Opcode {
		case opReset:
			reset[c.Index] = true
		case opAdvance:
			if !reset[c.Index] {
				needed[c.Index] = true
			}
		case opCall:
			neededByCalled, resetByCalled := m.ringsOf(int(c.Index))
			for ring := range neededByCalled {
				if !reset[ring] {
					needed[ring] = true
				}
			}
			for ring := range resetByCalled {
				reset[ring] = true
			}
		}
	}
	return needed, reset
}

// ringState is where a ring is. A ring that is not set has none.
type ringState struct{ position, value, lap uint64 }

// hasRingsFor reports whether all rings that a sequence advances before it resets them are set.
func (p *Player) hasRingsFor(sequence int) bool {
	needed, _ := p.image.ringsOf(sequence)
	for ring := range needed {
		if p.rings[ring] == nil {
			return false
		}
	}
	return true
}

func (p *Player) reset(ring uint16) {
	p.rings[ring] = &ringState{position: p.image.Rings[ring].First}
}

func (p *Player) advance(ring uint16, n uint64) {
	r, state := &p.image.Rings[ring], p.rings[ring]
	if r.End-state.position < n {
		state.position = r.Begin
		state.lap++
	}
	state.value = state.position
	state.position += n
}

// moved returns the command at an index, changed by the Withs before it.
func (p *Player) moved(at int) *Command {
	c := p.image.Commands[at]
	for before := at - 1; before >= 0 && c.Opcode != opWith; before-- {
		with := &p.image.Commands[before]
		if with.Opcode != opWith {
			break
		}
		state := p.rings[with.Index]
		if with.Mode == placeOffset {
			c.Offset += uint32(state.value >> with.Amount)
			continue
		}
		c.Value += state.value >> with.Amount
		if state.lap%2 == 1 {
			c.Value ^= with.Mask
		}
	}
	return &c
}
