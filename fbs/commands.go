package fbs

// This file checks the commands of an image, so that code that executes verified commands need not
// check their fields again. This file also computes the longest time of each sequence, and the
// checksum of the commands. FORMAT.md section 6 has the requirements.
//
// Most functions with a name check... return a description of the problem, or an empty string if
// the command is valid. A function with a name describe... returns the description of one problem.

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// commandsPerBlock is the number of commands in one block, which has 16 KiB. verifyCommands checks
// a block of commands, and then computes the checksum of the same block, while the block is still
// in the processor's cache.
const commandsPerBlock = 512

// commandChecker checks the commands of an image in the order of the file.
type commandChecker struct {
	view           *View                     // image; the checker sets NeedsFixup and BusMasters
	boards         [DevicesMax]*boards.Board // board of each device of the image
	windowStates   []windowState             // state of each window in view.Windows
	pointedWindows []uint16                  // indices of the Tlb windows that are accessible now
	lastInSequence *Command                  // last command of the sequence being checked
	worstCaseUs    uint64                    // longest time so far of the sequence being checked
	hasCall        bool                      // the checker has found a Call in any sequence
}

// windowState describes one range of a window, and the accesses that this range accepts. All bytes
// of the range accept the same accesses. The range depends on the kind of the window:
//
//   - Bar window: the range of the access rule for the previous access.
//   - Tlb window: empty, unless a Point command has made the window accessible.
//   - all other windows: the whole window.
type windowState struct {
	barOffset      uint64       // offset in bytes of a Bar window in its BAR; 0 in other windows
	rangeFirst     uint64       // offset in the window of the first byte of the range
	rangeEnd       uint64       // offset in the window of the first byte after the range
	acceptedWidths uint8        // accepted access widths in bytes, ORed: 1|2|4|8
	acceptedTraits accessTraits // accepted properties of accesses
	dmaCheckPassed bool         // checkDMAWindow has found that all bytes accept stores
}

// accessTraits is a set of properties of a command's accesses to a window. A window accepts the
// command only if the window accepts each property in the set. The empty set means a single load,
// which all windows accept.
type accessTraits uint8

const (
	accessSingleLoad accessTraits = 0
	accessManyBytes  accessTraits = 1 << (iota - 1) // the command accesses Amount bytes
	accessStores                                    // the command stores to the window
	accessAnyWidth                                  // the accesses may have any width: mode Bulk
)

// The set of all access widths in bytes, and the set of all properties of accesses.
const (
	allWidths       = 1 | 2 | 4 | 8
	allAccessTraits = accessManyBytes | accessStores | accessAnyWidth
)

// windowKindNames maps each kind of window to its name in messages.
var windowKindNames = [...]string{
	gen.WindowKindBar:    "a BAR window",
	gen.WindowKindTlb:    "a TLB window",
	gen.WindowKindHost:   "a host window",
	gen.WindowKindConfig: "configuration space",
}

// verifyCommands checks every command, sets v.WorstCaseUs, and computes a checksum. The
// parameter `data` contains the commands as bytes. The parameter sumBefore is the CRC-32C of
// the part of the envelope before these bytes. The result `sum` is the CRC-32C of the envelope
// from its start to the end of these bytes.
func (v *View) verifyCommands(data []byte, sumBefore uint32) (sum uint32, err *Error) {
	c := newCommandChecker(v)
	sum = sumBefore
	v.WorstCaseUs = make([]uint64, len(v.Sequences))
	for i, s := range v.Sequences {
		first, end := int(s.First), int(s.First+s.Count)
		c.lastInSequence = &v.Commands[end-1]
		c.worstCaseUs = 0
		for first < end {
			next := min(first+commandsPerBlock, end)
			if err := c.checkCommands(first, next); err != nil {
				return 0, err
			}
			sum = continueChecksum(sum, data[first*CommandSize:next*CommandSize])
			first = next
		}
		v.WorstCaseUs[i] = c.worstCaseUs
		c.hideTLBWindows()
	}
	if c.hasCall {
		return sum, v.verifyCalls()
	}
	return sum, nil
}

