package mock

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// playback is a Model that expects given accesses, in order and no others, and answers loads with what was recorded.
type playback struct {
	want     []expected
	next     int
	reason   string
	bytewise func(at Place, width uint8) bool // nil: nothing is
}

// expected is an access that is to come, or, where it gives again what the load of
// that place before it gave, with no store between, may: who polls needs no more.
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
			return grid.Memory(grid.Kind(chips.Tile{X: at.X, Y: at.Y}), at.Address, uint64(width)) != nil
		}
		r := b.Rule(at.Bar, at.Address, uint64(width))
		return at.Bar != ConfigSpace && r != nil && r.Memory
	}}
	p.expect(accesses)
	return NewWith(b, p)
}

func (p *playback) expect(accesses []Access) {
	gave := map[Place]Access{}
	for _, a := range accesses {
		if a.Op == Store {
			clear(gave)
		}
		again := a.Op == Load && gave[a.Place] == a
		gave[a.Place] = a
		for _, one := range p.split(a) {
			p.want = append(p.want, expected{one, again})
		}
	}
}

// comes tells whether an access is the next; what need not come is passed over.
func (p *playback) comes(got Access) bool {
	for ; p.next < len(p.want); p.next++ {
		want := p.want[p.next]
		if got.Op == Load {
			want.Value = 0
		}
		if want.Access == got || !want.again {
			return want.Access == got
		}
	}
	return false
}

// split is an access as it is expected: a byte at a time where bytes count by themselves.
func (p *playback) split(a Access) (out []Access) {
	if p.bytewise == nil || !p.bytewise(a.Place, a.Width) {
		return []Access{a}
	}
	for range a.Width {
		out = append(out, Access{a.Op, a.Place, 1, a.Value & 0xff})
		a.Place.Address++
		a.Value >>= 8
	}
	return out
}

// Left is the number of accesses a playback still waits for; 0 of any other device.
func (d *Device) Left() int {
	p, ok := d.model.(*playback)
	if !ok || p.comes(Access{}) {
		return 0
	}
	return len(p.want) - p.next
}

func (p *playback) Load(at Place, width uint8) (value uint64, code hal.Code) {
	shift := 0
	for _, got := range p.split(Access{Op: Load, Place: at, Width: width}) {
		if !p.comes(got) {
			return 0, p.refuse(fmt.Sprintf("load of %d bytes at %s", width, at))
		}
		value |= p.want[p.next].Value << shift
		shift += 8
		p.next++
	}
	return value, hal.OK
}

func (p *playback) Store(at Place, width uint8, value uint64) hal.Code {
	for _, got := range p.split(Access{Store, at, width, value}) {
		if !p.comes(got) {
			return p.refuse(got.String())
		}
		p.next++
	}
	return hal.OK
}

func (p *playback) refuse(got string) hal.Code {
	if p.next == len(p.want) {
		p.reason = fmt.Sprintf("got a %s, want nothing after the %d recorded accesses", got, p.next)
	} else {
		p.reason = fmt.Sprintf("got a %s, want access %d of %d: %s", got, p.next+1, len(p.want), p.want[p.next].Access)
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
