package importer

import (
	"fmt"
	"slices"
)

const unitsMax = 1 << 12 // of an entry: each is a command of the frame

// fitSpec finds the ring of some points, of which the user may have described the units.
func fitSpec(points []ringPoint, s *RingSpec) (r ringFit, reason string) {
	if s != nil && s.Unit != 0 {
		return fitUnits(points, s)
	}
	r, reason = fitRing(points)
	if reason == "" || len(points[0].values) < 2*ringTimesMin {
		return r, reason
	}
	if shown := unitsOf(points); shown.Unit > 0 {
		if u, why := fitUnits(points, shown); why == "" {
			u.how = fmt.Sprintf("starts again in units of %#x", u.unit)
			return u, ""
		}
	}
	return r, reason
}

// unitsOf describes a ring whose units are all in the recording.
func unitsOf(points []ringPoint) *RingSpec {
	var all []uint64
	for _, p := range points {
		all = append(all, p.values...)
	}
	s := &RingSpec{Begin: slices.Min(all)}
	for _, v := range all {
		s.Unit = gcd(s.Unit, v-s.Begin)
	}
	s.End = slices.Max(all) + s.Unit
	return s
}

// fitUnits finds the steps in a ring whose entries go on at its begin where they reach its end, as
// --ring or unitsOf says. Such a ring moves by one unit at a time. The values are begins of units.
func fitUnits(points []ringPoint, s *RingSpec) (r ringFit, reason string) {
	r = ringFit{begin: s.Begin, end: s.End, unit: s.Unit, parity: s.Parity, how: "as --ring says"}
	size, last := s.End-s.Begin, len(points)-1
	for i := range points {
		from, to := points[last].values[0], points[0].values[1]
		if i > 0 {
			from, to = points[i-1].values[0], points[i].values[0]
		}
		times := (to&^s.Parity - from&^s.Parity + size) % size / s.Unit
		switch {
		case times == 0:
			return r, fmt.Sprintf("the number in line %d is the same unit as the one before",
				points[i].lines[0])
		case times > unitsMax:
			return r, fmt.Sprintf("it moves by %d units of --ring before line %d, at most %d are "+
				"possible", times, points[i].lines[0], unitsMax)
		}
		r.steps, r.times = append(r.steps, s.Unit), append(r.times, times)
	}
	back := (r.times[0] - 1) * s.Unit
	r.first = s.Begin + (points[0].values[0]&^s.Parity-s.Begin+size-back)%size
	return r, r.checkUnits(points)
}

// checkUnits compares the ring with the recording, and sets the laps.
func (r *ringFit) checkUnits(points []ringPoint) (reason string) {
	next, lap := r.first, 0
	r.laps = make([][]int, len(points))
	for k := range points[0].values {
		for i := range points {
			for range r.times[i] {
				if next == r.end {
					next, lap = r.begin, lap+1
				}
				next += r.unit
			}
			r.laps[i] = append(r.laps[i], lap)
			recorded, want := points[i].values[k], next-r.unit|points[0].values[0]&r.parity
			if (lap-r.laps[0][0])%2 != 0 {
				want ^= r.parity
			}
			if recorded != want {
				return fmt.Sprintf("line %d has %#x, where a ring from %#x to %#x in units of "+
					"%#x has %#x", points[i].lines[k], recorded, r.begin, r.end, r.unit, want)
			}
		}
	}
	return ""
}

// unitRing makes a ring of a group of blocks, in parts of which each lies in one unit.
func (p *ringPlan) unitRing(blocks []block, group int, s *RingSpec) (reason string) {
	var points []ringPoint
	var parts []unitPart
	for _, b := range blocks {
		for i := b.first; i < b.end && b.group == group; i++ {
			point, reason := p.unitOf(i, s)
			if reason != "" {
				return reason
			}
			n := len(points) - 1
			isNext := n < 0 || !slices.Equal(points[n].values, point.values)
			if isNext {
				points = append(points, point)
			}
			if isNext || i == b.first {
				parts = append(parts, unitPart{first: i, point: len(points) - 1, isNext: isNext})
			}
			parts[len(parts)-1].end = i + 1
		}
	}
	fit, reason := fitUnits(points, s)
	if reason != "" {
		return reason
	}
	p.rings = append(p.rings, newRing(fit, &p.turns[0][parts[0].first], false))
	for _, part := range parts {
		e := &p.turns[0][part.first]
		u := ringUse{number: len(p.rings) - 1, space: e.space, address: e.address,
			size:     uint64(part.end-part.first) * uint64(e.width),
			position: points[part.point].values[0] - s.Begin}
		if part.isNext {
			u.advance, u.times = s.Unit, fit.timesOf(part.point)
		}
		p.uses = append(p.uses, u)
	}
	return ""
}

// unitPart is elements of a block that lie in one unit.
type unitPart struct {
	first, end int
	point      int
	isNext     bool // the ring moves before it
}

// unitOf returns the units in which an element lies, by repetition.
func (p *ringPlan) unitOf(i int, s *RingSpec) (point ringPoint, reason string) {
	from := &p.turns[0][i]
	for _, turn := range p.turns {
		e := &turn[i]
		inside := (e.address - s.Begin) % s.Unit
		if e.address < s.Begin || e.address >= s.End ||
			inside != (from.address-s.Begin)%s.Unit || inside+uint64(e.width) > s.Unit {
			return point, fmt.Sprintf("line %d accesses another place of a unit of --ring than "+
				"line %d", e.line, from.line)
		}
		point.values = append(point.values, e.address-inside)
		point.lines = append(point.lines, e.line)
	}
	return point, ""
}

// specOf returns what the user says of the ring of an element, or nil. That of a value names its
// first byte, since an entry around it may have a ring of its own.
func (f *ringFinder) specOf(e *element, isValue bool) *RingSpec {
	place, address := placeOf(e).withDefaultBar(f.options.Bar), e.address
	if !isValue {
		address -= e.lead
	}
	for i := range f.options.Rings {
		s := &f.options.Rings[i]
		if s.Place.withDefaultBar(f.options.Bar) == place && s.First <= address &&
			address <= s.Last && (!isValue || s.First == s.Last) {
			return s
		}
	}
	return nil
}

// follows reports whether an access is the next access of the same entry.
func (f *ringFinder) follows(before, e *element) bool {
	next := before.address + uint64(before.width)
	if s := f.specOf(before, false); s != nil && s.Unit != 0 && next == s.End {
		next = s.Begin
	}
	return e.address == next
}

// isSplit reports whether an entry goes on at the begin of its ring in a repetition, whose data are
// then no tensor.
func (f *ringFinder) isSplit(start, period int) bool {
	if !slices.ContainsFunc(f.options.Rings, func(s RingSpec) bool { return s.Unit != 0 }) {
		return false
	}
	list := f.elements(start, period)
	for i := 1; i < len(list); i++ {
		a, b := &list[i-1], &list[i]
		if a.chunk == b.chunk && b.address < a.address && f.follows(a, b) {
			return true
		}
	}
	return false
}
