package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/runs"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
)

// spaceKey identifies what addresses belong to: a BAR, or the tiles that a window shows.
type spaceKey struct {
	kind           gen.WindowKind
	bar            uint8
	x, y           uint8
	xStart, yStart uint8
	multicast      bool
}

// spaceOf returns the space of a step, and the address in it of the step's first byte.
func (p *program) spaceOf(s *step) (space spaceKey, address uint64) {
	if s.target >= 0 {
		a := &p.targets[s.target]
		return spaceOfRoute(&a.route), a.address + uint64(s.offset)
	}
	w := &p.windows[s.window]
	if w.Kind == gen.WindowKindHost {
		return hostSpaceKey, p.hostSpaces[w.bar-hostBarBase].bus + uint64(s.offset)
	}
	return spaceKey{kind: w.Kind, bar: w.bar}, w.base + uint64(s.offset)
}

// hostSpaceKey is all host memory, by bus addresses.
var hostSpaceKey = spaceKey{kind: gen.WindowKindHost}

func (s spaceKey) String() string {
	if s.kind == gen.WindowKindTlb {
		return fmt.Sprintf("(%d,%d) ", s.x, s.y)
	}
	if s == hostSpaceKey {
		return busPrefix
	}
	return fmt.Sprintf("BAR %d + ", s.bar)
}

// ringFinder looks for repetitions whose addresses and values move. Stores to one memory, or loads
// from it, that follow each other are one chunk, wherever they begin and end.
type ringFinder struct {
	*finder
	ids    []uint32
	chunks []chunk
	keys   map[chunkKey]uint32
	// Waits that only some repetitions have: their places, and all their steps
	optional map[chunkKey]bool
	skipped  map[int]bool
	// The examined run is right, but lacks what only the user or another recording can add
	isDecided bool
	work      int // accesses that were examined
}

// chunkKey is what the same chunks of two repetitions have in common.
type chunkKey struct {
	space   spaceKey
	op      stepOp
	width   uint8
	memory  bool
	address uint64 // of a register
	mask    uint64 // of a poll
	count   int
}

type chunk struct {
	chunkKey
	first, end int // steps
}

// element is one access.
type element struct {
	chunkKey
	address uint64
	value   uint64
	line    int
	chunk   int // number in the repetition
	// Of host memory: its part, and the bytes of an entry of the ring before the part
	part *hostPart
	lead uint64
}

func (f *ringFinder) findChunks() {
	f.keys, f.ids, f.chunks = map[chunkKey]uint32{}, nil, nil
	f.findSkipped()
	var open chunk
	add := func() {
		if open.count == 0 {
			return
		}
		id, known := f.keys[open.chunkKey]
		if !known {
			id = uint32(len(f.keys))
			f.keys[open.chunkKey] = id
		}
		f.ids, f.chunks = append(f.ids, id), append(f.chunks, open)
	}
	for i := range f.steps.count {
		s := f.steps.at(i)
		if f.isExactHost(s) { // hostturns.go adds it to each repetition
			add()
			open = chunk{}
		}
		if c, ok := f.wholeChunk(s, i); ok {
			add()
			open = c
		}
		if !s.accessesDevice() || f.skipped[i] || f.isExactHost(s) || f.isPolledWhole(i) {
			continue
		}
		next := chunk{first: i, end: i + 1}
		next.space, next.address = f.spaceOf(s)
		next.op, next.width, next.memory = s.op, s.width, s.hasFlag(flagMemory)
		next.count = int(s.elementCount())
		if next.memory {
			next.address = 0
		}
		if s.op == stepPoll {
			next.mask, next.count = f.maskOf(s), 1
		}
		same, count := open.chunkKey, next.count
		same.count = next.count
		if open.count > 0 && s.op != stepPoll && next.memory && same == next.chunkKey {
			open.count, open.end = open.count+count, i+1
			continue
		}
		add()
		open = next
	}
	add()
}

// waitKey is the exact place of a load or of a poll.
func (f *ringFinder) waitKey(step int) (key chunkKey) {
	s := f.steps.at(step)
	if s.op == stepPoll || s.op == stepLoad && s.elementCount() == 1 {
		key.space, key.address = f.spaceOf(s)
		key.op, key.width = stepPoll, s.width
	}
	return key
}