// newCommandChecker returns a checker for the commands of v. At first, the accessible range of each
// Host and Config window is the whole window, and the range of each Tlb and Bar window is empty.
// checkPoint sets the range of a Tlb window. In a Bar window, each access rule of the board has its
// own range. When an access to a Bar window begins outside the current range,
// findRangeAndCheckAccess makes the range of the rule for that access the current range. The first
// access to a Bar window always begins outside, because the range is then empty.
func newCommandChecker(v *View) *commandChecker {
	c := &commandChecker{view: v, windowStates: make([]windowState, len(v.Windows))}
	for i := range v.Devices {
		c.boards[i] = v.Board(i)
	}
	for i := range v.Windows {
		w, state := &v.Windows[i], &c.windowStates[i]
		state.barOffset = w.Offset
		switch w.Kind {
		case gen.WindowKindTlb:
			state.acceptedWidths, state.acceptedTraits = allWidths, allAccessTraits
		case gen.WindowKindHost:
			state.acceptedWidths, state.acceptedTraits = allWidths, allAccessTraits
			state.rangeEnd = w.Size
		case gen.WindowKindConfig:
			state.acceptedWidths = 1 | 2 | 4
			state.rangeEnd = w.Size
		}
	}
	return c
}

// hideTLBWindows makes all Tlb windows inaccessible. A Point command makes its Tlb
// window accessible again.
func (c *commandChecker) hideTLBWindows() {
	for _, window := range c.pointedWindows {
		c.windowStates[window].rangeEnd = 0
	}
	c.pointedWindows = c.pointedWindows[:0]
}

// checkCommands checks the commands with the indices first to end-1.
func (c *commandChecker) checkCommands(first, end int) *Error {
	for i := first; i < end; i++ {
		m := &c.view.Commands[i]
		if problem := c.checkCommand(m); problem != "" {
			if f := formOf(m.Opcode); f != nil {
				problem = f.name + ": " + problem
			}
			return &Error{Text("command %d", uint64(i)), problem}
		}
	}
	return nil
}

// checkCommand also adds the longest time of m to c.worstCaseUs.
func (c *commandChecker) checkCommand(m *Command) (problem string) {
	f := formOf(m.Opcode)
	if f == nil {
		return Text("unknown opcode %d", uint64(m.Opcode))
	}
	if f.hasWrongField(m) {
		return f.wrong
	}
	c.worstCaseUs += f.longestUs(m)
	switch m.Opcode {
	case gen.OpcodeWrite:
		return c.checkWrite(m, f)
	case gen.OpcodeModify:
		return c.checkModify(m, f)
	case gen.OpcodeRelocate:
		return c.checkRelocate(m, f)
	case gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCompare:
		return c.checkManyBytes(m, f)
	case gen.OpcodeExpect:
		return c.checkExpect(m, f)
	case gen.OpcodePoint:
		return c.checkPoint(m)
	case gen.OpcodeDelay:
		return checkDelay(m)
	case gen.OpcodeCall:
		return c.checkCall(m)
	case gen.OpcodeEnd:
		return c.checkEnd(m)
	}
	return "" // a fence
}

func (c *commandChecker) checkWrite(m *Command, f *opcodeForm) (problem string) {
	if problem := c.checkAccess(m, uint64(m.Width), f.traits); problem != "" {
		return problem
	}
	if !fitsWidth(m.Value, m.Width) {
		return describeTooLargeValue(m)
	}
	return ""
}

func (c *commandChecker) checkModify(m *Command, f *opcodeForm) (problem string) {
	if m.Mask == 0 {
		return "mask must not be 0: nothing would be modified"
	}
	return c.checkMasked(m, f)
}

// checkMasked checks the access of a Modify or an Expect, its mask and its value.
func (c *commandChecker) checkMasked(m *Command, f *opcodeForm) (problem string) {
	if problem := c.checkAccess(m, uint64(m.Width), f.traits); problem != "" {
		return problem
	}
	if !fitsWidth(m.Mask, m.Width) {
		return Text("mask %x is too large for width %d", m.Mask, uint64(m.Width))
	}
	if m.Value&^m.Mask != 0 {
		return Text("value %x has bits outside the mask %x", m.Value, m.Mask)
	}
	return ""
}

