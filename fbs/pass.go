package fbs

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

const (
	blockCommands = 512     // commands that are summed and checked together: 16 KiB
	checkAlways   = 1 << 47 // least amount where each command is looked at
)

// limits of commands of one head, that is of the other 24 bytes. Form, window,
// board's rule, memory and whether a window is aimed follow from the head and
// from one place; what they allow is checked once and kept.
type limits struct {
	first, last uint64 // where an access may begin in the window, under one rule
	span        uint64 // all ones where amount is bytes from there; last is then their end
	least       uint64 // of amount; never where each command is looked at
	// bits of amount<<32 | offset that must be zero: stray fields and alignment
	zero          uint64
	value, mask   uint64 // bits that may be set; of value, beside those of the mask
	place, memory uint64 // bits of value that are an offset in a memory, and the bytes of that
	more, shift   uint64 // (amount + more) >> shift is what a command counts in LongestUs
}

// checker carries what is known while the commands of an image are checked in
// order: limits of heads, one in each of 64 places.
type commandChecker struct {
	view     *View
	heads    [64]uint64
	limits   [64]limits
	boards   [DevicesMax]*boards.Board
	sequence int    // that is looked at
	costUs   uint64 // LongestUs of its commands so far
	pointed  []bool // Tlb windows aimed so far in it
	hasCall  bool   // there is a Call
}

func limitsSlot(head uint64) uint64 { return head * 0x9e3779b97f4a7c15 >> 58 }

// forget is for the start of a sequence and behind a Call: windows are to be
// aimed anew. A head of 0 belongs to place 0, and 1 does not.
func (c *commandChecker) resetCache() {
	c.heads = [64]uint64{1}
	clear(c.pointed)
}

// held is how many commands keep limits that are known. A difference that is
// not to be negative has bit 63 clear (nothing here has more than 48 bits), and
// no other bit is left.
func (c *commandChecker) countWithinLimits(list []Command) (count int) {
	us := c.costUs
	for ; count < len(list); count++ {
		m := &list[count]
		h := headBits(m)
		l := &c.limits[limitsSlot(h)]
		pair := amountAndOffset(m)
		at, amount, place := pair&(1<<32-1), pair>>32, m.Value&l.place
		sign := (at - l.first) | (l.last - at - amount&l.span) | (amount - l.least) |
			(l.memory - place - amount)
		if sign>>63|pair&l.zero|m.Value&^(m.Mask|l.value)|m.Mask&^l.mask|
			(h^c.heads[limitsSlot(h)]) != 0 {
			break
		}
		us += (amount + l.more) >> (l.shift & 63)
	}
	c.costUs = us
	return count
}

// verifyCommands checks every command, so that what carries them out need not
// check anything again, and carries a checksum on over them as they lie in the file.
func (v *View) verifyCommands(data []byte, sum uint32) (uint32, *Error) {
	c := commandChecker{view: v, pointed: make([]bool, len(v.Windows))}
	for i := range v.Devices {
		c.boards[i] = v.Board(i)
	}
	v.WorstCaseUs = make([]uint64, len(v.Sequences))
	c.resetCache()
	for from := 0; from < len(v.Commands); from += blockCommands {
		list := v.Commands[from:min(from+blockCommands, len(v.Commands))]
		for at := c.countWithinLimits(list); at < len(list); at += c.countWithinLimits(list[at:]) {
			if why := c.checkCommand(list[at:at+1], from+at); why != "" {
				return 0, &Error{Text("command %d", uint64(from+at)), why}
			}
			at++
		}
		// which are near by now
		sum = checksum(sum, data[from*CommandSize:][:len(list)*CommandSize])
	}
	if c.hasCall {
		return sum, v.verifyCalls()
	}
	return sum, nil
}