// findSkipped finds the steps of optional waits, and polls of a rising number that find the number
// of the poll before: the program looked too early.
func (f *ringFinder) findSkipped() {
	type history struct {
		polls, changes int
		last           uint64
	}
	seen := map[chunkKey]*history{}
	var again []int
	f.skipped = map[int]bool{}
	for i := range f.steps.count {
		key := f.waitKey(i)
		if key == (chunkKey{}) {
			continue
		}
		if f.optional[key] {
			f.skipped[i] = true
		}
		s := f.steps.at(i)
		h := seen[key]
		if h == nil {
			h = &history{last: ^s.value}
			seen[key] = h
		}
		h.polls++
		if s.value != h.last {
			h.changes++
		} else {
			again = append(again, i)
		}
		h.last = s.value
	}
	for _, i := range again {
		h := seen[f.waitKey(i)]
		if h.changes >= ringTimesMin && 2*h.changes > h.polls {
			f.skipped[i] = true
		}
	}
}

// findRuns finds the runs, the one with most accesses first. A program waits for room in a queue
// once in a lap, which breaks a run: such waits are left out.
func (f *ringFinder) findRuns() (list []runs.Run) {
	find := func() []runs.Run {
		f.findChunks()
		list := runs.Find(f.ids)
		slices.SortStableFunc(list, func(a, b runs.Run) int {
			return cmp.Compare(f.accesses(b), f.accesses(a))
		})
		return list
	}
	f.optional = map[chunkKey]bool{}
	list = find()
	for range ringWaitsMax {
		if len(list) == 0 {
			break
		}
		key, most := f.breaker(list[0]), f.accesses(list[0])
		if key == (chunkKey{}) {
			break
		}
		f.optional[key] = true
		next := find()
		if len(next) == 0 || f.accesses(next[0]) < most+most/8 {
			delete(f.optional, key)
			return find()
		}
		list = next
	}
	return list
}

// breaker returns the wait right after a run, or else right before it, that the run's period lacks;
// zero: none.
func (f *ringFinder) breaker(r runs.Run) (key chunkKey) {
	for _, at := range []int{r.End(), r.Start - 1} {
		if at < 0 || at >= len(f.chunks) {
			continue
		}
		key := f.waitKey(f.chunks[at].first)
		inside := slices.ContainsFunc(f.chunks[r.Start:r.Start+r.Period], func(c chunk) bool {
			return f.waitKey(c.first) == key
		})
		if key != (chunkKey{}) && !inside {
			return key
		}
	}
	return chunkKey{}
}

const (
	ringWaitsMax  = 4 // kinds of waits that only some repetitions have
	ringTimesMin  = 3 // repetitions that show how something moves
	ringRunsMax   = 8 // runs that are examined
	ringAccessMax = 1 << 20
	ringStepsMax  = 1 << 20 // larger traces are not searched
)

// findRings looks for the repetition with rings that covers most accesses, and returns how many
// lines it has. The reason says why the best one is no frame; it is empty if nothing moves.
func (f *finder) findRings() (c *Candidate, reason string, lines int) {
	r := &ringFinder{finder: f}
	if f.steps.count > ringStepsMax {
		return nil, "", 0
	}
	list := r.findRuns()
	for _, run := range list[:min(len(list), ringRunsMax)] {
		found, why := r.examineRun(run)
		if found != nil || reason == "" && why != "" {
			first, last := r.chunks[run.Start].first, r.chunks[run.End()-1].end-1
			lines = int(r.steps.at(last).line - r.steps.at(first).line)
		}
		if found != nil && why == "" {
			return found, "", lines
		}
		reason = cmp.Or(reason, why)
	}
	return nil, reason, lines
}

func (f *ringFinder) accesses(r runs.Run) (n int) {
	for _, c := range f.chunks[r.Start:r.End()] {
		n += c.count
	}
	return n
}

// examineRun makes a candidate of a run, if something in it moves as rings do, and it waits. A
// repetition begins with a store after a load. Of several such stores, the first that gives a frame
// is taken; those after which results come last are tried first.
func (f *ringFinder) examineRun(r runs.Run) (c *Candidate, reason string) {
	isStore := func(at int) bool { return f.chunks[at].op == stepStore }
	polls := f.hasExactHost() || slices.ContainsFunc(f.chunks[r.Start:r.Start+r.Period],
		func(c chunk) bool { return c.op == stepPoll })
	var best, others []int
	for at := r.Start; at < r.Start+r.Period && polls; at++ {
		switch {
		case !isStore(at) || (at == 0 || isStore(at-1)) && f.hostStart(at) == f.chunks[at].first:
		case f.endsWithResults(r, at):
			best = append(best, at)
		default:
			others = append(others, at)
		}
	}
	for _, at := range append(best, others...) {
		found, why := f.examineMultiples(r, at)
		if found != nil && why == "" {
			return found, ""
		}
		if c == nil && reason == "" {
			c, reason = found, why
		}
	}
	return c, reason
}

