package importer

import (
	"fmt"
	"math/bits"
	"slices"

	"lightmetal/tools/capture/importer/runs"
)

// examineMultiples examines a run in which a repetition may be several periods: a program that
// writes and reads in turn stores the same doorbells for both. Of several starts, it prefers one
// whose repetitions end with a result.
func (f *ringFinder) examineMultiples(r runs.Run, at int) (c *Candidate, reason string) {
	n := 1
	if f.hasExactHost() && f.work < hostWorkMax {
		n = hostMultiples
	}
	for m := 1; m <= n; m++ {
		longer := r
		longer.Period *= m
		found, why := f.examineEnds(longer, at)
		if found != nil && why == "" {
			if q := found.cycle; q > 1 && m*q <= n {
				longer.Period *= q
				if whole, why := f.examineEnds(longer, at); whole != nil && why == "" {
					found = whole
				}
			}
			for k := 1; k < longer.Period/r.Period && !found.endsWithResult(); k++ {
				later, why := f.examineEnds(longer, at+k*r.Period)
				if later != nil && why == "" && later.endsWithResult() {
					found = later
				}
			}
			return found, ""
		}
		if c == nil && reason == "" || f.isDecided {
			c, reason = found, why
		}
		if f.isDecided {
			break
		}
	}
	return c, reason
}

func (c *Candidate) endsWithResult() bool {
	return len(c.Varies) > 0 && c.Varies[len(c.Varies)-1].Role == "output"
}

// examineEnds examines a run, and then without its last repetition, its first, and both: these may
// store the same doorbells for other work, such as a flush at the end.
func (f *ringFinder) examineEnds(r runs.Run, at int) (c *Candidate, reason string) {
	for _, without := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}} {
		shorter := r
		shorter.Length -= without[1] * r.Period
		f.isDecided = false
		found, why := f.examineFrom(shorter, at+without[0]*r.Period)
		if c == nil && reason == "" || found != nil && why == "" || f.isDecided {
			c, reason = found, why
		}
		f.work += f.accesses(shorter) + f.steps.count
		if why == "" || f.isDecided || !f.hasExactHost() || f.work >= hostWorkMax {
			break
		}
	}
	return c, reason
}

// hostValues explains values in host memory: pointers, laps of a ring of entries, and numbers that
// the device returns.
func (p *ringPlan) hostValues(blocks []block, explained []bool) (reason string) {
	if p.host == nil {
		return ""
	}
	p.explainPointers(explained)
	if reason := p.explainLaps(blocks, explained); reason != "" {
		return reason
	}
	p.explainEchoes(explained)
	if p.findAlike(explained) {
		return "repetitions at the ends do other work"
	}
	for i := range explained {
		e := &p.turns[0][i]
		switch {
		case e.part == nil || explained[i]:
		case e.op == stepLoad && e.width == 2:
			reason := p.valueRing(i, explained)
			if reason != "" && (p.finder.isDecided || isCounting(p.column(i))) {
				return reason // other values are results
			}
		case e.op == stepStore && e.part.isFixed() && isCounting(p.column(i)):
			if reason := p.valueRing(i, explained); reason != "" {
				return reason
			}
		case e.op == stepStore && e.width == 2:
			for _, k := range []int{i - 1, i + 1} { // half of a field of 4 bytes
				if k >= 0 && k < len(explained) && p.turns[0][k].part == e.part &&
					p.turns[0][k].address == e.address^2 && !p.differs(k) {
					explained[k] = false
				}
			}
		}
	}
	if reason := p.checkAddresses(explained); reason != "" {
		return reason
	}
	p.findCycle(explained)
	return p.addWaits()
}

// checkWriters returns a reason if nothing shows who changed a part in its repetition, or if the
// repetitions wait for nothing.
func (p *ringPlan) checkWriters() (reason string) {
	isWait := slices.ContainsFunc(p.turns[0], func(e element) bool {
		return e.op == stepPoll || e.part != nil && e.part.wrote
	})
	p.finder.isDecided = true
	for _, u := range p.finder.searchUndecided {
		text := fmt.Sprintf("%s0x%x-0x%x", u.flagText(), u.First, u.Last)
		for k, turn := range p.turns {
			isInside := u.line >= turn[0].line &&
				(k+1 == len(p.turns) || u.line < p.turns[k+1][0].line)
			inPart := slices.ContainsFunc(p.host.list, func(o hostPart) bool {
				return u.First < o.bases[k]+o.end-o.first && o.bases[k] <= u.Last
			})
			if isInside && (inPart || !isWait) {
				return fmt.Sprintf("line %d: the recording does not show who wrote the bytes at "+
					"%s; --ignore %[2]s leaves them to the device; or record with %s", u.line,
					text, recordFlagsHint)
			}
		}
	}
	if !isWait {
		return fmt.Sprintf("line %d: the repetitions wait for nothing: the recording shows no "+
			"write by the device to host memory; record with %s, or with lm serve",
			p.turns[0][0].line, recordFlagsHint)
	}
	p.finder.isDecided = false
	return ""
}

