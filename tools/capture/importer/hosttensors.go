package importer

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
)

// hostTensors makes copies of what happens to inputs and outputs that lie in
// host memory. What a trace tells of that is what changed, so a tensor is copied
// whole: an input where the frame first stores to it, or where that begins;
// an output where it last sees what the device wrote.
type hostTensors struct {
	*program
	list   []int         // tensors
	copies map[int][]int // tensors that are copied at a step
	done   bool          // after the frame
	own    []string      // warnings of outputs that the image stores itself
}

// begin finds the tensors, and the steps to copy them at.
func (h *hostTensors) begin() error {
	for i := range h.tensors {
		t := &h.tensors[i]
		if !t.Bus {
			continue
		}
		m := slices.IndexFunc(h.hosts, func(m hostSpace) bool {
			return t.Address >= m.bus && t.Address-m.bus < m.size &&
				t.size <= m.size-(t.Address-m.bus)
		})
		if m < 0 {
			return traces.Usage("%s %s: the recording has no host memory at %s", t.kind(), t.Name,
				t.span())
		}
		t.host, t.Address = m, t.Address-h.hosts[m].bus
		t.data = make([]byte, t.size)
		for _, s := range h.hosts[m].first {
			t.hold(s)
		}
		h.list = append(h.list, i)
	}
	h.copies = map[int][]int{}
	for _, i := range h.list {
		n, found := h.copied(&h.tensors[i])
		if !found && h.tensors[i].role == gen.RoleOutput {
			return traces.Refuse(0, "output %s: the device writes nothing there in this capture%s",
				h.tensors[i].Name, h.storedInstead(&h.tensors[i]))
		}
		if h.tensors[i].role == gen.RoleOutput {
			if own := len(h.lastStored(&h.tensors[i], n)); own > 0 {
				h.own = append(h.own,
					fmt.Sprintf("output %s: the recording shows %s of it as last stored by the "+
						"program, so the image contains these results; if the device wrote "+
						"them, record again with %s", h.tensors[i].Name,
						english.Count(own, "byte"), toldApart))
			}
		}
		h.copies[n] = append(h.copies[n], i)
	}
	return nil
}

// storedInstead says so if the program stored to an output that the device does not
// write: a recording that cannot tell the two apart has the results as the program's.
func (h *hostTensors) storedInstead(t *tensor) string {
	if n := len(h.lastStored(t, h.steps.n)); n > 0 {
		return fmt.Sprintf("; the recording shows %s of it as stored by the program; record "+
			"again with %s",
			english.Count(n, "byte"), toldApart)
	}
	return ""
}

// lastStored returns the bytes of an output that, by the steps before one, the
// program of the frame stored last.
func (h *hostTensors) lastStored(t *tensor, before int) map[uint64]bool {
	last := map[uint64]bool{}
	within := h.o.Frame == Part{}
	for n := range before {
		s := h.steps.at(n)
		switch {
		case s.op == stepCut:
			within = segment(s.to) == segmentFrame
		case !within:
		case s.op == stepHost:
			for _, l := range h.late[s.to] {
				for from, to := t.overlap(l.host, l.offset,
					uint64(len(l.data))); from < to; from++ {
					last[from] = true
				}
			}
		case s.op == stepLoad:
			for from, to := h.wrote(s, t); from < to; from++ {
				delete(last, from)
			}
		}
	}
	return last
}

// copied is the step of the frame at which a tensor is copied: the first that
// stores to an input, the last that gives of an output, or else the frame's first.
func (h *hostTensors) copied(t *tensor) (at int, found bool) {
	within := h.o.Frame == Part{}
	for n := range h.steps.n {
		s := h.steps.at(n)
		if s.op == stepCut {
			if within = segment(s.to) == segmentFrame; within {
				at = n
			}
		}
		if within && h.touches(s, t) {
			if at, found = n, true; t.role == gen.RoleInput {
				break
			}
		}
	}
	return at, found
}

// overlap is the part of n bytes at an offset that a tensor has, in it.
func (t *tensor) overlap(host int, offset, n uint64) (from, to uint64) {
	from, to = max(offset, t.Address), min(offset+n, t.Address+t.size)
	if host != t.host || from >= to {
		return 0, 0
	}
	return from - t.Address, to - t.Address
}