// verifyCalls adds the time that called sequences take to that of those which
// call them.
func (v *View) verifyCalls() *Error {
	calls, called := make([]bool, len(v.Sequences)), make([]bool, len(v.Sequences))
	for at, s := range v.Sequences {
		for i := s.First; i < s.First+s.Count; i++ {
			if c := &v.Commands[i]; c.Opcode == gen.OpcodeCall {
				calls[at], called[c.Index] = true, true
				v.WorstCaseUs[at] = min(v.WorstCaseUs[at]+v.WorstCaseUs[c.Index], 1<<62)
			}
		}
	}
	for i := range calls {
		if calls[i] && called[i] {
			return &Error{Text("sequence %d", uint64(i)), "calls and is called: calls do not nest"}
		}
	}
	return nil
}

// check says what is wrong with the one command of a list, empty if nothing is,
// and keeps the limits of its head. at is its index in the image.
func (c *commandChecker) checkCommand(list []Command, at int) string {
	m := &list[0]
	if m.Opcode == gen.OpcodeInvalid || int(m.Opcode) >= len(opcodeForms) {
		return Text("unknown opcode %d", uint64(m.Opcode))
	}
	f, l := &opcodeForms[m.Opcode], &c.limits[limitsSlot(headBits(m))]
	c.heads[limitsSlot(headBits(m))] = headBits(m)
	f.setLimits(m, l)
	if gen.Policy(m.Option) == gen.PolicyIgnore {
		// a failure that is ignored has all devices asked
		l.more += queryUs * uint64(len(c.view.Devices))
	}
	why := c.checkWindow(f, m)
	if why == "" {
		why = c.limitAccess(f, m, l)
	}
	if why == "" {
		why = c.limitIndex(f, m, l)
	}
	if why == "" && c.countWithinLimits(list) == 0 {
		why = f.explainFailure(m, l)
	}
	if why == "" && f.CheckEach {
		l.least = checkAlways
		why = c.checkSpecial(m, at)
	}
	return why
}

// limit sets what follows from the form alone.
func (f *Form) setLimits(m *Command, l *limits) {
	of := WidthMask(max(m.Width, 1))
	sets := [...]uint64{valueWidth: of, valueMemoryOffset: 1<<48 - 1, valueSpecial: ^uint64(0)}
	*l = limits{zero: ^uint64(0), value: sets[f.Value], mask: sets[f.Mask], memory: 1 << 32,
		more: uint64(f.CostUs)}
	if f.AmountMax != 0 {
		l.zero = 1<<32 - 1
	}
}

const (
	unusedNotZero = "a field that this command does not use is not zero"
	noWindow      = "window %d does not exist"
)

// window checks mode, option, width and kind of window.
func (c *commandChecker) checkWindow(f *Form, m *Command) string {
	if why := firstNonEmpty(
		failIf(f.Modes>>m.Mode&1 == 0, "unknown mode %d", uint64(m.Mode)),
		failIf(f.Options>>m.Option&1 == 0, "unknown option %d", uint64(m.Option)),
		failIf(f.Widths>>m.Width&1 == 0, "width %d is not one", uint64(m.Width)),
	); why != "" {
		return why + " of " + f.Name
	}
	if f.Kinds == 0 {
		return failIf(m.Window != 0, unusedNotZero)
	}
	if int(m.Window) >= len(c.view.Windows) {
		return Text(noWindow, uint64(m.Window))
	}
	w := &c.view.Windows[m.Window]
	if f.Kinds>>w.Kind&1 == 0 {
		return f.Name + Text(" does not go to window %d, which is ", uint64(m.Window)) +
			kindNames[w.Kind]
	}
	return failIf(w.Kind == gen.WindowKindTlb && !c.pointed[m.Window] &&
		m.Opcode != gen.OpcodePoint, "window %d is used before it is pointed in this sequence",
		uint64(m.Window))
}

var kindNames = [...]string{gen.WindowKindBar: "a BAR window", gen.WindowKindTlb: "a TLB window",
	gen.WindowKindHost:   "a host window",
	gen.WindowKindConfig: "configuration space, read-only to images"}

