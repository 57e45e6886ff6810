package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"

	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/capture/record"
)

// A recording shows of host memory only what has changed before a store to the device. So each
// repetition shows other bytes of the same work. hostTurns finds the parts of host memory that all
// repetitions use, and adds all their bytes to each repetition.
//
// A part is at a fixed place, is an entry of a ring, or lies behind a pointer that the program
// stores in the same repetition. If a pointer moves, each run uses that of the first repetition.
type hostTurns struct {
	*ringPlan
	period   int
	gaps     [][]hostGap // by repetition; the last gap is after its last access
	pointers [][]uint64  // that move: their values by repetition
	storedIn []int       // by pointer: the gap in which the program stores it
	reach    []uint64    // by pointer: bytes up to the next pointer of any repetition, or part
	list     []hostPart
	dropped  int
	dropLine int
}

// hostGap is what happens to host memory before an access to the device.
type hostGap struct {
	first, end int                 // steps
	line       int                 // of the access
	touched    [2][]reach          // by byProgram, byDevice
	contents   [2]map[reach]uint64 // hash of place in the page and data
}

// reach is a range of bus addresses.
type reach struct{ first, end uint64 }

// hostPart is a range of host memory that the frame stores, or that the device writes there.
type hostPart struct {
	reach      // in the first repetition
	wrote bool // by the device
	gap   int
	line  int // of the frame's next access to the device; 0: there is none
	// Bytes whose values move with a ring, by address; and what the frame waits for
	single map[uint64]bool
	polls  []hostPoll

	bases   []uint64 // by repetition
	lead    uint64   // bytes of the entry before the part
	isEntry bool     // of a ring
	entry   int      // number of the entry in a repetition
	ring    uint64   // any number that the entries of a ring have in common
	values  [][]byte // by repetition
	before  [][]byte // if it may have positions: the bytes that were there
}

// hostPoll waits for bits of 2 bytes.
type hostPoll struct {
	bus  uint64
	mask uint64
}

const (
	hostUnit       = 4       // bytes that are counted together
	hostJoinMax    = 256     // bytes between two changes of the same structure
	hostEntryMax   = 1 << 16 // bytes of an entry
	hostReachMax   = 1 << 20 // bytes behind a pointer
	hostSmallMax   = 64      // bytes of a part that may be a status
	hostMultiples  = 8       // periods of a run that may be one repetition of the work
	hostTouchesMax = 1 << 22
	hostWorkMax    = 1 << 26
)

func (f *finder) hasExactHost() bool {
	return slices.ContainsFunc(f.hostSpaces, func(h hostSpace) bool { return h.exact })
}

// isExactHost reports whether a step is of host memory whose every change is recorded.
func (f *finder) isExactHost(s *step) bool {
	if s.op == stepHostStores {
		return f.hasExactHost()
	}
	return s.accessesDevice() && f.isExactHostWindow(s.window)
}

func (p *program) isExactHostWindow(window uint16) bool {
	w := &p.windows[window]
	return w.Kind == gen.WindowKindHost && p.hostSpaces[w.bar-hostBarBase].exact
}

// hostStart returns the first step that belongs to a chunk: the program's first store to host
// memory after the previous chunk.
func (f *ringFinder) hostStart(at int) int {
	from := 0
	if at > 0 {
		from = f.chunks[at-1].end
	}
	for i := from; i < f.chunks[at].first; i++ {
		if s := f.steps.at(i); s.op == stepHostStores && f.isExactHost(s) {
			return i
		}
	}
	return f.chunks[at].first
}

// addHostTurns adds the accesses of host memory to all repetitions.
func (p *ringPlan) addHostTurns(start, period int) (reason string) {
	if !p.finder.hasExactHost() {
		return ""
	}
	h := &hostTurns{ringPlan: p, period: period}
	if reason := h.findGaps(start); reason != "" || h.isUntouched() {
		return reason
	}
	h.leaveOutIgnored()
	h.findPointers()
	h.leaveOutAliases()
	if reason := h.addBehindPointers(); reason != "" {
		return reason
	}
	h.addFixed()
	found, reason := h.findEntries()
	if reason != "" {
		return reason
	}
	h.list = append(h.list, found...)
	slices.SortStableFunc(h.list, func(a, b hostPart) int {
		byDevice := func(p *hostPart) int {
			if p.wrote {
				return 0
			}
			return 1
		}
		place := func(p *hostPart) uint64 {
			if p.isEntry {
				return p.ring // its entries are as the ring has them, also if it wraps
			}
			return p.first
		}
		return cmp.Or(a.gap-b.gap, byDevice(&a)-byDevice(&b), cmp.Compare(place(&a), place(&b)))
	})
	h.readParts(h.list)
	h.leaveOutUnchanged()
	h.insert()
	if h.dropped > 0 {
		p.notes = append(p.notes, fmt.Sprintf("from line %d on, %d changes of buffers of other "+
			"repetitions are left out", h.dropLine, h.dropped))
	}
	p.host = h
	return p.checkWriters()
}

