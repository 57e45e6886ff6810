package importer

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/importer/traces"
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

// maker turns steps into commands. It goes through them twice: the first time
// it only counts.
type maker struct {
	*plan
	dry    bool
	fences fencer
	did    string // of fill

	made                                                  int // commands, fences among them
	writes, copies, fills, polls, expects, compares, outs int // commands
	stored, filled, compared, read                        int // accesses in them
	compareLine                                           int // of the first compare
}

// pos is access k of step i.
type pos struct {
	i int
	k uint32
}

// coalesce makes the commands. With it, neighbouring accesses become one; in
// memory only the bytes count then, elsewhere every access keeps its width and
// its place.
func (m *maker) coalesce() (string, error) {
	count := maker{plan: m.plan, dry: true}
	count.all()
	if count.made >= fbs.CommandsMax {
		return "", traces.Refuse(0, "%d commands are more than an image holds (%d): import a part", count.made+1, fbs.CommandsMax)
	}
	m.commands = make([]lmb.Command, 0, count.made)
	m.all()
	if len(m.steps.chunks) >= freeChunks {
		m.steps = steps{}
		debug.FreeOSMemory()
	}
	m.steps, m.data = steps{}, arena{}
	if len(m.o.Inputs) > 0 && m.compares > 0 {
		m.warn(m.compareLine, "%s what the device gave against the recording, and will fail where an input changes it: name it as an output",
			holds(m.compares))
	}
	return m.text(), nil
}

func (m *maker) all() {
	front, did := m.front()
	m.did = did
	for i := range front {
		m.emit(&front[i])
	}
	for at, freed := (pos{}), 0; at.i < m.steps.n; {
		at = m.command(at)
		// Extents look at the step before the next one.
		for chunk := (at.i - 1) / chunkSteps; !m.dry && freed < chunk; freed++ {
			m.steps.chunks[freed] = nil
			if freed%freeChunks == freeChunks-1 {
				debug.FreeOSMemory() // commands come in their place
			}
		}
	}
	m.fences.end(m)
}

// freeChunks is how many chunks of steps, 15 MB of them, go back to the system
// at once.
const freeChunks = 64

// emit appends a command, and the fence that it needs in front.
func (m *maker) emit(c *lmb.Command) {
	if m.with("fence") && m.fences.before(m.plan, c) {
		m.emitFence()
	}
	m.append(c)
}

func (m *maker) emitFence() {
	m.fences.n++
	m.append(&lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
}

func (m *maker) append(c *lmb.Command) {
	m.made++
	if !m.dry {
		m.commands = append(m.commands, *c)
	}
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
			list = append(list, traces.Counted(n, thing)+of)
		}
	}
	add(m.writes, "write", "")
	add(m.copies, "copy", " of "+traces.Counted(m.stored, "store"))
	add(m.fills, "fill", " of "+traces.Counted(m.filled, "store"))
	add(m.polls, "poll", "")
	add(m.expects, "expect", "")
	add(m.compares, "compare", " of "+traces.Counted(m.compared, "load"))
	add(m.outs, "output copy", " of "+traces.Counted(m.read, "load"))
	text := strings.Join(list, ", ")
	if !m.with("coalesce") {
		text = "off: " + text
	}
	return text
}

// command makes the commands of one access, or one of several, and gives the
// access that comes next.
func (m *maker) command(at pos) (next pos) {
	s := m.steps.at(at.i)
	if s.run() > 1 {
		return m.single(m.element(s, at.k), at)
	}
	for range s.count - 1 {
		m.single(m.element(s, 0), at)
	}
	return m.single(m.element(s, 0), at)
}

