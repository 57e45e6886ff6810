package importer

import (
	"encoding/binary"
	"fmt"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

// slot is what the trace has told of one hardware window.
type slot struct {
	config [24]byte // its registers
	known  uint32   // one bit a byte of them that was stored
	line   int      // of the last store to them
	step   int      // that the last store to them is, while no access followed
	fresh  bool     // stored to, and no access followed

	target  fbs.Target // of the configuration in force
	address uint64     // in the tile, of the recorded window's first byte
	aim     int32      // where the image's window points, -1: nowhere
	window  int        // of the image, -1: none yet
}

// lifter follows the configuration of the windows.
type lifter struct {
	*plan
	tlb                           *boards.TLB
	slots                         map[int]*slot
	stores, loads, points, unused int // of the configuration
	lifted, raw                   int // accesses through windows, and others
}

// lift turns accesses into steps: one through a movable window into an access
// of the tile it points at, any other into one of a BAR.
func (p *plan) lift() (string, error) {
	l := &lifter{plan: p, tlb: p.board.TLB, slots: map[int]*slot{}}
	if !p.with("lift") {
		l.tlb = nil
	}
	p.steps = make([]step, 0, len(p.trace.Accesses))
	for i := range p.trace.Accesses {
		if err := l.access(&p.trace.Accesses[i]); err != nil {
			return "", err
		}
	}
	p.trace.Accesses = nil
	for _, s := range l.slots {
		if s.fresh {
			l.unused++
		}
	}
	return l.text(), nil
}

func (l *lifter) text() string {
	if l.tlb == nil {
		return ""
	}
	text := fmt.Sprintf("%s through %s lifted; %s made %s", counted(l.lifted, "access"), counted(len(l.slots), "window"),
		counted(l.stores, "configuration store"), counted(l.points, "point"))
	if l.raw > 0 {
		text += fmt.Sprintf("; %d outside windows", l.raw)
	}
	if l.unused > 0 {
		text += fmt.Sprintf("; %s never used", counted(l.unused, "last configuration"))
	}
	if l.loads > 0 {
		text += fmt.Sprintf("; %s of configuration registers dropped", counted(l.loads, "load"))
	}
	return text
}

func (l *lifter) access(a *Access) error {
	if a.Op == OpMark {
		if l.with("mark") {
			l.addMark(a)
		}
		return nil
	}
	if l.tlb != nil {
		bar, offset := l.unalias(a.Bar, a.Offset)
		if index, inside, ok := chips.Config(l.tlb, bar, offset); ok {
			return l.configure(a, index, inside)
		}
		if index, inside, ok := chips.Slot(l.tlb, bar, offset); ok {
			return l.through(a, index, inside)
		}
	}
	s, err := l.barStep(a)
	if err != nil {
		return err
	}
	l.raw++
	l.steps = append(l.steps, s)
	return nil
}

// unalias gives the place in the BAR that a BAR shows a part of.
func (p *plan) unalias(bar uint8, offset uint64) (uint8, uint64) {
	for _, a := range chips.Of(p.board).Aliases {
		if a.Bar == bar && offset < a.Size {
			return a.Of, a.Offset + offset
		}
	}
	return bar, offset
}

func (l *lifter) slot(index int) *slot {
	s := l.slots[index]
	if s == nil {
		s = &slot{aim: -1, window: -1, step: -1}
		l.slots[index] = s
	}
	return s
}

// configure takes an access to a window's configuration registers.
func (l *lifter) configure(a *Access, index int, inside uint64) error {
	if l.tlb.Group(index).Kernel(index) {
		return refuse(a.Line, "%s of the configuration of window %d, which belongs to the kernel driver", a.Op, index)
	}
	if a.Op == OpLoad {
		l.loads++
		return nil
	}
	size := uint64(l.tlb.ConfigWidth) * uint64(l.tlb.ConfigWords)
	if a.Width < 4 || a.Width > l.tlb.ConfigWidth || inside+uint64(a.Width) > size {
		return refuse(a.Line, "store of %d bytes to the configuration of window %d, whose registers have %d", a.Width, index, l.tlb.ConfigWidth)
	}
	s := l.slot(index)
	var value [8]byte
	binary.LittleEndian.PutUint64(value[:], a.Value)
	copy(s.config[inside:], value[:a.Width])
	s.known |= (1<<a.Width - 1) << inside
	s.line, s.step, s.fresh = a.Line, len(l.steps), true
	l.stores++
	// The place of a Point, should an access show that this store was the last
	// of a configuration.
	l.steps = append(l.steps, step{line: a.Line, time: a.Time, aim: -1, tensor: -1})
	return nil
}

// through takes an access through a window.
func (l *lifter) through(a *Access, index int, inside uint64) error {
	group := l.tlb.Group(index)
	if group.Kernel(index) {
		return refuse(a.Line, "%s through window %d, which belongs to the kernel driver", a.Op, index)
	}
	r, err := l.check(a)
	if err != nil {
		return err
	}
	s := l.slot(index)
	if s.fresh || s.aim < 0 {
		if err := l.decode(a, s, index, group); err != nil {
			return err
		}
	}
	address := s.address + inside
	if page := address &^ (l.pageSize() - 1); s.aim < 0 || l.aims[s.aim].address != page {
		l.point(a, s, page)
	}
	at := &l.aims[s.aim]
	if a.Op == OpLoad && at.target.Multicast {
		return refuse(a.Line, "load through window %d, which is pointed at several tiles", index)
	}
	l.lifted++
	l.steps = append(l.steps, step{
		op: opOf(a), width: a.Width, line: a.Line, time: a.Time, value: a.Value, rule: r,
		window: uint16(s.window), offset: address - at.address, aim: s.aim, tensor: -1,
		memory: l.tileMemory(at, address, uint64(a.Width)),
	})
	return nil
}

// pageSize is the size of the image's windows: that of the device's smallest,
// so that they fit in any other.
func (l *lifter) pageSize() uint64 {
	size := l.tlb.Groups[0].Size
	for i := range l.tlb.Groups {
		size = min(size, l.tlb.Groups[i].Size)
	}
	return size
}

// decode brings the configuration that a window has now into force.
func (l *lifter) decode(a *Access, s *slot, index int, group *boards.Group) error {
	size := int(l.tlb.ConfigWidth) * l.tlb.ConfigWords
	if s.known != 1<<size-1 {
		return refuse(a.Line, "%s through window %d, which the trace does not configure before (record from the start of the program on)", a.Op, index)
	}
	var words boards.Words
	for i := range l.tlb.ConfigWords {
		b := s.config[i*int(l.tlb.ConfigWidth):]
		if l.tlb.ConfigWidth == 4 {
			words[i] = uint64(binary.LittleEndian.Uint32(b))
		} else {
			words[i] = binary.LittleEndian.Uint64(b)
		}
	}
	target, address, ok := chips.Decode(l.tlb, group, words)
	if !ok {
		return refuse(s.line, "window %d is configured to %s, which points at no tile (linked, reserved or unknown bits)",
			index, strings.Trim(fmt.Sprintf("%#x", words[:l.tlb.ConfigWords]), "[]"))
	}
	if s.window < 0 {
		s.window = l.tlbWindow(index, group)
	}
	s.target, s.address, s.aim, s.fresh = target, address, -1, false
	return nil
}

// point makes a step that points the image's window at a page of the tile: in
// the place of the configuration stores, or where an access leaves the page.
func (l *lifter) point(a *Access, s *slot, page uint64) {
	if s.step < 0 {
		s.step = len(l.steps)
		l.steps = append(l.steps, step{line: a.Line, time: a.Time, aim: -1, tensor: -1})
	}
	s.aim = int32(len(l.aims))
	l.aims = append(l.aims, l.aimAt(s.target, page))
	p := &l.steps[s.step]
	p.op, p.window, p.value, p.mask, p.aim = stepPoint, uint16(s.window), page, s.target.Pack(), s.aim
	s.step = -1
	l.points++
}

// aimAt works out which tiles a target reaches.
func (l *lifter) aimAt(t fbs.Target, address uint64) aim {
	a := aim{target: t, address: address, x0: t.X, y0: t.Y, x1: t.X, y1: t.Y}
	if t.Multicast {
		a.x0, a.y0 = t.XStart, t.YStart
	}
	// NoC 1 counts from the other corner; translated coordinates, which lie
	// outside the grid, are the same on both.
	if g := chips.Of(l.board).Grid; g != nil && t.NoC == 1 {
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
	if chips.Of(l.board).Grid == nil {
		return 0
	}
	tile, ok := chips.Of(l.board).Grid.NoC0(x, y)
	if !ok {
		return 0
	}
	return chips.Of(l.board).Grid.Kind(tile)
}

func mirror(v, size uint8) uint8 {
	if v < size {
		return size - 1 - v
	}
	return v
}

// tlbWindow adds a window. Its slot is only a preference: nothing else in the
// image depends on it.
func (l *lifter) tlbWindow(index int, group *boards.Group) int {
	n := 0
	for i := range l.windows {
		if l.windows[i].Kind == gen.WindowKindTlb {
			n++
		}
	}
	// Whoever points a window needs the registers that do it.
	end := l.tlb.ConfigOffset + uint64(index+1)*l.tlb.ConfigStride
	l.bars[l.tlb.ConfigBar] = max(l.bars[l.tlb.ConfigBar], end)
	l.windows = append(l.windows, window{
		Window: lmb.Window{
			Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: uint16(index), Size: l.pageSize()},
			Name:   fmt.Sprintf("tlb%d", n),
		},
		bar: group.Bar, base: group.Start(index),
	})
	return len(l.windows) - 1
}

// tileMemory tells whether a range is memory in every tile that a window
// reaches.
func (l *lifter) tileMemory(a *aim, address, size uint64) bool {
	for _, k := range a.kinds {
		if k == 0 || chips.Of(l.board).Grid.Memory(k, address, size) == nil {
			return false
		}
	}
	return true
}

// drop takes out the points of a window that no access follows, and those that
// leave it where it is.
func (p *plan) drop() (string, error) {
	if !p.with("drop") {
		return "", nil
	}
	points, dropped := 0, 0
	pending, current := make([]int, len(p.windows)), make([]int, len(p.windows))
	for i := range pending {
		pending[i], current[i] = -1, -1
	}
	remove := func(i int) {
		p.steps[i].op = stepNone
		dropped++
	}
	for i := range p.steps {
		s := &p.steps[i]
		w := s.window
		switch {
		case s.op == stepPoint:
			points++
			if pending[w] >= 0 {
				remove(pending[w])
			}
			pending[w] = i
		case s.touches() && pending[w] >= 0:
			now, before := &p.steps[pending[w]], current[w]
			if before >= 0 && p.steps[before].value == now.value && p.steps[before].mask == now.mask {
				remove(pending[w])
			} else {
				current[w] = pending[w]
			}
			pending[w] = -1
		}
	}
	for _, i := range pending {
		if i >= 0 {
			remove(i)
		}
	}
	p.sweep()
	if points == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d of %s change nothing", dropped, counted(points, "point")), nil
}

// sweep takes out the steps that do nothing any more.
func (p *plan) sweep() {
	kept := p.steps[:0]
	for _, s := range p.steps {
		if s.op != stepNone {
			kept = append(kept, s)
		}
	}
	p.steps = kept
}