// checkManyBytes checks a CopyIn, Fill, CopyOut or Compare.
func (c *commandChecker) checkManyBytes(m *Command, f *opcodeForm) (problem string) {
	if m.Amount == 0 {
		return "amount must not be 0"
	}
	if f.modes>>m.Mode&1 == 0 {
		return f.describeInvalidMode(m)
	}
	if m.Opcode == gen.OpcodeCompare {
		if problem := c.checkPolicy(m); problem != "" {
			return problem
		}
	}
	size, traits := uint64(m.Amount), f.traits
	switch gen.Access(m.Mode) {
	case gen.AccessFixed:
		size = uint64(m.Width)
	case gen.AccessBulk:
		traits |= accessAnyWidth
	}
	if problem := c.checkAccess(m, size, traits); problem != "" {
		return problem
	}
	if traits&accessAnyWidth == 0 && m.Amount&uint32(m.Width-1) != 0 {
		return Text("amount %d is not a multiple of the width %d", uint64(m.Amount),
			uint64(m.Width))
	}
	switch m.Opcode {
	case gen.OpcodeFill:
		if !fitsWidth(m.Value, m.Width) {
			return describeTooLargeValue(m)
		}
		return ""
	case gen.OpcodeCopyOut:
		return c.checkDataRange(m, gen.RoleOutput)
	}
	return c.checkDataRange(m, gen.RoleInput)
}

func (c *commandChecker) checkExpect(m *Command, f *opcodeForm) (problem string) {
	if f.modes>>m.Mode&1 == 0 {
		return f.describeInvalidMode(m)
	}
	if problem := c.checkPolicy(m); problem != "" {
		return problem
	}
	if m.Index != 0 && m.Amount == 0 {
		return "index sets an interval, but amount sets no deadline; set amount, or clear index"
	}
	if problem := c.checkMasked(m, f); problem != "" {
		return problem
	}
	if gen.Condition(m.Mode) == gen.ConditionReached && (m.Mask == 0 || m.Mask&(m.Mask+1) != 0) {
		return Text("mask %x must be 2^n - 1, the largest value of the counter", m.Mask)
	}
	return ""
}

// checkPolicy checks the option of an Expect or Compare, and adds the time of Ignore: the runtime
// queries every device before it ignores a failure.
func (c *commandChecker) checkPolicy(m *Command) (problem string) {
	switch gen.Policy(m.Option) {
	case gen.PolicyFail:
		return ""
	case gen.PolicyIgnore:
		c.worstCaseUs += DeviceQueryUs * uint64(len(c.view.Devices))
		return ""
	}
	return Text("invalid option %d; must be 1 (fail) or 2 (ignore)", uint64(m.Option))
}

func (c *commandChecker) checkRelocate(m *Command, f *opcodeForm) (problem string) {
	if problem := c.checkAccess(m, uint64(m.Width), f.traits); problem != "" {
		return problem
	}
	if m.Width < 4 {
		return Text("invalid width %d; must be 4 or 8", uint64(m.Width))
	}
	if !fitsWidth(m.Value, m.Width) {
		return describeTooLargeValue(m)
	}
	if int(m.Index) >= len(c.windowStates) {
		return describeMissingWindow(m.Index)
	}
	w := &c.view.Windows[m.Index]
	// Drivers store the end of a buffer in host memory. At the end of a Bar window is another
	// register.
	if m.Value > w.Size || m.Value == w.Size && w.Kind == gen.WindowKindBar {
		return Text("relocation offset %x is beyond window %d (%x bytes)",
			m.Value, uint64(m.Index), w.Size)
	}
	c.view.NeedsFixup = true
	c.view.BusMasters |= 1 << c.view.Windows[m.Window].Device
	return c.checkDMAWindow(m.Index)
}

