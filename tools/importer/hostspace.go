package importer

import (
	"cmp"
	"slices"
)

// hostSpace is host memory that becomes a window of the image.
type hostSpace struct {
	name   string
	bus    uint64 // of its first byte
	seen   uint64 // address of its first byte as the device has it; 0: bus
	size   uint64 // up to the last byte that was reached
	window uint16
	whole  bool   // addresses are moved in 8 bytes only
	given  bool   // by the user, who says what is in it
	exact  bool   // by a recording, which says all that happens to it
	low    uint64 // of exact: offset of the first byte that the device reaches
	pages  map[uint64]*hostPage
	first  []hostStore // what was in it
}

// hostPage is what is known of 4 KiB of host memory at this point of the trace.
type hostPage struct {
	data  [hostPageSize]byte
	known [hostPageSize]bool
}

const (
	hostPageSize = 4096
	hostApart    = 1 << 20 // addresses that no region shows and that lie in different ones of these are different memory
	hostSizeMax  = 1 << 30
	hostsSizeMax = 4 << 30 // together
	hostsMax     = 64
	hostBar      = 64 // window.bar of the first, where BARs have theirs
)

// hostStore is data that the program stored to host memory.
type hostStore struct {
	host   int // index into program.hosts
	offset uint64
	data   []byte
}

// onto copies what is stored over what is there, as far as that reaches.
func (s hostStore) onto(there hostStore) {
	from, to := max(there.offset, s.offset), min(there.offset+uint64(len(there.data)), s.offset+uint64(len(s.data)))
	if there.host == s.host && from < to {
		copy(there.data[from-there.offset:], s.data[from-s.offset:to-s.offset])
	}
}

// limit is how far memory may grow: to the end of its region.
func (h *hostSpace) limit(r *regions) uint64 {
	if g, ok := r.ofBus(h.bus); ok && h.whole {
		return g.size
	}
	return hostApart
}

// page gives a page. Of exact memory nothing is unknown: it begins as zeros.
func (h *hostSpace) page(offset uint64) *hostPage {
	g := h.pages[offset/hostPageSize]
	if g == nil {
		g = &hostPage{}
		for i := range g.known {
			g.known[i] = h.exact
		}
		h.pages[offset/hostPageSize] = g
	}
	return g
}

func (g *hostPage) take(at uint64, data []byte) {
	copy(g.data[at:], data)
	for i := range data {
		g.known[at+uint64(i)] = true
	}
}

// mask has ones where the bytes of a word are known.
func (g *hostPage) mask(word uint64) (mask uint64) {
	for i := range uint64(4) {
		if g.known[word%hostPageSize+i] {
			mask |= 0xff << (8 * i)
		}
	}
	return mask
}

// joined sorts stores, and makes one of those that touch or overlap, where the
// later one counts.
func joined(list []hostStore) (out []hostStore) {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, hostStore.compare)
	var ends []uint64
	for _, s := range sorted {
		end := s.offset + uint64(len(s.data))
		if n := len(out); n > 0 && out[n-1].host == s.host && s.offset <= ends[n-1] {
			ends[n-1] = max(ends[n-1], end)
			continue
		}
		out, ends = append(out, s), append(ends, end)
	}
	if len(out) == len(list) {
		return out
	}
	for i := range out {
		out[i].data = make([]byte, ends[i]-out[i].offset)
	}
	for _, s := range list {
		i, found := slices.BinarySearchFunc(out, s, hostStore.compare)
		if !found {
			i--
		}
		copy(out[i].data[s.offset-out[i].offset:], s.data)
	}
	return out
}

// compare orders stores by where they are.
func (s hostStore) compare(other hostStore) int {
	return cmp.Or(s.host-other.host, cmp.Compare(s.offset, other.offset))
}

// store takes what the program stored.
func (h *hostSpace) store(offset uint64, data []byte) {
	for len(data) > 0 {
		at := offset % hostPageSize
		n := min(len(data), int(hostPageSize-at))
		h.page(offset).take(at, data[:n])
		data, offset = data[n:], offset+uint64(n)
	}
}
