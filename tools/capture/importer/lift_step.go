package importer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// checkRule returns the number of the board's rule for an access, or an error if no rule allows the
// access.
func (l *lifter) checkRule(a *traces.Access) (uint8, error) {
	n := l.ruleIndex(a.Bar, a.Offset, uint64(a.Width))
	if n < 0 {
		return 0,
			traces.TraceError(a.Line,
				"%s of %d bytes at BAR %d + 0x%x: board %s has no rule that allows access there",
				a.Op, a.Width, a.Bar, a.Offset, l.board.Name)
	}
	r := &l.board.Rules[n]
	if r.Widths&a.Width == 0 {
		hint := ""
		if boards.FindByID(l.board.Vendor, l.board.Device) == nil {
			hint = fmt.Sprintf("; --rule %d+0x%x..0x%x=%d allows it", a.Bar, a.Offset,
				a.Offset+uint64(a.Width), a.Width)
		}
		return 0,
			traces.TraceError(a.Line,
				"%s of %d bytes at BAR %d + 0x%x: board %s does not accept this width there (%s)%s",
				a.Op, a.Width, a.Bar, a.Offset, l.board.Name, r.Name, hint)
	}
	return uint8(n), nil
}

// ruleIndex returns the number of the first rule that covers a range, or -1.
func (l *lifter) ruleIndex(bar uint8, offset, size uint64) int {
	for i := range l.board.Rules {
		if r := &l.board.Rules[i]; r.Bar == bar && offset >= r.First && offset <= r.Last &&
			size-1 <= r.Last-offset {
			return i
		}
	}
	return -1
}

// newBarStep makes a step of n adjacent accesses in a BAR outside TLB windows. `a` is the first. ok
// is false if they cannot be one step.
func (l *lifter) newBarStep(a *traces.Access, n uint32) (s step, ok bool, err error) {
	size := uint64(n) * uint64(a.Width)
	of := l.ruleIndex(a.Bar, a.Offset, size)
	// Only plain memory accepts bulk copies.
	memory := of >= 0 && l.board.Rules[of].IsMemory && l.board.Rules[of].Widths == 1|2|4|8 &&
		!l.isThroughTLB(a)
	if n > 1 && (!memory || (a.Offset+size-1)/fbs.WindowSizeMax != a.Offset/fbs.WindowSizeMax) {
		return s, false, nil
	}
	s = newStep(a, n)
	if s.rule, err = l.checkRule(a); err != nil {
		return s, false, err
	}
	if r := &l.board.Rules[s.rule]; r.LoadOnly && a.Op == traces.OpStore {
		hint := ""
		if l.isThroughTLB(a) || l.isConfigRegister(a) {
			hint = "; remove --without lift: the pass lift turns such stores into point commands"
		}
		return s, false, traces.TraceError(a.Line,
			"store of %d bytes at BAR %d + 0x%x: images must not store there (%s)%s", a.Width,
			a.Bar,
			a.Offset, r.Name, hint)
	}
	l.barEnds[a.Bar] = max(l.barEnds[a.Bar], a.Offset+size)
	s.window, s.offset = l.findOrAddBarWindow(a.Bar, a.Offset), uint32(a.Offset%fbs.WindowSizeMax)
	if memory {
		s.flags = flagMemory
	}
	return s, true, nil
}

// isThroughTLB reports whether an access goes through a TLB window, so that the rules of the BAR do
// not describe what it reaches.
func (l *lifter) isThroughTLB(a *traces.Access) bool {
	if l.board.TLB == nil {
		return false
	}
	bar, offset := l.chip.Unalias(a.Bar, a.Offset)
	_, _, ok := chips.SlotAt(l.board.TLB, bar, offset)
	return ok
}

func (l *lifter) isConfigRegister(a *traces.Access) bool {
	if l.board.TLB == nil {
		return false
	}
	bar, offset := l.chip.Unalias(a.Bar, a.Offset)
	_, _, ok := chips.SlotOfRegister(l.board.TLB, bar, offset)
	return ok
}

