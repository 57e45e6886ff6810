package together

import (
	"cmp"
	"slices"
)

// span is a range of bytes in a space that a command accesses.
type span struct {
	first, last uint64
	command     int // index in the image
	order       int // position of the command in the run
}

// earliest turns spans into disjoint spans, sorted by address: each byte belongs to the span with
// the lowest order.
func earliest(list []span) (done []span) {
	if disjoint(list) {
		return list
	}
	list = slices.SortedStableFunc(slices.Values(list),
		func(a, b span) int { return cmp.Compare(a.order, b.order) })
	edges := make([]uint64, 0, 2*len(list))
	for _, s := range list {
		edges = append(edges, s.first, s.last+1)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	// For each edge: the span that owns the bytes from it to the next edge, and the distance to an
	// edge without an owner
	owner, next := make([]*span, len(edges)), make([]int, len(edges))
	for i := range list {
		at, _ := slices.BinarySearch(edges, list[i].first)
		for at = nextFree(next, at); edges[at] <= list[i].last; at = nextFree(next, at) {
			owner[at], next[at] = &list[i], 1
		}
	}
	for i, s := range owner {
		if n := len(done); s != nil && n > 0 && done[n-1].command == s.command &&
			done[n-1].last+1 == edges[i] {
			done[n-1].last = edges[i+1] - 1
		} else if s != nil {
			done = append(done, span{edges[i], edges[i+1] - 1, s.command, s.order})
		}
	}
	return done
}

// disjoint reports whether spans are sorted by address and do not overlap.
func disjoint(list []span) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1].last >= list[i].first {
			return false
		}
	}
	return true
}

// nextFree returns the first edge without an owner from an edge on, and shortens the path to it in
// `next`.
func nextFree(next []int, from int) int {
	at := from
	for next[at] > 0 {
		at += next[at]
	}
	for step := from; step < at; {
		step, next[step] = step+next[step], at-step
	}
	return at
}

// without returns the parts of spans that other spans do not replace. Both lists are disjoint and
// sorted by address.
func without(list, others []span, replaces func(s, other *span) bool) (left []span) {
	for _, s := range list {
		for len(others) > 0 && others[0].last < s.first {
			others = others[1:]
		}
		for i := 0; i < len(others) && others[i].first <= s.last && s.first <= s.last; i++ {
			o := &others[i]
			if !replaces(&s, o) {
				continue
			}
			if o.first > s.first {
				left = append(left, span{s.first, o.first - 1, s.command, s.order})
			}
			s.first = o.last + 1
		}
		if s.first <= s.last {
			left = append(left, s)
		}
	}
	return left
}

// overlap returns the first pair of overlapping spans, and the number of bytes in which all pairs
// overlap. It calls `each` for every pair. Both lists are disjoint and sorted by address.
func overlap(a, b []span, each func(a, b *span)) (first [2]span, bytes uint64) {
	for len(a) > 0 && len(b) > 0 {
		if low, high := max(a[0].first, b[0].first), min(a[0].last, b[0].last); low <= high {
			if bytes == 0 {
				first = [2]span{a[0], b[0]}
			}
			bytes += high - low + 1
			each(&a[0], &b[0])
		}
		if a[0].last < b[0].last {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return first, bytes
}