// findGaps finds the steps of each gap, and what they change.
func (h *hostTurns) findGaps(start int) (reason string) {
	f, all, seed := h.finder, 0, maphash.MakeSeed()
	for k := range h.turns {
		gaps := make([]hostGap, h.period+1)
		for g := range gaps {
			at := start + k*h.period + g
			o := &gaps[g]
			o.end = f.steps.count
			if at < len(f.chunks) {
				o.line, o.end = int(f.steps.at(f.chunks[at].first).line), f.chunks[at].first
			}
			if at > 0 {
				o.first = f.chunks[at-1].end
			}
			if g == 0 {
				o.first = f.hostStart(at)
			}
			if g == h.period {
				o.line = 0
				if at < len(f.chunks) {
					o.end = f.hostStart(at)
				} else {
					o.end = f.firstBehind(o.first)
				}
			}
			o.contents = [2]map[reach]uint64{{}, {}}
			for i := o.first; i < o.end; i++ {
				f.eachHostChange(i, func(by int, at uint64, data []byte) {
					all += len(data) / hostUnit
					for len(data) > 0 {
						n := min(uint64(len(data)), record.PageSize-at%record.PageSize)
						r := reach{at, at + n}
						o.touched[by] = append(o.touched[by], r)
						o.contents[by][r] = maphash.Bytes(seed, data[:n]) ^ at%record.PageSize
						at, data = at+n, data[n:]
					}
				})
			}
		}
		h.gaps = append(h.gaps, gaps)
	}
	if all > hostTouchesMax {
		return fmt.Sprintf("line %d: the repetitions change more host memory than lm import can "+
			"compare; import fewer repetitions with --part FROM..TO", h.turns[0][0].line)
	}
	return ""
}

// firstBehind returns the first step from i on in which the program stores to host memory.
func (f *ringFinder) firstBehind(i int) int {
	for ; i < f.steps.count && f.steps.at(i).op != stepHostStores; i++ {
	}
	return i
}

const byProgram, byDevice = 0, 1

// eachHostChange calls `do` for each range of host memory that a step changes, with who changed it.
func (f *ringFinder) eachHostChange(i int, do func(by int, bus uint64, data []byte)) {
	s := f.steps.at(i)
	switch {
	case s.op == stepHostStores:
		for _, o := range f.hostStoreLists[s.operand] {
			do(byProgram, f.hostSpaces[o.host].bus+o.offset, o.data)
		}
	case s.op == stepLoad && f.isExactHost(s):
		_, at := f.spaceOf(s)
		do(byDevice, at, f.dataOf(s))
	}
}

func (h *hostTurns) isUntouched() bool {
	return !slices.ContainsFunc(h.gaps, func(gaps []hostGap) bool {
		return slices.ContainsFunc(gaps, func(o hostGap) bool {
			return len(o.touched[0])+len(o.touched[1]) > 0
		})
	})
}

// leaveOutIgnored removes what the user ignores.
func (h *hostTurns) leaveOutIgnored() {
	for _, r := range h.finder.options.Ignore {
		if r.Bus {
			h.remove(func(int, int, int) []reach { return []reach{{r.First, r.Last + 1}} })
		}
	}
}

// remove removes ranges from what the gaps change. It returns how many changes it has made smaller.
func (h *hostTurns) remove(of func(k, gap, by int) []reach) (count int) {
	for k := range h.gaps {
		for g := range h.gaps[k] {
			for by := range 2 {
				list := &h.gaps[k][g].touched[by]
				for _, out := range of(k, g, by) {
					var rest []reach
					for _, r := range *list {
						if out.end <= r.first || r.end <= out.first {
							rest = append(rest, r)
							continue
						}
						count++
						if r.first < out.first {
							rest = append(rest, reach{r.first, out.first})
						}
						if out.end < r.end {
							rest = append(rest, reach{out.end, r.end})
						}
					}
					*list = rest
				}
			}
		}
	}
	return count
}

