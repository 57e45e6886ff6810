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
	"lightmetal/tools/capture/record"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// tlbState is the state of one TLB window at the current line of the trace.
type tlbState struct {
	config         [24]byte // content of its configuration registers
	storedBytes    uint32   // one bit for each byte of config that the program has stored
	lastStoreLine  int      // line of the last store to config
	hasNewConfig   bool     // config was stored, and no access followed
	isReconfigured bool     // configured again, and no access that makes a step followed

	route   fbs.TileRoute // target of the decoded configuration
	address uint64        // address in the tile of the first byte of the TLB window
	// Index into program.targets of the last access through the window; -1: none
	lastTarget  int32
	windowIndex int // index into program.windows; -1: none yet
}

// lifter turns accesses into steps while the trace is read. An access through a TLB window becomes
// an access of the tile that it points to, any other an access of a BAR. The lifter follows the
// configuration of the windows also outside the part that is imported.
type lifter struct {
	*program
	tlb           *boards.TLBLayout
	tlbStates     map[int]*tlbState
	targetIndexes map[targetKey]int32
	// Accesses of configuration registers; Points; windows that no access followed
	configStores, configLoads, pointCount, unusedWindows int
	// Accesses through TLB windows, and all others
	windowAccesses, otherAccesses int
	managementAccesses            int // accesses that Options.OmitManagement leaves out
	part                          partState
	cut                           cutState
	host                          hostMemory
	lastStore                     step // last store to the device
	commandsMin                   int  // minimum number of commands, whatever the passes do
	emptyMarks                    int  // marks without text
	joinedAddresses               int  // addresses that the program stored in two halves
	exactTimes                    bool // stores with different times stay different steps
	// The device raised an interrupt after the last access
	isInterrupted                  bool
	interruptCount, interruptLoads int
}

// targetKey identifies a windowTarget.
type targetKey struct {
	route, address uint64 // route: packed by fbs.TileRoute.Pack
}

func (l *lifter) Start(b *boards.Board) {
	l.board, l.chip, l.tlb = b, chips.ForBoard(b), b.TLB
	l.chip = cmp.Or(l.chip.WithoutBank(l.options.DisabledBank-1), l.chip)
	if l.chip.Grid != nil {
		l.homes = newTileHomes(l.chip.Grid)
	}
	l.part.init(l.options.Part)
	l.cut.init(&l.options)
	l.host = hostMemory{iatuState: newIATUState(b), slotStep: -1}
	l.host.whole.enabled = l.exactTimes || l.options.movesHost()
	for i, h := range l.options.Host {
		l.addHostSpace(hostSpace{name: h.Name, bus: h.Bus, size: uint64(len(h.Data)),
			fromUser:      true,
			pages:         record.Pages{Unknown: true},
			initialStores: []hostStore{{i, 0, h.Data}}})
		l.hostSpaces[i].pages.Set(0, h.Data)
	}
	if !l.isPassEnabled("lift") {
		l.tlb = nil
	}
}

// reportLift reports the numbers of accesses by kind.
func (l *lifter) reportLift() (passResult, error) {
	for _, s := range l.tlbStates {
		if s.hasNewConfig {
			l.unusedWindows++
		}
	}
	return passResult{summary: l.liftSummary()}, nil
}

func (l *lifter) liftSummary() string {
	if l.tlb == nil {
		return ""
	}
	var list clauses
	list.addIfAny(1, "%s through %s became accesses to tiles",
		english.Count(l.windowAccesses, "access"),
		english.Count(len(l.tlbStates), "TLB window"))
	list.addIfAny(1, "%s became %s", english.Count(l.configStores, "configuration store"),
		english.Count(l.pointCount, "point command"))
	list.addIfAny(l.otherAccesses, "%s outside TLB windows",
		english.Count(l.otherAccesses, "access"))
	list.addIfAny(l.managementAccesses, "%s left out by --omit-management",
		english.Count(l.managementAccesses, "access"))
	list.addIfAny(l.unusedWindows, "%s without an access after the last configuration",
		english.Count(l.unusedWindows, "TLB window"))
	list.addIfAny(l.configLoads, "%s of configuration registers dropped",
		english.Count(l.configLoads, "load"))
	return strings.Join(list, "; ")
}