// endsWithResults reports whether the first data of repetitions that begin at a chunk are stored,
// and the last ones loaded.
func (f *ringFinder) endsWithResults(r runs.Run, start int) bool {
	const turnsMax = 6 // enough to distinguish data from numbers that rise
	var p ringPlan
	for at := start; at+r.Period <= r.End() && len(p.turns) < turnsMax; at += r.Period {
		p.turns = append(p.turns, f.elements(at, r.Period))
	}
	if len(p.turns) <= ringTimesMin || f.accesses(r) > ringAccessMax {
		return false
	}
	var ops []stepOp
	for i := range p.turns[0] {
		e := &p.turns[0][i]
		if e.memory && p.differs(i) && !isPointer(p.column(i)) {
			ops = append(ops, e.op)
		}
	}
	return len(ops) > 0 && ops[0] == stepStore && ops[len(ops)-1] == stepLoad
}

func (f *ringFinder) examineFrom(r runs.Run, start int) (c *Candidate, reason string) {
	start = f.firstWhole(r, start)
	times := (r.End() - start) / r.Period
	if times < ringTimesMin || f.accesses(r) > ringAccessMax {
		return nil, ""
	}
	turns := make([][]element, times)
	for k := range turns {
		turns[k] = f.elements(start+k*r.Period, r.Period)
	}
	p := ringPlan{finder: f, turns: turns, before: f.chunks[start].first}
	if reason := p.addHostTurns(start, r.Period); reason != "" {
		if times < 2*ringTimesMin {
			reason = "" // too few to say that it is a ring
		}
		return nil, reason
	}
	turns = p.turns
	if p.host == nil && !slices.ContainsFunc(turns[0], func(e element) bool {
		return e.op == stepPoll
	}) {
		return nil, ""
	}
	moves, reason := p.find()
	if a := p.alike; a[1] > 0 {
		start += a[0] * r.Period
		return f.examineFrom(runs.Run{Start: start, Length: (a[1] - a[0]) * r.Period,
			Period: r.Period}, start)
	}
	if !moves || reason != "" {
		return nil, reason
	}
	c = &Candidate{Times: times, Accesses: len(turns[0]), Varies: p.varies, Notes: p.notes,
		Refused: []string{}, Again: [][2]int{}, Rings: p.report(), plan: p.uses,
		polls: p.polls, hostParts: p.host.parts(), cycle: p.cycle}
	for k := range turns {
		c.Starts = append(c.Starts, turns[k][0].line)
	}
	last := turns[times-1]
	c.Lines = [2]int{c.Starts[0], last[len(last)-1].line}
	if end := start + times*r.Period; end < len(f.chunks) {
		c.nextLine = p.stopLine(end, c)
	}
	c.deadlineUs = f.longestWait()
	if c.skipped = f.skippedIn(start, r.Period); len(c.skipped) > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("line %d: the frame leaves out %s that not every "+
			"repetition has, such as a look that came too early", c.skipped[0],
			english.Count(len(c.skipped), "wait")))
	}
	return c, ""
}

// firstWhole returns the start of the first repetition that may be the frame, if possible one from
// which no steps are left out.
func (f *ringFinder) firstWhole(r runs.Run, start int) int {
	first := -1
	for at := start; at+ringTimesMin*r.Period <= r.End(); at += r.Period {
		if f.isSplit(at, r.Period) {
			continue
		}
		if len(f.skippedIn(at, r.Period)) == 0 {
			return at
		}
		if first < 0 {
			first = at
		}
	}
	return max(start, first)
}

// skippedIn returns the lines of the steps of a repetition that are left out.
func (f *ringFinder) skippedIn(start, period int) (lines []int) {
	end := f.chunks[start+period-1].end
	if start+period < len(f.chunks) {
		end = f.chunks[start+period].first
	}
	for i := f.chunks[start].first; i < end; i++ {
		if f.skipped[i] {
			lines = append(lines, int(f.steps.at(i).line))
		}
	}
	return lines
}

func spaceOfRoute(t *fbs.TileRoute) spaceKey {
	return spaceKey{kind: gen.WindowKindTlb, x: t.X, y: t.Y, xStart: t.XStart, yStart: t.YStart,
		multicast: t.Multicast}
}