func (c *commandChecker) checkPoint(m *Command) (problem string) {
	if int(m.Window) >= len(c.windowStates) {
		return describeMissingWindow(m.Window)
	}
	w := &c.view.Windows[m.Window]
	if w.Kind != gen.WindowKindTlb {
		return Text("window %d must be a TLB window, not ", uint64(m.Window)) +
			windowKindNames[w.Kind]
	}
	if m.Value&(w.Size-1) != 0 {
		return Text("address %x is not a multiple of the window's size %x", m.Value, w.Size)
	}
	tiles, ok := boards.UnpackTileRoute(m.Mask)
	if !ok {
		return Text("mask %x is not a valid tile range", m.Mask)
	}
	if closed := c.boards[w.Device].FindForbiddenRange(tiles, m.Value, w.Size); closed != nil {
		return Text("images must not access %x to %x of ", closed.First, closed.Last) +
			closed.Name + ", but the window would show a part of this range"
	}
	if state := &c.windowStates[m.Window]; state.rangeEnd == 0 {
		state.rangeEnd = w.Size
		c.pointedWindows = append(c.pointedWindows, m.Window)
	}
	c.view.NeedsFixup = true
	return ""
}

func checkDelay(m *Command) (problem string) {
	if m.Amount == 0 || m.Amount > DelayMaxUs {
		return Text("amount is %d us, but must be between 1 and %d", uint64(m.Amount), DelayMaxUs)
	}
	return ""
}

// checkCall checks a Call command. The called sequence may point Tlb windows at other tiles.
// Therefore checkCall makes all Tlb windows inaccessible: after a Call, the sequence must point
// a Tlb window again before it accesses the window.
func (c *commandChecker) checkCall(m *Command) (problem string) {
	if int(m.Index) >= len(c.view.Sequences) {
		return Text("sequence %d does not exist", uint64(m.Index))
	}
	c.hasCall = true
	c.hideTLBWindows()
	return ""
}

func (c *commandChecker) checkEnd(m *Command) (problem string) {
	if m != c.lastInSequence {
		return "must be the last command of its sequence"
	}
	return ""
}

// fitsWidth reports whether a number fits in an integer of `width` bytes.
func fitsWidth(number uint64, width uint8) bool { return number&^WidthMask(width) == 0 }

//go:noinline
func describeTooLargeValue(m *Command) string {
	return Text("value %x is too large for width %d", m.Value, uint64(m.Width))
}

// checkAccess checks that the window m.Window accepts the accesses of the command m. The accesses
// have the width m.Width and the properties in `traits`. They cover `size` bytes of the window,
// from m.Offset on.
func (c *commandChecker) checkAccess(m *Command, size uint64,
	traits accessTraits) (problem string) {
	if int(m.Window) >= len(c.windowStates) {
		return describeMissingWindow(m.Window)
	}
	w, offset := &c.windowStates[m.Window], uint64(m.Offset)
	if offset < w.rangeFirst || offset >= w.rangeEnd {
		return c.findRangeAndCheckAccess(m, size, traits)
	}
	if offset+size > w.rangeEnd {
		return c.describeOutsideRange(m, size, w)
	}
	if m.Width&w.acceptedWidths == 0 || !hasAtMostOneBit(m.Width) {
		return c.describeInvalidWidth(m)
	}
	if traits&^w.acceptedTraits != 0 {
		return c.describeRejectedTraits(m, traits)
	}
	if traits&accessAnyWidth == 0 && (w.barOffset|offset)&uint64(m.Width-1) != 0 {
		return describeMisalignment(m, w)
	}
	return ""
}

