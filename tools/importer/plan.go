package importer

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/importer/traces"
	"lightmetal/tools/lmb"
)

// aim is where a window points.
type aim struct {
	target  fbs.Target
	address uint64
	// The rectangle of tiles, in the coordinates of NoC 0 or translated ones.
	x0, y0, x1, y1 uint8
	kinds          [2]chips.Kind // of the corners, 0: unknown
}

func (a *aim) has(x, y uint8) bool {
	return x >= a.x0 && x <= a.x1 && y >= a.y0 && y <= a.y1
}

// window is a window of the image.
type window struct {
	lmb.Window
	bar  uint8
	base uint64 // of its first byte in the BAR, as recorded
}

// plan is a trace on its way to an image.
type plan struct {
	o        Options
	board    *boards.Board
	chip     *chips.Chip
	report   Report
	steps    steps
	data     arena // of runs
	aims     []aim
	windows  []window
	bars     [6]uint64 // end of what is used in each BAR
	names    []string  // of marks
	blank    int       // marks without text
	tensors  []tensor
	commands []lmb.Command

	sequences []sequence // of the commands; without Options.Frame there are none
	current   segment    // that goes on behind them

	loads, stores int // in the trace
	certain       int // commands that there will be, whatever the passes do
	dropped       int // points that drop would take out, and lift did not make
	ignored       int // loads whose value tensors have given up
	split         int // accesses at the edge of a tensor
	halves        int // stores of addresses that were two

	hosts   []hostSpace
	late    [][]hostStore // of stepHost
	running []hold        // tiles whose cores were released
}

func newPlan(b *boards.Board, o Options) *plan {
	o.Board = b
	return &plan{o: o, board: b, chip: chips.Of(b), report: Report{Board: b.Name}}
}

// read reports what was read.
func (p *plan) read(t *traces.Trace) {
	p.report.Warnings = append(append([]traces.Warning{}, t.Warnings...), p.report.Warnings...)
	text := fmt.Sprintf("%s: %s, %s%s", traces.Counted(t.Lines, "line"), traces.Counted(p.loads, "load"), traces.Counted(p.stores, "store"),
		ignoredText(t.Ignored))
	p.report.Passes = append([]Pass{{"read", text}}, p.report.Passes...)
}

func ignoredText(list []traces.Count) (text string) {
	const shownMax = 4
	for i, c := range list {
		if i == shownMax {
			return text + fmt.Sprintf("; %d more kinds of lines", len(list)-i)
		}
		text += fmt.Sprintf("; left out %d %s", c.N, c.Name)
	}
	return text
}

// check refuses an access that no image for this board can hold. It gives the
// number of the rule.
func (p *plan) check(a *traces.Access) (uint8, error) {
	n := p.ruleOf(a.Bar, a.Offset, uint64(a.Width))
	if n < 0 {
		return 0, traces.Refuse(a.Line, "%s of %d bytes at BAR %d + 0x%x: board %s has nothing there that an image may access",
			a.Op, a.Width, a.Bar, a.Offset, p.board.Name)
	}
	r := &p.board.Rules[n]
	if r.Widths&a.Width == 0 {
		hint := ""
		if boards.ByID(p.board.Vendor, p.board.Device) == nil {
			hint = fmt.Sprintf("; --rule %d+0x%x..0x%x=%d lets it", a.Bar, a.Offset, a.Offset+uint64(a.Width), a.Width)
		}
		return 0, traces.Refuse(a.Line, "%s of %d bytes at BAR %d + 0x%x: board %s accepts no such width there (%s)%s",
			a.Op, a.Width, a.Bar, a.Offset, p.board.Name, r.Name, hint)
	}
	if reason := hostMemoryReason(p.board, a); reason != "" && !p.isAddress(a) {
		return 0, traces.Refuse(a.Line, "%s", reason)
	}
	return uint8(n), nil
}

// ruleOf is the number of the first rule that covers an access, -1: none.
func (p *plan) ruleOf(bar uint8, offset, size uint64) int {
	for i := range p.board.Rules {
		if r := &p.board.Rules[i]; r.Bar == bar && offset >= r.First && offset <= r.Last && size-1 <= r.Last-offset {
			return i
		}
	}
	return -1
}

