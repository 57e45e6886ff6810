package importer

import (
	"encoding/binary"
	"fmt"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

const (
	// memoryRunMin accesses to memory are worth a copy. Registers take more
	// of them: a few stores are clearer, and no longer, as they stand.
	memoryRunMin   = 2
	registerRunMin = 8

	// fillMin equal stores are worth a fill, where they are a run of their
	// own. Inside a run they have to save the bytes of two more commands and of
	// the gaps between two more payloads.
	fillMin      = 9
	fillBytesMin = 256

	runBytesMax = 1 << 30
)

// maker turns steps into commands.
type maker struct {
	*plan
	writes, copies, fills, polls, expects, compares, outs int // commands
	stored, filled, compared, read                        int // accesses in them
	compareLine                                           int // of the first compare
}

// coalesce makes the commands. With it, neighbouring accesses become one; in
// memory only the bytes count then, elsewhere every access keeps its width and
// its place.
func (p *plan) coalesce() (string, error) {
	m := &maker{plan: p}
	for i := 0; i < len(p.steps); {
		i += m.command(i)
	}
	p.steps = nil
	if len(p.o.Inputs) > 0 && m.compares > 0 {
		p.warn(m.compareLine, "%s what the device gave against the recording, and will fail where an input changes it: name it as an output",
			holds(m.compares))
	}
	return m.text(), nil
}

func holds(compares int) string {
	if compares == 1 {
		return "1 compare holds"
	}
	return fmt.Sprintf("%d compares hold", compares)
}

func (m *maker) text() string {
	var list []string
	add := func(n int, thing, of string) {
		if n > 0 {
			list = append(list, counted(n, thing)+of)
		}
	}
	add(m.writes, "write", "")
	add(m.copies, "copy", " of "+counted(m.stored, "store"))
	add(m.fills, "fill", " of "+counted(m.filled, "store"))
	add(m.polls, "poll", "")
	add(m.expects, "expect", "")
	add(m.compares, "compare", " of "+counted(m.compared, "load"))
	add(m.outs, "output copy", " of "+counted(m.read, "load"))
	text := strings.Join(list, ", ")
	if !m.with("coalesce") {
		text = "off: " + text
	}
	return text
}

// command makes one command of the n steps from i on.
func (m *maker) command(i int) (n int) {
	s := &m.steps[i]
	c := lmb.Command{Command: fbs.Command{Width: s.width, Window: s.window, Offset: uint32(s.offset)}}
	n = 1
	switch s.op {
	case stepPoint:
		c.Command = fbs.Command{Opcode: gen.OpcodePoint, Window: s.window, Value: s.value, Mask: s.mask}
	case stepMark:
		c = lmb.Command{Command: fbs.Command{Opcode: lmb.OpcodeMark, Mode: uint8(gen.MarkKindPoint)}, Name: m.names[s.value]}
	case stepPoll:
		m.check(&c, s.value, s.mask)
		c.Amount = s.us
		m.polls++
	case stepIgnore:
		m.check(&c, 0, 0)
		m.expects++
	case stepRelocate:
		c = relocation(s.width, s.window, s.offset, m.hostFirst+s.host, s.value)
		m.writes++
	case stepStore:
		n = m.store(&c, i)
	case stepLoad:
		n = m.load(&c, i)
	}
	m.commands = append(m.commands, c)
	return n
}

func (m *maker) check(c *lmb.Command, value, mask uint64) {
	c.Opcode, c.Mode, c.Option = gen.OpcodeCheck, uint8(gen.ConditionEqual), uint8(gen.PolicyFail)
	c.Value, c.Mask = value, mask
}

func (m *maker) store(c *lmb.Command, i int) int {
	s := &m.steps[i]
	end, fill := m.storeRun(i)
	if s.tensor < 0 && !m.worth(i, end) {
		c.Opcode, c.Value = gen.OpcodeWrite, s.value
		m.writes++
		return 1
	}
	m.span(c, i, end)
	c.Opcode = gen.OpcodeCopyIn
	switch {
	case s.tensor >= 0:
		c.Index, c.Value = uint16(1+s.tensor), s.value
	case fill:
		c.Opcode, c.Mode, c.Value = gen.OpcodeFill, uint8(gen.AccessExact), s.value
		if s.memory {
			m.widen(c)
		}
		m.fills++
		m.filled += end - i
		return end - i
	default:
		c.Data = m.bytes(i, end)
		c.Amount = 0 // Encode counts
	}
	m.copies++
	m.stored += end - i
	return end - i
}

// widen makes a fill of memory one of wider stores, as far as its place allows.
func (m *maker) widen(c *lmb.Command) {
	place := uint64(c.Offset) | uint64(c.Amount) | m.windows[c.Window].Offset
	for c.Width < 8 && place%uint64(2*c.Width) == 0 {
		c.Value |= c.Value << (8 * c.Width)
		c.Width *= 2
	}
}

func (m *maker) load(c *lmb.Command, i int) int {
	s := &m.steps[i]
	end := m.run(i)
	switch {
	case s.tensor >= 0:
		m.span(c, i, end)
		c.Opcode, c.Index, c.Value = gen.OpcodeCopyOut, uint16(1+s.tensor), s.value
		m.outs++
		m.read += end - i
	case s.memory && m.worth(i, end):
		c.Opcode, c.Option, c.Data = gen.OpcodeCompare, uint8(gen.PolicyFail), m.bytes(i, end)
		if m.compares++; m.compares == 1 {
			m.compareLine = s.line
		}
		m.compared += end - i
	default:
		m.check(c, s.value, fbs.WidthMask(s.width))
		m.expects++
		return 1
	}
	return end - i
}

// worth tells whether a run is long enough for a command of its own kind.
func (m *maker) worth(i, end int) bool {
	if m.steps[i].memory {
		return end-i >= memoryRunMin
	}
	return end-i >= registerRunMin
}

// span fills in the range that the steps i to end access.
func (m *maker) span(c *lmb.Command, i, end int) {
	last := &m.steps[end-1]
	c.Amount = uint32(last.offset + uint64(last.width) - m.steps[i].offset)
	c.Mode = uint8(gen.AccessExact)
	if !m.steps[i].memory || end-i < memoryRunMin {
		return
	}
	c.Mode = uint8(gen.AccessBulk)
	for _, s := range m.steps[i:end] {
		c.Width = max(c.Width, s.width)
	}
}

// follows tells whether step i accesses the bytes behind those of the step
// before it, and can be part of the same command.
func (m *maker) follows(i int) bool {
	a, b := &m.steps[i-1], &m.steps[i]
	if a.op != b.op || a.tensor != b.tensor || a.window != b.window || a.rule != b.rule || a.memory != b.memory ||
		b.offset != a.offset+uint64(a.width) {
		return false
	}
	compare := b.op == stepLoad && b.tensor < 0
	return a.width == b.width || a.memory && !compare
}

// run is the end of the steps from i on that one command can hold.
func (m *maker) run(i int) int {
	if !m.with("coalesce") {
		return i + 1
	}
	end := i + 1
	for m.extends(i, end) {
		end++
	}
	return end
}

// extends tells whether step end belongs to the run from i on.
func (m *maker) extends(i, end int) bool {
	return end < len(m.steps) && m.follows(end) && m.steps[end].offset-m.steps[i].offset < runBytesMax
}

// storeRun is run for stores; it tells whether all of them store one value,
// and ends before, or behind, enough equal stores to be a fill of their own.
func (m *maker) storeRun(i int) (end int, fill bool) {
	if m.steps[i].tensor >= 0 || !m.with("coalesce") {
		return m.run(i), false
	}
	equal := i // the first of the equal stores that end at end
	for end = i + 1; m.extends(i, end); end++ {
		a, b := &m.steps[end-1], &m.steps[end]
		if a.value != b.value || a.width != b.width {
			if equal == i && m.fillBytes(i, end) {
				return end, true
			}
			equal = end
		} else if equal > i && m.fillBytes(equal, end+1) {
			return equal, false
		}
	}
	return end, equal == i && end-i >= fillMin
}

func (m *maker) fillBytes(start, end int) bool {
	return (end-start)*int(m.steps[start].width) >= fillBytesMin && end-start >= fillMin
}

// bytes is what the steps i to end move, as it lies in memory.
func (m *maker) bytes(i, end int) []byte {
	data := make([]byte, 0, (end-i)*int(m.steps[i].width))
	for _, s := range m.steps[i:end] {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], s.value)
		data = append(data, b[:s.width]...)
	}
	return data
}