// findOrAddBarWindow returns the index of the window for a BAR, or for the 4 GiB of it that contain
// offset.
func (l *lifter) findOrAddBarWindow(bar uint8, offset uint64) uint16 {
	base := offset &^ (fbs.WindowSizeMax - 1)
	for i := range l.windows {
		if w := &l.windows[i]; w.Kind == gen.WindowKindBar && w.bar == bar && w.base == base {
			return uint16(i)
		}
	}
	w := window{bar: bar, base: base}
	w.Window = lmb.Window{
		Window: fbs.Window{Kind: gen.WindowKindBar, Bar: bar, Slot: fbs.AnySlot, Offset: base},
		Name:   fmt.Sprintf("bar%d", bar),
	}
	if base != 0 {
		w.Name += fmt.Sprintf("+0x%x", base)
	}
	l.windows = append(l.windows, w)
	return uint16(len(l.windows) - 1)
}

// mergeIntoLast merges s into the last step of the list, if s is adjacent to it in memory or
// repeats its load, and reports whether it did. data has the bytes of s if s is a run.
func (l *lifter) mergeIntoLast(s *step, data []byte) bool {
	a := l.steps.lastStep()
	if a == nil || a.op != s.op || s.op != stepLoad && s.op != stepStore || a.window != s.window ||
		a.target != s.target ||
		a.width != s.width || a.rule != s.rule || a.flags&flagMemory != s.flags&flagMemory ||
		s.hasFlag(flagPointFirst|flagInterrupt) || s.time-a.lastTime() >= l.stepPauseNs() {
		return false
	}
	if a.offset == s.offset && s.op == stepLoad && a.elementCount() == 1 && s.count == 1 &&
		a.value == s.value && a.count < 1<<31 && !l.isCarried(s) {
		a.flags |= flagRepeated
		a.count++
		a.durationUs = toMicroseconds(s.lastTime() - a.time)
		return true
	}
	return l.extendRun(a, s, data)
}

// extendRun appends s to the step a if they are adjacent in memory, and reports whether it did.
func (l *lifter) extendRun(a, s *step, data []byte) bool {
	if !s.hasFlag(flagMemory) || a.hasFlag(flagRepeated) || a.offset+uint32(a.size()) != s.offset ||
		a.size()+s.size() > arenaChunk {
		return false
	}
	apart := int(s.line) - a.lineOf(a.count-1)
	if apart < 0 || apart > l.lineStrideMax(s, s.lastTime()-a.time) ||
		a.count > 1 && apart != int(a.lineStride) || s.count > 1 && apart > 0 {
		return false
	}
	if data == nil {
		data = traces.Bytes(s.value, s.width)
	}
	if a.count == 1 {
		a.value = l.runData.store(slices.Concat(traces.Bytes(a.value, a.width), data))
	} else if !l.runData.extend(a.value, a.size(), data) {
		return false
	}
	a.lineStride = uint16(apart)
	a.count += s.count
	a.durationUs = toMicroseconds(s.lastTime() - a.time)
	return true
}

// lineStrideMax returns the maximum number of lines from one access of a run that takes ns
// nanoseconds to the next, s. If there are lines between stores, the run loses the times of its
// stores; that is harmless while it contains no pause. Loads keep their times because they may
// become polls, and stores keep them in a search for frames.
func (l *lifter) lineStrideMax(s *step, ns int64) int {
	if s.op == stepStore && ns < l.stepPauseNs() && !l.exactTimes {
		return math.MaxUint16
	}
	return 1
}

// toMicroseconds returns a time in microseconds, limited to what a step can store.
func toMicroseconds(ns int64) uint32 { return uint32(min(max(ns, 0)/1000, 1<<32-1)) }

// addStep appends a step, or merges it into the last step.
func (l *lifter) addStep(s *step, data []byte) error {
	n := int(s.count)
	l.prepareAccess(s)
	l.noteInterrupt(s)
	if l.mergeAddressHalves(s) {
		return nil
	}
	if s.op == stepStore {
		l.program.stores += n
	} else {
		l.program.loads += n
	}
	if err := l.checkCommandLimit(s); err != nil {
		return err
	}
	if l.mergeIntoLast(s, data) {
		return nil
	}
	if s.count > 1 {
		s.value = l.runData.store(data)
	}
	l.steps.appendStep(*s)
	return nil
}

// noteInterrupt marks a load if an interrupt of the device came before it, and no store between.
func (l *lifter) noteInterrupt(s *step) {
	if l.isInterrupted && s.op == stepLoad && s.count == 1 {
		s.flags |= flagInterrupt
		l.interruptLoads++
	}
	l.isInterrupted = false
}

