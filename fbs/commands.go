package fbs

// This file checks the commands of an image, so that the code that executes them
// need not check anything again. FORMAT.md section 6 states the rules. Each
// function returns why a command is rejected, or an empty string.

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// blockCommands is how many commands are checked before the checksum reads them:
// their 16 KiB are then still in the processor's cache.
const blockCommands = 512

// commandChecker checks the commands of an image in their order.
type commandChecker struct {
	view    *View
	boards  [DevicesMax]*boards.Board
	windows []windowState // one for each of view.Windows
	pointed []uint16      // TLB windows that are pointed now
	last    *Command      // of the sequence that is checked
	us      uint64        // longest time of its commands so far
	hasCall bool
}

// windowState is a range of a window that accepts the same accesses everywhere: the
// whole window, but of a Bar window the part under the rule that was used last.
type windowState struct {
	start      uint64     // of the window in its BAR
	first, end uint64     // the range, in bytes of the window; empty if no access is accepted
	widths     uint8      // accepted widths in bytes, ORed
	kinds      accessKind // accepted kinds
	storable   bool       // checkBusAddress has accepted the window
}

// accessKind says what a command does to its window, as far as rules depend on it.
type accessKind uint8

const (
	oneLoad accessKind = 0
	several accessKind = 1 << (iota - 1) // a number of bytes instead of one access
	stores                               // the command stores to the window
	bulk                                 // accesses may be wider and narrower than the width
)

const (
	widthsAll = 1 | 2 | 4 | 8
	kindsAll  = several | stores | bulk
)

var windowKindNames = [...]string{
	gen.WindowKindBar:    "a BAR window",
	gen.WindowKindTlb:    "a TLB window",
	gen.WindowKindHost:   "a host window",
	gen.WindowKindConfig: "configuration space, read-only to images",
}

var opcodeNames = [...]string{
	gen.OpcodeWrite:    "write",
	gen.OpcodeModify:   "modify",
	gen.OpcodeRelocate: "relocate",
	gen.OpcodeCopyIn:   "copy in",
	gen.OpcodeFill:     "fill",
	gen.OpcodeCopyOut:  "copy out",
	gen.OpcodeExpect:   "expect",
	gen.OpcodeCompare:  "compare",
	gen.OpcodePoint:    "point",
	gen.OpcodeFence:    "fence",
	gen.OpcodeDelay:    "delay",
	gen.OpcodeCall:     "call",
	gen.OpcodeEnd:      "end",
}

// verifyCommands checks every command, computes WorstCaseUs, and continues the
// checksum sum over data, the commands as they lie in the file.
func (v *View) verifyCommands(data []byte, sum uint32) (uint32, *Error) {
	c := newCommandChecker(v)
	v.WorstCaseUs = make([]uint64, len(v.Sequences))
	for i, s := range v.Sequences {
		first, end := int(s.First), int(s.First+s.Count)
		c.last = &v.Commands[end-1]
		c.us = 0
		for first < end {
			next := min(first+blockCommands, end)
			if err := c.checkCommands(first, next); err != nil {
				return 0, err
			}
			sum = checksum(sum, data[first*CommandSize:next*CommandSize])
			first = next
		}
		v.WorstCaseUs[i] = c.us
		c.unpointWindows()
	}
	if c.hasCall {
		return sum, v.verifyCalls()
	}
	return sum, nil
}

func newCommandChecker(v *View) *commandChecker {
	c := &commandChecker{view: v, windows: make([]windowState, len(v.Windows))}
	for i := range v.Devices {
		c.boards[i] = v.Board(i)
	}
	for i := range v.Windows {
		w, state := &v.Windows[i], &c.windows[i]
		state.start = w.Offset
		switch w.Kind {
		case gen.WindowKindTlb:
			state.widths, state.kinds = widthsAll, kindsAll
		case gen.WindowKindHost:
			state.widths, state.kinds = widthsAll, kindsAll
			state.end = w.Size
		case gen.WindowKindConfig:
			state.widths = 1 | 2 | 4
			state.end = w.Size
		}
	}
	return c
}

// unpointWindows makes all TLB windows inaccessible until they are pointed again.
func (c *commandChecker) unpointWindows() {
	for _, window := range c.pointed {
		c.windows[window].end = 0
	}
	c.pointed = c.pointed[:0]
}

// checkCommands checks the commands from index first up to end.
func (c *commandChecker) checkCommands(first, end int) *Error {
	for i := first; i < end; i++ {
		m := &c.view.Commands[i]
		if reason := c.checkCommand(m); reason != "" {
			return &Error{Text("command %d", uint64(i)), opcodePrefix(m.Opcode) + reason}
		}
	}
	return nil
}

