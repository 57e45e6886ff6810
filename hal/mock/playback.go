package mock

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
	next     int // the access that is to come
	part     int // of its parts, the one that is to come
	done     int // parts of all accesses before that
	total    int // parts of all accesses
	reason   string
	bytewise func(at Place, width uint8) bool // nil: nothing is
}

// expected is an access that is to come. One that returns what the load of its place before it
// returned, with no store between, need not: a poll may make fewer loads.
type expected struct {
	Access
	again bool
}

// PlaybackBytewise gives a device that expects exactly these accesses: the same width
// and place each, and of stores the same value; but in memory, which a client copies in widths of
// its own, each byte counts by itself. Translate makes them of the recording of a BAR. How the
// windows are configured is up to the client, as long as they lead to the right places.
func PlaybackBytewise(b *boards.Board, accesses []Access) *Device {
	grid := chips.Of(b).Grid
	p := &playback{bytewise: func(at Place, width uint8) bool {
		if at.Tile {
			return grid.Memory(grid.Kind(chips.Tile{X: at.X, Y: at.Y}), at.Address,
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
		p.total += p.parts(&a)
	}
}

// parts returns in how many parts an access is expected: in memory each byte counts by itself,
// of anything else the whole access.
func (p *playback) parts(a *Access) int {
	if p.bytewise == nil || !p.bytewise(a.Place, a.Width) {
		return 1
	}
	return int(a.Width)
}

// partOf returns one part of an access.
func (p *playback) partOf(a Access, part int) Access {
	if p.parts(&a) == 1 {
		return a
	}
	a.Place.Address += uint64(part)
	return Access{a.Op, a.Place, 1, a.Value >> (8 * part) & 0xff}
}

// current returns the part of an access that is to come; there must be one.
func (p *playback) current() Access { return p.partOf(p.want[p.next].Access, p.part) }

// advance passes over the part that is to come.
func (p *playback) advance() {
	p.done++
	if p.part++; p.part == p.parts(&p.want[p.next].Access) {
		p.next, p.part = p.next+1, 0
	}
}

// comes reports whether an access is the next; it passes over what need not come.
func (p *playback) comes(got Access) bool {
	for ; p.next < len(p.want); p.advance() {
		want := p.current()
		if got.Op == Load {
			want.Value = 0
		}
		if want == got || !p.want[p.next].again {
			return want == got
		}
	}
	return false
}

// Left is the number of accesses a playback still waits for; 0 of any other device.
func (d *Device) Left() int {
	p, ok := d.model.(*playback)
	if !ok || p.comes(Access{}) {
		return 0
	}
	return p.total - p.done
}

func (p *playback) Load(at Place, width uint8) (value uint64, code hal.Code) {
	whole := Access{Op: Load, Place: at, Width: width}
	for part := range p.parts(&whole) {
		if !p.comes(p.partOf(whole, part)) {
			return 0, p.refuse(fmt.Sprintf("load of %d bytes at %s", width, at))
		}
		value |= p.current().Value << (8 * part)
		p.advance()
	}
	return value, hal.OK
}

func (p *playback) Store(at Place, width uint8, value uint64) hal.Code {
	whole := Access{Store, at, width, value}
	for part := range p.parts(&whole) {
		got := p.partOf(whole, part)
		if !p.comes(got) {
			return p.refuse(got.String())
		}
		p.advance()
	}
	return hal.OK
}

func (p *playback) refuse(got string) hal.Code {
	if p.next == len(p.want) {
		p.reason = fmt.Sprintf("got a %s, want nothing after the %d recorded accesses", got,
			p.total)
	} else {
		p.reason = fmt.Sprintf("got a %s, want access %d of %d: %s", got, p.done+1, p.total,
			p.current())
	}
	return hal.Refused
}

func (p *playback) Reason() string { return p.reason }

// Translate gives the places that the accesses of a raw recording, all of them
// to BARs, arrive at: windows are followed, the stores that configure them
// disappear, and a multicast becomes one store a tile. A recording that the
// device would refuse is an error.
func Translate(b *boards.Board, raw []Access) ([]Access, error) {
	t := &tape{}
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

// tape is a Model that gives back one value and takes everything.
type tape struct{ value uint64 }

func (t *tape) Load(Place, uint8) (uint64, hal.Code) { return t.value, hal.OK }
func (t *tape) Store(Place, uint8, uint64) hal.Code  { return hal.OK }
