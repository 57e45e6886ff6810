package metal

import "slices"

// align is what buffers and pages in DRAM are aligned to: Blackhole's network
// reads DRAM so that source and destination are equal modulo 64.
const align = 64

// span is the bytes first..end-1.
type span struct{ first, end uint64 }

// allocator hands out one range of addresses, which is the same in every bank:
// a buffer takes as much of each bank as of the one it needs most of.
type allocator struct {
	name  string
	limit span
	taken []span // in order
}

// gaps are the free spans in order.
func (a *allocator) gaps() (list []span) {
	at := a.limit.first
	for _, t := range a.taken {
		if t.first > at {
			list = append(list, span{at, t.first})
		}
		at = t.end
	}
	if at < a.limit.end {
		list = append(list, span{at, a.limit.end})
	}
	return list
}

// take finds room, lowest addresses first or highest.
func (a *allocator) take(size uint64, bottomUp bool) uint64 {
	size = roundUp(size, align)
	gaps := a.gaps()
	if !bottomUp {
		slices.Reverse(gaps)
	}
	largest := uint64(0)
	for _, g := range gaps {
		room := g.end - g.first
		largest = max(largest, room)
		if room < size {
			continue
		}
		first := g.first
		if !bottomUp {
			first = (g.end - size) &^ (align - 1)
		}
		a.insert(span{first, first + size})
		return first
	}
	refuse("%s has no room for %d bytes a bank; the largest gap has %d", a.name, size, largest)
	return 0
}

// takeAt takes a fixed address.
func (a *allocator) takeAt(address, size uint64) {
	want := span{address, address + roundUp(size, align)}
	switch {
	case address%align != 0:
		refuse("address %#x is not a multiple of %d", address, align)
	case want.first < a.limit.first || want.end > a.limit.end || want.end < want.first:
		refuse("%#x..%#x is not inside %s for buffers, %#x..%#x", want.first, want.end, a.name,
			a.limit.first, a.limit.end)
	}
	for _, t := range a.taken {
		if want.first < t.end && t.first < want.end {
			refuse("%#x..%#x in %s overlaps a buffer at %#x..%#x", want.first, want.end, a.name,
				t.first, t.end)
		}
	}
	a.insert(want)
}

func (a *allocator) insert(s span) {
	at := slices.IndexFunc(a.taken, func(t span) bool { return t.first > s.first })
	if at < 0 {
		at = len(a.taken)
	}
	a.taken = slices.Insert(a.taken, at, s)
}

func (a *allocator) release(address uint64) {
	a.taken = slices.DeleteFunc(a.taken, func(t span) bool { return t.first == address })
}

// lowest is the first address a buffer has, the end where there is none.
func (a *allocator) lowest() uint64 {
	if len(a.taken) == 0 {
		return a.limit.end
	}
	return a.taken[0].first
}

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }
