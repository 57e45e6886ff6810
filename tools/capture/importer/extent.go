package importer

import (
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// extent is a range of accesses that one command can execute.
type extent struct {
	from, end position
	count     int
	size      uint64 // bytes
	widthMax  uint8  // width of the widest access in bytes
}

// isWorthCommand reports whether an extent is long enough for a copy, fill or compare.
func (e *extent) isWorthCommand(s *step) bool {
	if s.hasFlag(flagMemory) {
		return e.count >= memoryRunMin
	}
	return e.count >= registerRunMin
}

// setRange sets the size and the access mode of a command for an extent.
func (e *extent) setRange(c *lmb.Command, s *step) {
	c.Amount = uint32(e.size)
	c.Mode = uint8(gen.AccessExact)
	if s.hasFlag(flagMemory) && e.count >= memoryRunMin {
		c.Mode, c.Width = uint8(gen.AccessBulk), e.widthMax
	}
}

func (m *commandBuilder) nextPosition(at position) position {
	if at.k+1 < m.steps.at(at.i).elementCount() {
		return position{at.i, at.k + 1}
	}
	return position{at.i + 1, 0}
}

// canExtend reports whether the access after an extent continues its range of addresses and can be
// part of the same command.
func (m *commandBuilder) canExtend(e *extent) bool {
	if e.size >= runBytesMax || e.end.i >= m.steps.count {
		return false
	}
	if e.end.k > 0 {
		return true
	}
	a, b := m.steps.at(e.end.i-1), m.steps.at(e.end.i)
	if a.op != b.op || a.operand != b.operand || a.window != b.window || a.target != b.target ||
		b.hasFlag(flagPointFirst) ||
		a.rule != b.rule || (a.flags^b.flags)&flagMemory != 0 || a.hasFlag(flagRepeated) ||
		b.hasFlag(flagRepeated) || uint64(b.offset) != uint64(a.offset)+a.size() {
		return false
	}
	if b.tensorIndex() >= 0 && b.value != a.value+a.size() {
		return false
	}
	compare := b.op == stepLoad && b.tensorIndex() < 0
	return a.width == b.width || a.hasFlag(flagMemory) && !compare
}

func (m *commandBuilder) newExtent(at position) extent {
	w := m.steps.at(at.i).width
	return extent{from: at, end: m.nextPosition(at), count: 1, size: uint64(w), widthMax: w}
}

func (m *commandBuilder) extend(e *extent) {
	w := m.steps.at(e.end.i).width
	e.end, e.count, e.size, e.widthMax = m.nextPosition(e.end), e.count+1, e.size+uint64(w),
		max(e.widthMax, w)
}

func (m *commandBuilder) longestExtent(at position) extent {
	e := m.newExtent(at)
	for m.isPassEnabled("coalesce") && m.canExtend(&e) {
		m.extend(&e)
	}
	return e
}

// longestStoreExtent returns the longest extent of stores from an access on. fill reports whether
// all of them store the same value, and are enough for a fill. The extent ends before or after
// equal stores if these are enough for a fill of their own.
func (m *commandBuilder) longestStoreExtent(at position) (e extent, fill bool) {
	if m.steps.at(at.i).tensorIndex() >= 0 || !m.isPassEnabled("coalesce") {
		return m.longestExtent(at), false
	}
	e = m.newExtent(at)
	before := e // without the equal stores that e ends with
	before.count = 0
	width, value := m.valueAt(at)
	for m.canExtend(&e) {
		w, v := m.valueAt(e.end)
		equal := w == width && v == value
		switch {
		case !equal && before.count == 0 && isLongFill(e.count, width):
			return e, true
		case !equal:
			before, width, value = e, w, v
		case before.count > 0 && isLongFill(e.count+1-before.count, width):
			return before, false
		}
		m.extend(&e)
	}
	return e, before.count == 0 && e.count >= fillMin
}

func (m *commandBuilder) valueAt(at position) (width uint8, value uint64) {
	s := m.steps.at(at.i)
	return s.width, m.valueOf(s, at.k)
}

func isLongFill(n int, width uint8) bool { return n*int(width) >= fillBytesMin && n >= fillMin }

// extentData returns the bytes that an extent transfers, without copying them if possible.
func (m *commandBuilder) extentData(e *extent) []byte {
	s := m.steps.at(e.from.i)
	data := m.dataOf(s)[e.from.k*uint32(s.width):]
	if uint64(len(data)) < e.size {
		data = append(make([]byte, 0, e.size), data...)
	}
	for i := e.from.i + 1; uint64(len(data)) < e.size; i++ {
		data = append(data, m.dataOf(m.steps.at(i))...)
	}
	return data[:e.size:e.size]
}
