package fbs

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// Block is how many commands are summed and checked together: 16 KiB.
const Block = 512

// limits of commands of one head, that is of the other 24 bytes. Form, window,
// board's rule, memory and whether a window is aimed follow from the head and
// from one place; what they allow is checked once and kept.
type limits struct {
	first, last       uint64 // where an access may begin in the window, under one rule
	span              uint64 // all ones where amount is bytes from there; last is then their end
	least             uint64 // of amount
	zero              uint64 // bits of amount<<32 | offset that must be zero: stray fields and alignment
	value, mask       uint64 // bits that may be set; of value, beside those of the mask
	place             uint64 // bits of value that are an offset in a memory, from
	memory, memoryEnd uint64 // to the end of the tensor or segment
	more, shift       uint64 // amount + more >> shift is how many accesses and us of waiting a command is at most
}

// memo is what is known of heads: one in each of 64 places. head and limits of
// a place are stored together or not at all.
type memo struct {
	heads  [64]uint64
	limits [64]limits
	us     uint64 // of all commands that were looked at, a microsecond for each access
}

func slot(head uint64) uint64 { return head * 0x9e3779b97f4a7c15 >> 58 }

// forget is for the start of a sequence and behind a Call: windows are to be
// aimed anew. A head of 0 belongs to place 0, and 1 does not.
func (k *memo) forget() { k.heads = [64]uint64{1} }

// held is how many commands keep limits that are known. A difference that is
// not to be negative has bit 63 clear (nothing here has more than 48 bits), and
// no other bit is left.
func (k *memo) held(v *View, list []Command) (count int) {
	us := k.us
	for count = range list {
		c := &list[count]
		h := head(c)
		l := &k.limits[slot(h)]
		pair := both(c)
		at, amount, place := pair&(1<<32-1), pair>>32, c.Value&l.place
		sign := (at - l.first) | (l.last - at - amount&l.span) | (amount - l.least)
		wrong := sign>>63 | pair&l.zero | c.Value&^(c.Mask|l.value) | c.Mask&^l.mask | (h ^ k.heads[slot(h)])
		outside := int64((place-l.memory)|(l.memoryEnd-place-amount)) < 0
		if wrong != 0 || outside && (h>>48 != 0 || !v.moved(l, place, amount)) {
			k.us = us
			return count
		}
		us += (amount + l.more) >> (l.shift & 63)
	}
	k.us = us
	return len(list)
}

// moved takes the segment of the payload that holds a place, for a head that is
// known, and tells whether it holds as many bytes.
func (v *View) moved(l *limits, place, amount uint64) bool {
	l.memory, l.memoryEnd = v.segment(place)
	return place+amount <= l.memoryEnd
}

// checker carries what is known while the commands of an image are checked in
// order.
type checker struct {
	known   memo
	v       *View
	boards  [TargetsMax]*boards.Board
	pointed []bool // Tlb windows aimed so far in this sequence
	limits  limits // of the command that is looked at
}

// verifyCommands checks every command, so that what carries them out need not
// check anything again, and carries a checksum on over them.
func (v *View) verifyCommands(sum uint32) (uint32, *Error) {
	c := checker{v: v, pointed: make([]bool, len(v.Windows))}
	for i := range v.Targets {
		c.boards[i] = v.Board(i)
	}
	v.LongestUs = make([]uint64, len(v.Sequences))
	for i := range v.Sequences {
		s := &v.Sequences[i]
		c.forget()
		c.known.us = 0
		for first := s.First; first < s.First+s.Count; first += Block {
			list := v.Commands[first:min(first+Block, s.First+s.Count)]
			if at, why := c.block(int(first), list, int(s.First+s.Count-1)); why != "" {
				return 0, &Error{Text("command %d", uint64(at)), why}
			}
			sum = checksum(sum, bytesOf(list)) // which are near by now
		}
		v.LongestUs[i] = c.known.us
	}
	return sum, v.verifyCalls()
}