// joined sorts ranges and joins those that are near.
func joined(list []reach, near uint64) (out []reach) {
	slices.SortFunc(list, func(a, b reach) int { return cmp.Compare(a.first, b.first) })
	for _, r := range list {
		if n := len(out); n > 0 && r.first <= out[n-1].end+near {
			out[n-1].end = max(out[n-1].end, r.end)
			continue
		}
		out = append(out, r)
	}
	return out
}

// addFixed makes parts of the places that most repetitions change.
func (h *hostTurns) addFixed() {
	for g := range h.period + 1 {
		for by := range 2 {
			counts := map[uint64]int{}
			for k := range h.gaps {
				for _, r := range h.gaps[k][g].touched[by] {
					for at := r.first / hostUnit; at*hostUnit < r.end; at++ {
						counts[at]++
					}
				}
			}
			var often []reach
			for at, n := range counts {
				if 4*n >= 3*len(h.gaps) {
					often = append(often, reach{at * hostUnit, (at + 1) * hostUnit})
				}
			}
			for _, r := range joined(often, hostJoinMax) {
				h.addPart(hostPart{reach: r, wrote: by == byDevice, gap: g,
					bases: slices.Repeat([]uint64{r.first}, len(h.gaps))})
			}
		}
	}
}

// addPart adds a part, and removes it from the changes that are not explained yet.
func (h *hostTurns) addPart(p hostPart) {
	p.line = h.gaps[0][p.gap].line
	h.list = append(h.list, p)
	h.remove(func(k, g, by int) []reach {
		if g != p.gap || (by == byDevice) != p.wrote {
			return nil
		}
		return []reach{{p.bases[k], p.bases[k] + p.end - p.first}}
	})
}

// findPointers finds the addresses of host memory that differ between the repetitions.
func (h *hostTurns) findPointers() {
	parts := h.clearParts()
	h.readParts(parts)
	for i := range parts {
		if parts[i].wrote {
			continue
		}
		for at := -parts[i].first & 7; at+8 <= uint64(len(parts[i].values[0])); at += 8 {
			h.addPointer(parts[i].column(at, 8), parts[i].gap)
		}
	}
	for i := range h.turns[0] {
		if h.turns[0][i].op == stepRelocate {
			h.addPointer(h.column(i), h.turns[0][i].chunk)
		}
	}
	var all []uint64
	for i := range parts {
		all = append(all, parts[i].bases...)
	}
	all = slices.Concat(all, slices.Concat(h.pointers...))
	slices.Sort(all)
	for _, p := range h.pointers {
		least := uint64(hostReachMax)
		for _, at := range p {
			if n, _ := slices.BinarySearch(all, at+1); n < len(all) {
				least = min(least, all[n]-at)
			}
		}
		h.reach = append(h.reach, least)
	}
	h.joinPages()
}

// joinPages lets a pointer reach the next pages, too, if the same command has pointers to them and
// they always follow each other.
func (h *hostTurns) joinPages() {
	for n := range h.pointers {
		for {
			next := slices.Clone(h.pointers[n])
			for k := range next {
				next[k] += h.reach[n]
			}
			at := slices.IndexFunc(h.pointers, func(o []uint64) bool {
				return slices.Equal(o, next)
			})
			if at < 0 || h.reach[at] == 0 || h.storedIn[at] != h.storedIn[n] {
				break
			}
			h.reach[n], h.reach[at] = h.reach[n]+h.reach[at], 0
		}
	}
}

// clearParts returns the parts that can be found without pointers, and without what several
// mappings of a page show.
func (h *hostTurns) clearParts() []hostPart {
	whole := make([][]hostGap, len(h.gaps))
	for k := range h.gaps {
		whole[k] = slices.Clone(h.gaps[k])
		for g := range h.gaps[k] {
			o, counts := &h.gaps[k][g], map[uint64]int{}
			for by := range 2 {
				for _, hash := range o.contents[by] {
					counts[hash]++
				}
			}
			o.touched[byDevice] = slices.DeleteFunc(slices.Clone(o.touched[byDevice]),
				func(r reach) bool { return counts[o.contents[byDevice][r]] > 1 })
		}
	}
	h.addFixed()
	found, _ := h.findEntries()
	parts := append(h.list, found...)
	h.gaps, h.list = whole, nil
	return parts
}