// single makes a command of the access s at a place, and of those behind it
// that belong to it.
func (m *maker) single(s step, at pos) (next pos) {
	c := lmb.Command{Command: fbs.Command{Width: s.width, Window: s.window, Offset: s.offset}}
	next = m.next(at)
	switch s.op {
	case stepNone:
		return next
	case stepCut:
		m.cut(&s)
		return next
	case stepHost:
		m.hostStores(m.late[s.value])
		return next
	case stepPoint:
		c.Command = fbs.Command{Opcode: gen.OpcodePoint, Window: s.window, Value: s.value, Mask: s.mask}
	case stepMark:
		c = lmb.Command{Command: fbs.Command{Opcode: lmb.OpcodeMark, Mode: uint8(gen.MarkKindPoint)}, Data: []byte(m.names[s.value])}
	case stepPoll:
		m.check(&c, s.value, s.mask)
		c.Amount = s.us
		m.polls++
	case stepIgnore:
		m.check(&c, 0, 0)
		m.expects++
	case stepRelocate:
		c = relocation(s.width, s.window, uint64(s.offset), m.hosts[s.to].window, s.value)
		m.writes++
	case stepStore:
		next = m.store(&c, &s, at)
	case stepLoad:
		next = m.load(&c, &s, at)
	}
	m.emit(&c)
	return next
}

// hostStores brings data to host memory that the program stored there.
func (m *maker) hostStores(list []hostStore) {
	for _, s := range joined(list) {
		copies := m.hostCopies(&m.hosts[s.host], s)
		pointers := m.pointersIn(&m.hosts[s.host], s)
		for _, c := range append(copies, pointers...) {
			m.emit(&c)
		}
	}
}

func (m *maker) check(c *lmb.Command, value, mask uint64) {
	c.Opcode, c.Mode, c.Option = gen.OpcodeCheck, uint8(gen.ConditionEqual), uint8(gen.PolicyFail)
	c.Value, c.Mask = value&mask, mask
}

func (m *maker) store(c *lmb.Command, s *step, at pos) (next pos) {
	e, fill := m.storeRun(at)
	if s.tensor() < 0 && !e.worth(s) {
		c.Opcode, c.Value = gen.OpcodeWrite, s.value
		m.writes++
		return m.next(at)
	}
	e.span(c, s)
	c.Opcode = gen.OpcodeCopyIn
	switch {
	case s.tensor() >= 0:
		c.Index, c.Value = 1+uint16(s.to), s.value
	case fill:
		c.Opcode, c.Mode, c.Value = gen.OpcodeFill, uint8(gen.AccessExact), s.value
		if s.is(memoryStep) {
			m.widen(c)
		}
		m.fills++
		m.filled += e.n
		return e.end
	default:
		c.Data = m.bytes(&e)
		c.Amount = 0 // Encode counts
	}
	m.copies++
	m.stored += e.n
	return e.end
}

// widen makes a fill of memory one of wider stores, as far as its place allows.
func (m *maker) widen(c *lmb.Command) {
	place := uint64(c.Offset) | uint64(c.Amount) | m.windows[c.Window].Offset
	for c.Width < 8 && place%uint64(2*c.Width) == 0 {
		c.Value |= c.Value << (8 * c.Width)
		c.Width *= 2
	}
}

func (m *maker) load(c *lmb.Command, s *step, at pos) (next pos) {
	e := m.extent(at)
	switch {
	case s.tensor() >= 0:
		e.span(c, s)
		c.Opcode, c.Index, c.Value = gen.OpcodeCopyOut, 1+uint16(s.to), s.value
		m.outs++
		m.read += e.n
	case s.is(memoryStep) && e.worth(s):
		c.Opcode, c.Option, c.Data = gen.OpcodeCompare, uint8(gen.PolicyFail), m.bytes(&e)
		if m.compares++; m.compares == 1 {
			m.compareLine = int(s.line)
		}
		m.compared += e.n
	default:
		m.check(c, s.value, m.significant(s))
		m.expects++
		return m.next(at)
	}
	return e.end
}

// extent is the accesses of one command.
type extent struct {
	from, end pos
	n         int
	size      uint64 // bytes
	wide      uint8  // the widest access
}

// worth tells whether an extent is long enough for a command of its own kind.
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

// next is the access behind another.
func (m *maker) next(at pos) pos {
	if at.k+1 < m.steps.at(at.i).run() {
		return pos{at.i, at.k + 1}
	}
	return pos{at.i + 1, 0}
}

