package importer

import (
	"fmt"
	"runtime/debug"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/importer/traces"
	"lightmetal/tools/lmb"
)

// check refuses an access that no image for this board can hold. It gives the
// number of the rule.
func (l *lifter) check(a *traces.Access) (uint8, error) {
	n := l.ruleOf(a.Bar, a.Offset, uint64(a.Width))
	if n < 0 {
		return 0, traces.Refuse(a.Line, "%s of %d bytes at BAR %d + 0x%x: board %s has nothing there that an image may access",
			a.Op, a.Width, a.Bar, a.Offset, l.board.Name)
	}
	r := &l.board.Rules[n]
	if r.Widths&a.Width == 0 {
		hint := ""
		if boards.ByID(l.board.Vendor, l.board.Device) == nil {
			hint = fmt.Sprintf("; --rule %d+0x%x..0x%x=%d lets it", a.Bar, a.Offset, a.Offset+uint64(a.Width), a.Width)
		}
		return 0, traces.Refuse(a.Line, "%s of %d bytes at BAR %d + 0x%x: board %s accepts no such width there (%s)%s",
			a.Op, a.Width, a.Bar, a.Offset, l.board.Name, r.Name, hint)
	}
	if reason := hostMemoryReason(l.board, a); reason != "" && !l.isAddress(a) {
		return 0, traces.Refuse(a.Line, "%s", reason)
	}
	return uint8(n), nil
}

// ruleOf is the number of the first rule that covers an access, -1: none.
func (l *lifter) ruleOf(bar uint8, offset, size uint64) int {
	for i := range l.board.Rules {
		if r := &l.board.Rules[i]; r.Bar == bar && offset >= r.First && offset <= r.Last && size-1 <= r.Last-offset {
			return i
		}
	}
	return -1
}

// barStep makes a step of n neighbours in a BAR that no window is in front of,
// of which a is the first. ok is false where they cannot be one.
func (l *lifter) barStep(a *traces.Access, n uint32) (s step, ok bool, err error) {
	size := uint64(n) * uint64(a.Width)
	memory := l.ruleOf(a.Bar, a.Offset, size)
	if n > 1 && (memory < 0 || !l.board.Rules[memory].Memory || l.behindTLB(a) || (a.Offset+size-1)/fbs.WindowMax != a.Offset/fbs.WindowMax) {
		return s, false, nil
	}
	rule, err := l.check(a)
	if err != nil {
		return s, false, err
	}
	l.bars[a.Bar] = max(l.bars[a.Bar], a.Offset+size)
	s = step{
		op: opOf(a), width: a.Width, count: n, line: uint32(a.Line), time: a.Time, value: a.Value, rule: rule,
		window: l.barWindow(a.Bar, a.Offset), offset: uint32(a.Offset % fbs.WindowMax), aim: -1, to: -1,
	}
	if l.board.Rules[rule].Memory && !l.behindTLB(a) {
		s.flags = memoryStep
	}
	return s, true, nil
}

func opOf(a *traces.Access) stepOp {
	if a.Op == traces.OpStore {
		return stepStore
	}
	return stepLoad
}

// behindTLB tells whether an access goes through a movable window, so that the
// rules of the BAR do not tell what it reaches.
func (l *lifter) behindTLB(a *traces.Access) bool {
	if l.board.TLB == nil {
		return false
	}
	bar, offset := l.chip.Unalias(a.Bar, a.Offset)
	_, _, ok := chips.Slot(l.board.TLB, bar, offset)
	return ok
}

// barWindow gives the window over a BAR, or over the 4 GiB of it that hold
// offset.
func (l *lifter) barWindow(bar uint8, offset uint64) uint16 {
	base := offset &^ (fbs.WindowMax - 1)
	for i := range l.windows {
		if w := &l.windows[i]; w.Kind == gen.WindowKindBar && w.bar == bar && w.base == base {
			return uint16(i)
		}
	}
	w := window{bar: bar, base: base}
	w.Window = lmb.Window{
		Window: fbs.Window{Kind: gen.WindowKindBar, Bar: bar, Slot: fbs.NoSlot, Offset: base},
		Name:   fmt.Sprintf("bar%d", bar),
	}
	if base != 0 {
		w.Name += fmt.Sprintf("+0x%x", base)
	}
	l.windows = append(l.windows, w)
	return uint16(len(l.windows) - 1)
}

// join makes the last step of the list one with what comes next: a neighbour
// in memory, or the same load once more. data is that of a run. It tells
// whether it did.
func (l *lifter) join(s *step, data []byte) bool {
	a := l.steps.end()
	if a == nil || a.op != s.op || s.op != stepLoad && s.op != stepStore || a.window != s.window || a.aim != s.aim ||
		a.width != s.width || a.rule != s.rule || a.flags&memoryStep != s.flags&memoryStep || s.time-a.last() >= pauseNs {
		return false
	}
	if a.offset == s.offset && s.op == stepLoad && a.run() == 1 && s.count == 1 && a.value == s.value && a.count < 1<<31 {
		a.flags |= repeatedStep
		a.count++
		a.us = micros(s.last() - a.time)
		return true
	}
	return l.prolong(a, s, data)
}

// prolong makes a run of two neighbours in memory.
func (l *lifter) prolong(a, s *step, data []byte) bool {
	if !s.is(memoryStep) || a.is(repeatedStep) || a.offset+uint32(a.size()) != s.offset || a.size()+s.size() > arenaChunk {
		return false
	}
	after := a.lineOf(a.count - 1) // lines are one, or go on by one
	apart := int(s.line) == after+1
	if !apart && int(s.line) != after || a.count > 1 && apart != a.is(apartStep) || s.count > 1 && apart {
		return false
	}
	if data == nil {
		data = traces.Bytes(s.value, s.width)
	}
	if a.count == 1 {
		a.at = l.data.add(traces.Bytes(a.value, a.width), data)
	} else if !l.data.extend(a.at, a.size(), data) {
		return false
	}
	if apart {
		a.flags |= apartStep
	}
	a.count += s.count
	a.us = micros(s.last() - a.time)
	return true
}

// micros is a time in microseconds, or as much as a step can hold.
func micros(ns int64) uint32 { return uint32(min(max(ns, 0)/1000, 1<<32-1)) }

// add appends a step, or has the last one take it in.
func (l *lifter) add(s *step, data []byte) error {
	n := int(s.count)
	l.before(s)
	if s.op == stepStore {
		l.program.stores += n
	} else {
		l.program.loads += n
	}
	if err := l.limit(s); err != nil {
		return err
	}
	if l.join(s, data) {
		return nil
	}
	if s.count > 1 {
		s.at = l.data.own(data)
	}
	l.steps.add(*s)
	if !l.large && (len(l.steps.chunks) > largeChunks || len(l.data.chunks) > largeChunks) {
		l.large, l.percent = true, debug.SetGCPercent(gcPercent)
	}
	return nil
}

// largeChunks of steps, 15 MB, or of data, 64 MiB or more, make an import large.
const largeChunks = 64

// limit refuses a trace as soon as it is sure that no image holds it: stores
// that are no neighbours are at least a command each.
func (l *lifter) limit(s *step) error {
	if s.op != stepStore {
		return nil
	}
	a := &l.lastStore
	if a.count == 0 || a.window != s.window || a.aim != s.aim || a.offset+uint32(a.size()) != s.offset {
		l.certain++
	}
	l.lastStore = *s
	if l.certain >= fbs.CommandsMax {
		return traces.Refuse(int(s.line), "more than the %d commands that an image holds: import a part", fbs.CommandsMax)
	}
	return nil
}
