package importer

import (
	"slices"

	"lightmetal/tools/capture/importer/traces"
)

// In a frame with rings in host memory, the image stores and awaits all bytes of each part of
// Options.hostParts, because the lines of the frame show only what has changed.

// isInHostFrame reports whether the current line is in a frame with rings in host memory.
func (l *lifter) isInHostFrame() bool {
	return l.options.hostParts != nil && l.cut.current == segmentFrame
}

// changeInFrame notes a change of host memory in a frame.
func (l *lifter) changeInFrame(s hostStore, wrote bool) {
	if wrote {
		l.hostSpaces[s.host].pages.Set(s.offset, s.data)
	} else {
		l.host.frameStores = append(l.host.frameStores, s)
	}
}

// isInHostParts reports whether a part of the frame has one of n bytes at a bus address.
func (l *lifter) isInHostParts(bus, n uint64) bool {
	return slices.ContainsFunc(l.options.hostParts, func(p hostPart) bool {
		return bus < p.end && p.first < bus+n
	})
}

// addHostParts adds the steps of the parts before the access in a line; 0: after the last access.
func (l *lifter) addHostParts(line int, time int64) {
	var parts []*hostPart
	for i := range l.options.hostParts {
		if p := &l.options.hostParts[i]; p.line == line {
			parts = append(parts, p)
		}
	}
	l.awaitHostParts(parts, line, time)
	for _, s := range l.host.frameStores {
		l.hostSpaces[s.host].pages.Set(s.offset, s.data)
	}
	l.host.frameStores = nil
	l.host.slotStep = -1
	slices.SortStableFunc(parts, func(a, b *hostPart) int { return a.positions() - b.positions() })
	for n, p := range parts {
		if !p.wrote {
			before := parts[max(n-1, 0)]
			if p.positions() > before.positions() ||
				p.isOneOfSeveral(parts) && !p.isSameEntry(before) {
				l.host.slotStep = -1
			}
			i, offset, data := l.hostPartData(p.first, p.end-p.first)
			l.placeStore(max(line, 1), time, hostStore{i, offset, data})
		}
	}
}

// awaitHostParts adds polls and loads of what the device has written. Several entries of a ring
// come one after the other: the ring is at one of them at a time.
func (l *lifter) awaitHostParts(parts []*hostPart, line int, time int64) {
	var others []*hostPart
	var entries [][]*hostPart
	for _, p := range parts {
		n := len(entries) - 1
		switch {
		case !p.wrote:
		case !p.isOneOfSeveral(parts):
			others = append(others, p)
		case n >= 0 && p.isSameEntry(entries[n][0]):
			entries[n] = append(entries[n], p)
		default:
			entries = append(entries, []*hostPart{p})
		}
	}
	l.addHostPolls(others, time)
	for _, list := range entries {
		l.addHostPolls(list, time)
		l.compareHostParts(list, line, time)
	}
	l.compareHostParts(others, line, time)
}

// positions returns 1 for a part that does not move and in which the program stores positions of
// rings. Such parts come after the entries.
func (p *hostPart) positions() int {
	if !p.isEntry && !p.wrote && len(p.single) > 0 {
		return 1
	}
	return 0
}

// isOneOfSeveral reports whether parts have several entries of the ring of p.
func (p *hostPart) isOneOfSeveral(parts []*hostPart) bool {
	return p.isEntry && slices.ContainsFunc(parts, func(o *hostPart) bool {
		return o.isEntry && o.ring == p.ring && o.wrote == p.wrote && o.entry != p.entry
	})
}

func (p *hostPart) isSameEntry(o *hostPart) bool {
	return p.isEntry && o.isEntry && o.wrote == p.wrote && o.ring == p.ring && o.entry == p.entry
}

func (l *lifter) addHostPolls(parts []*hostPart, time int64) {
	for _, p := range parts {
		for _, w := range p.polls {
			l.addHostPoll(p, w, time)
		}
	}
}

func (l *lifter) compareHostParts(parts []*hostPart, line int, time int64) {
	for _, p := range parts {
		l.compareHostPart(p, line, time)
	}
}

// addHostLoad adds a load of 2 bytes, whose value a ring moves.
func (l *lifter) addHostLoad(bus uint64, line int, time int64) {
	i, offset, data := l.hostPartData(bus, 2)
	s := newStep(&traces.Access{Op: traces.OpLoad, Line: line, Time: time, Width: 2}, 1)
	s.window, s.offset, s.value = l.hostSpaces[i].window, uint32(offset), traces.Little(data)
	l.steps.appendStep(s)
}

func (l *lifter) hostPartData(bus, size uint64) (host int, offset uint64, data []byte) {
	for i := range l.hostSpaces {
		if h := &l.hostSpaces[i]; bus >= h.bus && bus-h.bus < h.size {
			return i, bus - h.bus, h.pages.Bytes(bus-h.bus, size)
		}
	}
	return 0, 0, make([]byte, size) // findGaps has seen it
}

func (l *lifter) addHostPoll(p *hostPart, w hostPoll, time int64) {
	i, offset, data := l.hostPartData(w.bus, 2)
	l.steps.appendStep(step{op: stepPoll, width: 2, count: 1, line: uint32(p.line), time: time,
		value: traces.Little(data) & w.mask, operand: l.maskIndex(w.mask),
		durationUs: l.deadlineUs(0), window: l.hostSpaces[i].window, offset: uint32(offset),
		target: -1, flags: flagMemory})
}

// compareHostPart adds loads of what the device has written. Values that a ring moves are loads of
// their own.
func (l *lifter) compareHostPart(p *hostPart, line int, time int64) {
	for from := p.first; from < p.end; {
		to := from + 2
		isSingle := p.single[from]
		for !isSingle && to < p.end && !p.single[to] {
			to += 2
		}
		i, offset, data := l.hostPartData(from, min(to, p.end)-from)
		a := traces.Access{Line: line, Op: traces.OpLoad, Time: time, Offset: offset}
		if isSingle && !p.isPolledWhole(from) {
			l.addHostLoad(from, line, time)
		} else if !isSingle {
			for e, data := range traces.NaturalAccesses(a, data) {
				l.addHostStep(i, e, data)
			}
		}
		from = to
	}
}

// isPolledWhole reports whether a poll compares all bits of a value.
func (p *hostPart) isPolledWhole(bus uint64) bool {
	return slices.ContainsFunc(p.polls, func(w hostPoll) bool {
		return w.bus == bus && w.mask == 0xffff
	})
}