func opcodePrefix(o gen.Opcode) string {
	if o == gen.OpcodeInvalid || int(o) >= len(opcodeNames) {
		return ""
	}
	return opcodeNames[o] + ": "
}

// checkCommand checks a command and adds its longest time to c.us.
func (c *commandChecker) checkCommand(m *Command) string {
	switch m.Opcode {
	case gen.OpcodeWrite:
		c.us += commandUs + accessUs
		return c.checkWrite(m)
	case gen.OpcodeModify:
		c.us += commandUs + 2*accessUs + queryUs
		return c.checkModify(m)
	case gen.OpcodeRelocate:
		c.us += commandUs + accessUs
		return c.checkRelocate(m)
	case gen.OpcodeCopyIn:
		c.us += commandUs + accesses(m)*accessUs
		return c.checkCopy(m, several|stores, gen.RoleInput)
	case gen.OpcodeFill:
		c.us += commandUs + accesses(m)*accessUs
		return c.checkFill(m)
	case gen.OpcodeCopyOut:
		c.us += commandUs + accesses(m)*accessUs + queryUs
		return c.checkCopy(m, several, gen.RoleOutput)
	case gen.OpcodeExpect:
		c.us += commandUs + accessUs + queryUs + uint64(m.Amount)
		return c.checkExpect(m)
	case gen.OpcodeCompare:
		c.us += commandUs + accesses(m)*accessUs
		return c.checkCompare(m)
	case gen.OpcodePoint:
		c.us += commandUs + pointUs
		return c.checkPoint(m)
	case gen.OpcodeFence:
		c.us += commandUs
		return checkFence(m)
	case gen.OpcodeDelay:
		c.us += commandUs + uint64(m.Amount)
		return checkDelay(m)
	case gen.OpcodeCall:
		c.us += commandUs // verifyCalls adds the time of the called sequence
		return c.checkCall(m)
	case gen.OpcodeEnd:
		c.us += commandUs
		return c.checkEnd(m)
	}
	return Text("unknown opcode %d", uint64(m.Opcode))
}

func (c *commandChecker) checkWrite(m *Command) string {
	if m.Mode != 0 || m.Option != 0 || m.Index != 0 || m.Amount != 0 || m.Mask != 0 {
		return "mode, option, index, amount and mask must be 0"
	}
	if reason := c.checkAccess(m, uint64(m.Width), stores); reason != "" {
		return reason
	}
	if !fits(m.Value, m.Width) {
		return wideValue(m)
	}
	return ""
}

func (c *commandChecker) checkModify(m *Command) string {
	if m.Mode != 0 || m.Option != 0 || m.Index != 0 || m.Amount != 0 {
		return "mode, option, index and amount must be 0"
	}
	if m.Mask == 0 {
		return "mask must not be 0: nothing would be modified"
	}
	if reason := c.checkAccess(m, uint64(m.Width), stores); reason != "" {
		return reason
	}
	if !fits(m.Mask, m.Width) || m.Value&^m.Mask != 0 {
		return invalidMask(m)
	}
	return ""
}

func (c *commandChecker) checkRelocate(m *Command) string {
	if m.Mode != 0 || m.Option != 0 || m.Amount != 0 || m.Mask != 0 {
		return "mode, option, amount and mask must be 0"
	}
	if reason := c.checkAccess(m, uint64(m.Width), stores); reason != "" {
		return reason
	}
	if m.Width < 4 {
		return Text("invalid width %d; must be 4 or 8", uint64(m.Width))
	}
	if !fits(m.Value, m.Width) {
		return wideValue(m)
	}
	if int(m.Index) >= len(c.windows) {
		return noWindow(m.Index)
	}
	w := &c.view.Windows[m.Index]
	if m.Value > w.Size {
		return Text("bus address %x beyond the start of window %d, which has %x bytes",
			m.Value, uint64(m.Index), w.Size)
	}
	c.view.NeedsFixup = true
	c.view.BusMasters |= 1 << c.view.Windows[m.Window].Device
	return c.checkBusAddress(m.Index)
}

// checkCopy checks a CopyIn or CopyOut command. role is that of tensors it may copy.
func (c *commandChecker) checkCopy(m *Command, kind accessKind, role gen.Role) string {
	if m.Option != 0 || m.Mask != 0 {
		return "option and mask must be 0"
	}
	if m.Amount == 0 {
		return noBytes
	}
	size := uint64(m.Amount)
	switch gen.Access(m.Mode) {
	case gen.AccessExact:
	case gen.AccessFixed:
		size = uint64(m.Width)
	case gen.AccessBulk:
		kind |= bulk
	default:
		return Text("invalid mode %d; must be 1 (exact), 2 (fixed) or 3 (bulk)", uint64(m.Mode))
	}
	if reason := c.checkAccess(m, size, kind); reason != "" {
		return reason
	}
	if kind&bulk == 0 && m.Amount&uint32(m.Width-1) != 0 {
		return partialAccess(m)
	}
	return c.checkMemory(m, role)
}