// block checks commands from first on, in a sequence whose last is end.
func (c *checker) block(first int, list []Command, end int) (at int, why string) {
	body := min(len(list), end-first) // the last of a sequence is always looked at
	for n := 0; n < len(list); n++ {
		if n < body {
			n += c.known.held(c.v, list[n:body])
		}
		if n == len(list) {
			break
		}
		at = first + n
		if why = c.check(&list[n], at == end); why != "" {
			return at, why
		}
		switch list[n].Opcode {
		case gen.OpcodePoint, gen.OpcodeAddress, gen.OpcodeCall:
			c.v.marked[at/Block/64] |= 1 << (at / Block % 64)
		}
	}
	return 0, ""
}

// verifyCalls adds the time that called sequences take to that of those which
// call them.
func (v *View) verifyCalls() *Error {
	at, calls, called := 0, make([]bool, len(v.Sequences)), make([]bool, len(v.Sequences))
	v.Visit(func(i int) {
		for i >= int(v.Sequences[at].First+v.Sequences[at].Count) {
			at++
		}
		if c := &v.Commands[i]; c.Opcode == gen.OpcodeCall {
			calls[at], called[c.Index] = true, true
			v.LongestUs[at] = min(v.LongestUs[at]+v.LongestUs[c.Index], 1<<62)
		}
	})
	for i := range calls {
		if calls[i] && called[i] {
			return &Error{Text("sequence %d", uint64(i)), "calls and is called: calls do not nest"}
		}
	}
	return nil
}

// Visit goes over the commands of those blocks that hold a Point, an Address or
// a Call.
func (v *View) Visit(visit func(index int)) {
	for first := 0; first < len(v.Commands); first += Block {
		if v.marked[first/Block/64]>>(first/Block%64)&1 == 0 {
			continue
		}
		for i := first; i < min(first+Block, len(v.Commands)); i++ {
			visit(i)
		}
	}
}

func (c *checker) forget() {
	c.known.forget()
	clear(c.pointed)
}

// check says what is wrong with a command, empty if nothing is, and keeps the
// limits of its head.
func (c *checker) check(m *Command, last bool) string {
	if m.Opcode == gen.OpcodeInvalid || int(m.Opcode) >= len(forms) {
		return Text("unknown opcode %d", uint64(m.Opcode))
	}
	if last != (m.Opcode == gen.OpcodeEnd) {
		return "End must be the last command of a sequence, and only that"
	}
	f, l := &forms[m.Opcode], &c.limits
	f.limit(m, l)
	for _, step := range steps {
		if why := step(c, f, m, l); why != "" {
			return why
		}
	}
	c.known.us += (uint64(m.Amount) + l.more) >> l.shift
	switch {
	case m.Opcode == gen.OpcodeCall:
		c.forget() // the callee may have aimed any window
	case !f.Each:
		c.known.heads[slot(head(m))], c.known.limits[slot(head(m))] = head(m), *l
	}
	return ""
}

// steps are taken in order. Each says what is wrong, empty if nothing is, and
// sets limits for those behind it.
var steps = [...]func(*checker, *Form, *Command, *limits) string{(*checker).window, (*checker).access, (*checker).index, (*checker).broken, (*checker).single}

// limit sets what follows from the form alone.
func (f *Form) limit(m *Command, l *limits) {
	of := WidthMask(max(m.Width, 1))
	sets := [...]uint64{width: of, some: of, inside: of, memory: 1<<48 - 1, own: ^uint64(0)}
	*l = limits{zero: ^uint64(0), value: sets[f.Value], mask: sets[f.Mask], memoryEnd: 1 << 32, more: uint64(f.Accesses)}
	if f.AmountMax != 0 {
		l.zero = 1<<32 - 1
	}
}

const stray = "a field that this command does not use is not zero"