// checkAddresses returns a reason if what would become an input has an address of host memory.
func (p *ringPlan) checkAddresses(explained []bool) (reason string) {
	for i := range explained {
		e := &p.turns[0][i]
		if explained[i] || e.part == nil || e.op != stepStore {
			continue
		}
		at := e.address&^7 - e.part.first
		if e.address&^7 < e.part.first || at+8 > e.part.end-e.part.first {
			continue
		}
		for k, v := range e.part.column(at, 8) {
			if p.isAddress(v) {
				return fmt.Sprintf("line %d, bus:0x%x: the program stores addresses of host "+
					"memory there, but not in each repetition", p.turns[k][i].line,
					p.turns[k][i].address&^7)
			}
		}
	}
	return ""
}

// isSamePlace reports whether two accesses are of one place, or of the same bytes of the entries of
// one ring in host memory.
func (e *element) isSamePlace(o *element) bool {
	if e.part != nil && o.part != nil && e.part.isEntry && o.part.isEntry {
		return e.part.ring == o.part.ring &&
			e.address-e.part.first+e.lead == o.address-o.part.first+o.lead
	}
	return e.space == o.space && e.address == o.address
}

// findCycle finds after how many repetitions fields of entries start again, such as the opcodes of
// commands that the program stores in turn.
func (p *ringPlan) findCycle(explained []bool) {
	for i := range explained {
		e := &p.turns[0][i]
		if explained[i] || !p.differs(i) || e.part == nil || !e.part.isEntry || e.op != stepStore {
			continue
		}
		list := p.column(i)
		for q := 2; q <= hostMultiples && ringTimesMin*q <= len(list); q++ {
			if slices.Equal(list[q:], list[:len(list)-q]) {
				p.cycle = max(p.cycle, q)
				break
			}
		}
	}
}

// findAlike finds the repetitions without those at the ends that do other work: a field of an
// entry, such as the opcode of a command, is the same in all of them.
func (p *ringPlan) findAlike(explained []bool) (found bool) {
	for i := range explained {
		e := &p.turns[0][i]
		if explained[i] || e.part == nil || !e.part.isEntry || e.op != stepStore {
			continue
		}
		list := p.column(i)
		most := list[len(list)/2]
		first, end := slices.Index(list, most), len(list)
		for list[end-1] != most {
			end--
		}
		isAlike := func(k int) bool {
			return explained[k] || isConstant(p.column(k)[first:end])
		}
		other := min(i+1, len(explained)-1) // half of a field of 4 bytes
		if e.address&2 != 0 {
			other = i - 1
		}
		if 4*(end-first) >= 3*len(list) && isAlike(i) && isAlike(other) {
			p.alike = [2]int{first, end}
			return true
		}
	}
	return false
}

// isFixed reports whether a part is at the same place in each repetition.
func (p *hostPart) isFixed() bool { return !p.isEntry && p.bases[0] == p.bases[len(p.bases)-1] }

// setSingle makes an own access of the 2 bytes at an address.
func (p *hostPart) setSingle(at uint64) {
	if p == nil {
		return
	}
	if p.single == nil {
		p.single = map[uint64]bool{}
	}
	p.single[at] = true
}

// isCounting reports whether numbers mostly rise by the same step, or always do so in a circle.
func isCounting(list []uint64) bool {
	if s := unitsOf([]ringPoint{{values: list}}); s.End-s.Begin > 2*s.Unit {
		size, step := s.End-s.Begin, func(i int) uint64 { return list[i+1] - list[i] }
		circle := true
		for i := range list[1:] {
			circle = circle && (step(i)+size)%size == (step(0)+size)%size
		}
		if circle {
			return true
		}
	}
	counts := map[uint64]int{}
	for i := range list[1:] {
		counts[list[i+1]-list[i]]++
	}
	for step, n := range counts {
		if step != 0 && int64(step) > 0 && 4*n >= 3*(len(list)-1) {
			return true
		}
	}
	return false
}