func (l *lifter) Access(a *traces.Access) error {
	if a.Op == traces.OpMark {
		if l.enterSegment(a) && l.isPassEnabled("mark") {
			l.addMark(a)
		}
		return nil
	}
	if a.Op == traces.OpInterrupt {
		if l.enterSegment(a) {
			l.isInterrupted = true
			l.interruptCount++
		}
		return nil
	}
	if a.Op == traces.OpRejected || a.Op == traces.OpLost {
		return l.leaveOut(a)
	}
	return l.addAccesses(a, 1, nil)
}

// leaveOut returns an error for a line that no image can repeat, unless it is outside the part. If
// nothing is known of it, it may have pointed a TLB window for the part.
func (l *lifter) leaveOut(a *traces.Access) error {
	if l.enterSegment(a) || a.Op == traces.OpLost && l.tlb != nil && !l.part.ended {
		return traces.TraceError(a.Line, "%s", a.Name)
	}
	l.part.outsideCount++
	return nil
}

// addAsOneStep makes a step of n accesses. ok is false if they cannot be one step and must be
// halved.
func (l *lifter) addAsOneStep(a *traces.Access, n uint32, data []byte) (ok bool, err error) {
	bar, offset := l.chip.Unalias(a.Bar, a.Offset)
	inside := l.enterSegment(a)
	if l.tlb != nil {
		if index, at, ok := chips.SlotOfRegister(l.tlb, bar, offset); ok {
			if n == 1 {
				err = l.accessConfig(a, index, at, inside)
			}
			return n == 1, err
		}
	}
	if l.host.isRegister(a, uint64(n)*uint64(a.Width)) {
		if n == 1 {
			err = l.accessIATU(a, inside)
		}
		return n == 1, err
	}
	if !inside {
		l.part.outsideCount += int(n)
		l.noteOutside(a)
		return true, nil
	}
	if l.tlb != nil {
		if index, at, ok := chips.SlotAt(l.tlb, bar, offset); ok {
			return l.accessThroughWindow(a, n, data, index, at)
		}
	}
	// Registers without a rule, such as those of the PCIe controller's DMA engine, move data of
	// the program.
	if l.options.OmitManagement && l.tlb != nil &&
		l.ruleIndex(a.Bar, a.Offset, uint64(a.Width)) >= 0 {
		l.managementAccesses += int(n)
		return true, nil
	}
	s, ok, err := l.newBarStep(a, n)
	if !ok || err != nil {
		return ok, err
	}
	l.otherAccesses += int(n)
	return true, l.addStep(&s, data)
}

func (l *lifter) stateOf(index int) *tlbState {
	s := l.tlbStates[index]
	if s == nil {
		s = &tlbState{lastTarget: -1, windowIndex: -1}
		l.tlbStates[index] = s
	}
	return s
}

// accessConfig processes an access of a TLB window's configuration registers.
func (l *lifter) accessConfig(a *traces.Access, index int, at uint64, inside bool) error {
	if l.tlb.GroupOf(index).IsOwnedByKernel(index) {
		return traces.TraceError(a.Line,
			"%s at a register of TLB window %d: images must not use this window, "+
				"because it belongs to the kernel driver", a.Op, index)
	}
	if a.Op == traces.OpLoad {
		l.configLoads++
		l.program.loads++
		return nil
	}
	if a.Width < 4 || a.Width > l.tlb.ConfigWidth || at+uint64(a.Width) > l.tlb.ConfigStride {
		widths := "4"
		if l.tlb.ConfigWidth > 4 {
			widths = fmt.Sprintf("4 or %d", l.tlb.ConfigWidth)
		}
		return traces.TraceError(a.Line,
			"store of %d bytes to the registers of TLB window %d: "+
				"each store must have %s bytes, in the registers of one window", a.Width,
			index, widths)
	}
	s := l.stateOf(index)
	copy(s.config[at:], traces.Bytes(a.Value, a.Width))
	s.storedBytes |= (1<<a.Width - 1) << at
	s.lastStoreLine, s.hasNewConfig = a.Line, true
	if inside {
		l.configStores++
		l.program.stores++
	}
	return nil
}