// fence puts a store fence behind every run of bulk copies and fills. They may go
// through a write-combining mapping, and what comes next may start the device,
// move the window they went through, or read them back.
func (p *plan) fence() (string, error) {
	if !p.with("fence") {
		return "", nil
	}
	fence := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}}
	out := make([]lmb.Command, 0, len(p.commands)+len(p.commands)/4)
	open, n := false, 0
	for _, c := range p.commands {
		bulk := c.Opcode == gen.OpcodeFill || c.Opcode == gen.OpcodeCopyIn && gen.Access(c.Mode) == gen.AccessBulk
		if open && !bulk && c.Opcode != lmb.OpcodeMark {
			out = append(out, fence)
			open = false
			n++
		}
		open = open || bulk
		out = append(out, c)
	}
	if open {
		out = append(out, fence)
		n++
	}
	p.commands = out
	if n == 0 {
		return "", nil
	}
	return counted(n, "store fence") + " behind bulk copies", nil
}

// mark reports the marks that lift took from the trace.
func (p *plan) mark() (string, error) {
	if len(p.names)+p.blank == 0 {
		return "", nil
	}
	text := counted(len(p.names), "mark")
	if p.blank > 0 {
		text += fmt.Sprintf("; %d without text dropped", p.blank)
	}
	return text, nil
}
