package report

import (
	"cmp"
	"slices"
)

const (
	// rangesHeld bounds the ranges of one space while commands are counted.
	rangesHeld = 8192

	// rangesShown bounds them in a report.
	rangesShown = 128
)

// Range is a run of bytes that commands touch.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Area  string `json:"area,omitempty"` // what the board has there, where it is one thing
	Traffic
}

// Bytes is the size of the range.
func (r *Range) Bytes() uint64 { return r.Last - r.First + 1 }

// rangeSet collects ranges in any order. It holds a bounded number: beyond
// that the smallest gaps between them close.
type rangeSet struct {
	list   []Range
	at     int // the range that was last added to
	closed int // gaps that closed
}

func (s *rangeSet) add(first, last uint64, t Traffic) {
	if s.at < len(s.list) {
		// Commands walk upwards more often than not.
		if r := &s.list[s.at]; touches(r, first, last) {
			r.First, r.Last = min(r.First, first), max(r.Last, last)
			r.Traffic.add(t, 1)
			return
		}
	}
	if len(s.list) >= rangesHeld {
		s.compact(rangesHeld / 2)
	}
	s.at = len(s.list)
	s.list = append(s.list, Range{First: first, Last: last, Traffic: t})
}

// touches reports whether a range and first..last overlap or follow each other.
// Addresses end well before 2^64: a window has at most 4 GiB, and Point
// addresses are multiples of its size.
func touches(r *Range, first, last uint64) bool {
	return (first == 0 || first-1 <= r.Last) && (r.First == 0 || r.First-1 <= last)
}

// compact sorts the ranges, joins those that touch, and then closes the
// smallest gaps until no more than count are left.
func (s *rangeSet) compact(count int) {
	slices.SortFunc(s.list, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	s.join(0)
	if len(s.list) > count {
		gaps := make([]uint64, 0, len(s.list)-1)
		for i := range s.list[1:] {
			gaps = append(gaps, s.list[i+1].First-s.list[i].Last)
		}
		slices.Sort(gaps)
		before := len(s.list)
		s.join(gaps[before-count-1])
		s.closed += before - len(s.list)
	}
	s.at = len(s.list)
}

// join makes one range of neighbours whose distance is at most gap; ranges
// that touch have a distance of 0 or 1.
func (s *rangeSet) join(gap uint64) {
	if len(s.list) == 0 {
		return
	}
	joined := s.list[:1]
	for _, r := range s.list[1:] {
		p := &joined[len(joined)-1]
		if touches(p, r.First, r.Last) || r.First-p.Last <= gap {
			p.Last = max(p.Last, r.Last)
			p.Traffic.add(r.Traffic, 1)
			continue
		}
		joined = append(joined, r)
	}
	s.list = joined
}