// findRangeAndCheckAccess checks an access that begins outside the current range of its window
// (c.windowStates). In a Bar window, it finds the rule for the access, makes the range of that rule
// the current range, and calls checkAccess again. In a Bar window without such a rule, and in all
// other windows, it returns a problem.
func (c *commandChecker) findRangeAndCheckAccess(m *Command, size uint64,
	traits accessTraits) (problem string) {
	w := &c.windowStates[m.Window]
	window := &c.view.Windows[m.Window]
	if window.Kind == gen.WindowKindTlb && w.rangeEnd == 0 {
		return Text("window %d needs a point command first, and another after each call",
			uint64(m.Window))
	}
	if uint64(m.Offset) >= window.Size {
		return c.describeOutsideRange(m, size, w)
	}
	rule := c.findRule(m)
	if rule == nil {
		place := Text(" has no memory or register at offset %x of BAR %d",
			window.Offset+uint64(m.Offset), uint64(window.Bar))
		return c.boards[window.Device].Name + place
	}
	if window.Flags&FlagWriteCombining != 0 && !rule.IsMemory {
		return Text("window %d is write-combining, but ", uint64(m.Window)) +
			c.describePlace(m) + " is not memory; remove write-combining"
	}
	w.rangeFirst = max(rule.First, window.Offset) - window.Offset
	w.rangeEnd = min(rule.Last+1-window.Offset, window.Size)
	w.acceptedWidths, w.acceptedTraits = rule.Widths, accessManyBytes
	if !rule.LoadOnly {
		w.acceptedTraits |= accessStores
	}
	if rule.IsMemory && rule.Widths == allWidths {
		w.acceptedTraits |= accessAnyWidth
	}
	return c.checkAccess(m, size, traits)
}

// hasAtMostOneBit reports whether at most one bit of the width is set. Such a width is a power
// of two or 0.
func hasAtMostOneBit(width uint8) bool { return width&(width-1) == 0 }

// findRule returns the board's rule for the byte at m.Offset of the Bar window m.Window, or nil
// if the board has no rule for this byte.
func (c *commandChecker) findRule(m *Command) *boards.AccessRule {
	w := &c.view.Windows[m.Window]
	return c.boards[w.Device].FindRule(w.Bar, w.Offset+uint64(m.Offset), 1)
}

//go:noinline
func describeMissingWindow(index uint16) string {
	return Text("window %d does not exist", uint64(index))
}

func (c *commandChecker) describeOutsideRange(m *Command, size uint64, w *windowState) string {
	offset, window := uint64(m.Offset), &c.view.Windows[m.Window]
	if offset+size > window.Size {
		return Text("%x bytes at offset %x reach outside the window of %x bytes",
			size, offset, window.Size)
	}
	return Text("%x bytes at offset %x extend beyond their access rule: %x to %x of the window",
		size, offset, w.rangeFirst, w.rangeEnd-1)
}

func (c *commandChecker) describeInvalidWidth(m *Command) string {
	if m.Width&allWidths == 0 || !hasAtMostOneBit(m.Width) {
		return Text("invalid width %d; must be 1, 2, 4 or 8", uint64(m.Width))
	}
	return Text("width %d is not accepted by ", uint64(m.Width)) + c.describePlace(m)
}

func (c *commandChecker) describeRejectedTraits(m *Command, traits accessTraits) string {
	if c.view.Windows[m.Window].Kind == gen.WindowKindConfig {
		return Text("window %d is configuration space, which only expect commands may access",
			uint64(m.Window))
	}
	if traits&accessAnyWidth != 0 {
		return "bulk access is only for memory that accepts every width, not for " +
			c.describePlace(m) + "; use exact access"
	}
	remedy := ""
	if c.findRule(m).IsMemory {
		// The only memory in a BAR that accepts no stores is the range of the TLB windows.
		remedy = "; store to tiles through a TLB window"
	}
	return "images must not store to " + c.describePlace(m) + remedy
}

// describePlace returns the place in the device that the command m accesses first: an offset in a
// BAR, with the names of the board and of the access rule, or "configuration space".
func (c *commandChecker) describePlace(m *Command) string {
	w := &c.view.Windows[m.Window]
	if w.Kind == gen.WindowKindConfig {
		return "configuration space"
	}
	place := Text("'s BAR %d at offset %x (", uint64(w.Bar), w.Offset+uint64(m.Offset))
	return c.boards[w.Device].Name + place + c.findRule(m).Name + ")"
}

func describeMisalignment(m *Command, w *windowState) string {
	width := uint64(m.Width)
	if w.barOffset%width != 0 {
		return Text("the window starts at %x of its BAR, which is not a multiple of the width %d",
			w.barOffset, width)
	}
	return Text("offset %x is not a multiple of the width %d", uint64(m.Offset), width)
}