// window checks mode, option, width and kind of window.
func (c *checker) window(f *Form, m *Command, _ *limits) string {
	switch {
	case f.Modes>>m.Mode&1 == 0:
		return Text("unknown mode %d of ", uint64(m.Mode)) + f.Name
	case f.Options>>m.Option&1 == 0:
		return Text("unknown option %d of ", uint64(m.Option)) + f.Name
	case f.Widths == 0 && m.Width != 0, f.Kinds == 0 && m.Window != 0:
		return stray
	case f.Widths != 0 && (m.Width > 8 || m.Width&(m.Width-1) != 0 || f.Widths&m.Width == 0):
		return Text("width %d is not one of ", uint64(m.Width)) + f.Name
	case f.Kinds == 0:
		return ""
	case int(m.Window) >= len(c.v.Windows):
		return Text("window %d does not exist", uint64(m.Window))
	}
	w := &c.v.Windows[m.Window]
	switch {
	case f.Kinds>>w.Kind&1 == 0:
		return f.Name + Text(" does not go to window %d, which is ", uint64(m.Window)) + kindNames[w.Kind]
	case w.Kind == gen.WindowKindTlb && f.Widths != 0 && !c.pointed[m.Window]:
		return Text("window %d is used before it is pointed in this sequence", uint64(m.Window))
	}
	return ""
}

var kindNames = [...]string{gen.WindowKindBar: "a BAR window", gen.WindowKindTlb: "a TLB window",
	gen.WindowKindHost: "a host window", gen.WindowKindConfig: "configuration space, read-only to images"}

// access sets where in its window a command may reach: what the window, and the
// rule of the board at its offset, allow.
func (c *checker) access(f *Form, m *Command, l *limits) string {
	if f.Widths == 0 {
		return ""
	}
	w := &c.v.Windows[m.Window]
	free := f.Range && gen.Access(m.Mode) == gen.AccessBulk
	end := w.Size
	if w.Kind == gen.WindowKindConfig && m.Width == 8 {
		return "width 8 is not accepted by " + kindNames[w.Kind]
	}
	if board := c.boards[w.Device]; w.Kind == gen.WindowKindBar && uint64(m.Offset) < w.Size {
		at := w.Offset + uint64(m.Offset)
		rule := board.Rule(w.Bar, at, 1)
		if rule == nil {
			return Text("nothing at %x of BAR %d is a register of ", at, uint64(w.Bar)) + board.Name
		}
		switch {
		case free && !(rule.Memory && rule.Widths == 1|2|4|8):
			return "bulk access, which is for memory that takes every width, is" + refused(board, rule, w, m)
		case w.Flags&FlagWriteCombining != 0 && !rule.Memory:
			return "a write-combining window, which is for memory, is" + refused(board, rule, w, m)
		case f.Stores && rule.IATU:
			return "a store, which opens host memory to the device (declare a host window), is" + refused(board, rule, w, m)
		case rule.Widths&m.Width == 0:
			return Text("width %d is", uint64(m.Width)) + refused(board, rule, w, m)
		}
		l.first = max(rule.First, w.Offset) - w.Offset
		end = min(end, rule.Last+1-w.Offset)
	}
	unit := uint64(m.Width)
	if free {
		unit = 1 // what takes bulk takes every width
	}
	if w.Offset&(unit-1) != 0 {
		return Text("the window starts at %x, which is not aligned to the width %d", w.Offset, unit)
	}
	if end < l.first+unit {
		return Text("%d bytes at %x reach outside the window of %x bytes", unit, uint64(m.Offset), w.Size)
	}
	l.zero &^= 1<<32 - unit
	l.last = end - unit
	if f.Range {
		l.least, l.zero = 1, l.zero&^((1<<32-unit)<<32)
		l.more, l.shift = uint64(m.Width)-1, uint64(m.Width/2-m.Width/8) // of 1, 2, 4, 8: 0, 1, 2, 3
		if gen.Access(m.Mode) != gen.AccessFixed || m.Opcode == gen.OpcodeCompare {
			l.span, l.last = ^uint64(0), end
		}
	}
	return ""
}

func refused(board *boards.Board, rule *boards.Rule, w *Window, m *Command) string {
	return " not accepted by " + board.Name + Text(" BAR %d at %x (", uint64(w.Bar), w.Offset+uint64(m.Offset)) + rule.Name + ")"
}