// checkCommandLimit rejects a trace as soon as its image would certainly have too many commands:
// stores that are not adjacent need at least one command each.
func (l *lifter) checkCommandLimit(s *step) error {
	if s.op != stepStore {
		return nil
	}
	a := &l.lastStore
	if a.count == 0 || a.window != s.window || a.target != s.target ||
		a.offset+uint32(a.size()) != s.offset {
		l.commandsMin++
	}
	l.lastStore = *s
	if l.commandsMin >= fbs.CommandsMax {
		return traces.TraceError(int(s.line),
			"the image would have more than %d commands, the most that are possible: "+
				"import a part with --part FROM..TO",
			fbs.CommandsMax)
	}
	return nil
}

// newWindowTarget returns the target for a route, with the rectangle of tiles that it reaches.
func (l *lifter) newWindowTarget(t fbs.TileRoute, address uint64) windowTarget {
	a := windowTarget{route: t, address: address, x0: t.X, y0: t.Y, x1: t.X, y1: t.Y}
	if t.Multicast {
		a.x0, a.y0 = t.XStart, t.YStart
	}
	// NoC 1 counts from the opposite corner. Translated coordinates, which are outside the grid,
	// are the same on both NoCs.
	if g := l.chip.Grid; g != nil && t.NoC == 1 {
		width, height := uint8(len(g.Rows[0])), uint8(len(g.Rows))
		a.x0, a.x1 = mirrorCoordinate(a.x0, width), mirrorCoordinate(a.x1, width)
		a.y0, a.y1 = mirrorCoordinate(a.y0, height), mirrorCoordinate(a.y1, height)
	}
	a.x0, a.x1 = min(a.x0, a.x1), max(a.x0, a.x1)
	a.y0, a.y1 = min(a.y0, a.y1), max(a.y0, a.y1)
	a.kinds = [2]chips.TileKind{l.tileKind(a.x0, a.y0), l.tileKind(a.x1, a.y1)}
	return a
}

func (l *lifter) tileKind(x, y uint8) chips.TileKind {
	if l.chip.Grid == nil {
		return 0
	}
	tile, ok := l.chip.Grid.TileAt(x, y)
	if !ok {
		return 0
	}
	return l.chip.Grid.Kind(tile)
}

func mirrorCoordinate(v, size uint8) uint8 {
	if v < size {
		return size - 1 - v
	}
	return v
}

// isTileMemory reports whether a range is memory in the tiles that a window reaches, of which it
// looks at the corners.
func (l *lifter) isTileMemory(a *windowTarget, address, size uint64) bool {
	for _, k := range a.kinds {
		if k == 0 || l.chip.Grid.FindMemory(k, address, size) == nil {
			return false
		}
	}
	return true
}

// windowTarget is what a TLB window points to: tiles, and a page in each.
type windowTarget struct {
	route   fbs.TileRoute
	address uint64
	// Rectangle of tiles, in NoC 0 or translated coordinates
	x0, y0, x1, y1 uint8
	kinds          [2]chips.TileKind // kinds of the corner tiles; 0: unknown
	shown          homeSet           // the same tiles by number; set when the target is added
}

func (a *windowTarget) containsTile(x, y uint8) bool {
	return x >= a.x0 && x <= a.x1 && y >= a.y0 && y <= a.y1
}

func (l *lifter) reportMarks() (out passResult, err error) {
	if len(l.markNames)+l.emptyMarks == 0 {
		return out, nil
	}
	out.summary = english.Count(len(l.markNames), "mark")
	if l.emptyMarks > 0 {
		out.summary += fmt.Sprintf("; %s without text dropped", english.Count(l.emptyMarks, "mark"))
	}
	return out, nil
}

func (l *lifter) addMark(a *traces.Access) {
	name := markName(a.Name)
	if name == "" {
		l.emptyMarks++
		return
	}
	l.markNames = append(l.markNames, name)
	mark := step{op: stepMark, line: uint32(a.Line), time: a.Time, count: 1, target: -1,
		operand: int32(len(l.markNames) - 1)}
	for _, s := range l.tlbStates {
		if s.hasNewConfig {
			mark.flags = flagPointFirst
		}
	}
	l.steps.appendStep(mark)
}

// markName makes a valid name of an image from text in a trace.
func markName(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(c rune) rune {
		if fbs.IsHidden(c) {
			return ' '
		}
		return c
	}, text)
	text = strings.TrimSpace(text)
	if len(text) > fbs.NameMax {
		text = strings.TrimSpace(strings.ToValidUTF8(text[:fbs.NameMax], ""))
	}
	return text
}
