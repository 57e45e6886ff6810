package importer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// slot is what the trace has told of one hardware window.
type slot struct {
	config [24]byte // its registers
	known  uint32   // one bit a byte of them that was stored
	line   int      // of the last store to them
	fresh  bool     // stored to, and no access followed
	moved  bool     // configured again, and no access followed that makes a step

	target  fbs.TileRoute // of the configuration in force
	address uint64        // in the tile, of the recorded window's first byte
	aim     int32         // where the last access through it went, -1: none did
	window  int           // of the image, -1: none yet
}

// lifter turns accesses into steps as they are read: one through a movable
// window into an access of the tile it points at, any other into one of a BAR.
// It follows the configuration of the windows, also outside the part that is
// imported.
type lifter struct {
	*program
	tlb                           *boards.TLBLayout
	slots                         map[int]*slot
	aimOf                         map[aimKey]int32
	stores, loads, points, unused int // of the configuration
	lifted, raw                   int // accesses through windows, and others
	managed                       int // accesses that Options.OmitManagement leaves out
	part                          partState
	cut                           cutState
	host                          hostMemory
	lastStore                     step // to the device
	certain                       int  // commands that there will be, whatever the passes do
	blank                         int  // marks without text
	halves                        int  // stores of addresses that were two
	exactTimes                    bool // each store with a time of its own is a step of its own
}

// aimKey is what makes two aims the same.
type aimKey struct {
	mask, address uint64
}

func (l *lifter) Start(b *boards.Board) {
	l.board, l.chip, l.tlb = b, chips.Of(b), b.TLB
	l.chip = cmp.Or(l.chip.WithoutBank(l.o.DisabledBank-1), l.chip)
	l.part.init(l.o.Part)
	l.cut.init(&l.o)
	l.host = hostMemory{regions: newRegions(b), slot: -1}
	for i, h := range l.o.Host {
		l.addHost(hostSpace{name: h.Name, bus: h.Bus, size: uint64(len(h.Data)), given: true,
			pages: map[uint64]*hostPage{},
			first: []hostStore{{i, 0, h.Data}}})
		l.hosts[i].store(0, h.Data)
	}
	if !l.with("lift") {
		l.tlb = nil
	}
}

// lift reports what became of the accesses.
func (l *lifter) lift() (outcome, error) {
	for _, s := range l.slots {
		if s.fresh {
			l.unused++
		}
	}
	return outcome{did: l.text()}, nil
}

func (l *lifter) text() string {
	if l.tlb == nil {
		return ""
	}
	var list clauses
	list.add(1, "%s through %s lifted", english.Count(l.lifted, "access"),
		english.Count(len(l.slots), "window"))
	list.add(1, "%s made %s", english.Count(l.stores, "configuration store"),
		english.Count(l.points, "point"))
	list.add(l.raw, "%d outside windows", l.raw)
	list.add(l.managed, "%s to the chip's management left out",
		english.Count(l.managed, "access"))
	list.add(l.unused, "%s before no access", english.Count(l.unused, "last configuration"))
	list.add(l.loads, "%s of configuration registers dropped", english.Count(l.loads, "load"))
	return strings.Join(list, "; ")
}

func (l *lifter) Access(a *traces.Access) error {
	if a.Op == traces.OpMark {
		if l.inside(a) && l.with("mark") {
			l.addMark(a)
		}
		return nil
	}
	return l.accesses(a, 1, nil)
}

// take makes a step of accesses. ok is false where they have to be halved.
func (l *lifter) take(a *traces.Access, n uint32, data []byte) (ok bool, err error) {
	bar, offset := l.chip.Unalias(a.Bar, a.Offset)
	inside := l.inside(a)
	if l.tlb != nil {
		if index, at, ok := chips.SlotOfRegister(l.tlb, bar, offset); ok {
			if n == 1 {
				err = l.configure(a, index, at, inside)
			}
			return n == 1, err
		}
	}
	if l.host.covers(a, uint64(n)*uint64(a.Width)) {
		if n == 1 {
			err = l.mapping(a, inside)
		}
		return n == 1, err
	}
	if !inside {
		l.part.left += int(n)
		return true, nil
	}
	if l.tlb != nil {
		if index, at, ok := chips.SlotAt(l.tlb, bar, offset); ok {
			return l.through(a, n, data, index, at)
		}
	}
	// Registers without a rule, such as those of the PCIe controller's DMA engine, move data of
	// the program.
	if l.o.OmitManagement && l.tlb != nil && l.ruleOf(a.Bar, a.Offset, uint64(a.Width)) >= 0 {
		l.managed += int(n)
		return true, nil
	}
	s, ok, err := l.barStep(a, n)
	if !ok || err != nil {
		return ok, err
	}
	l.raw += int(n)
	return true, l.add(&s, data)
}

