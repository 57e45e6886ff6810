package importer

import (
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// extent is the accesses of one command.
type extent struct {
	from, end pos
	n         int
	size      uint64 // bytes
	wide      uint8  // the widest access
}

// worth reports whether an extent is long enough for a command of its own kind.
func (e *extent) worth(s *step) bool {
	if s.is(memoryStep) {
		return e.n >= memoryRunMin
	}
	return e.n >= registerRunMin
}

// span fills in the range that an extent accesses.
func (e *extent) span(c *lmb.Command, s *step) {
	c.Amount = uint32(e.size)
	c.Mode = uint8(gen.AccessExact)
	if s.is(memoryStep) && e.n >= memoryRunMin {
		c.Mode, c.Width = uint8(gen.AccessBulk), e.wide
	}
}

// next is the access after another.
func (m *maker) next(at pos) pos {
	if at.k+1 < m.steps.at(at.i).run() {
		return pos{at.i, at.k + 1}
	}
	return pos{at.i + 1, 0}
}

// extends reports whether the access after an extent accesses the bytes after
// those of it, and can be part of the same command.
func (m *maker) extends(e *extent) bool {
	if e.size >= runBytesMax || e.end.i >= m.steps.n {
		return false
	}
	if e.end.k > 0 {
		return true
	}
	a, b := m.steps.at(e.end.i-1), m.steps.at(e.end.i)
	if a.op != b.op || a.to != b.to || a.window != b.window || a.aim != b.aim ||
		b.is(pointedStep) ||
		a.rule != b.rule || (a.flags^b.flags)&memoryStep != 0 || a.is(repeatedStep) ||
		b.is(repeatedStep) || uint64(b.offset) != uint64(a.offset)+a.size() {
		return false
	}
	if b.tensor() >= 0 && b.value != a.value+a.size() {
		return false
	}
	compare := b.op == stepLoad && b.tensor() < 0
	return a.width == b.width || a.is(memoryStep) && !compare
}

// begin is the extent of one access.
func (m *maker) begin(at pos) extent {
	w := m.steps.at(at.i).width
	return extent{from: at, end: m.next(at), n: 1, size: uint64(w), wide: w}
}

// grow takes the next access into an extent.
func (m *maker) grow(e *extent) {
	w := m.steps.at(e.end.i).width
	e.end, e.n, e.size, e.wide = m.next(e.end), e.n+1, e.size+uint64(w), max(e.wide, w)
}

// extent is the accesses from one on that one command can hold.
func (m *maker) extent(at pos) extent {
	e := m.begin(at)
	for m.with("coalesce") && m.extends(&e) {
		m.grow(&e)
	}
	return e
}

// storeRun is extent for stores; it reports whether all of them store one value,
// and ends before, or after, enough equal stores to be a fill of their own.
func (m *maker) storeRun(at pos) (e extent, fill bool) {
	if m.steps.at(at.i).tensor() >= 0 || !m.with("coalesce") {
		return m.extent(at), false
	}
	e = m.begin(at)
	before := e // without the equal stores that e ends with
	before.n = 0
	width, value := m.datumAt(at)
	for m.extends(&e) {
		w, v := m.datumAt(e.end)
		equal := w == width && v == value
		switch {
		case !equal && before.n == 0 && fillBytes(e.n, width):
			return e, true
		case !equal:
			before, width, value = e, w, v
		case before.n > 0 && fillBytes(e.n+1-before.n, width):
			return before, false
		}
		m.grow(&e)
	}
	return e, before.n == 0 && e.n >= fillMin
}

func (m *maker) datumAt(at pos) (width uint8, value uint64) {
	s := m.steps.at(at.i)
	return s.width, m.datum(s, at.k)
}

func fillBytes(n int, width uint8) bool { return n*int(width) >= fillBytesMin && n >= fillMin }

// bytes is what an extent moves, as it lies in memory: where it can, the bytes
// of the run themselves.
func (m *maker) bytes(e *extent) []byte {
	s := m.steps.at(e.from.i)
	data := m.moved(s)[e.from.k*uint32(s.width):]
	if uint64(len(data)) < e.size {
		data = append(make([]byte, 0, e.size), data...)
	}
	for i := e.from.i + 1; uint64(len(data)) < e.size; i++ {
		data = append(data, m.moved(m.steps.at(i))...)
	}
	return data[:e.size:e.size]
}
