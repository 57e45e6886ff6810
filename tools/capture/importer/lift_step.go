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

// check refuses an access that no image for this board can hold. It gives the
// number of the rule.
func (l *lifter) check(a *traces.Access) (uint8, error) {
	n := l.ruleOf(a.Bar, a.Offset, uint64(a.Width))
	if n < 0 {
		return 0,
			traces.Refuse(a.Line,
				"%s of %d bytes at BAR %d + 0x%x: board %s has no rule that allows access "+
					"there",
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
			traces.Refuse(a.Line,
				"%s of %d bytes at BAR %d + 0x%x: board %s does not accept this width there "+
					"(%s)%s",
				a.Op, a.Width, a.Bar, a.Offset, l.board.Name, r.Name, hint)
	}
	return uint8(n), nil
}

// ruleOf is the number of the first rule that covers an access, -1: none.
func (l *lifter) ruleOf(bar uint8, offset, size uint64) int {
	for i := range l.board.Rules {
		if r := &l.board.Rules[i]; r.Bar == bar && offset >= r.First && offset <= r.Last &&
			size-1 <= r.Last-offset {
			return i
		}
	}
	return -1
}

// barStep makes a step of n neighbours in a BAR that no window is in front of,
// of which a is the first. ok is false where they cannot be one.
func (l *lifter) barStep(a *traces.Access, n uint32) (s step, ok bool, err error) {
	size := uint64(n) * uint64(a.Width)
	of := l.ruleOf(a.Bar, a.Offset, size)
	// what takes bulk
	memory := of >= 0 && l.board.Rules[of].IsMemory && l.board.Rules[of].Widths == 1|2|4|8 &&
		!l.behindTLB(a)
	if n > 1 && (!memory || (a.Offset+size-1)/fbs.WindowSizeMax != a.Offset/fbs.WindowSizeMax) {
		return s, false, nil
	}
	s = stepOf(a, n)
	if s.rule, err = l.check(a); err != nil {
		return s, false, err
	}
	if r := &l.board.Rules[s.rule]; r.LoadOnly && a.Op == traces.OpStore {
		hint := ""
		if l.behindTLB(a) || l.configures(a) {
			hint = "; add the pass lift, which turns such stores into points of windows"
		}
		return s, false, traces.Refuse(a.Line,
			"store of %d bytes at BAR %d + 0x%x: images must not store there (%s)%s", a.Width,
			a.Bar,
			a.Offset, r.Name, hint)
	}
	l.bars[a.Bar] = max(l.bars[a.Bar], a.Offset+size)
	s.window, s.offset = l.barWindow(a.Bar, a.Offset), uint32(a.Offset%fbs.WindowSizeMax)
	if memory {
		s.flags = memoryStep
	}
	return s, true, nil
}

// behindTLB reports whether an access goes through a movable window, so that the
// rules of the BAR do not tell what it reaches.
func (l *lifter) behindTLB(a *traces.Access) bool {
	if l.board.TLB == nil {
		return false
	}
	bar, offset := l.chip.Unalias(a.Bar, a.Offset)
	_, _, ok := chips.SlotAt(l.board.TLB, bar, offset)
	return ok
}

// configures reports whether an access is of a register that points a window.
func (l *lifter) configures(a *traces.Access) bool {
	if l.board.TLB == nil {
		return false
	}
	bar, offset := l.chip.Unalias(a.Bar, a.Offset)
	_, _, ok := chips.SlotOfRegister(l.board.TLB, bar, offset)
	return ok
}

// barWindow returns the window over a BAR, or over the 4 GiB of it that hold offset.
func (l *lifter) barWindow(bar uint8, offset uint64) uint16 {
	base := offset &^ (fbs.WindowSizeMax - 1)
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
	if a == nil || a.op != s.op || s.op != stepLoad && s.op != stepStore || a.window != s.window ||
		a.aim != s.aim ||
		a.width != s.width || a.rule != s.rule || a.flags&memoryStep != s.flags&memoryStep ||
		s.is(pointedStep) || s.time-a.last() >= pauseNs {
		return false
	}
	if a.offset == s.offset && s.op == stepLoad && a.run() == 1 && s.count == 1 &&
		a.value == s.value && a.count < 1<<31 {
		a.flags |= repeatedStep
		a.count++
		a.us = micros(s.last() - a.time)
		return true
	}
	return l.prolong(a, s, data)
}

// prolong makes a run of two neighbours in memory.
func (l *lifter) prolong(a, s *step, data []byte) bool {
	if !s.is(memoryStep) || a.is(repeatedStep) || a.offset+uint32(a.size()) != s.offset ||
		a.size()+s.size() > arenaChunk {
		return false
	}
	apart := int(s.line) - a.lineOf(a.count-1)
	if apart < 0 || apart > l.apartMax(s, s.last()-a.time) ||
		a.count > 1 && apart != int(a.apart) || s.count > 1 && apart > 0 {
		return false
	}
	if data == nil {
		data = traces.Bytes(s.value, s.width)
	}
	if a.count == 1 {
		a.value = l.data.add(slices.Concat(traces.Bytes(a.value, a.width), data))
	} else if !l.data.extend(a.value, a.size(), data) {
		return false
	}
	a.apart = uint16(apart)
	a.count += s.count
	a.us = micros(s.last() - a.time)
	return true
}

// apartMax returns how many lines at most may lie from one access of a run to the next, s, so
// that the run takes so many nanoseconds. Where lines between them have times, stores give up
// their own, as long as no pause could get lost. Loads keep theirs, because polls may be made
// of them, and so do stores in which frames are looked for.
func (l *lifter) apartMax(s *step, ns int64) int {
	if s.op == stepStore && ns < pauseNs && !l.exactTimes {
		return math.MaxUint16
	}
	return 1
}

// micros is a time in microseconds, or as much as a step can hold.
func micros(ns int64) uint32 { return uint32(min(max(ns, 0)/1000, 1<<32-1)) }

// add appends a step, or has the last one take it in.
func (l *lifter) add(s *step, data []byte) error {
	n := int(s.count)
	l.before(s)
	if l.whole(s) {
		return nil
	}
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
		s.value = l.data.add(data)
	}
	l.steps.add(*s)
	return nil
}

