package metal

import "slices"

// align is the alignment of buffers, and of pages in DRAM. If Blackhole's network reads from DRAM,
// the source and destination addresses must be equal modulo 64.
const align = 64

// span is the range of bytes from first to end-1.
type span struct{ first, end uint64 }

// allocator allocates ranges of addresses that are the same in all banks of a memory. A buffer
// therefore has the same size in each bank: the size in the bank where it needs most.
type allocator struct {
	name  string
	limit span   // addresses that may be allocated
	taken []span // allocated ranges, in ascending order
}

// gaps returns the free ranges in ascending order.
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

// take allocates size bytes and returns their address. It searches from the lowest address up if
// bottomUp is true, and otherwise from the highest address down.
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
	refuse("%s has no room for %d bytes per bank; the largest free range has %d bytes", a.name,
		size, largest)
	return 0
}

// takeAt allocates size bytes at a fixed address.
func (a *allocator) takeAt(address, size uint64) {
	want := span{address, address + roundUp(size, align)}
	switch {
	case address%align != 0:
		refuse("address %#x must be a multiple of %d", address, align)
	case want.first < a.limit.first || want.end > a.limit.end || want.end < want.first:
		refuse("the range %#x..%#x is outside the part of %s for buffers, %#x..%#x", want.first,
			want.end, a.name, a.limit.first, a.limit.end)
	}
	for _, t := range a.taken {
		if want.first < t.end && t.first < want.end {
			refuse("the range %#x..%#x in %s overlaps a buffer at %#x..%#x", want.first, want.end,
				a.name,
				t.first, t.end)
		}
	}
	a.insert(want)
}

// insert keeps the allocated ranges in ascending order.
func (a *allocator) insert(s span) {
	at := slices.IndexFunc(a.taken, func(t span) bool { return t.first > s.first })
	if at < 0 {
		at = len(a.taken)
	}
	a.taken = slices.Insert(a.taken, at, s)
}

// release frees the range that begins at an address.
func (a *allocator) release(address uint64) {
	a.taken = slices.DeleteFunc(a.taken, func(t span) bool { return t.first == address })
}

// lowest returns the lowest allocated address, or the end of the memory if nothing is allocated.
func (a *allocator) lowest() uint64 {
	if len(a.taken) == 0 {
		return a.limit.end
	}
	return a.taken[0].first
}

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }
