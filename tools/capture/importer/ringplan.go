package importer

import (
	"cmp"
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// ringPlan is what moves in the repetitions, and how.
type ringPlan struct {
	finder *ringFinder
	turns  [][]element // by repetition
	before int         // first step of the repetitions

	numbers []storedNumber
	rings   []plannedRing
	uses    []ringUse
	varies  []Varying
	polls   []Range
	notes   []string
	names   map[string]int
	host    *hostTurns // nil: no host memory
	cycle   int
	alike   [2]int // the repetitions of one kind of work, if others have another; or zero
}

// plannedRing is a ring, and where it is used first.
type plannedRing struct {
	ringFit
	place   Place
	space   spaceKey
	address uint64
	line    int
	isValue bool
	// Of an address in host memory: 1 plus the bit of an entry that changes with each lap; 0: none
	entryBit int
}

func newRing(fit ringFit, first *element, isValue bool) plannedRing {
	r := plannedRing{ringFit: fit, place: placeOf(first), space: first.space, line: first.line,
		address: first.address, isValue: isValue}
	if !isValue {
		r.address -= first.lead
	}
	return r
}

// ringUse is how a ring changes accesses of the frame.
type ringUse struct {
	ring     *plannedRing
	number   int
	advance  uint64 // before the first access
	times    uint64 // how often it advances; 0: a use before has advanced
	isValue  bool
	shift    uint32
	parity   uint64
	isStore  bool // of a value
	space    spaceKey
	address  uint64 // in the first repetition
	size     uint64
	position uint64 // of the ring in the first repetition, from its begin
	flipped  bool   // parity in the first repetition
}

// block is accesses of consecutive addresses in each repetition.
type block struct {
	first, end int // elements
	moves      bool
	group      int  // of blocks that share a ring
	entry      int  // number of the entry in the group
	isEntry    bool // its first element begins one, as sizes say
}

// find explains all that differs between the repetitions. It returns false if no address moves.
func (p *ringPlan) find() (moves bool, reason string) {
	p.numbers, p.names = p.finder.numbersBefore(p.before), map[string]int{}
	p.splitWords()
	blocks := p.blocks()
	count := 0
	for i := range blocks {
		if blocks[i].moves {
			count++
		}
	}
	if count == 0 || count > blocksMax {
		return false, ""
	}
	groups := p.groups(blocks)
	blocks = p.splitBySizes(blocks, groups)
	for g := range groups {
		if reason := p.addressRing(blocks, g); reason != "" {
			return true, reason
		}
	}
	if reason := p.values(blocks); reason != "" {
		return true, reason
	}
	if len(p.rings) > fbs.RingsMax {
		return true, fmt.Sprintf("%d rings move, but an image has at most %d", len(p.rings),
			fbs.RingsMax)
	}
	p.linkUses()
	return true, ""
}

// blocks returns the blocks of a repetition. A block ends where the addresses of any repetition
// jump.
func (p *ringPlan) blocks() (list []block) {
	first := p.turns[0]
	for i := range first {
		joined := i > 0 && first[i].chunk == first[i-1].chunk
		moves := false
		for _, turn := range p.turns {
			joined = joined && p.finder.follows(&turn[i-1], &turn[i])
			moves = moves || turn[i].address != first[i].address
		}
		if joined && list[len(list)-1].moves == moves {
			list[len(list)-1].end = i + 1
		} else {
			list = append(list, block{first: i, end: i + 1, moves: moves, group: -1})
		}
	}
	return list
}

// groups finds the blocks that share a ring: their addresses overlap over the repetitions.
func (p *ringPlan) groups(blocks []block) (count int) {
	type reach struct {
		space     spaceKey
		low, high uint64
	}
	var list []reach
	of := func(b *block) (r reach) {
		r = reach{p.turns[0][b.first].space, ^uint64(0), 0}
		for _, turn := range p.turns {
			r.low = min(r.low, turn[b.first].address)
			r.high = max(r.high, turn[b.end-1].address+uint64(turn[b.end-1].width))
		}
		return r
	}
	for changed := true; changed; {
		changed = false
		for i := range blocks {
			b := &blocks[i]
			if !b.moves {
				continue
			}
			r := of(b)
			at := slices.IndexFunc(list, func(o reach) bool {
				return o.space == r.space && o.low < r.high && r.low < o.high
			})
			if at < 0 {
				at = len(list)
				list = append(list, r)
			}
			o := &list[at]
			changed, b.group = changed || b.group != at, at
			o.low, o.high = min(o.low, r.low), max(o.high, r.high)
		}
	}
	return len(list)
}

// addressRing finds the ring of a group of blocks. Blocks with nothing else between them are one
// entry, unless a wrap separates them.
func (p *ringPlan) addressRing(blocks []block, group int) (reason string) {
	var entries [][]int // by entry: indexes of blocks
	for i := range blocks {
		if blocks[i].group != group {
			continue
		}
		n := len(entries) - 1
		if n < 0 || !p.isOneEntry(blocks, entries[n], i) && !p.isEntryAgain(blocks, entries[n], i) {
			entries, n = append(entries, nil), n+1
		}
		entries[n] = append(entries[n], i)
		blocks[i].entry = n
	}
	points := make([]ringPoint, len(entries))
	for n, list := range entries {
		for _, turn := range p.turns {
			low := ^uint64(0)
			for _, i := range list {
				low = min(low, turn[blocks[i].first].address-turn[blocks[i].first].lead)
			}
			points[n].values = append(points[n].values, low)
			points[n].lines = append(points[n].lines, turn[blocks[list[0]].first].line)
		}
	}
	first := &p.turns[0][blocks[entries[0][0]].first]
	if s := p.finder.specOf(first, false); s != nil && s.Unit != 0 {
		if reason := p.unitRing(blocks, group, s); reason != "" {
			return p.movesWithout(first, points, reason)
		}
		return ""
	}
	fit, reason := fitRing(points)
	if reason == "" && fit.parity != 0 {
		reason = "its addresses start again in another way in each lap"
	}
	r := newRing(fit, first, false)
	if reason == "" {
		reason = p.settle(&r, first)
	}
	if reason != "" {
		return p.movesWithout(first, points, reason)
	}
	p.rings = append(p.rings, r)
	for n, list := range entries {
		base := points[n].values[0]
		for k, i := range list {
			from := &p.turns[0][blocks[i].first]
			u := ringUse{number: len(p.rings) - 1, space: from.space, address: from.address,
				size:     uint64(blocks[i].end-blocks[i].first) * uint64(from.width),
				position: base - r.begin}
			if k == 0 {
				u.advance, u.times = r.steps[n], 1
			}
			p.uses = append(p.uses, u)
		}
	}
	return ""
}

// movesWithout is the reason why addresses that move have no ring.
func (p *ringPlan) movesWithout(first *element, points []ringPoint, reason string) string {
	return fmt.Sprintf("lines %d and %d, %s0x%x: addresses move from repetition to repetition: %s",
		points[0].lines[0], points[0].lines[1], first.space, first.address, reason)
}

// isOneEntry reports whether block i belongs to the same entry as others before it.
func (p *ringPlan) isOneEntry(blocks []block, before []int, i int) bool {
	if i != before[len(before)-1]+1 || blocks[i].isEntry {
		return false // something else comes between them
	}
	a, b := blocks[before[0]].first, blocks[i].first
	for _, turn := range p.turns {
		if turn[b].address-turn[a].address != p.turns[0][b].address-p.turns[0][a].address {
			return false
		}
	}
	return p.turns[0][a].op == p.turns[0][b].op
}

func placeOf(e *element) Place {
	if e.space.kind == gen.WindowKindTlb {
		return Place{Tile: true, X: e.space.x, Y: e.space.y}
	}
	if e.space == hostSpaceKey {
		return Place{Bus: true}
	}
	return Place{HasBar: true, Bar: e.space.bar}
}

// settle decides where a ring begins and ends: as the user says, as the program stored, or as the
// recording shows. It returns the reason why none of these does.
func (p *ringPlan) settle(r *plannedRing, first *element) (reason string) {
	if r.unit != 0 {
		return "" // fitUnits had begin and end
	}
	if s := p.finder.specOf(first, r.isValue); s != nil {
		switch {
		case s.EntryBit >= 0 && !r.isValue:
			r.entryBit = s.EntryBit + 1
		case s.Parity == 0:
		case !r.isValue || r.parity|s.Parity != s.Parity:
			return fmt.Sprintf("bit %#x does not change with each lap, as --ring says", s.Parity)
		default:
			r.parity = s.Parity
		}
		return p.setLimits(r, s.Begin, s.End, "as --ring says")
	}
	if r.isCertain() {
		return ""
	}
	if begin, end, line := p.storedLimits(r, first); line > 0 {
		return p.setLimits(r, begin, end, fmt.Sprintf("as the program stored in line %d", line))
	}
	where := fmt.Sprintf("--ring %s0x%x=BEGIN..END", r.place.flagText(), r.address)
	p.finder.isDecided = true
	if !r.hasWrap {
		return "they do not start again in the recording, so that the end is not known; record " +
			"more repetitions, or add " + where
	}
	return fmt.Sprintf("the end lies between %#x and %#x, which matters in a later lap; record "+
		"more repetitions, or add %s", r.lowest, r.highest, where)
}

func (p *ringPlan) setLimits(r *plannedRing, begin, end uint64, how string) (reason string) {
	if begin > r.begin || r.hasWrap && begin != r.begin || end < r.lowest || end > r.highest {
		return fmt.Sprintf("a ring from %#x to %#x, %s, does not fit the recording", begin, end,
			how)
	}
	r.begin, r.end = begin, end
	if r.isValue && !r.hasWrap && r.parity == 0 {
		how += "; a bit that changes with each lap would not have shown"
	}
	if r.how != "" {
		how = r.how + ", ends " + how
	}
	r.how = how
	return ""
}

// storedLimits looks for a begin and an end, or a size, that the program stored side by side. A
// begin that no wrap shows must be an address that the program accessed. It returns the line of the
// end, or 0.
func (p *ringPlan) storedLimits(r *plannedRing, first *element) (begin, end uint64, line int) {
	for i := range p.numbers {
		a := &p.numbers[i]
		if r.hasWrap && a.value != r.begin || !r.hasWrap && (r.isValue || a.value > r.begin) {
			continue
		}
		if i+1 == len(p.numbers) {
			break
		}
		b := &p.numbers[i+1]
		e := b.value
		if e <= a.value {
			e += a.value // a size
		}
		if b.space != a.space || b.address != a.address+uint64(a.width) || e < r.lowest ||
			e > r.highest || e-a.value > fbs.WindowSizeMax ||
			!r.hasWrap && !p.finder.isAccessed(p.before, first, a.value) {
			continue
		}
		if line > 0 && (begin != a.value || end != e) {
			return 0, 0, 0 // two answers are none
		}
		begin, end, line = a.value, e, b.line
	}
	return begin, end, line
}

// blocksMax limits the blocks of a repetition: more are a walk through memory.
const blocksMax = 1 << 10

func (p *ringPlan) report() (list []Ring) {
	for i := range p.rings {
		r := &p.rings[i]
		uses := "addresses"
		if r.isValue {
			uses = "values"
		}
		how := r.how
		if r.entryBit != 0 {
			how += fmt.Sprintf("; bit %d of an entry changes with each lap", r.entryBit-1)
		}
		if r.parity != 0 {
			how += fmt.Sprintf("; bit %#x changes with each lap", r.parity)
		}
		list = append(list, Ring{Place: fmt.Sprintf("%s0x%x", r.place.flagText(), r.address),
			Uses: uses, Line: r.line, Begin: r.begin, End: r.end, Step: r.total(), Why: how})
	}
	return list
}

// linkUses points the uses to their rings, when the list of rings no longer grows.
func (p *ringPlan) linkUses() {
	for i := range p.uses {
		p.uses[i].ring = &p.rings[p.uses[i].number]
	}
}

func compareLines(a, b Varying) int { return cmp.Compare(a.Line, b.Line) }
