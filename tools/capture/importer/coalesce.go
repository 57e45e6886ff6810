package importer

import (
	"fmt"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
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
	*program
	fences fencer
	did    string   // of fill
	cutTo  []string // what the trace was cut into

	sequences []lmb.Sequence // "main" is all where nothing is to be cut
	commands  *lmb.Packed    // that are in none of them
	current   segment        // that they are of
	shown     []int32        // of each window: 1 and the aim that it shows, 0: none

	// times that the program pointed a window
	pointed int
	// commands; fences and points among them
	made, points                                          int
	writes, copies, fills, polls, expects, compares, outs int // commands
	// of expects: those of loads whose value never mattered
	ignored                        int
	stored, filled, compared, read int // accesses in them
	compareLine                    int // of the first compare
}

// pos is access k of step i.
type pos struct {
	i int
	k uint32
}

// make makes the commands, and points windows where that changes something. The
// loads that are left are compared with what they returned when recorded, or, without
// the pass expect, executed and forgotten.
func (m *maker) make() (out outcome, err error) {
	m.sweep()
	front, did := m.front()
	m.did, m.shown = did, make([]int32, len(m.windows))
	for i := range front {
		m.emit(&front[i])
	}
	for at := (pos{}); at.i < m.steps.n; {
		at = m.command(at)
	}
	m.fences.end(m)
	if m.made >= fbs.CommandsMax {
		return out, traces.Refuse(0, "%d commands are more than an image may have (%d): "+
			"import a part",
			m.made+1, fbs.CommandsMax)
	}
	m.steps, m.data = steps{}, arena{}
	switch n := m.expects - m.ignored + m.compared; {
	case n > 0 && m.with("expect"):
		out.did = fmt.Sprintf("%s must return the recorded values",
			english.Count(n, "load"))
	case n > 0:
		out.did = fmt.Sprintf("off: the value of %s is ignored", english.Count(n, "load"))
	}
	return out, nil
}

// drop reports the points that were not made.
func (m *maker) drop() (out outcome, err error) {
	if m.pointed > 0 && m.with("drop") {
		out.did = fmt.Sprintf("%d of %s without effect dropped", m.pointed-m.points,
			english.Count(m.pointed, "point"))
	}
	return out, nil
}

// coalesce reports the commands. With it, neighbouring accesses are one; in
// memory only the bytes count then, elsewhere every access keeps its width and
// its place.
func (m *maker) coalesce() (out outcome, err error) {
	if len(m.o.Inputs) > 0 && m.compares > 0 {
		out.warn(m.compareLine,
			"%s data of the device with the recording, and will fail if an input changes "+
				"them; name the place as an output",
			holds(m.compares))
	}
	out.did = m.text()
	return out, nil
}

// emit appends a command, and the fence that it needs in front.
func (m *maker) emit(c *lmb.Command) {
	if m.with("fence") && m.fences.before(m.program, c) {
		m.emitFence()
	}
	m.append(c)
}

func (m *maker) emitFence() {
	m.fences.n++
	m.append(&lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
}

func (m *maker) append(c *lmb.Command) {
	if m.made++; m.made < fbs.CommandsMax {
		m.commands.Append(c)
	}
}

func holds(compares int) string {
	if compares == 1 {
		return "1 compare checks"
	}
	return fmt.Sprintf("%d compares check", compares)
}

func (m *maker) text() string {
	var list clauses
	list.add(m.writes, "%s", english.Count(m.writes, "write"))
	list.add(m.copies, "%s of %s", english.Count(m.copies, "copy"),
		english.Count(m.stored, "store"))
	list.add(m.fills, "%s of %s", english.Count(m.fills, "fill"),
		english.Count(m.filled, "store"))
	list.add(m.polls, "%s", english.Count(m.polls, "poll"))
	list.add(m.expects, "%s", english.Count(m.expects, "expect"))
	list.add(m.compares, "%s of %s", english.Count(m.compares, "compare"),
		english.Count(m.compared, "load"))
	list.add(m.outs, "%s of %s", english.Count(m.outs, "output copy"),
		english.Count(m.read, "load"))
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
	if at.k == 0 {
		m.point(at.i)
	}
	if s.run() > 1 {
		return m.single(m.element(s, at.k), at)
	}
	for range s.count - 1 {
		m.single(m.element(s, 0), at)
	}
	return m.single(m.element(s, 0), at)
}

// single makes a command of the access s at a place, and of those after it
// that belong to it.
func (m *maker) single(s step, at pos) (next pos) {
	c := lmb.Command{Command: fbs.Command{Width: s.width, Window: s.window, Offset: s.offset}}
	next = m.next(at)
	switch s.op {
	case stepCut:
		m.cut(&s)
		return next
	case stepHost:
		m.hostStores(m.late[s.to])
		return next
	case stepMark:
		c = lmb.Command{Command: fbs.Command{Opcode: lmb.OpcodeMark,
			Mode: uint8(gen.MarkKindPoint)}, Data: []byte(m.names[s.to])}
	case stepPoll:
		m.check(&c, s.value, m.mask(&s))
		c.Amount = s.us
		if s.is(reachedStep) {
			c.Mode = uint8(gen.ConditionReached)
		}
		m.polls++
	case stepIgnore:
		m.check(&c, 0, 0)
		m.expects++
		m.ignored++
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
	c.Opcode, c.Mode, c.Option = gen.OpcodeExpect, uint8(gen.ConditionEqual), uint8(gen.PolicyFail)
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
	var e extent
	if s.tensor() >= 0 || s.is(memoryStep) && m.with("expect") {
		e = m.extent(at)
	}
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
		mask := m.significant(s)
		if !m.with("expect") {
			mask = 0
		}
		m.check(c, s.value, mask)
		m.expects++
		return m.next(at)
	}
	return e.end
}

// hostFilled reports what host memory gets before everything else.
func (m *maker) hostFilled() (outcome, error) { return outcome{did: m.did}, nil }