func (c *commandChecker) checkFill(m *Command) string {
	if m.Option != 0 || m.Index != 0 || m.Mask != 0 {
		return "option, index and mask must be 0"
	}
	if m.Amount == 0 {
		return noBytes
	}
	size := uint64(m.Amount)
	switch gen.Access(m.Mode) {
	case gen.AccessExact:
	case gen.AccessFixed:
		size = uint64(m.Width)
	default:
		return Text("invalid mode %d; must be 1 (exact) or 2 (fixed)", uint64(m.Mode))
	}
	if reason := c.checkAccess(m, size, several|stores); reason != "" {
		return reason
	}
	if m.Amount&uint32(m.Width-1) != 0 {
		return partialAccess(m)
	}
	if !fits(m.Value, m.Width) {
		return wideValue(m)
	}
	return ""
}

func (c *commandChecker) checkExpect(m *Command) string {
	if m.Mode == 0 || m.Mode > uint8(gen.ConditionNotEqual) {
		return Text("invalid mode %d; must be 1 (equal) or 2 (not equal)", uint64(m.Mode))
	}
	if reason := c.checkPolicy(m); reason != "" {
		return reason
	}
	if m.Index != 0 && m.Amount == 0 {
		return "an interval without a deadline; set amount, or index to 0"
	}
	if reason := c.checkAccess(m, uint64(m.Width), oneLoad); reason != "" {
		return reason
	}
	if !fits(m.Mask, m.Width) || m.Value&^m.Mask != 0 {
		return invalidMask(m)
	}
	return ""
}

func (c *commandChecker) checkCompare(m *Command) string {
	if m.Mode != 0 || m.Mask != 0 {
		return "mode and mask must be 0"
	}
	if m.Amount == 0 {
		return noBytes
	}
	if reason := c.checkPolicy(m); reason != "" {
		return reason
	}
	if reason := c.checkAccess(m, uint64(m.Amount), several); reason != "" {
		return reason
	}
	if m.Amount&uint32(m.Width-1) != 0 {
		return partialAccess(m)
	}
	return c.checkMemory(m, gen.RoleInput)
}

func (c *commandChecker) checkPoint(m *Command) string {
	used := Command{Opcode: m.Opcode, Window: m.Window, Value: m.Value, Mask: m.Mask}
	if *m != used {
		return "all fields except window, value and mask must be 0"
	}
	if int(m.Window) >= len(c.windows) {
		return noWindow(m.Window)
	}
	w := &c.view.Windows[m.Window]
	if w.Kind != gen.WindowKindTlb {
		return wrongWindow(m.Window, w)
	}
	if m.Value&(w.Size-1) != 0 {
		return Text("address %x is not a multiple of the window's %x bytes", m.Value, w.Size)
	}
	tiles, ok := boards.UnpackTileRange(m.Mask)
	if !ok {
		return Text("tile range %x has impossible fields", m.Mask)
	}
	if closed := c.boards[w.Device].ClosedTo(tiles, m.Value, w.Size); closed != nil {
		return Text("the window may show %x to %x of ", closed.First, closed.Last) +
			closed.Name + ", which is closed to images; for host memory declare a host window"
	}
	if state := &c.windows[m.Window]; state.end == 0 {
		state.end = w.Size
		c.pointed = append(c.pointed, m.Window)
	}
	c.view.NeedsFixup = true
	return ""
}

func checkFence(m *Command) string {
	if *m != (Command{Opcode: m.Opcode}) {
		return "all fields must be 0"
	}
	return ""
}

func checkDelay(m *Command) string {
	if *m != (Command{Opcode: m.Opcode, Amount: m.Amount}) {
		return "all fields except amount must be 0"
	}
	if m.Amount == 0 || m.Amount > DelayMaxUs {
		return Text("%d us is not between 1 and %d", uint64(m.Amount), DelayMaxUs)
	}
	return ""
}

// checkCall checks a Call command. The sequence that it calls may point any window.
func (c *commandChecker) checkCall(m *Command) string {
	if *m != (Command{Opcode: m.Opcode, Index: m.Index}) {
		return "all fields except index must be 0"
	}
	if int(m.Index) >= len(c.view.Sequences) {
		return Text("sequence %d does not exist", uint64(m.Index))
	}
	c.hasCall = true
	c.unpointWindows()
	return ""
}

