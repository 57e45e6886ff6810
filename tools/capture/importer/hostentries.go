package importer

import (
	"cmp"
	"fmt"
	"slices"
)

// findEntries finds the rings whose entries are what is not explained yet.
func (h *hostTurns) findEntries() (parts []hostPart, reason string) {
	for by := range 2 {
		var all []reach
		for k := range h.gaps {
			for g := range h.gaps[k] {
				all = append(all, h.gaps[k][g].touched[by]...)
			}
		}
		for _, region := range joined(all, hostJoinMax) {
			e := entryFinder{hostTurns: h, region: region, by: by}
			if why := e.find(); why != "" {
				who := "the program stores"
				if by == byDevice {
					who = "the device writes"
				}
				reason = cmp.Or(reason, fmt.Sprintf("line %d, bus:0x%x to 0x%x: %s there, %s",
					e.line(), region.first, region.end-1, who, why))
				continue
			}
			parts = append(parts, e.parts()...)
		}
	}
	return parts, reason
}

// entryFinder finds where the entries of a ring are in each repetition.
type entryFinder struct {
	*hostTurns
	region reach
	by     int       // byProgram or byDevice
	uses   []int     // gaps with an entry
	seen   [][]reach // by entry, in the order of the recording: what has changed; empty: nothing
	lines  []int     // by entry
	bases  []uint64  // by entry
	stride uint64
}

func (e *entryFinder) line() int {
	for k := range e.gaps {
		for g := range e.gaps[k] {
			if len(e.inside(k, g)) > 0 {
				return e.lineOf(k, g)
			}
		}
	}
	return 0
}

// lineOf returns the line of the changes in a gap.
func (e *entryFinder) lineOf(k, g int) int {
	o := &e.gaps[k][g]
	for i := o.first; i < o.end; i++ {
		line := 0
		e.finder.eachHostChange(i, func(by int, at uint64, _ []byte) {
			if by == e.by && at >= e.region.first && at < e.region.end {
				line = int(e.finder.steps.at(i).line)
			}
		})
		if line > 0 {
			return line
		}
	}
	return o.line
}

func (e *entryFinder) inside(k, g int) (list []reach) {
	for _, r := range e.gaps[k][g].touched[e.by] {
		if r.first < e.region.end && e.region.first < r.end {
			list = append(list, r)
		}
	}
	return list
}

// find finds the size of an entry and the place of each one.
func (e *entryFinder) find() (reason string) {
	for g := range e.period + 1 {
		count := 0
		for k := range e.gaps {
			if len(e.inside(k, g)) > 0 {
				count++
			}
		}
		if 2*count > len(e.gaps) {
			e.uses = append(e.uses, g)
		} else if count > 0 {
			return "but only in some repetitions"
		}
	}
	for k := range e.gaps {
		for _, g := range e.uses {
			e.seen, e.lines = append(e.seen, e.inside(k, g)), append(e.lines, e.lineOf(k, g))
		}
	}
	if reason = e.place(); reason != "" && e.splitUses() && e.place() == "" {
		return ""
	}
	return reason
}

// splitUses makes an entry of each change, if all have one size and each use has the same number of
// them: the program has stored several entries before it started the device.
func (e *entryFinder) splitUses() (ok bool) {
	n, size, stride := len(e.seen[0]), uint64(0), ^uint64(0)
	for i := range e.seen {
		list := slices.Clone(e.seen[i])
		slices.SortFunc(list, func(a, b reach) int { return cmp.Compare(a.first, b.first) })
		for k, r := range list {
			size = max(size, r.end-r.first)
			if k > 0 {
				stride = min(stride, r.first-list[k-1].first)
			}
		}
		e.seen[i] = list
	}
	var seen [][]reach
	var lines, uses []int
	for i, list := range e.seen {
		if len(list) != n || n > hostMultiples {
			return false
		}
		from := 0 // if the ring wraps here, the first entry is not the lowest
		for k, r := range list {
			if k > 0 && r.first-list[k-1].first > stride {
				from = k
			}
		}
		for k := range n {
			r := list[(from+k)%n]
			if r.end-r.first != size {
				return false
			}
			seen, lines = append(seen, []reach{r}), append(lines, e.lines[i])
		}
	}
	for _, g := range e.uses {
		uses = append(uses, slices.Repeat([]int{g}, n)...)
	}
	e.seen, e.lines, e.uses, e.bases = seen, lines, uses, nil
	return true
}

func hull(list []reach) (r reach) {
	r = list[0]
	for _, o := range list {
		r.first, r.end = min(r.first, o.first), max(r.end, o.end)
	}
	return r
}

// findStride returns the most frequent distance in bytes from an entry to the next.
func (e *entryFinder) findStride() (stride uint64) {
	counts := map[uint64]int{}
	for i := range e.seen[1:] {
		if len(e.seen[i]) == 0 || len(e.seen[i+1]) == 0 {
			continue
		}
		a, b := hull(e.seen[i]).first, hull(e.seen[i+1]).first
		if b > a && (b-a)%hostUnit == 0 {
			counts[b-a]++
		}
	}
	for bytes, n := range counts {
		if n > counts[stride] || n == counts[stride] && bytes < stride {
			stride = bytes
		}
	}
	return stride
}

// place finds where each entry begins. An entry without a change follows the entry before.
func (e *entryFinder) place() (reason string) {
	if e.stride = e.findStride(); e.stride == 0 || e.stride > hostEntryMax {
		return "at places that do not move by the same bytes from one time to the next"
	}
	align := func(at uint64) uint64 {
		if e.stride&(e.stride-1) == 0 {
			return at &^ (e.stride - 1)
		}
		return at
	}
	begin, end := uint64(0), ^uint64(0)
	for i, list := range e.seen {
		if i == 0 && len(list) == 0 {
			return "but not in the first repetition"
		}
		next := uint64(0)
		if i > 0 {
			if next = e.bases[i-1] + e.stride; next >= end {
				next = begin
			}
		}
		if len(list) > 0 {
			r := hull(list)
			if i == 0 || r.first < next {
				next = align(r.first)
				if i > 0 && end != ^uint64(0) && next != begin {
					return fmt.Sprintf("and starts again at 0x%x and at 0x%x (line %d)", begin,
						next, e.lines[i])
				}
				if i > 0 {
					begin, end = next, e.bases[i-1]+e.stride
				}
			}
			if r.end > next+e.stride {
				return fmt.Sprintf("not only in the entry at 0x%x (line %d)", next, e.lines[i])
			}
		}
		e.bases = append(e.bases, next)
	}
	return ""
}

// parts returns the parts of the entries: all of what the program stores, and what the device has
// changed in any of them.
func (e *entryFinder) parts() (list []hostPart) {
	bytes := []reach{{0, e.stride}}
	if e.by == byDevice {
		var changed []reach
		for i, seen := range e.seen {
			for _, r := range seen {
				changed = append(changed, reach{r.first - e.bases[i], r.end - e.bases[i]})
			}
		}
		bytes = joined(changed, 0)
	}
	for n, g := range e.uses {
		for _, r := range bytes {
			p := hostPart{wrote: e.by == byDevice, gap: g, line: e.gaps[0][g].line,
				lead: r.first, isEntry: true, entry: n, ring: e.region.first}
			for k := range e.gaps {
				p.bases = append(p.bases, e.bases[k*len(e.uses)+n]+r.first)
			}
			p.reach = reach{p.bases[0], p.bases[0] + r.end - r.first}
			list = append(list, p)
		}
	}
	return list
}
