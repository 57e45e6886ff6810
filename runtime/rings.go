package runtime

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// ringPosition is where a ring is, since the last Reset.
type ringPosition struct {
	position uint64 // where the next entry begins, if it fits
	value    uint64 // where the last entry began
	lapMask  uint64 // all ones in every second lap
}

// movedCommand is the command that With commands change, and what they add.
type movedCommand struct {
	commands [2]fbs.Command // the changed command, and an End that ends no sequence
	index    int            // of the command in the image
	addends
}

// addends is what the With commands just before a command add to it.
type addends struct{ offset, value, flipped uint64 }

func newMovedCommand() (m movedCommand) {
	m.commands[1].Opcode = gen.OpcodeEnd
	return m
}

func (r *Replay) executeRingCommand(c *fbs.Command) {
	p, ring := &r.rings[c.Index], &r.view.Rings[c.Index]
	switch c.Opcode {
	case gen.OpcodeReset:
		*p = ringPosition{position: ring.First}
		r.setRings |= 1 << c.Index
	case gen.OpcodeAdvance:
		var isNewLap bool
		if p.value, isNewLap = fbs.NextRingValue(ring, p.position, c.Value); isNewLap {
			p.lapMask = ^p.lapMask
		}
		p.position = p.value + c.Value
	default:
		r.executeWith(c, p)
		return
	}
	r.walk.Advance()
}

// executeWith lets the walk continue with a changed copy of the command after the last With: the
// file and the copy of the commands in the arena are read-only.
func (r *Replay) executeWith(c *fbs.Command, p *ringPosition) {
	w, m := &r.walk, &r.moved
	if gen.Place(c.Mode) == gen.PlaceOffset {
		m.offset = p.value >> c.Amount
	} else {
		m.value, m.flipped = p.value>>c.Amount, c.Mask&p.lapMask
	}
	w.Advance()
	if w.Next.Opcode == gen.OpcodeWith {
		return
	}
	changed := &m.commands[0]
	*changed, m.index = *w.Next, w.NextIndex(r.commands)
	changed.Offset += uint32(m.offset)
	changed.Value = (changed.Value + m.value) ^ m.flipped
	m.addends = addends{}
	w.Next, r.pollingCommand = changed, nil // an earlier poll may have had the same address
}