// addPlaceholder appends a placeholder step (stepNone), and returns its index.
func (l *lifter) addPlaceholder(line int, time int64) int {
	l.steps.appendStep(step{line: uint32(line), time: time, count: 1, target: -1, operand: -1})
	return l.steps.count - 1
}

// newStep returns a step of n adjacent accesses, of which `a` is the first.
func newStep(a *traces.Access, n uint32) step {
	s := step{op: stepLoad, width: a.Width, count: n, line: uint32(a.Line), time: a.Time,
		value: a.Value, target: -1, operand: -1}
	if a.Op == traces.OpStore {
		s.op = stepStore
	}
	return s
}

// accessThroughWindow makes a step of accesses through a TLB window.
func (l *lifter) accessThroughWindow(a *traces.Access, n uint32, data []byte, index int,
	at uint64) (ok bool, err error) {
	group := l.tlb.GroupOf(index)
	if group.IsOwnedByKernel(index) {
		return false,
			traces.TraceError(a.Line, "%s through TLB window %d: images must not use this window, "+
				"because it belongs to the kernel driver", a.Op, index)
	}
	size := uint64(n) * uint64(a.Width)
	if n > 1 && (at+size > group.Size || l.ruleIndex(a.Bar, a.Offset, size) < 0) {
		return false, nil
	}
	rule, err := l.checkRule(a)
	if err != nil {
		return false, err
	}
	s := l.stateOf(index)
	if s.hasNewConfig || s.lastTarget < 0 {
		if err := l.decodeConfig(a, s, index, group); err != nil {
			return false, err
		}
	}
	address := s.address + at
	page := address &^ (l.pageSize() - 1)
	if n > 1 && (address+size-1)&^(l.pageSize()-1) != page {
		return false, nil
	}
	aimed := l.newWindowTarget(s.route, page)
	memory := l.isTileMemory(&aimed, address, size)
	if n > 1 && !memory {
		return false, nil
	}
	if taken, err := l.accessThroughPCIe(a, &aimed, address); taken || err != nil {
		return true, err
	}
	if l.omitManagement(&aimed.route, n) {
		return true, nil
	}
	if err = l.checkForbidden(a, &aimed.route, page, address, index); err != nil {
		return false, err
	}
	pointed := l.trackTarget(s, &aimed, index, group)
	if a.Op == traces.OpLoad && aimed.route.Multicast {
		return false, traces.TraceError(a.Line, "load through TLB window %d, "+
			"which points to several tiles: a load needs one tile", index)
	}
	l.windowAccesses += int(n)
	next := newStep(a, n)
	next.rule, next.window, next.target = rule, uint16(s.windowIndex), s.lastTarget
	next.offset = uint32(address - page)
	if memory {
		next.flags = flagMemory
	}
	if pointed && !l.isPassEnabled("drop") {
		next.flags |= flagPointFirst
	}
	l.recordCoreStart(&next, &aimed)
	return true, l.addStep(&next, data)
}

// omitManagement reports whether n accesses of a target are left out, and counts them.
func (l *lifter) omitManagement(target *fbs.TileRoute, n uint32) bool {
	omitted := l.options.OmitManagement && l.isManagement(target)
	if omitted {
		l.managementAccesses += int(n)
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
		hint = "; --omit-management leaves out such accesses of driver libraries"
	}
	return traces.TraceError(a.Line, "%s through TLB window %d at %#x of tile (%d,%d): "+
		"this window also covers %#x to %#x of %s, which images must not access%s", a.Op,
		index, address, target.X, target.Y, closed.First, closed.Last, closed.Name, hint)
}