// extends tells whether the access behind an extent accesses the bytes behind
// those of it, and can be part of the same command.
func (m *maker) extends(e *extent) bool {
	if e.size >= runBytesMax || e.end.i >= m.steps.n {
		return false
	}
	if e.end.k > 0 {
		return true
	}
	a, b := m.steps.at(e.end.i-1), m.steps.at(e.end.i)
	if a.op != b.op || a.to != b.to || a.window != b.window || a.rule != b.rule || (a.flags^b.flags)&memoryStep != 0 ||
		a.is(repeatedStep) || b.is(repeatedStep) || uint64(b.offset) != uint64(a.offset)+a.size() {
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

// storeRun is extent for stores; it tells whether all of them store one value,
// and ends before, or behind, enough equal stores to be a fill of their own.
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
	if m.dry {
		return nil
	}
	s := m.steps.at(e.from.i)
	if s.run() > 1 && (e.end.i == e.from.i || e.end == pos{e.from.i + 1, 0}) {
		return m.data.bytes(s.value+uint64(e.from.k)*uint64(s.width), e.size)
	}
	data := make([]byte, 0, e.size)
	for at := e.from; at != e.end; {
		s := m.steps.at(at.i)
		if s.run() == 1 {
			data = append(data, binary.LittleEndian.AppendUint64(nil, s.value)[:s.width]...)
			at = pos{at.i + 1, 0}
			continue
		}
		last := s.run()
		if e.end.i == at.i {
			last = e.end.k
		}
		data = append(data, m.data.bytes(s.value+uint64(at.k)*uint64(s.width), uint64(last-at.k)*uint64(s.width))...)
		if at.i == e.end.i {
			at = e.end
		} else {
			at = pos{at.i + 1, 0}
		}
	}
	return data
}

// fencer puts a store fence behind every run of bulk copies: they may go
// through a write-combining mapping, and what comes next may start the device,
// move the window they went through, or read them back. So it does between
// stores to host memory and the device, and between a wait in host memory and
// what is compared there.
type fencer struct {
	open   bool // a bulk copy, or a store to host memory
	waited bool // in host memory
	n      int
}

// before tells whether a fence belongs in front of a command.
func (f *fencer) before(p *plan, c *lmb.Command) bool {
	if c.Opcode == lmb.OpcodeMark {
		return false
	}
	host := c.Opcode != gen.OpcodePoint && c.Opcode != gen.OpcodeFence && p.windows[c.Window].Kind == gen.WindowKindHost
	bulk := c.Opcode == gen.OpcodeFill || c.Opcode == gen.OpcodeCopyIn && gen.Access(c.Mode) == gen.AccessBulk
	stores := c.Opcode == gen.OpcodeWrite || c.Opcode == gen.OpcodeAddress || c.Opcode == gen.OpcodeFill || c.Opcode == gen.OpcodeCopyIn
	poll := c.Opcode == gen.OpcodeCheck && c.Amount != 0
	if c.Opcode == gen.OpcodeFence {
		f.open, f.waited = false, false
		return false
	}
	fence := f.open && !bulk && !(host && stores) || f.waited && !(host && poll)
	if fence {
		f.open, f.waited = false, false
	}
	f.open = f.open || bulk || host && stores
	f.waited = f.waited || host && poll
	return fence
}

// end puts a fence behind the last command where one is due.
func (f *fencer) end(m *maker) {
	if f.open && m.with("fence") {
		m.emitFence()
	}
}

// fenced reports the fences.
func (m *maker) fenced() (string, error) {
	if m.fences.n == 0 {
		return "", nil
	}
	return traces.Counted(m.fences.n, "store fence") + " behind bulk copies", nil
}

// hostFilled reports what host memory gets before everything else.
func (m *maker) hostFilled() (string, error) { return m.did, nil }

// mark reports the marks that lift took from the trace.
func (p *plan) mark() (string, error) {
	if len(p.names)+p.blank == 0 {
		return "", nil
	}
	text := traces.Counted(len(p.names), "mark")
	if p.blank > 0 {
		text += fmt.Sprintf("; %d without text dropped", p.blank)
	}
	return text, nil
}
