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
	"lightmetal/tools/lmb"
)

// stepOp is what a step does.
type stepOp uint8

const (
	stepNone     stepOp = iota
	stepStore           // value, or bytes of an input tensor
	stepRelocate        // the bus address of host memory
	stepLoad            // an expected value, or bytes of an output tensor
	stepIgnore          // a load whose value does not matter
	stepPoll
	stepPoint
	stepMark
)

// step is an access on its way to a command.
type step struct {
	rule   *boards.Rule
	time   int64
	offset uint64 // bytes into the window
	value  uint64 // datum; offset in the tensor or in host memory; address in the tile (stepPoint); index into plan.names (stepMark)
	mask   uint64 // of a stepPoll
	line   int
	us     uint32 // deadline of a stepPoll
	aim    int32  // index into plan.aims: where the window points; in a BAR -1
	tensor int16  // index into plan.tensors, -1: none
	window uint16 // index into plan.windows
	host   uint16 // index into Options.Host, of a stepRelocate
	op     stepOp
	width  uint8
	memory bool // plain memory: what counts is the bytes, not the accesses
}

// touches tells whether a step accesses the device.
func (s *step) touches() bool { return s.op >= stepStore && s.op <= stepPoll }

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
	trace    *Trace
	report   Report
	steps    []step
	aims     []aim
	windows  []window
	bars     [6]uint64 // end of what is used in each BAR
	names    []string  // of marks
	blank    int       // marks without text
	tensors  []tensor
	commands []lmb.Command

	hostFirst uint16 // window of the first host memory
	halves    int    // stores of addresses that were two
}

func newPlan(t *Trace, o Options) *plan {
	p := &plan{o: o, board: t.Board, trace: t}
	p.report = Report{Board: t.Board.Name, Warnings: append([]Warning{}, t.Warnings...)}
	loads, stores := 0, 0
	for i := range t.Accesses {
		switch t.Accesses[i].Op {
		case OpLoad:
			loads++
		case OpStore:
			stores++
		}
	}
	p.did("read", fmt.Sprintf("%s: %s, %s%s", counted(t.Lines, "line"), counted(loads, "load"), counted(stores, "store"), ignoredText(t.Ignored)))
	return p
}

func ignoredText(list []Count) (text string) {
	const shownMax = 4
	for i, c := range list {
		if i == shownMax {
			return text + fmt.Sprintf("; %d more kinds of lines", len(list)-i)
		}
		text += fmt.Sprintf("; left out %d %s", c.N, c.Name)
	}
	return text
}

// counted is n things.
func counted(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "y"):
		thing = strings.TrimSuffix(thing, "y") + "ies"
	case strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// check refuses an access that no image for this board can hold.
func (p *plan) check(a *Access) (*boards.Rule, error) {
	r := p.board.Rule(a.Bar, a.Offset, uint64(a.Width))
	if r == nil {
		return nil, refuse(a.Line, "%s of %d bytes at BAR %d + 0x%x: board %s has nothing there that an image may access",
			a.Op, a.Width, a.Bar, a.Offset, p.board.Name)
	}
	if r.Widths&a.Width == 0 {
		return nil, refuse(a.Line, "%s of %d bytes at BAR %d + 0x%x: board %s accepts no such width there (%s)",
			a.Op, a.Width, a.Bar, a.Offset, p.board.Name, r.Name)
	}
	if reason := hostMemoryReason(p.board, a); reason != "" && !p.o.isAddress(a) {
		return nil, refuse(a.Line, "%s", reason)
	}
	return r, nil
}

// barStep is an access to a BAR that no window is in front of.
func (p *plan) barStep(a *Access) (step, error) {
	r, err := p.check(a)
	if err != nil {
		return step{}, err
	}
	p.bars[a.Bar] = max(p.bars[a.Bar], a.Offset+uint64(a.Width))
	return step{
		op: opOf(a), width: a.Width, line: a.Line, time: a.Time, value: a.Value, rule: r,
		window: p.barWindow(a.Bar, a.Offset), offset: a.Offset % fbs.WindowMax, aim: -1, tensor: -1,
		memory: r.Memory && !p.behindTLB(a),
	}, nil
}

func opOf(a *Access) stepOp {
	if a.Op == OpStore {
		return stepStore
	}
	return stepLoad
}

// behindTLB tells whether an access goes through a movable window, so that the
// rules of the BAR do not tell what it reaches.
func (p *plan) behindTLB(a *Access) bool {
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
func (p *plan) addMark(a *Access) {
	name := markName(a.Name)
	if name == "" {
		p.blank++
		return
	}
	p.names = append(p.names, name)
	p.steps = append(p.steps, step{op: stepMark, line: a.Line, time: a.Time, value: uint64(len(p.names) - 1), aim: -1, tensor: -1})
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
func (p *plan) image() (*lmb.Image, error) {
	if len(p.commands) >= fbs.CommandsMax {
		return nil, refuse(0, "%d commands are more than an image holds (%d)", len(p.commands)+1, fbs.CommandsMax)
	}
	image := &lmb.Image{
		Origin: lmb.Origin{Tool: p.o.Tool, Source: p.o.Source},
		Targets: []lmb.Target{{
			Board:  p.board.Name,
			Vendor: cmp.Or(p.trace.Vendor, p.board.Vendor), Device: cmp.Or(p.trace.Device, p.board.Device),
			Bars: p.barSizes(),
		}},
		Tensors:   p.imageTensors(),
		Sequences: []lmb.Sequence{{Name: "main", Commands: p.commands}},
	}
	for _, w := range p.windows {
		if w.Kind == gen.WindowKindBar {
			w.Size = min(image.Targets[0].Bars[w.bar]-w.base, fbs.WindowMax)
		}
		image.Windows = append(image.Windows, w.Window)
	}
	if len(image.Windows) > fbs.WindowsMax || len(image.Tensors) > fbs.TensorsMax {
		return nil, usage("%d windows and %d tensors are more than an image holds (%d each)",
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
		sizes[i] = p.board.Bars[i]
		for sizes[i] < end {
			sizes[i] = cmp.Or(sizes[i]*2, 16)
		}
	}
	return sizes
}

// hostMemory lists the registers that take addresses of host memory. What the
// recorded program had there is not in the trace, and its addresses are not
// those of the replay, so no image can be made of a store to them, unless
// Options.Host gives that memory. Zero, and
// addresses between first and last, are not of host memory.
var hostMemory = []struct {
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
	for _, h := range hostMemory {
		if h.board == board && h.bar == bar && offset >= h.offset && offset < h.offset+8 {
			return true
		}
	}
	return false
}

func hostMemoryReason(b *boards.Board, a *Access) string {
	for _, h := range hostMemory {
		if h.board != b.Name || h.bar != a.Bar || a.Offset+uint64(a.Width) <= h.offset || a.Offset >= h.offset+8 || a.Op != OpStore {
			continue
		}
		if a.Value != 0 && (a.Value < h.first || a.Value > h.last) {
			return fmt.Sprintf("store of 0x%x to %s: a replay needs host memory there, and the trace does not hold it; --host gives it", a.Value, h.name)
		}
	}
	return ""
}