// addPointer adds numbers that are addresses of host memory in each repetition, and differ.
func (h *hostTurns) addPointer(column []uint64, gap int) {
	differs := false
	for _, v := range column {
		if !h.isAddress(v) {
			return
		}
		differs = differs || v != column[0]
	}
	known := slices.ContainsFunc(h.pointers, func(o []uint64) bool {
		return slices.Equal(o, column)
	})
	if differs && !known {
		h.pointers, h.storedIn = append(h.pointers, column), append(h.storedIn, gap)
	}
}

// isAddress reports whether a number is an address of host memory.
func (p *ringPlan) isAddress(v uint64) bool {
	i, _ := p.finder.findHostAddress(v, 8)
	return i >= 0 && p.finder.hostSpaces[i].exact
}

// column returns a number in a part, for each repetition.
func (p *hostPart) column(at uint64, width int) (list []uint64) {
	for _, data := range p.values {
		list = append(list, traces.Little(data[at:at+uint64(width)]))
	}
	return list
}

// addBehindPointers makes parts of what is behind the pointers of each repetition, and leaves out
// changes behind pointers of other repetitions.
func (h *hostTurns) addBehindPointers() (reason string) {
	for n, p := range h.pointers {
		for g := range h.period + 1 {
			for by := range 2 {
				var list []reach
				count := 0
				for k := range h.gaps {
					before := len(list)
					for _, r := range h.gaps[k][g].touched[by] {
						first, end := max(r.first, p[k]), min(r.end, p[k]+h.reach[n])
						if first < end {
							list = append(list, reach{first - p[k], end - p[k]})
						}
					}
					if len(list) > before {
						count++
					}
				}
				if by == byDevice && 0 < count && 4*count < 3*len(h.gaps) {
					return fmt.Sprintf("line %d: the device writes behind an address that the "+
						"program stores, but only in some repetitions", h.gaps[0][g].line)
				}
				if by == byProgram && h.storedIn[n] < g && 2*count <= len(h.gaps) {
					continue // the memory is used for something else
				}
				for _, r := range joined(list, hostJoinMax) {
					part := hostPart{reach: reach{p[0] + r.first, p[0] + r.end},
						wrote: by == byDevice, gap: g}
					for k := range h.gaps {
						part.bases = append(part.bases, p[k]+r.first)
					}
					h.addPart(part)
				}
			}
		}
	}
	for n, p := range h.pointers {
		for _, at := range p {
			h.dropped += h.remove(func(int, int, int) []reach {
				return []reach{{at, at + h.reach[n]}}
			})
		}
	}
	h.dropLine = h.turns[0][0].line
	return ""
}

// leaveOutAliases removes changes of the device that show the same page in another mapping: a store
// of the program, or a change behind a pointer that was stored later, has the same data.
func (h *hostTurns) leaveOutAliases() {
	for k := range h.gaps {
		for g := range h.gaps[k] {
			o := &h.gaps[k][g]
			stored, best := map[uint64]bool{}, map[uint64]int{}
			for _, hash := range o.contents[byProgram] {
				stored[hash] = true
			}
			rank := func(r reach) (rank int) {
				for n, p := range h.pointers {
					if r.first >= p[k] && r.end <= p[k]+h.reach[n] && h.storedIn[n] <= g {
						rank = max(rank, 1+h.storedIn[n])
					}
				}
				return rank
			}
			for r, hash := range o.contents[byDevice] {
				best[hash] = max(best[hash], rank(r))
			}
			o.touched[byDevice] = slices.DeleteFunc(o.touched[byDevice], func(r reach) bool {
				hash, whole := o.contents[byDevice][r]
				return whole && (stored[hash] || rank(r) < best[hash])
			})
		}
	}
}