// explainPointers explains the pointers that move: each run uses that of the first repetition.
func (p *ringPlan) explainPointers(explained []bool) {
	moves := func(column []uint64) bool {
		return slices.ContainsFunc(p.host.pointers, func(o []uint64) bool {
			return slices.Equal(o, column)
		})
	}
	for i := range explained {
		e := &p.turns[0][i]
		if e.op == stepRelocate && moves(p.column(i)) {
			explained[i] = true
		}
		if e.part == nil || e.part.wrote || e.address%8 != 0 {
			continue
		}
		at := e.address - e.part.first
		if at+8 <= e.part.end-e.part.first && moves(e.part.column(at, 8)) {
			for k := i; k < i+8/int(e.width); k++ {
				explained[k] = true
			}
		}
	}
}

// explainLaps explains the bit that changes with each lap in the entries that the device writes.
func (p *ringPlan) explainLaps(blocks []block, explained []bool) (reason string) {
	for b := range blocks {
		first := &p.turns[0][blocks[b].first]
		if !blocks[b].moves || first.part == nil || !first.part.wrote {
			continue
		}
		r, laps := &p.rings[blocks[b].group], p.rings[blocks[b].group].laps[blocks[b].entry]
		for i := blocks[b].first; i < blocks[b].end; i++ {
			e := &p.turns[0][i]
			from := 8 * int(e.address-e.part.first+e.lead)
			bit, ok := p.lapBit(i, laps)
			if n := r.entryBit - 1; n >= from && n < from+16 {
				if given := uint64(1) << (n - from); bit|given != given {
					return fmt.Sprintf("line %d, bus:0x%x: bit %d of the entry does not change "+
						"with each lap, as --ring says", e.line, e.address, n)
				} else if bit, ok = given, true; p.differs(i) && bit == 0 {
					ok = false
				}
			}
			if !ok || bit == 0 {
				continue
			}
			r.entryBit = from + bits.TrailingZeros64(bit) + 1
			for range 2 { // the poll and the comparison
				p.uses = append(p.uses, ringUse{number: blocks[b].group, isValue: true, shift: 63,
					parity: bit, space: e.space, address: e.address, size: uint64(e.width),
					flipped: laps[0]%2 == 1})
			}
			explained[i] = true
			e.part.setSingle(e.address)
			e.part.polls = append(e.part.polls, hostPoll{e.address, bit})
		}
	}
	return ""
}

// lapBit returns the bit of an element that changes with each lap. ok is false if its values differ
// in anything else.
func (p *ringPlan) lapBit(i int, laps []int) (bit uint64, ok bool) {
	column := p.column(i)
	for k, v := range column {
		if (laps[k]^laps[0])&1 == 1 {
			bit |= v ^ column[0]
		}
	}
	for k, v := range column {
		want := column[0]
		if (laps[k]^laps[0])&1 == 1 {
			want ^= bit
		}
		if v != want {
			return 0, false
		}
	}
	return bit, bits.OnesCount64(bit) == 1
}

// explainEchoes finds numbers in entries of the program that come back in entries of the device in
// the same repetition, such as command identifiers. Each run uses those of the first repetition.
func (p *ringPlan) explainEchoes(explained []bool) {
	returned := map[int]bool{}
	for i := range explained {
		a := &p.turns[0][i]
		if explained[i] || a.part == nil || !a.part.isEntry || a.op != stepStore {
			continue
		}
		for k := i + 1; k < len(explained); k++ {
			b := &p.turns[0][k]
			if (!explained[k] || returned[k]) && b.part != nil && b.part.isEntry &&
				b.op == stepLoad && slices.Equal(p.column(i), p.column(k)) {
				explained[i], explained[k], returned[k] = true, true, true
				p.notes = append(p.notes, fmt.Sprintf("line %d: the device returns the number of "+
					"line %d, so each run uses the first one", b.line, a.line))
			}
		}
	}
}