// index checks what a command's index names and sets the limits that follow.
func (c *checker) index(f *Form, m *Command, l *limits) string {
	switch f.Index {
	case none:
		if m.Index != 0 {
			return stray
		}
	case interval:
		if m.Index != 0 {
			l.least = 1
		}
	case sequence:
		if int(m.Index) >= len(c.v.Sequences) {
			return Text("sequence %d does not exist", uint64(m.Index))
		}
	case bus:
		if int(m.Index) >= len(c.v.Windows) {
			return Text("window %d does not exist", uint64(m.Index))
		}
		if kind := c.v.Windows[m.Index].Kind; 1<<kind&(bar|host) == 0 {
			return "only BAR and host windows have a bus address"
		}
	case input, output:
		return c.memory(f, m, l)
	}
	return ""
}

// memory sets which bytes a command may name: of a tensor, or of the segment
// that its offset lies in.
func (c *checker) memory(f *Form, m *Command, l *limits) string {
	l.place = 1<<48 - 1
	if m.Index == 0 && f.Index == input {
		l.memory, l.memoryEnd = c.v.segment(m.Value)
		return ""
	}
	if m.Index == 0 || int(m.Index) > len(c.v.Tensors) {
		return Text("memory %d does not exist, or is none of ", uint64(m.Index)) + f.Name
	}
	t := &c.v.Tensors[m.Index-1]
	if (t.Role == gen.RoleInput) != (f.Index == input) {
		return "tensor " + Quote(c.v.Name(t.Name)) + " is on the wrong side: what goes to a device is an input, what comes from it an output"
	}
	l.memoryEnd = t.Size
	return ""
}

// broken says which limit a command does not keep, empty if it keeps all.
func (*checker) broken(f *Form, m *Command, l *limits) string {
	at, amount, unit := uint64(m.Offset), uint64(m.Amount), uint64(max(m.Width, 1))
	size := unit
	if l.span != 0 {
		size = amount
	}
	place := m.Value & l.place
	switch {
	case f.Range && amount == 0:
		return f.Name + " of no bytes"
	case amount < l.least:
		return "an interval without a deadline"
	case f.Widths != 0 && (at < l.first || at+amount&l.span > l.last):
		return Text("%d bytes at %x reach outside the window, or outside one register: %x to %x", size, at, l.first, l.last)
	case at&l.zero != 0 && f.Widths != 0:
		return Text("%d bytes at %x are not aligned to the width %d", size, at, unit)
	case amount<<32&l.zero != 0 && f.Range:
		return Text("%d bytes are no whole number of accesses of %d", amount, unit)
	case (amount<<32|at)&l.zero != 0, f.Value == zero && m.Value != 0, f.Mask == zero && m.Mask != 0:
		return stray
	case f.Value != inMask && m.Value&^l.value != 0 || m.Mask&^l.mask != 0:
		return Text("value %x or mask %x has bits that %d bytes have not", m.Value, m.Mask, unit)
	case m.Value&^(m.Mask|l.value) != 0:
		return Text("value %x has bits outside the mask %x", m.Value, m.Mask)
	case l.place != 0 && (place < l.memory || place+amount > l.memoryEnd):
		return Text("%d bytes at %x reach outside the tensor, or outside every segment of payload", amount, place)
	}
	return ""
}

// single checks what no limits say, of the opcodes whose every command is
// looked at.
func (c *checker) single(_ *Form, m *Command, _ *limits) string {
	switch m.Opcode {
	case gen.OpcodePoint:
		if size := c.v.Windows[m.Window].Size; m.Value&(size-1) != 0 {
			return Text("address %x is not a multiple of the window's %x bytes", m.Value, size)
		}
		if _, ok := boards.UnpackTarget(m.Mask); !ok {
			return Text("target %x has impossible fields", m.Mask)
		}
		c.pointed[m.Window] = true
	case gen.OpcodeChange:
		if m.Mask == 0 {
			return "mask is zero: nothing would be written"
		}
	case gen.OpcodeAddress:
		if size := c.v.Windows[m.Index].Size; m.Value > size {
			return Text("bus address %x beyond the start of window %d, which has %x bytes", m.Value, uint64(m.Index), size)
		}
	case gen.OpcodeDelay:
		if m.Amount == 0 || m.Amount > DelayMaxUs {
			return Text("delay of %d us is not between 1 and 10000000", uint64(m.Amount))
		}
	}
	return ""
}
