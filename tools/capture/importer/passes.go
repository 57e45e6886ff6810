package importer

import (
	"fmt"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// pointWindow emits a Point command if the window of step i does not point to the target of the
// step yet. If step i is a mark after a configuration of a window, the Point is for the access that
// follows the mark.
func (m *commandBuilder) pointWindow(i int) {
	for m.steps.at(i).hasFlag(flagPointFirst) && m.steps.at(i).op == stepMark &&
		i+1 < m.steps.count {
		i++
	}
	s := m.steps.at(i)
	if !s.accessesDevice() || s.target < 0 ||
		m.pointedTo[s.window] == 1+s.target && !s.hasFlag(flagPointFirst) {
		return
	}
	m.pointedTo[s.window] = 1 + s.target
	s.flags &^= flagPointFirst
	m.pointCount++
	m.emit(m.pointCommand(s.window, s.target))
}

func (p *program) pointCommand(window uint16, at int32) *lmb.Command {
	a := &p.targets[at]
	return &lmb.Command{Command: fbs.Command{Opcode: gen.OpcodePoint, Window: window,
		Value: a.address, Mask: a.route.Pack()}}
}

// fencer decides where store fences are needed. A fence follows each run of bulk copies: they may
// go through a write-combining mapping, and the next command may start the device, move the window,
// or load the same bytes. Fences also separate stores to host memory from accesses of the device,
// and a poll in host memory from the compares after it.
type fencer struct {
	bulkCopies bool // bulk copies to the device since the last fence
	hostStores bool // stores to host memory since the last fence
	hostPolls  bool // polls in host memory since the last fence
	count      int
}

// needsFence reports whether a fence is needed before a command, and updates the state.
func (f *fencer) needsFence(p *program, c *lmb.Command) bool {
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
	fence := c.Opcode != gen.OpcodeFence && ((f.bulkCopies && !bulk || f.hostStores) &&
		!(host && stores) ||
		f.hostPolls && !(host && poll))
	if fence || c.Opcode == gen.OpcodeFence {
		*f = fencer{count: f.count}
	}
	f.bulkCopies = f.bulkCopies || bulk && !host
	f.hostStores = f.hostStores || host && stores
	f.hostPolls = f.hostPolls || host && poll
	return fence
}

// emitLastFence emits a fence after the last command if one is needed.
func (f *fencer) emitLastFence(m *commandBuilder) {
	if (f.bulkCopies || f.hostStores) && m.isPassEnabled("fence") {
		m.emitFence()
	}
}

func (m *commandBuilder) reportFences() (out passResult, err error) {
	if m.fences.count > 0 {
		out.summary = english.Count(m.fences.count, "store fence") + " after bulk copies"
	}
	return out, nil
}

// startedCores describes a target whose cores the program started.
type startedCores struct {
	target      int32
	window      uint16
	resetOffset uint32 // of the reset register
}

// isResetRegister reports whether a step accesses the reset register of the cores of a tile.
func (p *program) isResetRegister(at *windowTarget, s *step) bool {
	cores := at.kinds[0] == chips.Tensix || at.kinds[0] == chips.Ethernet
	return p.board.Reset.Mask != 0 && at.address+uint64(s.offset) == p.board.Reset.Address && cores
}

func (l *lifter) recordCoreStart(s *step, at *windowTarget) {
	if s.op != stepStore || s.width != 4 || s.count != 1 || !l.isResetRegister(at, s) ||
		uint32(s.value)&l.board.Reset.Mask == l.board.Reset.Mask {
		return
	}
	for _, h := range l.startedTargets {
		if h.target == s.target {
			return
		}
	}
	l.startedTargets = append(l.startedTargets, startedCores{s.target, s.window, s.offset})
}

// reportSafe reports whether the image gets the sequence "safe". One tile needs no such sequence,
// because the driver puts its cores back into reset when a replay ends.
func (p *program) reportSafe() (out passResult, err error) {
	if len(p.safeCommands()) > 0 {
		out.summary = fmt.Sprintf("the program started cores in %d tiles or tile rectangles: "+
			"the sequence safe puts these cores in reset", len(p.startedTargets))
	}
	return out, nil
}

func (p *program) safeCommands() (list []lmb.Command) {
	if len(p.startedTargets) == 1 && !p.targets[p.startedTargets[0].target].route.Multicast {
		return nil
	}
	for _, h := range p.startedTargets {
		list = append(list, *p.pointCommand(h.window, h.target), lmb.Command{Command: fbs.Command{
			Opcode: gen.OpcodeWrite, Width: 4, Window: h.window, Offset: h.resetOffset,
			Value: uint64(p.board.Reset.Mask),
		}})
	}
	return list
}