func (c *commandChecker) checkEnd(m *Command) string {
	if *m != (Command{Opcode: m.Opcode}) {
		return "all fields must be 0"
	}
	if m != c.last {
		return "must be the last command of a sequence"
	}
	return ""
}

// checkPolicy checks the option of an Expect or Compare command. A failure that is
// ignored queries every device of the image.
func (c *commandChecker) checkPolicy(m *Command) string {
	switch gen.Policy(m.Option) {
	case gen.PolicyFail:
		return ""
	case gen.PolicyIgnore:
		c.us += queryUs * uint64(len(c.view.Devices))
		return ""
	}
	return Text("invalid option %d; must be 1 (fail) or 2 (ignore)", uint64(m.Option))
}

// fits reports whether a number has no bits above width bytes.
func fits(number uint64, width uint8) bool { return number&^WidthMask(width) == 0 }

func wideValue(m *Command) string {
	return Text("value %x does not fit %d bytes", m.Value, uint64(m.Width))
}

func invalidMask(m *Command) string {
	if !fits(m.Mask, m.Width) {
		return Text("mask %x does not fit %d bytes", m.Mask, uint64(m.Width))
	}
	return Text("value %x has bits outside the mask %x", m.Value, m.Mask)
}

const noBytes = "amount must not be 0"

func partialAccess(m *Command) string {
	return Text("%d bytes are not a whole number of accesses of %d bytes",
		uint64(m.Amount), uint64(m.Width))
}

// checkAccess checks the access of a command to size bytes of its window.
func (c *commandChecker) checkAccess(m *Command, size uint64, kind accessKind) string {
	if int(m.Window) >= len(c.windows) {
		return noWindow(m.Window)
	}
	w, offset := &c.windows[m.Window], uint64(m.Offset)
	if offset < w.first || offset >= w.end {
		return c.checkAccessInNewRange(m, size, kind)
	}
	if offset+size > w.end {
		return c.outsideRange(m, size, w)
	}
	if m.Width&w.widths == 0 || !isPowerOfTwo(m.Width) {
		return c.invalidWidth(m)
	}
	if kind&^w.kinds != 0 {
		return c.invalidKind(m, kind)
	}
	if kind&bulk == 0 && (w.start|offset)&uint64(m.Width-1) != 0 {
		return misaligned(m, w)
	}
	return ""
}

// checkAccessInNewRange sets the state of the command's window to the range that contains
// its offset, and checks the access again. Only a Bar window has several ranges.
func (c *commandChecker) checkAccessInNewRange(m *Command, size uint64, kind accessKind) string {
	w := &c.windows[m.Window]
	window := &c.view.Windows[m.Window]
	if window.Kind == gen.WindowKindTlb && w.end == 0 {
		return Text("window %d is used before it is pointed in this sequence", uint64(m.Window))
	}
	if uint64(m.Offset) >= window.Size {
		return c.outsideRange(m, size, w)
	}
	rule := c.findRule(m)
	if rule == nil {
		first := window.Offset + uint64(m.Offset)
		return Text("nothing at %x of BAR %d is a register of ", first, uint64(window.Bar)) +
			c.boards[window.Device].Name
	}
	if window.Flags&FlagWriteCombining != 0 && !rule.Memory {
		return c.notAccepted("a write-combining window, which is for memory,", m)
	}
	w.first = max(rule.First, window.Offset) - window.Offset
	w.end = min(rule.Last+1-window.Offset, window.Size)
	w.widths, w.kinds = rule.Widths, several
	if !rule.LoadOnly {
		w.kinds |= stores
	}
	if rule.Memory && rule.Widths == widthsAll {
		w.kinds |= bulk
	}
	return c.checkAccess(m, size, kind)
}

func isPowerOfTwo(width uint8) bool { return width&(width-1) == 0 }

// findRule returns the rule for the first byte that a command accesses.
func (c *commandChecker) findRule(m *Command) *boards.Rule {
	w := &c.view.Windows[m.Window]
	return c.boards[w.Device].FindRule(w.Bar, w.Offset+uint64(m.Offset), 1)
}

func noWindow(index uint16) string {
	return Text("window %d does not exist", uint64(index))
}

func (c *commandChecker) outsideRange(m *Command, size uint64, w *windowState) string {
	offset, window := uint64(m.Offset), &c.view.Windows[m.Window]
	if offset+size > window.Size {
		return Text("%d bytes at %x reach outside the window of %x bytes",
			size, offset, window.Size)
	}
	return Text("%d bytes at %x reach outside one register or memory: %x to %x of the window",
		size, offset, w.first, w.end-1)
}