// access sets where in its window a command may reach: what the window, and the
// rule of the board at its offset, allow.
func (c *commandChecker) limitAccess(f *Form, m *Command, l *limits) string {
	if f.Widths == 1 {
		return ""
	}
	w := &c.view.Windows[m.Window]
	free := f.Range && gen.Access(m.Mode) == gen.AccessBulk
	end, unit := w.Size, uint64(m.Width)
	if w.Kind == gen.WindowKindConfig && m.Width == 8 {
		return "width 8 is not accepted by " + kindNames[w.Kind]
	}
	if board := c.boards[w.Device]; w.Kind == gen.WindowKindBar && uint64(m.Offset) < w.Size {
		at := w.Offset + uint64(m.Offset)
		rule := board.FindRule(w.Bar, at, 1)
		if rule == nil {
			return Text("nothing at %x of BAR %d is a register of ", at, uint64(w.Bar)) + board.Name
		}
		if what := firstNonEmpty(
			failIf(free && !(rule.Memory && rule.Widths == 1|2|4|8),
				"bulk access, which is for memory that takes every width,"),
			failIf(w.Flags&FlagWriteCombining != 0 && !rule.Memory,
				"a write-combining window, which is for memory,"),
			failIf(f.Stores && rule.LoadOnly, "a store (declare a TLB or a host window instead)"),
			failIf(rule.Widths&m.Width == 0, "width %d", unit),
		); what != "" {
			return what + " is not accepted by " + board.Name +
				Text(" BAR %d at %x (", uint64(w.Bar), at) + rule.Name + ")"
		}
		l.first = max(rule.First, w.Offset) - w.Offset
		end = min(end, rule.Last+1-w.Offset)
	}
	if free {
		unit = 1 // what takes bulk takes every width
	}
	l.zero &^= 1<<32 - unit
	l.last = end - unit
	if f.Range {
		l.least, l.zero = 1, l.zero&^((1<<32-unit)<<32)
		l.shift = uint64(m.Width/2 - m.Width/8)        // of 1, 2, 4, 8: 0, 1, 2, 3
		l.more = l.more<<l.shift + uint64(m.Width) - 1 // rounds the number of accesses up
		if gen.Access(m.Mode) != gen.AccessFixed {
			l.span, l.last = ^uint64(0), end
		}
	}
	return firstNonEmpty(
		failIf(w.Offset&(unit-1) != 0,
			"the window starts at %x, which is not aligned to the width %d", w.Offset, unit),
		failIf(end < l.first+unit, "%d bytes at %x reach outside the window of %x bytes", unit,
			uint64(m.Offset), w.Size))
}

// index checks what a command's index names and sets the limits that follow.
func (c *commandChecker) limitIndex(f *Form, m *Command, l *limits) string {
	switch f.Index {
	case indexNone:
		return failIf(m.Index != 0, unusedNotZero)
	case indexInterval:
		if m.Index != 0 {
			l.least = 1
		}
	case indexSequence:
		return failIf(int(m.Index) >= len(c.view.Sequences), "sequence %d does not exist",
			uint64(m.Index))
	case indexBusWindow:
		if int(m.Index) >= len(c.view.Windows) {
			return Text(noWindow, uint64(m.Index))
		}
		return c.busAddress(&c.view.Windows[m.Index])
	case indexInput, indexOutput:
		return c.limitMemory(f, m, l)
	}
	return ""
}

