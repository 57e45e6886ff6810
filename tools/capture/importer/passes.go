package importer

import (
	"fmt"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// point points the window of a step, where it does not show yet what the step
// accesses; of a mark after a configuration that of the access after it.
func (m *maker) point(i int) {
	for m.steps.at(i).is(pointedStep) && m.steps.at(i).op == stepMark && i+1 < m.steps.n {
		i++
	}
	s := m.steps.at(i)
	if !s.touches() || s.aim < 0 || m.shown[s.window] == 1+s.aim && !s.is(pointedStep) {
		return
	}
	m.shown[s.window] = 1 + s.aim
	s.flags &^= pointedStep
	m.points++
	m.emit(m.pointTo(s.window, s.aim))
}

// pointTo is the command that points a window.
func (p *program) pointTo(window uint16, at int32) *lmb.Command {
	a := &p.aims[at]
	return &lmb.Command{Command: fbs.Command{Opcode: gen.OpcodePoint, Window: window,
		Value: a.address, Mask: a.target.Pack()}}
}

// fencer puts a store fence after every run of bulk copies: they may go
// through a write-combining mapping, and what comes next may start the device,
// move the window they went through, or read them back. So it does between
// stores to host memory and the device, and between a wait in host memory and
// what is compared there.
type fencer struct {
	bulk   bool // copies to the device
	wrote  bool // host memory
	waited bool // in host memory
	n      int
}

// before reports whether a fence belongs in front of a command.
func (f *fencer) before(p *program, c *lmb.Command) bool {
	if c.Opcode == lmb.OpcodeMark {
		return false
	}
	host := c.Opcode != gen.OpcodePoint && c.Opcode != gen.OpcodeFence &&
		p.windows[c.Window].Kind == gen.WindowKindHost
	bulk := c.Opcode == gen.OpcodeFill || c.Opcode == gen.OpcodeCopyIn &&
		gen.Access(c.Mode) == gen.AccessBulk
	stores := c.Opcode == gen.OpcodeWrite || c.Opcode == gen.OpcodeRelocate ||
		c.Opcode == gen.OpcodeFill || c.Opcode == gen.OpcodeCopyIn
	poll := c.Opcode == gen.OpcodeExpect && c.Amount != 0
	fence := c.Opcode != gen.OpcodeFence && ((f.bulk && !bulk || f.wrote) && !(host && stores) ||
		f.waited && !(host && poll))
	if fence || c.Opcode == gen.OpcodeFence {
		*f = fencer{n: f.n}
	}
	f.bulk = f.bulk || bulk && !host
	f.wrote = f.wrote || host && stores
	f.waited = f.waited || host && poll
	return fence
}

// end puts a fence after the last command where one is due.
func (f *fencer) end(m *maker) {
	if (f.bulk || f.wrote) && m.with("fence") {
		m.emitFence()
	}
}

// fenced reports the fences.
func (m *maker) fenced() (out outcome, err error) {
	if m.fences.n > 0 {
		out.did = english.Count(m.fences.n, "store fence") + " after bulk copies"
	}
	return out, nil
}

// pauseNs is how long a program must do nothing to be taken to wait on purpose.
const pauseNs = 10_000_000

// pauses warns of what a replay does not do: wait where the program slept and did not poll.
func (p *program) pauses() (out outcome, err error) {
	n, first, back, backAt := 0, 0, 0, 0
	var a *step // the last access
	for i := range p.steps.n {
		b := p.steps.at(i)
		if !b.touches() {
			continue
		}
		if a != nil && a.time != 0 && b.time-a.last() >= pauseNs && b.op != stepPoll {
			if n++; n == 1 {
				first = int(b.line)
			}
		}
		if a != nil && b.time < a.time {
			if back++; back == 1 {
				backAt = int(b.line)
			}
		}
		a = b
	}
	if n > 0 {
		out.warn(first, "the program paused for 10 ms or more before this line, and %s in "+
			"all; a replay does not pause: add a delay to the listing if the device needs it",
			english.Count(n, "time"))
	}
	if back > 0 {
		out.warn(backAt,
			"the time decreases before this line, and %s in all; the lines may not be in "+
				"the order of the accesses",
			english.Count(back, "time"))
	}
	return out, nil
}

// hold is a window's target whose cores the program let run.
type hold struct {
	aim    int32
	window uint16
	offset uint32 // of the reset register
}

// isReset reports whether a step accesses the register that holds the cores of a
// tile in reset.
func (p *program) isReset(at *aim, s *step) bool {
	cores := at.kinds[0] == chips.Tensix || at.kinds[0] == chips.Ethernet
	return p.board.Reset.Mask != 0 && at.address+uint64(s.offset) == p.board.Reset.Address && cores
}

// release notes a store that lets cores run.
func (l *lifter) release(s *step, at *aim) {
	if s.op != stepStore || s.width != 4 || s.count != 1 || !l.isReset(at, s) ||
		uint32(s.value)&l.board.Reset.Mask == l.board.Reset.Mask {
		return
	}
	for _, h := range l.running {
		if h.aim == s.aim {
			return
		}
	}
	l.running = append(l.running, hold{s.aim, s.window, s.offset})
}

// safe says whether the image gets a sequence of that name. A driver that puts
// cores back into reset when a replay ends does so for one tile.
func (p *program) safe() (out outcome, err error) {
	if len(p.safeCommands()) > 0 {
		out.did = fmt.Sprintf("the program started cores of %d tiles or rectangles: "+
			"sequence safe puts them in reset", len(p.running))
	}
	return out, nil
}

func (p *program) safeCommands() (list []lmb.Command) {
	if len(p.running) == 1 && !p.aims[p.running[0].aim].target.Multicast {
		return nil
	}
	for _, h := range p.running {
		list = append(list, *p.pointTo(h.window, h.aim), lmb.Command{Command: fbs.Command{
			Opcode: gen.OpcodeWrite, Width: 4, Window: h.window, Offset: h.offset,
			Value: uint64(p.board.Reset.Mask),
		}})
	}
	return list
}
