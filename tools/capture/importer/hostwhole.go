package importer

import (
	"bytes"
	"math"
	"slices"

	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/capture/record"
)

// A recording of the simulator lacks the program's accesses of host memory. For rings, what the
// device reads becomes a store after the program's last wait; what it writes, a poll and loads.

// wholeHost is the state of such a recording.
type wholeHost struct {
	enabled  bool
	lateSlot int // placeholder before the last stores to the device; slotStep is after a wait
	waited   bool
	lastLoad loadPlace
	polled   map[loadPlace]bool // places that the program loaded again and again
}

type loadPlace struct {
	window uint16
	target int32
	offset uint32
}

// movesHost reports whether a ring of the frame is in host memory.
func (o *Options) movesHost() bool {
	return slices.ContainsFunc(o.moves, func(u ringUse) bool { return u.space == hostSpaceKey })
}

// isWhole reports whether the accesses of the device become whole stores and loads.
func (h *hostMemory) isWhole() bool { return h.whole.enabled && !h.exact }

// noteWait notes whether the program waits for the device. A single load, such as a look for room
// in a queue, is no wait.
func (w *wholeHost) noteWait(s *step) {
	if s.op != stepLoad {
		w.lastLoad = loadPlace{}
		return
	}
	at := loadPlace{s.window, s.target, s.offset}
	if at == w.lastLoad {
		if w.polled == nil {
			w.polled = map[loadPlace]bool{}
		}
		w.polled[at] = true
	}
	w.waited, w.lastLoad = w.waited || w.polled[at], at
}

// placeWhole adds a store before all stores to the device since the program's last wait, but not
// before a read of the device that found other data there.
func (l *lifter) placeWhole(line int, time int64, s hostStore) {
	if l.host.slotStep < 0 {
		l.host.slotStep = l.addPlaceholder(line, time)
		l.host.whole.lateSlot = l.host.slotStep
	}
	if at := l.steps.at(l.host.slotStep); at.op == stepHostStores {
		for _, o := range l.hostStoreLists[at.operand] {
			first, end := max(o.offset, s.offset),
				min(o.offset+uint64(len(o.data)), s.offset+uint64(len(s.data)))
			if o.host != s.host || first >= end {
				continue
			}
			if !bytes.Equal(o.data[first-o.offset:end-o.offset],
				s.data[first-s.offset:end-s.offset]) {
				l.host.slotStep = l.host.whole.lateSlot
				break
			}
			if end-first == uint64(len(s.data)) {
				return // the device has read it again
			}
		}
	}
	l.placeStore(line, time, s)
}

// isInHostRing reports whether a ring of the frame has one of n bytes at a bus address.
func (o *Options) isInHostRing(bus, n uint64) bool {
	return slices.ContainsFunc(o.moves, func(u ringUse) bool {
		return !u.isValue && u.space == hostSpaceKey && bus < u.ring.end && u.ring.begin < bus+n
	})
}

// showRings makes the windows of host memory show all of the rings, and as much behind them as a
// use has: an image is checked as if a use could begin at the end.
func (l *lifter) showRings() {
	for i := range l.options.moves {
		u := &l.options.moves[i]
		if u.isValue || u.space != hostSpaceKey {
			continue
		}
		for k := range l.hostSpaces {
			h := &l.hostSpaces[k]
			if h.exact || h.fromUser || u.ring.begin < h.bus || u.ring.begin >= h.bus+h.size {
				continue
			}
			end := u.ring.end - h.bus + u.size
			h.size = max(h.size, end)
			for at := u.ring.begin - h.bus; at < end; at += record.PageSize {
				h.pages.Touch(at)
			}
			h.pages.Touch(end - 1)
		}
	}
}

// wholeStores returns what the program stores to host memory in a step of a recording of the
// simulator, and the width of its elements.
func (f *ringFinder) wholeStores(s *step) (list []hostStore, width uint64) {
	if s.op != stepHostStores || f.isExactHost(s) {
		return nil, 0
	}
	list, width = f.hostStoreLists[s.operand], 4
	for _, o := range list {
		if (o.offset|uint64(len(o.data)))%width != 0 {
			width = 1
		}
	}
	return list, width
}

// wholeElements returns the accesses of a step of wholeStores.
func (f *ringFinder) wholeElements(s *step, key chunkKey, chunk int) (list []element) {
	stores, width := f.wholeStores(s)
	for _, o := range stores {
		for at := uint64(0); at < uint64(len(o.data)); at += width {
			list = append(list, element{chunkKey: key, line: int(s.line), chunk: chunk,
				address: f.hostSpaces[o.host].bus + o.offset + at,
				value:   traces.Little(o.data[at : at+width])})
		}
	}
	return list
}

// wholeChunk returns the chunk of a step of wholeStores.
func (f *ringFinder) wholeChunk(s *step, index int) (c chunk, ok bool) {
	stores, width := f.wholeStores(s)
	for _, o := range stores {
		c.count += len(o.data) / int(width)
	}
	c.space, c.op, c.width, c.memory = hostSpaceKey, stepStore, uint8(width), true
	c.first, c.end = index, index+1
	return c, c.count > 0
}

// isPolledWhole reports whether a step loads a word of host memory whose value a poll before it has
// awaited, with only polls and loads of host memory between them. The frame leaves the step out.
func (f *ringFinder) isPolledWhole(i int) bool {
	s := f.steps.at(i)
	isHost := func(o *step) bool {
		return o.accessesDevice() && f.windows[o.window].Kind == gen.WindowKindHost &&
			!f.isExactHost(o)
	}
	if !isHost(s) || s.width != 4 || s.op == stepLoad && s.elementCount() > 1 || s.op == stepStore {
		return false
	}
	for i--; i >= 0; i-- {
		o := f.steps.at(i)
		if !isHost(o) || o.op != stepLoad && o.op != stepPoll {
			return false
		}
		if o.op == stepPoll && o.window == s.window && o.offset == s.offset && o.value == s.value &&
			f.maskOf(o) == math.MaxUint32 {
			return true
		}
	}
	return false
}