// limit refuses a trace as soon as it is sure that no image holds it: stores
// that are no neighbours are at least a command each.
func (l *lifter) limit(s *step) error {
	if s.op != stepStore {
		return nil
	}
	a := &l.lastStore
	if a.count == 0 || a.window != s.window || a.aim != s.aim ||
		a.offset+uint32(a.size()) != s.offset {
		l.certain++
	}
	l.lastStore = *s
	if l.certain >= fbs.CommandsMax {
		return traces.Refuse(int(s.line),
			"more commands than an image may have (%d): import a part", fbs.CommandsMax)
	}
	return nil
}

// aimAt works out which tiles a target reaches.
func (l *lifter) aimAt(t fbs.TileRoute, address uint64) aim {
	a := aim{target: t, address: address, x0: t.X, y0: t.Y, x1: t.X, y1: t.Y}
	if t.Multicast {
		a.x0, a.y0 = t.XStart, t.YStart
	}
	// NoC 1 counts from the other corner; translated coordinates, which lie
	// outside the grid, are the same on both.
	if g := l.chip.Grid; g != nil && t.NoC == 1 {
		width, height := uint8(len(g.Rows[0])), uint8(len(g.Rows))
		a.x0, a.x1 = mirror(a.x0, width), mirror(a.x1, width)
		a.y0, a.y1 = mirror(a.y0, height), mirror(a.y1, height)
	}
	a.x0, a.x1 = min(a.x0, a.x1), max(a.x0, a.x1)
	a.y0, a.y1 = min(a.y0, a.y1), max(a.y0, a.y1)
	a.kinds = [2]chips.Kind{l.kind(a.x0, a.y0), l.kind(a.x1, a.y1)}
	return a
}

func (l *lifter) kind(x, y uint8) chips.Kind {
	if l.chip.Grid == nil {
		return 0
	}
	tile, ok := l.chip.Grid.TileAt(x, y)
	if !ok {
		return 0
	}
	return l.chip.Grid.Kind(tile)
}

func mirror(v, size uint8) uint8 {
	if v < size {
		return size - 1 - v
	}
	return v
}

// tileMemory reports whether a range is memory in every tile that a window reaches.
func (l *lifter) tileMemory(a *aim, address, size uint64) bool {
	for _, k := range a.kinds {
		if k == 0 || l.chip.Grid.FindMemory(k, address, size) == nil {
			return false
		}
	}
	return true
}

// aim is where a window points.
type aim struct {
	target  fbs.TileRoute
	address uint64
	// The rectangle of tiles, in the coordinates of NoC 0 or translated ones.
	x0, y0, x1, y1 uint8
	kinds          [2]chips.Kind // of the corners, 0: unknown
}

func (a *aim) has(x, y uint8) bool {
	return x >= a.x0 && x <= a.x1 && y >= a.y0 && y <= a.y1
}

// mark reports the marks that lift took from the trace.
func (l *lifter) mark() (out outcome, err error) {
	if len(l.names)+l.blank == 0 {
		return out, nil
	}
	out.did = english.Count(len(l.names), "mark")
	if l.blank > 0 {
		out.did += fmt.Sprintf("; %d without text dropped", l.blank)
	}
	return out, nil
}

// addMark takes a mark of the trace as a step.
func (l *lifter) addMark(a *traces.Access) {
	name := markName(a.Name)
	if name == "" {
		l.blank++
		return
	}
	l.names = append(l.names, name)
	mark := step{op: stepMark, line: uint32(a.Line), time: a.Time, count: 1, aim: -1,
		to: int32(len(l.names) - 1)}
	for _, s := range l.slots {
		if s.fresh {
			mark.flags = pointedStep
		}
	}
	l.steps.add(mark)
}

// markName makes a name that an image can hold of text from a trace.
func markName(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(c rune) rune {
		if fbs.IsControl(c) {
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
