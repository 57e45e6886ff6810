package report

import (
	"cmp"
	"slices"
)

const (
	// rangesKeptMax is the largest number of ranges of one space while commands are counted.
	rangesKeptMax = 8192

	// rangesReportedMax is the largest number of ranges of one space in a report.
	rangesReportedMax = 128
)

// Range is a contiguous range of addresses that commands access.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// name of the memory or register at this range; empty: unknown
	Area string `json:"area,omitempty"`
	Traffic
}

// Bytes returns the size of the range.
func (r *Range) Bytes() uint64 { return r.Last - r.First + 1 }

// rangeSet collects ranges in any order. Their number is limited: compact merges the ranges with
// the smallest gaps between them.
type rangeSet struct {
	list       []Range
	lastAdded  int // index of the range to which an access was last added
	mergedGaps int // number of gaps that compact has counted as accessed
}

func (s *rangeSet) add(first, last uint64, t Traffic) {
	if s.lastAdded < len(s.list) {
		// Most commands access the addresses after those of the previous command.
		if r := &s.list[s.lastAdded]; touches(r, first, last) {
			r.First, r.Last = min(r.First, first), max(r.Last, last)
			r.Traffic.add(t, 1)
			return
		}
	}
	if len(s.list) >= rangesKeptMax {
		s.compact(rangesKeptMax / 2)
	}
	s.lastAdded = len(s.list)
	s.list = append(s.list, Range{First: first, Last: last, Traffic: t})
}

// touches reports whether a range and the addresses first to last overlap or are adjacent.
// Addresses are far below 2^64: a window has at most 4 GiB, and Point addresses are multiples of
// its size.
func touches(r *Range, first, last uint64) bool {
	return (first == 0 || first-1 <= r.Last) && (r.First == 0 || r.First-1 <= last)
}

// compact sorts the ranges, merges those that overlap or are adjacent, and then merges those with
// the smallest gaps between them until at most count ranges are left.
func (s *rangeSet) compact(count int) {
	slices.SortFunc(s.list, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	s.mergeWithin(0)
	if len(s.list) > count {
		gaps := make([]uint64, 0, len(s.list)-1)
		for i := range s.list[1:] {
			gaps = append(gaps, s.list[i+1].First-s.list[i].Last)
		}
		slices.Sort(gaps)
		before := len(s.list)
		s.mergeWithin(gaps[before-count-1])
		s.mergedGaps += before - len(s.list)
	}
	s.lastAdded = len(s.list)
}

// mergeWithin merges neighbours whose distance is at most gap. Ranges that overlap or are adjacent
// are always merged.
func (s *rangeSet) mergeWithin(gap uint64) {
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