// hold takes what is stored, as far as it lies in the tensor.
func (t *tensor) hold(s hostStore) { s.onto(hostStore{t.host, t.Address, t.data}) }

// touches reports whether a step is one that stores to an input, or gives of an
// output.
func (h *hostTensors) touches(s *step, t *tensor) bool {
	if t.role == gen.RoleInput {
		return s.op == stepHost && slices.ContainsFunc(h.late[s.to], func(l hostStore) bool {
			from, to := t.overlap(l.host, l.offset, uint64(len(l.data)))
			return from < to
		})
	}
	from, to := h.wrote(s, t)
	return s.op == stepLoad && from < to
}

// wrote is the part of a tensor that a step loads from host memory, or waits for.
func (h *hostTensors) wrote(s *step, t *tensor) (from, to uint64) {
	if s.op != stepLoad && s.op != stepPoll || h.windows[s.window].Kind != gen.WindowKindHost {
		return 0, 0
	}
	return t.overlap(int(h.windows[s.window].bar-hostBar), uint64(s.offset), s.size())
}

// step appends a step without what tensors have of it, and copies of these. n is
// its number. It reports whether that is done: with what is one of host memory.
func (h *hostTensors) step(s step, n int, within bool, out *steps) bool {
	for _, i := range h.copies[n] {
		defer h.copy(i, out)
	}
	h.done = h.done || s.op == stepCut && !within
	switch {
	case s.op == stepCut:
		out.add(s) // what comes next is in the sequence that begins
	case s.op == stepHost:
		h.stored(s, within, out)
	case s.touches() && h.windows[s.window].Kind == gen.WindowKindHost:
		h.loaded(s, within, out)
	default:
		return false
	}
	return true
}

// stored takes what the program stored.
func (h *hostTensors) stored(s step, within bool, out *steps) {
	list := h.late[s.to]
	for _, i := range h.list {
		t := &h.tensors[i]
		for _, l := range list {
			if !h.done {
				t.hold(l)
			}
		}
		if within && t.role == gen.RoleInput {
			list = t.without(list)
		}
	}
	h.late[s.to] = list
	out.add(s)
}

// without is what lies outside of the tensor.
func (t *tensor) without(list []hostStore) (rest []hostStore) {
	for _, l := range list {
		from, to := t.overlap(l.host, l.offset, uint64(len(l.data)))
		if from == to {
			rest = append(rest, l)
			continue
		}
		if head := t.Address + from - l.offset; head > 0 {
			rest = append(rest, hostStore{l.host, l.offset, l.data[:head]})
		}
		if tail := t.Address + to - l.offset; tail < uint64(len(l.data)) {
			rest = append(rest, hostStore{l.host, l.offset + tail, l.data[tail:]})
		}
	}
	return rest
}

// loaded takes what the device wrote: what an output has of it is neither
// waited for nor compared.
func (h *hostTensors) loaded(s step, within bool, out *steps) {
	mine := false
	for _, i := range h.list {
		t := &h.tensors[i]
		from, to := h.wrote(&s, t)
		if s.op == stepLoad && from < to && (t.role == gen.RoleOutput || !within) && !h.done {
			t.hold(hostStore{t.host, uint64(s.offset), h.moved(&s)})
		}
		mine = mine || within && t.role == gen.RoleOutput && from < to
	}
	if !mine {
		out.add(s)
		return
	}
	for j := range s.run() {
		if e := h.element(&s, j); !h.given(&e) {
			out.add(e)
		}
	}
}

// given reports whether a step lies in an output.
func (h *hostTensors) given(s *step) bool {
	return slices.ContainsFunc(h.list, func(i int) bool {
		from, to := h.wrote(s, &h.tensors[i])
		return h.tensors[i].role == gen.RoleOutput && from < to
	})
}

// copy appends the copy of a whole tensor.
func (h *hostTensors) copy(i int, out *steps) {
	t := &h.tensors[i]
	width := uint64(8)
	for (t.Address|t.size)%width != 0 {
		width /= 2
	}
	op := stepStore
	if t.role == gen.RoleOutput {
		op = stepLoad
	}
	before := step{}
	if end := out.end(); end != nil {
		before = *end
	}
	t.uses++
	out.add(step{
		op: op, width: uint8(width), count: uint32(t.size / width), line: before.line,
		time: before.last(), window: h.hosts[t.host].window,
		offset: uint32(t.Address), aim: -1, to: int32(i), flags: memoryStep,
	})
}

