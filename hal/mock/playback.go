package mock

// This file plays a recording back: the mock expects the recorded accesses.

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// playback is a Model that expects given accesses, in order and no others, and answers loads with
// what was recorded.
type playback struct {
	want     []expected
	next     int // index of the next expected access
	part     int // index of its next expected part
	done     int // number of parts before that
	total    int // number of parts of all accesses
	reason   string
	bytewise func(at Place, width uint8) bool // nil means false
}

// expected is an expected access. It is optional if again is set: it repeats the previous load
// of its place with the same result and no store in between. A poll may make fewer loads.
type expected struct {
	Access
	again bool
}

// PlaybackBytewise returns a device that expects exactly these accesses, with the same width,
// place and, for stores, value. In memory, which clients may copy in other widths, each byte is
// expected separately. Translate makes such accesses from the recording of a BAR. The client
// may configure TLB windows differently as long as they lead to the same places.
func PlaybackBytewise(b *boards.Board, accesses []Access) *Device {
	grid := chips.Of(b).Grid
	p := &playback{bytewise: func(at Place, width uint8) bool {
		if at.Tile {
			return grid.FindMemory(grid.Kind(chips.Tile{X: at.X, Y: at.Y}), at.Address,
				uint64(width)) != nil
		}
		r := b.FindRule(at.Bar, at.Address, uint64(width))
		return at.Bar != ConfigSpace && r != nil && r.Memory
	}}
	p.expect(accesses)
	return NewWith(b, p)
}

func (p *playback) expect(accesses []Access) {
	last := map[Place]Access{} // by place, since the last store
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

// partCount returns the number of parts of an access: in memory each byte is a part, elsewhere
// the whole access is one.
func (p *playback) partCount(a *Access) int {
	if p.bytewise == nil || !p.bytewise(a.Place, a.Width) {
		return 1
	}
	return int(a.Width)
}

// partOf returns one part of an access.
func (p *playback) partOf(a Access, part int) Access {
	if p.partCount(&a) == 1 {
		return a
	}
	a.Place.Address += uint64(part)
	return Access{a.Op, a.Place, 1, a.Value >> (8 * part) & 0xff}
}

// currentPart returns the next expected part of an access; there must be one.
func (p *playback) currentPart() Access { return p.partOf(p.want[p.next].Access, p.part) }

// skipPart advances to the next part.
func (p *playback) skipPart() {
	p.done++
	if p.part++; p.part == p.partCount(&p.want[p.next].Access) {
		p.next, p.part = p.next+1, 0
	}
}

// isExpected reports whether an access is the next one. It skips optional accesses.
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

// RemainingAccesses returns the number of accesses that a playback still expects. For any other
// device it returns 0.
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

func (p *playback) refuse(got string) hal.Code {
	if p.next == len(p.want) {
		p.reason = fmt.Sprintf("got a %s, want nothing after the %d recorded accesses", got,
			p.total)
	} else {
		p.reason = fmt.Sprintf("got a %s, want access %d of %d: %s", got, p.done+1, p.total,
			p.currentPart())
	}
	return hal.Refused
}

// Reason implements Explainer.
func (p *playback) Reason() string { return p.reason }

// Translate replaces the BAR offsets of a raw recording by the final places: it follows TLB
// windows, removes the stores that configure them, and turns a multicast into one store for
// each tile. It returns an error if the device would reject an access.
func Translate(b *boards.Board, raw []Access) ([]Access, error) {
	t := &constantModel{}
	d := NewWith(b, t)
	d.Record(true)
	for i, a := range raw {
		if a.Place.Tile || a.Op != Load && a.Op != Store {
			return nil, fmt.Errorf("access %d of %d is no load or store of a BAR", i+1, len(raw))
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

func (t *constantModel) Load(Place, uint8) (uint64, hal.Code) { return t.value, hal.OK }
func (t *constantModel) Store(Place, uint8, uint64) hal.Code  { return hal.OK }