func (l *lifter) slot(index int) *slot {
	s := l.slots[index]
	if s == nil {
		s = &slot{aim: -1, window: -1}
		l.slots[index] = s
	}
	return s
}

// configure takes an access to a window's configuration registers.
func (l *lifter) configure(a *traces.Access, index int, at uint64, inside bool) error {
	if l.tlb.GroupOf(index).IsOwnedByKernel(index) {
		return traces.Refuse(a.Line,
			"%s at the registers of TLB window %d, which belongs to the kernel driver: images "+
				"must not use it", a.Op, index)
	}
	if a.Op == traces.OpLoad {
		l.loads++
		l.program.loads++
		return nil
	}
	if a.Width < 4 || a.Width > l.tlb.ConfigWidth || at+uint64(a.Width) > l.tlb.ConfigStride {
		return traces.Refuse(a.Line,
			"store of %d bytes to the registers of TLB window %d, which have %d bytes "+
				"each", a.Width,
			index, l.tlb.ConfigWidth)
	}
	s := l.slot(index)
	copy(s.config[at:], traces.Bytes(a.Value, a.Width))
	s.known |= (1<<a.Width - 1) << at
	s.line, s.fresh = a.Line, true
	if inside {
		l.stores++
		l.program.stores++
	}
	return nil
}

// hole adds a step that does nothing yet, and returns its number.
func (l *lifter) hole(line int, time int64) int {
	l.steps.add(step{line: uint32(line), time: time, count: 1, aim: -1, to: -1})
	return l.steps.n - 1
}

// stepOf is the step of n neighbours of which a is the first.
func stepOf(a *traces.Access, n uint32) step {
	s := step{op: stepLoad, width: a.Width, count: n, line: uint32(a.Line), time: a.Time,
		value: a.Value, aim: -1, to: -1}
	if a.Op == traces.OpStore {
		s.op = stepStore
	}
	return s
}

// through takes accesses through a window.
func (l *lifter) through(a *traces.Access, n uint32, data []byte, index int, at uint64) (ok bool,
	err error) {
	group := l.tlb.GroupOf(index)
	if group.IsOwnedByKernel(index) {
		return false,
			traces.Refuse(a.Line, "%s through TLB window %d, which belongs to the kernel driver: "+
				"images must not use it", a.Op,
				index)
	}
	size := uint64(n) * uint64(a.Width)
	if n > 1 && (at+size > group.Size || l.ruleOf(a.Bar, a.Offset, size) < 0) {
		return false, nil
	}
	rule, err := l.check(a)
	if err != nil {
		return false, err
	}
	s := l.slot(index)
	if s.fresh || s.aim < 0 {
		if err := l.decode(a, s, index, group); err != nil {
			return false, err
		}
	}
	address := s.address + at
	page := address &^ (l.pageSize() - 1)
	if n > 1 && (address+size-1)&^(l.pageSize()-1) != page {
		return false, nil
	}
	aimed := l.aimAt(s.target, page)
	memory := l.tileMemory(&aimed, address, size)
	if n > 1 && !memory {
		return false, nil
	}
	if taken, err := l.throughPCIe(a, &aimed, address); taken || err != nil {
		return true, err
	}
	if l.omits(&aimed.target, n) {
		return true, nil
	}
	if err = l.checkForbidden(a, &aimed.target, page, address, index); err != nil {
		return false, err
	}
	pointed := l.aim(s, &aimed, index, group)
	if a.Op == traces.OpLoad && aimed.target.Multicast {
		return false, traces.Refuse(a.Line, "load through TLB window %d, which points to several "+
			"tiles: a load needs one tile", index)
	}
	l.lifted += int(n)
	next := stepOf(a, n)
	next.rule, next.window, next.aim = rule, uint16(s.window), s.aim
	next.offset = uint32(address - page)
	if memory {
		next.flags = memoryStep
	}
	if pointed && !l.with("drop") {
		next.flags |= pointedStep
	}
	l.release(&next, &aimed)
	return true, l.add(&next, data)
}

