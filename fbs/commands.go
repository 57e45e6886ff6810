package fbs

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// The checksum of a block follows its checks, while its 16 KiB are still in the processor's cache.
const commandsPerBlock = 512

// commandChecker checks the commands of an image (FORMAT.md section 6). Its methods named check...
// return the problem, or "".
type commandChecker struct {
	view           *View // the checker sets NeedsFixup and BusMasters
	boards         [DevicesMax]*boards.Board
	windowStates   []windowState
	pointedWindows []uint16 // indices of the Tlb windows that are accessible now
	lastInSequence *Command // of the sequence being checked
	worstCaseUs    uint64   // so far, of the sequence being checked
	hasCall        bool

	rings    []ringState
	advanced uint32 // set of the rings with a value: forgetState clears it

	// For each byte of the scratch tensors: 1 + the index of the device from which the sequence
	// being checked has loaded it, or 0.
	loadedFrom []uint8
}

var windowKindNames = [...]string{
	gen.WindowKindBar:    "a BAR window",
	gen.WindowKindTlb:    "a TLB window",
	gen.WindowKindHost:   "a host window",
	gen.WindowKindConfig: "configuration space",
}

// verifyCommands also sets v.WorstCaseUs. sumBefore is the checksum of the envelope before the
// commands; sum continues it with `data`, the bytes of the commands.
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
		c.forgetState()
	}
	if c.hasCall {
		err = v.verifyCalls()
	}
	if len(c.rings) > 0 && err == nil {
		err = c.verifyRings()
	}
	return sum, err
}

func newCommandChecker(v *View) *commandChecker {
	c := &commandChecker{view: v, windowStates: make([]windowState, len(v.Windows)),
		loadedFrom: make([]uint8, v.scratchBytes), rings: make([]ringState, len(v.Rings))}
	for i := range v.Devices {
		c.boards[i] = v.Board(i)
	}
	for i := range v.Windows {
		if w := &v.Windows[i]; w.Kind == gen.WindowKindBar {
			c.windowStates[i].barOffset = w.Offset
		}
	}
	return c
}

// forgetState makes all Tlb windows inaccessible until their next Point, scratch unwritten, and
// rings without a value.
func (c *commandChecker) forgetState() {
	clear(c.loadedFrom)
	c.advanced = 0
	for _, window := range c.pointedWindows {
		c.windowStates[window].end = 0
	}
	c.pointedWindows = c.pointedWindows[:0]
}

func (c *commandChecker) checkCommands(first, end int) *Error {
	for i := first; i < end; i++ {
		m := &c.view.Commands[i]
		if problem := c.checkCommand(m); problem != "" {
			if f := formOf(m.Opcode); f != nil {
				problem = f.name + ": " + problem
			}
			place := Text("command %d", uint64(i))
			return &Error{Place: place, Reason: problem, Command: i + 1}
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
	if f.setsUnusedField(m) {
		return f.describeUnusedField(m)
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
	case gen.OpcodeAdvance, gen.OpcodeReset, gen.OpcodeWith:
		return c.checkRingCommand(m, f)
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
	// A driver may store the end of a buffer in host memory. Behind a Bar window is another
	// register.
	if m.Value > w.Size || m.Value == w.Size && w.Kind == gen.WindowKindBar {
		return Text("relocation offset %x is beyond window %d (%x bytes)",
			m.Value, uint64(m.Index), w.Size)
	}
	c.view.NeedsFixup = true
	c.view.BusMasters |= 1 << c.view.Windows[m.Window].Device
	state := &c.windowStates[m.Index]
	if !state.hasPassedDMATest {
		problem = c.view.CheckDMAPages(m.Index, c.boards[w.Device], DMAPageSize)
		state.hasPassedDMATest = problem == ""
	}
	return problem
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
	a := c.view.accessAt(c.boards[w.Device], w, m.Value, &tiles)
	if f := a.forbidden; f != nil {
		return Text("images must not access %x to %x of ", f.First, f.Last) + f.Name +
			", but the window would show a part of this range"
	}
	if state := &c.windowStates[m.Window]; state.end == 0 {
		state.setRange(w, a)
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

// checkCall forgets the state: the called sequence may change windows, scratch and rings.
func (c *commandChecker) checkCall(m *Command) (problem string) {
	if int(m.Index) >= len(c.view.Sequences) {
		return Text("sequence %d does not exist", uint64(m.Index))
	}
	c.hasCall = true
	c.forgetState()
	return ""
}

func (c *commandChecker) checkEnd(m *Command) (problem string) {
	if m != c.lastInSequence {
		return "must be the last command of its sequence"
	}
	return ""
}

func fitsWidth(number uint64, width uint8) bool { return number&^WidthMask(width) == 0 }

// Inlining would enlarge the program.
//
//go:noinline
func describeTooLargeValue(m *Command) string {
	return Text("value %x is too large for width %d", m.Value, uint64(m.Width))
}

// checkDataRange checks the bytes of the payload (index 0) or of tensor n (index n+1) that m copies
// or compares. An output must be a tensor. Copies also accept scratch.
func (c *commandChecker) checkDataRange(m *Command, role gen.Role) (problem string) {
	data, size, scratch := "payload", c.view.Reservation.PayloadBytes, false
	if m.Index != 0 || role == gen.RoleOutput {
		if m.Index == 0 || int(m.Index) > len(c.view.Tensors) {
			return Text("index %d selects no tensor; the tensors have the indices 1 to %d",
				uint64(m.Index), uint64(len(c.view.Tensors)))
		}
		t := &c.view.Tensors[m.Index-1]
		if t.Role != role && (t.Role != gen.RoleScratch || m.Opcode == gen.OpcodeCompare) {
			return "tensor " + Quote(c.view.Name(t.Name)) + " is " + roleNames[t.Role] + ", not " +
				roleNames[role]
		}
		data, size, scratch = "tensor", t.Size, t.Role == gen.RoleScratch
	}
	if m.Value > size || uint64(m.Amount) > size-m.Value {
		return Text("%x bytes at offset %x reach outside the "+data+" of %x bytes",
			uint64(m.Amount), m.Value, size)
	}
	if scratch {
		return c.checkScratch(m)
	}
	return ""
}

var roleNames = [...]string{
	gen.RoleInput:   "an input",
	gen.RoleOutput:  "an output",
	gen.RoleScratch: "scratch",
}

// checkScratch checks that a value is loaded whole, and stored only to the device of the load.
func (c *commandChecker) checkScratch(m *Command) (problem string) {
	if gen.Access(m.Mode) != gen.AccessExact || m.Amount != uint32(m.Width) {
		return Text("scratch needs mode 1 (exact) and one access, but amount is %d and width %d",
			uint64(m.Amount), uint64(m.Width))
	}
	from := c.loadedFrom[c.view.Tensors[m.Index-1].ArenaOffset+m.Value:][:m.Amount]
	device := 1 + c.view.Windows[m.Window].Device
	for i := range from {
		if m.Opcode == gen.OpcodeCopyOut {
			from[i] = device
		} else if from[i] != device {
			return Text("byte %x of the scratch was not loaded from this device since the "+
				"sequence began or called another", m.Value+uint64(i))
		}
	}
	return ""
}

// verifyCalls checks that no called sequence contains a Call, and adds the time of each called
// sequence to that of its callers.
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
				Place:  Text("sequence %d", uint64(sequence)),
				Reason: "contains a call and is called itself, but calls do not nest",
			}
		}
	}
	return nil
}