// readParts reads the bytes of parts in each repetition. What the device has written is read
// before the program stores.
func (h *hostTurns) readParts(parts []hostPart) {
	f := h.finder
	var memory record.Pages
	for i := range f.hostSpaces {
		for _, s := range f.hostSpaces[i].initialStores {
			memory.Set(f.hostSpaces[i].bus+s.offset, s.data)
		}
	}
	at := 0
	apply := func(end int, only int) {
		for i := at; i < end; i++ {
			f.eachHostChange(i, func(by int, bus uint64, data []byte) {
				if only < 0 || only == by {
					memory.Set(bus, data)
				}
			})
		}
	}
	for i := range parts {
		parts[i].values, parts[i].before = nil, nil
	}
	for k := range h.gaps {
		for g := range h.gaps[k] {
			o := &h.gaps[k][g]
			apply(o.first, -1)
			at = max(at, o.first)
			for _, by := range []int{byDevice, byProgram} {
				for i := range parts {
					if p := &parts[i]; p.gap == g && by == byProgram && p.mayHavePositions() {
						p.before = append(p.before, memory.Bytes(p.bases[k], p.end-p.first))
					}
				}
				apply(o.end, by)
				for i := range parts {
					p := &parts[i]
					if p.gap == g && p.wrote == (by == byDevice) {
						p.values = append(p.values, memory.Bytes(p.bases[k], p.end-p.first))
					}
				}
			}
			at = o.end
		}
	}
}

// leaveOutUnchanged leaves out what a program never changes in a small part at a fixed place, such
// as the positions of other queues beside one: lm record shows words of 8 bytes.
func (h *hostTurns) leaveOutUnchanged() {
	var list []hostPart
	for _, p := range h.list {
		if !p.mayHavePositions() {
			list = append(list, p)
			continue
		}
		var changed []reach
		for at := p.first; at < p.end; at += hostUnit {
			if h.isInAddress(&p, at) || p.changes(at-p.first) {
				changed = append(changed, reach{at, at + hostUnit})
			}
		}
		for _, r := range joined(changed, 0) {
			part := p
			part.reach, part.bases = r, slices.Repeat([]uint64{r.first}, len(p.bases))
			part.values = nil
			for _, data := range p.values {
				part.values = append(part.values, data[r.first-p.first:r.end-p.first])
			}
			list = append(list, part)
		}
	}
	h.list = list
}

// mayHavePositions reports whether the program may store positions of rings in a part.
func (p *hostPart) mayHavePositions() bool {
	return !p.wrote && p.isFixed() && p.end-p.first <= hostSmallMax
}

// isInAddress reports whether bytes of a part belong to an address of host memory.
func (h *hostTurns) isInAddress(p *hostPart, at uint64) bool {
	word := at &^ 7
	return word >= p.first && word+8 <= p.end && h.isAddress(p.column(word-p.first, 8)[0])
}

// changes reports whether the program changes the bytes of a unit in any repetition.
func (p *hostPart) changes(from uint64) bool {
	for k := range p.values {
		if !bytes.Equal(p.values[k][from:from+hostUnit], p.before[k][from:from+hostUnit]) {
			return true
		}
	}
	return false
}

// insert adds the parts to the accesses of each repetition. They are chunks of their own.
func (h *hostTurns) insert() {
	chunks := h.period
	for k, turn := range h.turns {
		var list []element
		next := 0
		for g := range h.period + 1 {
			for i := range h.list {
				if p := &h.list[i]; p.gap == g {
					list = append(list, h.elementsOf(p, k, chunks+i)...)
				}
			}
			for ; next < len(turn) && turn[next].chunk == g; next++ {
				list = append(list, turn[next])
			}
		}
		h.turns[k] = list
	}
}

// elementsOf returns the accesses of a part in a repetition. Behind a pointer, all repetitions have
// the addresses of the first repetition.
func (h *hostTurns) elementsOf(p *hostPart, k, chunk int) (list []element) {
	width := uint64(2)
	if p.end-p.first > hostSmallMax && !p.isEntry && p.first%4 == 0 && (p.end-p.first)%4 == 0 {
		width = 4
	}
	base := p.first
	if p.isEntry {
		base = p.bases[k]
	}
	o := &h.gaps[k][p.gap]
	line := o.line
	if o.first < o.end {
		line = int(h.finder.steps.at(o.first).line)
	}
	for at := uint64(0); at < p.end-p.first; at += width {
		e := element{address: base + at, value: traces.Little(p.values[k][at : at+width]),
			line: line, chunk: chunk, part: p, lead: p.lead}
		e.space, e.width, e.memory, e.op = hostSpaceKey, uint8(width), true, stepStore
		if p.wrote {
			e.op = stepLoad
		}
		list = append(list, e)
	}
	return list
}

// parts returns the parts of the frame, or nil.
func (h *hostTurns) parts() []hostPart {
	if h == nil {
		return nil
	}
	return h.list
}