func (c *commandChecker) checkDMAWindow(index uint16) (problem string) {
	w, state := &c.view.Windows[index], &c.windowStates[index]
	if w.Kind == gen.WindowKindHost || state.dmaCheckPassed {
		return ""
	}
	if w.Kind != gen.WindowKindBar {
		return Text("window %d has no bus address; only BAR and host windows have one",
			uint64(index))
	}
	problem = c.view.CheckDMAPages(index, c.boards[w.Device], DMAPageSize)
	state.dmaCheckPassed = problem == ""
	return problem
}

// CheckDMAPages checks the pages of a BAR that a Bar window touches: each byte needs a rule that
// accepts stores. An IOMMU maps whole pages, and only the other device knows how much it stores.
// CheckDMAPages returns the first problem, or "".
func (v *View) CheckDMAPages(window uint16, board *boards.Board, pageSize uint64) string {
	w := &v.Windows[window]
	bar := v.Devices[w.Device].MinBarSizes()[w.Bar]
	next, last := w.Offset&^(pageSize-1), (w.Offset+w.Size-1)|(pageSize-1)
	for i := range board.Rules { // sorted, without overlaps
		r := &board.Rules[i]
		if r.Bar == w.Bar && !r.LoadOnly && r.First <= next && next <= r.Last {
			next = min(r.Last+1, bar)
		}
	}
	if next > last {
		return ""
	}
	return Text("byte %x of BAR %d accepts no stores, but shares a page of %x bytes with "+
		"window %d; relocate a window in other pages", next, uint64(w.Bar), pageSize,
		uint64(window))
}

// checkDataRange checks the data of a command m that copies or compares: m.Amount bytes of a tensor
// or of the payload, from the offset m.Value on, must exist. m.Index is 0 for the payload, and n+1
// for tensor n. The tensor must have the given role. If the role is Output, the command must use a
// tensor.
func (c *commandChecker) checkDataRange(m *Command, role gen.Role) (problem string) {
	data, size := "payload", c.view.Reservation.PayloadBytes
	if m.Index != 0 || role == gen.RoleOutput {
		if m.Index == 0 || int(m.Index) > len(c.view.Tensors) {
			return Text("index %d selects no tensor; the tensors have the indices 1 to %d",
				uint64(m.Index), uint64(len(c.view.Tensors)))
		}
		t := &c.view.Tensors[m.Index-1]
		if t.Role != role {
			return c.describeWrongRole(t)
		}
		data, size = "tensor", t.Size
	}
	if m.Value > size || uint64(m.Amount) > size-m.Value {
		return Text("%x bytes at offset %x reach outside the "+data+" of %x bytes",
			uint64(m.Amount), m.Value, size)
	}
	return ""
}

func (c *commandChecker) describeWrongRole(t *Tensor) string {
	roles := " is an output, not an input"
	if t.Role == gen.RoleInput {
		roles = " is an input, not an output"
	}
	return "tensor " + Quote(c.view.Name(t.Name)) + roles
}

// verifyCalls checks that no called sequence contains a Call. For each Call, it adds the longest
// time of the called sequence to the longest time of the calling sequence.
func (v *View) verifyCalls() *Error {
	hasCall := make([]bool, len(v.Sequences))
	isCalled := make([]bool, len(v.Sequences))
	for caller, s := range v.Sequences {
		for i := s.First; i < s.First+s.Count; i++ {
			m := &v.Commands[i]
			if m.Opcode != gen.OpcodeCall {
				continue
			}
			hasCall[caller], isCalled[m.Index] = true, true
			us := v.WorstCaseUs[caller] + v.WorstCaseUs[m.Index]
			v.WorstCaseUs[caller] = min(us, worstCaseLimitUs)
		}
	}
	for sequence := range hasCall {
		if hasCall[sequence] && isCalled[sequence] {
			return &Error{
				Text("sequence %d", uint64(sequence)),
				"contains a call and is called itself, but calls do not nest",
			}
		}
	}
	return nil
}