// isManagement reports whether a window points only at the ARC or the PCIe tile. There, driver
// libraries query the chip's management processor (ARC) when they start and end.
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

// trackTarget records that an access through the window of s reaches the target and page of `at`.
// It reports whether the image must point the window before the access: the program configured the
// window again, or the access is in another page than the last access.
func (l *lifter) trackTarget(s *tlbState, at *windowTarget, index int,
	group *boards.WindowGroup) (pointed bool) {
	if s.windowIndex < 0 {
		s.windowIndex = l.addTLBWindow(index, group)
	}
	same := s.lastTarget >= 0 && l.targets[s.lastTarget].address == at.address &&
		l.targets[s.lastTarget].route == s.route
	if !same {
		key := targetKey{s.route.Pack(), at.address}
		index, ok := l.targetIndexes[key]
		if !ok {
			index = int32(len(l.targets))
			at.shown = l.homes.shown(at.route)
			l.targets = append(l.targets, *at)
			l.targetIndexes[key] = index
		}
		s.lastTarget = index
		l.host.storedSinceSlot = true
	}
	pointed = !same || s.isReconfigured
	if pointed {
		l.pointCount++
	}
	s.isReconfigured = false
	return pointed
}

// pageSize returns the size of the image's TLB windows: the device's smallest, so that they fit
// into a TLB window of any size.
func (l *lifter) pageSize() uint64 {
	size := l.tlb.Groups[0].Size
	for i := range l.tlb.Groups {
		size = min(size, l.tlb.Groups[i].Size)
	}
	return size
}

// decodeConfig decodes the configuration registers of a TLB window into its target and address.
func (l *lifter) decodeConfig(a *traces.Access, s *tlbState, index int,
	group *boards.WindowGroup) error {
	if s.storedBytes != 1<<l.tlb.ConfigStride-1 {
		return traces.TraceError(a.Line,
			"%s through TLB window %d, "+
				"but no earlier line of the trace points the window to a tile; "+
				"record from the start of the program", a.Op,
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
		return traces.TraceError(s.lastStoreLine,
			"TLB window %d has the unsupported configuration %s: "+
				"linked, reserved or unknown bits are set", index,
			strings.Join(registers, " "))
	}
	s.route, s.address, s.hasNewConfig, s.isReconfigured = target, address, false, true
	return nil
}

// addTLBWindow adds a TLB window to the image. Its slot is only a preference: nothing else in the
// image depends on it.
func (l *lifter) addTLBWindow(index int, group *boards.WindowGroup) int {
	n := 0
	for i := range l.windows {
		if l.windows[i].Kind == gen.WindowKindTlb {
			n++
		}
	}
	// A replay that points a window needs its registers.
	end := l.tlb.ConfigOffset + uint64(index+1)*l.tlb.ConfigStride
	l.barEnds[l.tlb.ConfigBar] = max(l.barEnds[l.tlb.ConfigBar], end)
	l.windows = append(l.windows, window{
		Window: lmb.Window{
			Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: uint16(index), Size: l.pageSize()},
			Name:   fmt.Sprintf("tlb%d", n),
		},
		bar: group.Bar, base: group.WindowOffset(index),
	})
	return len(l.windows) - 1
}

// addAccesses makes steps of n adjacent accesses of one width, and halves them as often as needed.
// data has the bytes of all; if n is 1, data may be nil, and `a` has the value.
func (l *lifter) addAccesses(a *traces.Access, n uint32, data []byte) error {
	if n == 1 && data != nil {
		a.Value = traces.Little(data)
		data = nil
	}
	if ok, err := l.addAsOneStep(a, n, data); ok || err != nil {
		return err
	}
	first, second := *a, *a
	at := uint64(n/2) * uint64(a.Width)
	second.Offset += at
	if err := l.addAccesses(&first, n/2, data[:at:at]); err != nil {
		return err
	}
	return l.addAccesses(&second, n-n/2, data[at:])
}