// busAddress returns why a device may not be given the bus address of a window,
// empty if it may: it could store to all of the window.
func (c *commandChecker) busAddress(w *Window) string {
	if w.Kind == gen.WindowKindHost {
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
	return ""
}

// memory sets which bytes a command may name: of a tensor, or of the payload.
func (c *commandChecker) limitMemory(f *Form, m *Command, l *limits) string {
	l.place = 1<<48 - 1
	if m.Index == 0 && f.Index == indexInput {
		l.memory = c.view.Reservation.PayloadBytes
		return ""
	}
	if m.Index == 0 || int(m.Index) > len(c.view.Tensors) {
		return Text("memory %d does not exist, or is none of ", uint64(m.Index)) + f.Name
	}
	t := &c.view.Tensors[m.Index-1]
	if (t.Role == gen.RoleInput) != (f.Index == indexInput) {
		return "tensor " + Quote(c.view.Name(t.Name)) +
			" is on the wrong side: what goes to a device is an input, what comes from it an output"
	}
	l.memory = t.Size
	return ""
}

// broken says which limit a command does not keep.
func (f *Form) explainFailure(m *Command, l *limits) string {
	at, amount, unit := uint64(m.Offset), uint64(m.Amount), uint64(max(m.Width, 1))
	size := unit
	if l.span != 0 {
		size = amount
	}
	access, place := f.Widths != 1, m.Value&l.place
	return firstNonEmpty(
		failIf(f.Range && amount == 0, f.Name+" of no bytes"),
		failIf(amount < l.least, "an interval without a deadline"),
		failIf(access && at+amount&l.span > l.last,
			"%d bytes at %x reach outside the window, or outside one register: %x to %x", size, at,
			l.first, l.last),
		failIf(access && at&l.zero != 0, "%d bytes at %x are not aligned to the width %d", size, at,
			unit),
		failIf(f.Range && amount<<32&l.zero != 0, "%d bytes are no whole number of accesses of %d",
			amount, unit),
		failIf((amount<<32|at)&l.zero != 0 || f.Value == valueZero && m.Value != 0 ||
			f.Mask == valueZero && m.Mask != 0, unusedNotZero),
		failIf(f.Value != valueInMask && m.Value&^l.value != 0 ||
			m.Mask&^l.mask != 0, "value %x or mask %x has bits that %d bytes have not", m.Value,
			m.Mask, unit),
		failIf(m.Value&^(m.Mask|l.value) != 0, "value %x has bits outside the mask %x", m.Value,
			m.Mask),
		Text("%d bytes at %x reach outside the tensor or the payload", amount, place))
}

// single checks what no limits say, of the opcodes whose every command is
// looked at, and notes what they do.
func (c *commandChecker) checkSpecial(m *Command, at int) string {
	switch m.Opcode {
	case gen.OpcodePoint:
		size := c.view.Windows[m.Window].Size
		target, ok := boards.UnpackTileRange(m.Mask)
		c.pointed[m.Window], c.view.NeedsFixup = true, true
		why := firstNonEmpty(
			failIf(m.Value&(size-1) != 0, "address %x is not a multiple of the window's %x bytes",
				m.Value, size),
			failIf(!ok, "target %x has impossible fields", m.Mask))
		board := c.boards[c.view.Windows[m.Window].Device]
		if closed := board.ClosedTo(target, m.Value, size); why == "" && closed != nil {
			why = Text("the window may show %x to %x of ", closed.First, closed.Last) +
				closed.Name +
				", which is closed to images; for host memory declare a host window"
		}
		return why
	case gen.OpcodeModify:
		return failIf(m.Mask == 0, "mask is zero: nothing would be written")
	case gen.OpcodeRelocate:
		size := c.view.Windows[m.Index].Size
		c.view.NeedsFixup = true
		c.view.BusMasters |= 1 << c.view.Windows[m.Window].Device
		return failIf(m.Value > size,
			"bus address %x beyond the start of window %d, which has %x bytes", m.Value,
			uint64(m.Index), size)
	case gen.OpcodeDelay:
		return failIf(m.Amount == 0 || m.Amount > DelayMaxUs,
			"delay of %d us is not between 1 and 10000000", uint64(m.Amount))
	case gen.OpcodeCall:
		c.hasCall = true
		c.resetCache() // the callee may have aimed any window
	case gen.OpcodeEnd:
		s := &c.view.Sequences[c.sequence]
		c.view.WorstCaseUs[c.sequence] = c.costUs
		c.sequence++
		c.costUs = 0
		c.resetCache()
		return failIf(at != int(s.First+s.Count)-1, "End must be the last command of a sequence")
	}
	return ""
}