// elements returns the accesses of some chunks.
func (f *ringFinder) elements(first, count int) (list []element) {
	for n := range count {
		c := &f.chunks[first+n]
		for i := c.first; i < c.end; i++ {
			s := f.steps.at(i)
			list = append(list, f.wholeElements(s, c.chunkKey, n)...)
			if !s.accessesDevice() || f.skipped[i] || f.isExactHost(s) ||
				f.isPolledWhole(i) {
				continue
			}
			elements := s.elementCount()
			if s.op == stepPoll {
				elements = 1
			}
			_, address := f.spaceOf(s)
			for k := range elements {
				e := element{chunkKey: c.chunkKey, address: address + uint64(k)*uint64(s.width),
					line: s.lineOf(k), chunk: n}
				switch s.op {
				case stepPoll:
					e.value = s.value
				case stepStore, stepLoad:
					e.value = f.valueOf(s, k)
				case stepRelocate:
					e.value = f.hostSpaces[s.operand].firstAddress() + s.value
				}
				list = append(list, e)
			}
		}
	}
	return list
}

// storedNumber is a number that the program stored before the repetitions.
type storedNumber struct {
	space   spaceKey
	address uint64
	value   uint64
	width   uint8
	line    int
}

// isAccessed reports whether an access before a step begins at an address, of the kind of e.
func (f *ringFinder) isAccessed(before int, e *element, address uint64) bool {
	for i := range before {
		s := f.steps.at(i)
		if !s.accessesDevice() {
			continue
		}
		at, first := f.spaceOf(s)
		if at == e.space && first == address && s.hasFlag(flagMemory) == e.memory {
			return true
		}
	}
	return false
}

// numbersBefore returns the numbers that may be limits of rings.
func (f *ringFinder) numbersBefore(step int) (list []storedNumber) {
	const countMax = 64 // of a run: longer ones are programs or data
	for i := range step {
		s := f.steps.at(i)
		if s.op != stepStore || s.width < 2 || s.elementCount() > countMax {
			continue
		}
		space, address := f.spaceOf(s)
		for k := range s.elementCount() {
			list = append(list, storedNumber{space, address + uint64(k)*uint64(s.width),
				f.valueOf(s, k), s.width, s.lineOf(k)})
		}
	}
	return list
}

// Ring is a ring that FindFrames found.
type Ring struct {
	Place string `json:"place"` // of its first use, in the form that flags accept
	Uses  string `json:"uses"`  // "addresses" or "values"
	Line  int    `json:"line"`
	Begin uint64 `json:"begin"`
	End   uint64 `json:"end"`
	Step  uint64 `json:"step"` // what a repetition takes
	Why   string `json:"why"`  // what showed begin and end
}

func (r *Ring) String() string {
	return fmt.Sprintf("%s, %s from %#x to %#x, %#x a repetition, from line %d on (%s)", r.Place,
		r.Uses, r.Begin, r.End, r.Step, r.Line, r.Why)
}

// RingSpec is a ring that the user describes.
type RingSpec struct {
	Range             // of its first use
	Begin, End uint64 // addresses, or values
	Unit       uint64 // in which entries go on at Begin; 0: an entry that does not fit starts there
	Parity     uint64 // bit of a value that changes with each lap; 0: none, or shown by a wrap
	EntryBit   int    // the same bit of an entry in host memory, from its first byte; -1: none
}

// ParseRing parses PLACE=BEGIN..END, a unit such as "/0x100", and a bit that changes with each lap
// such as ",31".
func ParseRing(spec string) (r RingSpec, err error) {
	place, limits, ok := cutLast(spec, '=')
	r.EntryBit = -1
	if ok {
		if r.Range, err = ParseRange(place); err != nil {
			return r, err
		}
		var n int
		limits, bit, hasBit := strings.Cut(limits, ",")
		limits, unit, hasUnit := strings.Cut(limits, "/")
		n, err = fmt.Sscanf(limits, "%v..%v", &r.Begin, &r.End)
		ok = n == 2 && err == nil && r.Begin < r.End
		if hasUnit {
			number, isNumber := parseNumber(unit)
			ok = ok && isNumber && number > 0 && (r.End-r.Begin)%number == 0
			r.Unit = number
		}
		if hasBit {
			number, isNumber := parseNumber(bit)
			if r.Bus && ok && isNumber && number < 8*hostEntryMax {
				r.EntryBit = int(number)
			} else {
				ok = ok && isNumber && number < 64 && r.End <= 1<<number
			}
			if number < 64 {
				r.Parity = 1 << number
			}
		}
	}
	if !ok {
		return r, traces.UsageError("--ring %q: write PLACE=BEGIN..END, such as "+
			"bar0+0x1000=0x1000..0x2000, with /UNIT or ,BIT behind it if needed (lm import --help)",
			spec)
	}
	return r, nil
}

func cutLast(text string, at byte) (before, after string, ok bool) {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == at {
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}