// barStep makes a step of n neighbours in a BAR that no window is in front of,
// of which a is the first. ok is false where they cannot be one.
func (p *plan) barStep(a *traces.Access, n uint32) (s step, ok bool, err error) {
	size := uint64(n) * uint64(a.Width)
	memory := p.ruleOf(a.Bar, a.Offset, size)
	if n > 1 && (memory < 0 || !p.board.Rules[memory].Memory || p.behindTLB(a) || (a.Offset+size-1)/fbs.WindowMax != a.Offset/fbs.WindowMax) {
		return s, false, nil
	}
	rule, err := p.check(a)
	if err != nil {
		return s, false, err
	}
	p.bars[a.Bar] = max(p.bars[a.Bar], a.Offset+size)
	s = step{
		op: opOf(a), width: a.Width, count: n, line: uint32(a.Line), time: a.Time, value: a.Value, rule: rule,
		window: p.barWindow(a.Bar, a.Offset), offset: uint32(a.Offset % fbs.WindowMax), aim: -1, to: -1,
	}
	if p.board.Rules[rule].Memory && !p.behindTLB(a) {
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
func (p *plan) behindTLB(a *traces.Access) bool {
	if p.board.TLB == nil {
		return false
	}
	bar, offset := p.unalias(a.Bar, a.Offset)
	_, _, ok := chips.Slot(p.board.TLB, bar, offset)
	return ok
}

// barWindow gives the window over a BAR, or over the 4 GiB of it that hold
// offset.
func (p *plan) barWindow(bar uint8, offset uint64) uint16 {
	base := offset &^ (fbs.WindowMax - 1)
	for i := range p.windows {
		if w := &p.windows[i]; w.Kind == gen.WindowKindBar && w.bar == bar && w.base == base {
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
	p.windows = append(p.windows, w)
	return uint16(len(p.windows) - 1)
}

// addMark takes a mark of the trace as a step.
func (p *plan) addMark(a *traces.Access) {
	name := markName(a.Name)
	if name == "" {
		p.blank++
		return
	}
	p.names = append(p.names, name)
	p.steps.add(step{op: stepMark, line: uint32(a.Line), time: a.Time, count: 1, value: uint64(len(p.names) - 1), aim: -1, to: -1})
}

// markName makes a name that an image can hold of text from a trace.
func markName(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
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

// image puts the commands into an image.
func (p *plan) image(t *traces.Trace) (*lmb.Image, error) {
	if len(p.windows) == 0 {
		return nil, traces.Refuse(0, "no access to the device is left to replay")
	}
	image := &lmb.Image{
		Origin: lmb.Origin{Tool: p.o.Tool, Source: p.o.Source},
		Targets: []lmb.Target{{
			Board:  p.board.Name,
			Vendor: cmp.Or(t.Vendor, p.board.Vendor), Device: cmp.Or(t.Device, p.board.Device),
			Bars: p.barSizes(), Subsystem: p.o.Subsystem,
		}},
		Tensors:   p.imageTensors(),
		Sequences: p.sequenceList(),
	}
	if safe := p.safeCommands(); len(safe) > 0 {
		image.Sequences = append(image.Sequences, lmb.Sequence{Name: "safe", Commands: safe})
	}
	if t := &image.Targets[0]; boards.ByID(t.Vendor, t.Device) == nil {
		image.Rules = lmb.RulesOf(p.board, 0, t.Bars)
	}
	for _, w := range p.windows {
		if w.Kind == gen.WindowKindBar {
			w.Size = min(image.Targets[0].Bars[w.bar]-w.base, fbs.WindowMax)
		}
		image.Windows = append(image.Windows, w.Window)
	}
	if len(image.Windows) > fbs.WindowsMax || len(image.Tensors) > fbs.TensorsMax {
		return nil, traces.Usage("%d windows and %d tensors are more than an image holds (%d each)",
			len(image.Windows), len(image.Tensors), fbs.WindowsMax)
	}
	return image, nil
}

// barSizes is the least size of each BAR that is used: the board's, or where
// the recorded device had more, the next power of two.
func (p *plan) barSizes() (sizes [6]uint64) {
	for i, end := range p.bars {
		if end == 0 {
			continue
		}
		if !p.o.Generic {
			sizes[i] = p.board.Bars[i]
		}
		for sizes[i] < end {
			sizes[i] = cmp.Or(sizes[i]*2, 16)
		}
	}
	return sizes
}

// addressRegisters lists the registers that take addresses of host memory. What the
// recorded program had there is not in the trace, and its addresses are not
// those of the replay, so no image can be made of a store to them, unless
// Options.Host gives that memory. Zero, and
// addresses between first and last, are not of host memory.
var addressRegisters = []struct {
	board       string
	bar         uint8
	offset      uint64 // of 8 bytes
	first, last uint64
	name        string
}{
	{"nvme", 0, 0x28, 0, 0, "ASQ (admin submission queue base address)"}, // NVM Express 1.4, 3.1.9
	{"nvme", 0, 0x30, 0, 0, "ACQ (admin completion queue base address)"}, // NVM Express 1.4, 3.1.10
	{"edu", 0, 0x80, 0x40000, 0x40fff, "the DMA source address"},         // QEMU docs/specs/edu.rst; the range is edu's own buffer
	{"edu", 0, 0x88, 0x40000, 0x40fff, "the DMA destination address"},
}

// takesAddresses tells whether a register is one of them.
func takesAddresses(board string, bar uint8, offset uint64) bool {
	for _, h := range addressRegisters {
		if h.board == board && h.bar == bar && offset >= h.offset && offset < h.offset+8 {
			return true
		}
	}
	return false
}

func hostMemoryReason(b *boards.Board, a *traces.Access) string {
	for _, h := range addressRegisters {
		if h.board != b.Name || h.bar != a.Bar || a.Offset+uint64(a.Width) <= h.offset || a.Offset >= h.offset+8 || a.Op != traces.OpStore {
			continue
		}
		if a.Value != 0 && (a.Value < h.first || a.Value > h.last) {
			return fmt.Sprintf("store of 0x%x to %s: a replay needs host memory there, and the trace does not hold it; --host gives it", a.Value, h.name)
		}
	}
	return ""
}