// addWaits lets the frame wait for what the device writes: for a bit of a lap, a number that
// counts, or what is the same in each repetition.
func (p *ringPlan) addWaits() (reason string) {
	for g := range p.host.period + 1 {
		var list []*hostPart
		waits := false
		for i := range p.host.list {
			if o := &p.host.list[i]; o.gap == g && o.wrote {
				list = append(list, o)
				waits = waits || len(o.polls) > 0
			}
		}
		for _, o := range list {
			for i := range p.turns[0] {
				e := &p.turns[0][i]
				isNumber := o.single[e.address] && !o.isEntry
				if e.part == o && !waits && isNumber {
					o.polls = append(o.polls, hostPoll{e.address, 0xffff})
				}
			}
		}
		waits = slices.ContainsFunc(list, func(o *hostPart) bool { return len(o.polls) > 0 })
		for _, o := range slices.Backward(list) {
			if at := o.lastConstant(); !waits && at != 0 {
				if o.isEntry && !p.host.isRewritten(o) {
					p.finder.isDecided = true
					return fmt.Sprintf("line %d, bus:0x%x: no bit of the entries changes with the "+
						"lap in the recording; record more repetitions, or add "+
						"--ring bus:0x%x=BEGIN..END,BIT", o.line, o.first, o.first-o.lead)
				}
				o.polls, waits = append(o.polls, hostPoll{at, 0xffff}), true
			}
		}
		if len(list) > 0 && !waits && !p.isWaitBefore(g) {
			return fmt.Sprintf("line %d, bus:0x%x: the program waits only for data that differ: a "+
				"replay could not detect when they are complete", list[0].line, list[0].first)
		}
	}
	return ""
}

// isRewritten reports whether the program stores to the entry of a part.
func (h *hostTurns) isRewritten(o *hostPart) bool {
	return slices.ContainsFunc(h.list, func(p hostPart) bool {
		return !p.wrote && p.isEntry && p.first <= o.first && o.end <= p.end
	})
}

// lastConstant returns the address of the last 2 bytes of a small part that are the same in each
// repetition and are not zero, or 0.
func (p *hostPart) lastConstant() uint64 {
	if p.end-p.first > hostSmallMax {
		return 0
	}
	for at := p.end - p.first - 2; at < p.end; at -= 2 {
		column := p.column(at, 2)
		if column[0] != 0 && slices.Max(column) == slices.Min(column) {
			return p.first + at
		}
	}
	return 0
}

// isWaitBefore reports whether the access before a gap is a load or poll of the device.
func (p *ringPlan) isWaitBefore(gap int) bool {
	for i := range p.turns[0] {
		if e := &p.turns[0][i]; e.part == nil && e.chunk == gap-1 && e.op != stepStore &&
			e.op != stepRelocate {
			return true
		}
	}
	return false
}

// stopLine returns the first line that belongs to the sequence stop; 0: none does. What uses rings
// in host memory after the repetitions is left out, because the rings are then at other places.
func (p *ringPlan) stopLine(next int, c *Candidate) int {
	f, first := p.finder, p.finder.hostStart(next)
	last := -1
	for i := first; i < f.steps.count && p.host != nil; i++ {
		if p.usesRing(i) {
			last = i
		}
	}
	if last < 0 {
		return int(f.steps.at(first).line)
	}
	c.Notes = append(c.Notes, fmt.Sprintf("lines %d to %d use the rings behind the repetitions, "+
		"and are left out", f.steps.at(first).line, f.steps.at(last).line))
	for at := next; at < len(f.chunks); at++ {
		if f.chunks[at].first > last {
			return int(f.steps.at(f.chunks[at].first).line)
		}
	}
	return 0
}

func (p *ringPlan) usesRing(i int) (uses bool) {
	f, s := p.finder, p.finder.steps.at(i)
	isIn := func(space spaceKey, first, end uint64) bool {
		return slices.ContainsFunc(p.rings, func(r plannedRing) bool {
			ring := reach{r.begin, r.end}
			if r.isValue {
				ring = reach{r.address, r.address + 1}
			}
			return r.space == space && first < ring.end && ring.first < end
		})
	}
	f.eachHostChange(i, func(_ int, at uint64, data []byte) {
		uses = uses || isIn(hostSpaceKey, at, at+uint64(len(data)))
	})
	if s.accessesDevice() && !f.isExactHost(s) {
		space, at := f.spaceOf(s)
		uses = isIn(space, at, at+s.size())
	}
	return uses
}

// isEntryAgain reports whether block i is in the same entry as others before it, such as what the
// device writes to an entry that the program has stored.
func (p *ringPlan) isEntryAgain(blocks []block, before []int, i int) bool {
	a, b := blocks[before[0]].first, blocks[i].first
	return !slices.ContainsFunc(p.turns, func(turn []element) bool {
		return turn[a].address-turn[a].lead != turn[b].address-turn[b].lead
	})
}

// finishInside notes as done what lies inside a use, such as what the device writes to an entry of
// the program.
func (w *ringWriter) finishInside(use int) {
	u := &w.options.moves[use]
	for i := range w.options.moves {
		o := &w.options.moves[i]
		if !o.isValue && o.ring == u.ring && o.space == u.space && o.advance == 0 &&
			o.address >= u.address && o.address+o.size <= u.address+u.size {
			w.done[i] = true
		}
	}
}
