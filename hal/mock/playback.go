package mock

// This file plays back a recording: the mock accepts only the recorded accesses, and its loads
// return the recorded values.

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// playback is a Model that accepts only the recorded accesses, in their order. A load returns
// the recorded value. An access consists of parts: in memory each byte is a part, elsewhere the
// complete access is one part.
type playback struct {
	want     []expected                       // recorded accesses
	next     int                              // index in want of the next expected access
	part     int                              // index of the next expected part of that access
	done     int                              // number of parts that have been executed or skipped
	total    int                              // number of parts of all accesses
	reason   string                           // reason for the last rejection
	bytewise func(at Place, width uint8) bool // each byte there is a part; nil: nowhere
}

// expected is a recorded access.
type expected struct {
	Access

	// again is true if the access repeats a previous load of the same place with the same
	// result, and no store was recorded in between. Such a load is optional, because a poll
	// may make fewer loads than in the recording.
	again bool
}

// PlaybackBytewise returns a mock that accepts only the given accesses, in their order. Each
// access must have the recorded place and width; a store must have the recorded value. In
// memory, the mock compares each byte separately, because a client may copy memory in other
// widths than the recorded ones. The client may configure other TLB windows than the recorded
// ones if they lead to the same places. Translate converts a recording of accesses to BARs to
// the accesses that PlaybackBytewise needs.
func PlaybackBytewise(b *boards.Board, accesses []Access) *Device {
	grid := chips.ForBoard(b).Grid
	p := &playback{bytewise: func(at Place, width uint8) bool {
		if at.Tile {
			return grid.FindMemory(grid.Kind(chips.Tile{X: at.X, Y: at.Y}), at.Address,
				uint64(width)) != nil
		}
		r := b.FindRule(at.Bar, at.Address, uint64(width))
		return at.Bar != ConfigSpace && r != nil && r.IsMemory
	}}
	p.expect(accesses)
	return NewWith(b, p)
}

// expect sets the accesses that the playback expects.
func (p *playback) expect(accesses []Access) {
	last := map[Place]Access{} // last load of each place since the last store
	p.want = make([]expected, 0, len(accesses))
	for _, a := range accesses {
		if a.Op == Store {
			clear(last)
		}
		again := a.Op == Load && last[a.Place] == a
		last[a.Place] = a
		p.want = append(p.want, expected{a, again})
		p.total += p.partCount(&a)
	}
}

// partCount returns the number of parts of an access.
func (p *playback) partCount(a *Access) int {
	if p.bytewise == nil || !p.bytewise(a.Place, a.Width) {
		return 1
	}
	return int(a.Width)
}

// partOf returns the part of an access with the given index, as an access.
func (p *playback) partOf(a Access, part int) Access {
	if p.partCount(&a) == 1 {
		return a
	}
	a.Place.Address += uint64(part)
	return Access{a.Op, a.Place, 1, a.Value >> (8 * part) & 0xff}
}

// currentPart returns the next expected part. The recording must not be at its end.
func (p *playback) currentPart() Access { return p.partOf(p.want[p.next].Access, p.part) }

// skipPart advances to the part after the next expected one.
func (p *playback) skipPart() {
	p.done++
	if p.part++; p.part == p.partCount(&p.want[p.next].Access) {
		p.next, p.part = p.next+1, 0
	}
}

// isExpected reports whether got is the next expected part. If it is not, isExpected skips
// optional loads and compares got with the parts after them.
func (p *playback) isExpected(got Access) bool {
	for ; p.next < len(p.want); p.skipPart() {
		want := p.currentPart()
		if got.Op == Load {
			want.Value = 0
		}
		if want == got || !p.want[p.next].again {
			return want == got
		}
	}
	return false
}

// RemainingAccesses returns the number of accesses that a playback still expects, where each byte
// of memory counts as an access. Optional loads at the end do not count. RemainingAccesses returns
// 0 if the device is not a playback.
func (d *Device) RemainingAccesses() int {
	p, ok := d.model.(*playback)
	if !ok || p.isExpected(Access{}) {
		return 0
	}
	return p.total - p.done
}

// Load implements Model.
func (p *playback) Load(at Place, width uint8) (value uint64, code hal.Code) {
	whole := Access{Op: Load, Place: at, Width: width}
	for part := range p.partCount(&whole) {
		if !p.isExpected(p.partOf(whole, part)) {
			return 0, p.refuse(fmt.Sprintf("load of %d bytes at %s", width, at))
		}
		value |= p.currentPart().Value << (8 * part)
		p.skipPart()
	}
	return value, hal.OK
}

// Store implements Model.
func (p *playback) Store(at Place, width uint8, value uint64) hal.Code {
	whole := Access{Store, at, width, value}
	for part := range p.partCount(&whole) {
		got := p.partOf(whole, part)
		if !p.isExpected(got) {
			return p.refuse(got.String())
		}
		p.skipPart()
	}
	return hal.OK
}

// refuse returns hal.Refused, and stores a reason that names the access got and the expected
// access.
func (p *playback) refuse(got string) hal.Code {
	if p.next == len(p.want) {
		p.reason = fmt.Sprintf("expected no access after the %d recorded accesses, but got a %s",
			p.total, got)
	} else {
		p.reason = fmt.Sprintf("expected access %d of %d, a %s, but got a %s", p.done+1, p.total,
			p.currentPart(), got)
	}
	return hal.Refused
}

// Reason implements Explainer.
func (p *playback) Reason() string { return p.reason }

// Translate converts a recording of accesses to BARs to accesses of places. It translates
// addresses in TLB windows to addresses in tiles, omits the stores that configure TLB windows,
// and converts a store to several tiles (multicast) to one store for each tile. It returns an
// error if a mock would reject an access.
func Translate(b *boards.Board, raw []Access) ([]Access, error) {
	t := &constantModel{}
	d := NewWith(b, t)
	d.Record(true)
	for i, a := range raw {
		if a.Place.Tile || a.Op != Load && a.Op != Store {
			return nil, fmt.Errorf("access %d of %d must be a load or store of a BAR", i+1,
				len(raw))
		}
		t.value = a.Value
		at := access{op: a.Op, width: a.Width, bar: a.Place.Bar, offset: a.Place.Address}
		var c hal.Code
		if a.Op == Load {
			_, c = d.load(at)
		} else {
			c = d.store(at, a.Value)
		}
		if c != hal.OK {
			return nil, fmt.Errorf("access %d of %d: %s", i+1, len(raw), d.Refusal())
		}
	}
	return d.Journal(), nil
}

// constantModel is a Model that accepts every access. All loads return value.
type constantModel struct{ value uint64 }

// Load implements Model.
func (t *constantModel) Load(Place, uint8) (uint64, hal.Code) { return t.value, hal.OK }

// Store implements Model.
func (t *constantModel) Store(Place, uint8, uint64) hal.Code { return hal.OK }
