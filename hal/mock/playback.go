package mock

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
	want     [][]expected                     // recorded accesses, in chunks of chunkMost
	count    int                              // number of accesses in want
	next     int                              // index in want of the next expected access
	part     int                              // index of the next expected part of that access
	done     int                              // number of parts that have been executed or skipped
	total    int                              // number of parts of all accesses
	reason   string                           // reason for the last rejection
	last     map[Place]Access                 // last load of each place since the last store
	bytewise func(at Place, width uint8) bool // whether each byte there is a part; nil: no byte is
}

// pollPlacesMost limits the size of playback.last.
const pollPlacesMost = 1 << 16

// chunkMost is the number of accesses in a chunk of playback.want. A growing list would be copied,
// and take twice its memory.
const chunkMost = 1 << 12

// expected is a recorded access, in few bytes, because a recording may have many millions.
type expected struct {
	address, value  uint64
	op              Op
	width           uint8
	bar, x, y, tile uint8

	// again is true if the access repeats the previous load of the same place, with the same
	// width and value, and no store is between them. Such a load is optional, because a poll may
	// make fewer loads than in the recording.
	again bool
}

func (e *expected) access() Access {
	return Access{e.op, Place{e.tile != 0, e.x, e.y, e.bar, e.address}, e.width, e.value}
}

// PlaybackBytewise returns a mock that accepts only the given accesses, in their order. Each access
// must have the recorded place and width; a store must have the recorded value. In memory, the mock
// compares each byte separately, because a client may copy memory in other widths. The client may
// use other TLB windows that lead to the same places. For a recording of accesses to BARs, see
// NewTranslatedPlayback.
func PlaybackBytewise(b *boards.Board, accesses []Access) *Device {
	return NewWith(b, newPlaybackModel(b, accesses))
}

func newPlaybackModel(b *boards.Board, accesses []Access) *playback {
	grid := chips.ForBoard(b).Grid
	p := &playback{bytewise: func(at Place, width uint8) bool {
		if at.Tile {
			return grid.FindMemory(grid.Kind(chips.Tile{X: at.X, Y: at.Y}), at.Address,
				uint64(width)) != nil
		}
		r := b.FindRule(at.Bar, at.Address, uint64(width))
		return at.Bar != ConfigSpace && r != nil && r.IsMemory
	}}
	p.last = map[Place]Access{}
	p.expect(accesses)
	p.last = map[Place]Access{}
	return p
}

func (p *playback) expect(accesses []Access) {
	for _, a := range accesses {
		if a.Op == Store || len(p.last) > pollPlacesMost {
			p.forgetLoads()
		}
		e := expected{address: a.Place.Address, value: a.Value, op: a.Op, width: a.Width,
			bar: a.Place.Bar, x: a.Place.X, y: a.Place.Y}
		if a.Place.Tile {
			e.tile = 1
		}
		if a.Op == Load {
			e.again = p.last[a.Place] == a
			p.last[a.Place] = a
		}
		if p.count%chunkMost == 0 {
			p.want = append(p.want, make([]expected, 0, chunkMost))
		}
		chunk := &p.want[len(p.want)-1]
		*chunk = append(*chunk, e)
		p.count++
		p.total += p.partCount(&a)
	}
}

// forgetLoads replaces a large map: the time of clear depends on the largest size that the map had.
func (p *playback) forgetLoads() {
	if len(p.last) > 64 {
		p.last = map[Place]Access{}
	}
	clear(p.last)
}

func (p *playback) at(index int) *expected { return &p.want[index/chunkMost][index%chunkMost] }

func (p *playback) partCount(a *Access) int {
	if p.bytewise == nil || !p.bytewise(a.Place, a.Width) {
		return 1
	}
	return int(a.Width)
}

// partOf returns a part of an access as an access.
func (p *playback) partOf(a Access, part int) Access {
	if p.partCount(&a) == 1 {
		return a
	}
	a.Place.Address += uint64(part)
	return Access{a.Op, a.Place, 1, a.Value >> (8 * part) & 0xff}
}

// currentPart returns the next expected part. The recording must not be at its end.
func (p *playback) currentPart() Access { return p.partOf(p.at(p.next).access(), p.part) }

func (p *playback) skipPart() {
	p.done++
	a := p.at(p.next).access()
	if p.part++; p.part == p.partCount(&a) {
		p.next, p.part = p.next+1, 0
	}
}

// isExpected reports whether `got` is the next expected part. It first skips optional loads that
// differ from `got`.
func (p *playback) isExpected(got Access) bool {
	for ; p.next < p.count; p.skipPart() {
		want := p.currentPart()
		if got.Op == Load {
			want.Value = 0
		}
		if want == got || !p.at(p.next).again {
			return want == got
		}
	}
	return false
}

// RemainingAccesses returns the number of accesses that a playback still expects, or 0 for a device
// that is no playback. Each byte of memory counts as an access. Optional loads at the end do not
// count.
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
	if p.next == p.count {
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

// A Translator converts a recording of accesses to BARs to accesses of places. It translates
// addresses in TLB windows to addresses in tiles, omits the stores that configure TLB windows,
// and converts a store to several tiles (multicast) to one store for each tile.
type Translator struct {
	device *Device
	model  translatedAccesses
	count  int // added accesses
}

// NewTranslator returns a translator that calls `do` with each translated access.
func NewTranslator(b *boards.Board, do func(Access)) *Translator {
	t := &Translator{model: translatedAccesses{do: do}}
	t.device = NewWith(b, &t.model)
	return t
}

// NewTranslatedPlayback returns a playback like PlaybackBytewise, and a translator that adds
// accesses to the playback.
func NewTranslatedPlayback(b *boards.Board) (*Translator, *Device) {
	p := newPlaybackModel(b, nil)
	t := NewTranslator(b, func(a Access) { p.expect([]Access{a}) })
	return t, NewWith(b, p)
}

// Add adds the next access of the recording. It fails for an access that a mock would reject.
func (t *Translator) Add(a Access) error {
	t.count++
	if a.Place.Tile || a.Op != Load && a.Op != Store {
		return fmt.Errorf("access %d must be a load or store of a BAR", t.count)
	}
	t.model.value = a.Value
	at := access{op: a.Op, width: a.Width, bar: a.Place.Bar, offset: a.Place.Address}
	var c hal.Code
	if a.Op == Load {
		_, c = t.device.load(at)
	} else {
		c = t.device.store(at, a.Value)
	}
	if c != hal.OK {
		return fmt.Errorf("access %d: %s", t.count, t.device.Refusal())
	}
	return nil
}

// translatedAccesses is a Model that accepts every access, and passes it to `do`. All loads return
// `value`.
type translatedAccesses struct {
	value uint64
	do    func(Access)
}

// Load implements Model.
func (t *translatedAccesses) Load(at Place, width uint8) (uint64, hal.Code) {
	t.do(Access{Load, at, width, t.value})
	return t.value, hal.OK
}

// Store implements Model.
func (t *translatedAccesses) Store(at Place, width uint8, value uint64) hal.Code {
	t.do(Access{Store, at, width, value})
	return hal.OK
}