func (c *commandChecker) invalidWidth(m *Command) string {
	if m.Width&widthsAll == 0 || !isPowerOfTwo(m.Width) {
		return Text("invalid width %d; must be 1, 2, 4 or 8", uint64(m.Width))
	}
	return c.notAccepted(Text("width %d", uint64(m.Width)), m)
}

func (c *commandChecker) invalidKind(m *Command, kind accessKind) string {
	w := &c.view.Windows[m.Window]
	if w.Kind == gen.WindowKindConfig {
		return wrongWindow(m.Window, w)
	}
	if kind&bulk != 0 {
		return c.notAccepted("bulk access, which is for memory that takes every width,", m)
	}
	return c.notAccepted("a store (declare a TLB or a host window instead)", m)
}

// notAccepted returns the reason that the device does not accept an access at the
// command's offset. what names the access.
func (c *commandChecker) notAccepted(what string, m *Command) string {
	w := &c.view.Windows[m.Window]
	what += " is not accepted by "
	if w.Kind == gen.WindowKindConfig {
		return what + "configuration space"
	}
	place := Text(" BAR %d at %x (", uint64(w.Bar), w.Offset+uint64(m.Offset))
	return what + c.boards[w.Device].Name + place + c.findRule(m).Name + ")"
}

func misaligned(m *Command, w *windowState) string {
	width := uint64(m.Width)
	if w.start%width != 0 {
		return Text("the window starts at %x of its BAR, which is not aligned to the width %d",
			w.start, width)
	}
	return Text("offset %x is not aligned to the width %d", uint64(m.Offset), width)
}

func wrongWindow(index uint16, w *Window) string {
	return Text("cannot access window %d, which is ", uint64(index)) + windowKindNames[w.Kind]
}

// checkBusAddress checks that a device may get the bus address of a window: it
// could store to all of the window.
func (c *commandChecker) checkBusAddress(index uint16) string {
	w, state := &c.view.Windows[index], &c.windows[index]
	if w.Kind == gen.WindowKindHost || state.storable {
		return ""
	}
	if w.Kind != gen.WindowKindBar {
		return "only BAR and host windows have a bus address"
	}
	for _, r := range c.boards[w.Device].Rules {
		if r.LoadOnly && r.Bar == w.Bar && r.First < w.Offset+w.Size && r.Last >= w.Offset {
			return Text("the window includes %x to %x, which take no stores (", r.First, r.Last) +
				r.Name + "); give other devices a window without them"
		}
	}
	state.storable = true
	return ""
}

// checkMemory checks the bytes that a command copies or compares: of the payload,
// or of a tensor with the given role.
func (c *commandChecker) checkMemory(m *Command, role gen.Role) string {
	size := c.view.Reservation.PayloadBytes
	if m.Index != 0 || role == gen.RoleOutput {
		if m.Index == 0 || int(m.Index) > len(c.view.Tensors) {
			return Text("memory %d does not exist or cannot be used here", uint64(m.Index))
		}
		t := &c.view.Tensors[m.Index-1]
		if t.Role != role {
			return c.wrongTensor(t)
		}
		size = t.Size
	}
	if m.Value > size || uint64(m.Amount) > size-m.Value {
		return Text("%d bytes at %x reach outside the tensor or the payload of %d bytes",
			uint64(m.Amount), m.Value, size)
	}
	return ""
}

func (c *commandChecker) wrongTensor(t *Tensor) string {
	return "tensor " + Quote(c.view.Name(t.Name)) + " has the wrong role: copy in and compare " +
		"use inputs, copy out uses outputs"
}

// verifyCalls checks that calls do not nest, and adds the longest times of called
// sequences to those of their callers.
func (v *View) verifyCalls() *Error {
	calls := make([]bool, len(v.Sequences))
	called := make([]bool, len(v.Sequences))
	for at, s := range v.Sequences {
		for i := s.First; i < s.First+s.Count; i++ {
			c := &v.Commands[i]
			if c.Opcode != gen.OpcodeCall {
				continue
			}
			calls[at], called[c.Index] = true, true
			us := v.WorstCaseUs[at] + v.WorstCaseUs[c.Index]
			v.WorstCaseUs[at] = min(us, longestUs)
		}
	}
	for i := range calls {
		if calls[i] && called[i] {
			return &Error{
				Text("sequence %d", uint64(i)),
				"calls and is called: calls do not nest",
			}
		}
	}
	return nil
}