// omits reports whether n accesses of a target are left out, and counts them.
func (l *lifter) omits(target *fbs.TileRoute, n uint32) bool {
	omitted := l.o.OmitManagement && l.isManagement(target)
	if omitted {
		l.managed += int(n)
	}
	return omitted
}

// checkForbidden returns an error if a page of a tile has a range that images must not access.
func (l *lifter) checkForbidden(a *traces.Access, target *fbs.TileRoute, page, address uint64,
	index int) error {
	closed := l.board.FindForbiddenRange(*target, page, l.pageSize())
	if closed == nil {
		return nil
	}
	hint := ""
	if l.isManagement(target) {
		hint = "; --omit-management leaves out what a driver library does there"
	}
	return traces.Refuse(a.Line, "%s through TLB window %d at %#x of tile (%d,%d): "+
		"this window also shows %#x to %#x of %s, which images must not access%s", a.Op,
		index, address, target.X, target.Y, closed.First, closed.Last, closed.Name, hint)
}

// isManagement reports whether a window points at the ARC or the PCIe tile only. A driver library
// asks the chip's management processor (ARC) for its state there when it starts and ends.
func (l *lifter) isManagement(target *fbs.TileRoute) bool {
	if l.chip.Grid == nil || target.Multicast {
		return false
	}
	tile, ok := l.chip.Grid.TileAt(target.X, target.Y)
	if !ok {
		return false
	}
	kind := l.chip.Grid.Kind(tile)
	return kind == chips.ARC || kind == chips.PCIe
}

// aim follows a window to where an access goes. It reports whether the program
// pointed it there, or the access leaves the page that the last one was in.
func (l *lifter) aim(s *slot, at *aim, index int, group *boards.WindowGroup) (pointed bool) {
	if s.window < 0 {
		s.window = l.tlbWindow(index, group)
	}
	same := s.aim >= 0 && l.aims[s.aim].address == at.address && l.aims[s.aim].target == s.target
	if !same {
		key := aimKey{s.target.Pack(), at.address}
		index, ok := l.aimOf[key]
		if !ok {
			index = int32(len(l.aims))
			l.aims = append(l.aims, *at)
			l.aimOf[key] = index
		}
		s.aim = index
		l.host.due = true
	}
	pointed = !same || s.moved
	if pointed {
		l.points++
	}
	s.moved = false
	return pointed
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
func (l *lifter) decode(a *traces.Access, s *slot, index int, group *boards.WindowGroup) error {
	if s.known != 1<<l.tlb.ConfigStride-1 {
		return traces.Refuse(a.Line,
			"%s through TLB window %d, but no earlier line of the trace points the window to a "+
				"tile; record from the start of the program", a.Op,
			index)
	}
	words := boards.WindowConfig{binary.LittleEndian.Uint64(s.config[:]),
		binary.LittleEndian.Uint64(s.config[8:])}
	target, address, ok := chips.DecodeWindow(l.tlb, group, words)
	if !ok {
		var registers []string
		for i := uint64(0); i < l.tlb.ConfigStride; i += uint64(l.tlb.ConfigWidth) {
			registers = append(registers, fmt.Sprintf("%#x",
				chips.LoadRegister(&words, i, l.tlb.ConfigWidth)))
		}
		return traces.Refuse(s.line,
			"TLB window %d is configured to %s, which is not a plain tile: it has linked, "+
				"reserved or unknown bits", index,
			strings.Join(registers, " "))
	}
	s.target, s.address, s.fresh, s.moved = target, address, false, true
	return nil
}

// tlbWindow adds a window. Its slot is only a preference: nothing else in the
// image depends on it.
func (l *lifter) tlbWindow(index int, group *boards.WindowGroup) int {
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
		bar: group.Bar, base: group.WindowOffset(index),
	})
	return len(l.windows) - 1
}

// accesses takes n neighbours of one width that together move data, nil where n
// is 1 and a has it; in halves where they are not one step.
func (l *lifter) accesses(a *traces.Access, n uint32, data []byte) error {
	if n == 1 && data != nil {
		a.Value = traces.Little(data)
		data = nil
	}
	if ok, err := l.take(a, n, data); ok || err != nil {
		return err
	}
	first, second := *a, *a
	at := uint64(n/2) * uint64(a.Width)
	second.Offset += at
	if err := l.accesses(&first, n/2, data[:at:at]); err != nil {
		return err
	}
	return l.accesses(&second, n-n/2, data[at:])
}