// hostSpace is host memory that becomes a window of the image.
type hostSpace struct {
	name   string
	bus    uint64 // of its first byte
	seen   uint64 // address of its first byte as the device has it; 0: bus
	size   uint64 // up to the last byte that was reached
	window uint16
	whole  bool   // addresses are moved in 8 bytes only
	fixed  bool   // the window has the recorded address
	given  bool   // by the user, who says what is in it
	exact  bool   // by a recording, which says all that happens to it
	low    uint64 // of exact: offset of the first byte that the device reaches
	stored int    // of exact: line at which the program first stored there, 0: never
	wrote  bool   // of exact: the device wrote there
	pages  map[uint64]*hostPage
	first  []hostStore // what was in it
}

// firstAddress returns the address of the first byte as the device has it.
func (h *hostSpace) firstAddress() uint64 {
	if h.whole {
		return h.seen
	}
	return h.bus
}

// hostPage is what is known of 4 KiB of host memory at this point of the trace.
type hostPage struct {
	data  [hostPageSize]byte
	known [hostPageSize]bool
}

const (
	hostPageSize = 4096
	// addresses that no region shows and that lie in different ones of these are different memory
	hostApart    = 1 << 20
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

// quadwords returns the values of 8 bytes, at multiples of 8, that are stored.
func (s hostStore) quadwords() iter.Seq2[uint64, uint64] {
	return func(yield func(offset, value uint64) bool) {
		for at := -int(s.offset) & 7; at+8 <= len(s.data); at += 8 {
			if !yield(s.offset+uint64(at), traces.Little(s.data[at:][:8])) {
				return
			}
		}
	}
}

// onto copies what is stored over what is there, as far as that reaches.
func (s hostStore) onto(there hostStore) {
	from, to := max(there.offset, s.offset), min(there.offset+uint64(len(there.data)),
		s.offset+uint64(len(s.data)))
	if there.host == s.host && from < to {
		copy(there.data[from-there.offset:], s.data[from-s.offset:to-s.offset])
	}
}

// growthLimit returns how far memory may grow: to the end of its region or, if there is none, by
// hostApart at a time, up to the next memory.
func (l *lifter) growthLimit(h *hostSpace) uint64 {
	if g, ok := l.host.ofBus(h.bus); ok && h.whole {
		return g.size
	}
	if !h.whole {
		return hostApart
	}
	limit := fbs.RoundUp(h.size, hostApart) + hostApart
	for i := range l.hosts {
		if o := &l.hosts[i]; o.bus > h.bus {
			limit = min(limit, o.bus-h.bus)
		}
	}
	return limit
}

// page returns a page. Of exact memory nothing is unknown: it begins as zeros.
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

// hostPart is the part of a range of host memory that lies in one page.
type hostPart struct {
	page   *hostPage
	at     uint64 // in the page
	offset uint64 // in the memory
	data   []byte
}

// parts cuts a range at the edges of pages.
func (h *hostSpace) parts(offset uint64, data []byte) iter.Seq[hostPart] {
	return func(yield func(hostPart) bool) {
		for len(data) > 0 {
			at := offset % hostPageSize
			n := min(len(data), int(hostPageSize-at))
			if !yield(hostPart{h.page(offset), at, offset, data[:n]}) {
				return
			}
			data, offset = data[n:], offset+uint64(n)
		}
	}
}

// has reports whether it is known what is in the page where a byte of the data
// goes, and whether that is the same.
func (p *hostPart) has(k int) (known, equal bool) {
	at := p.at + uint64(k)
	return p.page.known[at], p.page.data[at] == p.data[k]
}

// take puts the data into the page.
func (p *hostPart) take() {
	copy(p.page.data[p.at:], p.data)
	for i := range p.data {
		p.page.known[p.at+uint64(i)] = true
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
	for p := range h.parts(offset, data) {
		p.take()
	}
}
