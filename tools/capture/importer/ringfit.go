package importer

import (
	"fmt"
	"math/bits"
	"slices"
)

// ringPoint is one use of a moving number in each repetition: a value, or the address of an entry.
type ringPoint struct {
	values []uint64 // by repetition
	lines  []int
}

// ringFit is the ring that explains the numbers of some points, which a repetition uses in order.
type ringFit struct {
	begin, end, first uint64
	steps             []uint64 // by point: what the entry takes
	unit              uint64   // in which the ring moves; 0: no entry continues at the begin
	times             []uint64 // with a unit: by point, how often the ring moves before
	laps              [][]int  // by point and repetition
	parity            uint64   // bit that changes with each lap; 0: none
	how               string   // what showed begin and end
	// Without a recorded end: each end from lowest to highest agrees with the recording
	lowest, highest uint64
	hasWrap         bool
	wrapLine        int
}

// fitRing finds the ring of some points. It returns the reason why there is none.
func fitRing(points []ringPoint) (r ringFit, reason string) {
	for _, parity := range parityCandidates(points) {
		tried := ringFit{parity: parity}
		why := tried.fit(points)
		if why == "" {
			return tried, ""
		}
		if reason == "" {
			reason = why
		}
	}
	return r, reason
}

// parityCandidates returns 0, then the bits that differ between the values of points, from the top.
func parityCandidates(points []ringPoint) []uint64 {
	differ := uint64(0)
	for _, p := range points {
		for _, v := range p.values {
			differ |= v ^ points[0].values[0]
		}
	}
	list := []uint64{0}
	for b := bits.Len64(differ) - 1; b >= 0; b-- {
		if differ>>b&1 == 1 {
			list = append(list, 1<<b)
		}
	}
	return list
}

// fit finds steps, begin, and the limits of the end.
func (r *ringFit) fit(points []ringPoint) (reason string) {
	times, count := len(points[0].values), len(points)
	r.steps = make([]uint64, count)
	type wrap struct{ from, to uint64 }
	var wraps []wrap
	var wrapPoints []int
	low := ^uint64(0)
	for k := range times {
		for i := range points {
			value := points[i].values[k] &^ r.parity
			low = min(low, value)
			j, later := (i+1)%count, k+(i+1)/count
			if later == times {
				continue
			}
			next := points[j].values[later] &^ r.parity
			flips := (points[i].values[k]^points[j].values[later])&r.parity != 0
			switch {
			case r.parity != 0 && flips != (next <= value):
				return "a bit changes, but not with each lap"
			case next <= value:
				wraps, wrapPoints = append(wraps, wrap{value, next}), append(wrapPoints, i)
				if !r.hasWrap {
					r.hasWrap, r.wrapLine = true, points[j].lines[later]
				}
			case r.steps[i] == 0:
				r.steps[i] = next - value
			case r.steps[i] != next-value:
				return fmt.Sprintf("the numbers rise by %#x and by %#x (line %d)", r.steps[i],
					next-value, points[j].lines[later])
			}
		}
	}
	if i := slices.Index(r.steps, 0); i >= 0 {
		return fmt.Sprintf("the number in line %d never rises to the next one", points[i].lines[0])
	}
	r.first, r.begin, r.highest = points[0].values[0]&^r.parity, low, ^uint64(0)
	for n, w := range wraps {
		i := wrapPoints[n]
		if w.to != wraps[0].to {
			return fmt.Sprintf("it starts again at %#x and at %#x", wraps[0].to, w.to)
		}
		r.begin = w.to
		r.highest = min(r.highest, w.from+r.steps[i]+r.steps[(i+1)%count]-1)
	}
	return r.limit(points, len(wraps))
}

// limit finds where the ring ends at least, after fit has found where it ends at most.
func (r *ringFit) limit(points []ringPoint, wraps int) (reason string) {
	for k := range points[0].values {
		for i := range points {
			if value := points[i].values[k] &^ r.parity; value >= r.begin {
				r.lowest = max(r.lowest, value+r.steps[i])
				continue
			}
			return fmt.Sprintf("%#x in line %d lies before %#x, where it starts again",
				points[i].values[k], points[i].lines[k], r.begin)
		}
	}
	if r.lowest > r.highest {
		return fmt.Sprintf("it starts again at %#x although the next entry would fit", r.begin)
	}
	if r.parity != 0 && wraps < 2 && r.parity < 16*r.lowest {
		return "it starts again only once, too little to tell a bit of laps from a number"
	}
	r.end = r.lowest
	if r.hasWrap {
		r.how = fmt.Sprintf("starts again in line %d", r.wrapLine)
	}
	return r.check(points)
}

// check compares the ring with the recording, and sets the laps.
func (r *ringFit) check(points []ringPoint) (reason string) {
	at, lap := r.first, 0
	r.laps = make([][]int, len(points))
	for k := range points[0].values {
		for i := range points {
			if at+r.steps[i] > r.end {
				at, lap = r.begin, lap+1
			}
			if recorded := points[i].values[k] &^ r.parity; recorded != at {
				return fmt.Sprintf("line %d has %#x, where a ring from %#x to %#x has %#x",
					points[i].lines[k], recorded, r.begin, r.end, at)
			}
			r.laps[i] = append(r.laps[i], lap)
			at += r.steps[i]
		}
	}
	return ""
}

// isCertain reports whether the lowest and the highest end that agree with the recording lead to
// the same numbers in 2^14 repetitions.
func (r *ringFit) isCertain() bool {
	if !r.hasWrap {
		return false
	}
	const runs = 1 << 14
	at := [2]uint64{r.first, r.first}
	for range runs {
		for _, step := range r.steps {
			for i, end := range []uint64{r.lowest, r.highest} {
				if at[i]+step > end {
					at[i] = r.begin
				}
			}
			if at[0] != at[1] {
				return false
			}
			at[0], at[1] = at[0]+step, at[1]+step
		}
	}
	return true
}

// total is what a repetition takes, without what a wrap leaves over.
func (r *ringFit) total() (sum uint64) {
	for i, s := range r.steps {
		sum += s * r.timesOf(i)
	}
	return sum
}

// timesOf returns how often the ring moves for a point.
func (r *ringFit) timesOf(point int) uint64 {
	if r.unit == 0 {
		return 1
	}
	return r.times[point]
}
