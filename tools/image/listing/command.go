package listing

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// mnemonic describes the first word of a command. A sized command has a width, as in write.4. parse
// may change the opcode.
type mnemonic struct {
	opcode gen.Opcode
	sized  bool
	parse  func(*parser, *lmb.Command)
}

var commands = map[string]mnemonic{
	"write":   {gen.OpcodeWrite, true, (*parser).write},
	"copy":    {gen.OpcodeCopyIn, true, (*parser).copy},
	"fill":    {gen.OpcodeFill, true, (*parser).fill},
	"poll":    {gen.OpcodeExpect, true, (*parser).poll},
	"expect":  {gen.OpcodeExpect, true, (*parser).expectation},
	"read":    {gen.OpcodeExpect, true, (*parser).readValue},
	"compare": {gen.OpcodeCompare, true, (*parser).compare},
	"flush":   {gen.OpcodeExpect, true, (*parser).flush},
	"fence":   {gen.OpcodeFence, false, (*parser).fence},
	"point":   {gen.OpcodePoint, false, (*parser).point},
	"delay":   {gen.OpcodeDelay, false, (*parser).delay},
	"call":    {gen.OpcodeCall, false, (*parser).call},
	"mark":    {lmb.OpcodeMark, false, (*parser).mark},
	"begin":   {lmb.OpcodeMark, false, (*parser).mark},
	"end":     {lmb.OpcodeMark, false, (*parser).mark},
}

var commandWords = slices.Sorted(maps.Keys(commands))

// command parses one command and appends it to the current sequence. It also appends a command with
// a mistake, so that the numbers of the later commands stay right.
func (p *parser) command() {
	name, width, dotted := strings.Cut(p.tok.text, ".")
	m, known := commands[name]
	c := lmb.Command{Command: fbs.Command{Opcode: m.opcode}}
	switch {
	case !known || p.tok.kind != tokenWord:
		p.unknownCommand(name)
	case m.sized:
		c.Width = p.width(name, width)
	case dotted:
		p.fail(p.tok, "the command %s has no width; write %s instead of %s", name, name, p.tok.text)
	}
	p.extraCommands = p.extraCommands[:0]
	if !p.failed {
		p.advance()
		m.parse(p, &c)
	}
	s := &p.image.Sequences[len(p.image.Sequences)-1]
	for _, made := range append(p.extraCommands, c) {
		if s.Commands = append(s.Commands, made); made.Opcode != lmb.OpcodeMark {
			p.countCommand(p.head.line)
		}
	}
}

func (p *parser) unknownCommand(name string) {
	if declarations[name] != nil {
		p.fail(p.tok, "%s is a declaration; put declarations before the first sequence", name)
	}
	p.fail(p.tok, "expected a command, found %s%s", p.tok, hint(name, "commands", commandWords))
}

func (p *parser) width(name, text string) uint8 {
	switch text {
	case "1", "2", "4", "8":
		return text[0] - '0'
	}
	p.fail(p.tok, "the width of %s must be 1, 2, 4 or 8 bytes, as in %[1]s.4", name)
	return 0
}

// location is the location of an access: a window, and the token of the offset in it.
type location struct {
	window      *lmb.Window
	offsetToken token // the offset
}

// windowOffset consumes window+offset.
func (p *parser) windowOffset(c *lmb.Command) location {
	c.Window = p.windowIndex()
	if p.failed {
		return location{}
	}
	w := &p.image.Windows[c.Window]
	p.expect("+")
	offset := p.size("an offset")
	if offset >= w.Size {
		p.fail(p.last, "offset 0x%x is outside the window, whose size is %s", offset,
			lmb.SizeText(w.Size))
	}
	c.Offset = uint32(offset)
	return location{w, p.last}
}

// registerAccess consumes window+offset of one access.
func (p *parser) registerAccess(c *lmb.Command) {
	a := p.windowOffset(c)
	p.checkRange(a, c, uint64(c.Width), uint64(c.Width), a.offsetToken)
}

// windowIndex consumes a window by name or by number.
func (p *parser) windowIndex() uint16 {
	t := p.tok
	if n, ok := windowNumber(t.text); ok && t.kind == tokenWord && !p.failed {
		if n >= len(p.image.Windows) {
			p.fail(t, "there is no window %s; the listing declares %s before this line", t.text,
				declaredWindows(len(p.image.Windows)))
			return 0
		}
		p.advance()
		return p.usableWindow(n)
	}
	name := p.name("a window")
	found := p.windows[name]
	switch {
	case p.failed:
	case len(found) > 1:
		p.fail(t, "%d windows are named %s; use %s instead", len(found), name,
			oneOf(windowWords(found)))
	case len(found) == 1:
		return p.usableWindow(found[0])
	case p.isTensor(name):
		p.fail(t, "%s is a tensor, not a window; to copy the whole tensor, write %s[:]", name, name)
	default:
		p.fail(t, "there is no window %s%s", name, hint(name, "windows",
			slices.Sorted(maps.Keys(p.windows))))
	}
	return 0
}

// declaredWindows returns the number of declared windows, and their numbers, as text.
func declaredWindows(count int) string {
	switch count {
	case 0:
		return "no windows"
	case 1:
		return "1 window, w0,"
	}
	return fmt.Sprintf("%d windows, w0 to w%d,", count, count-1)
}

func windowWords(windows []int) (words []string) {
	for _, n := range windows {
		words = append(words, fmt.Sprintf("w%d", n))
	}
	return words
}

func (p *parser) isTensor(name string) bool { _, ok := p.tensors[name]; return ok }

// usableWindow returns the index of a window. If the declaration of the window had an error, which
// was reported, usable ends the line without another error.
func (p *parser) usableWindow(window int) uint16 {
	if p.image.Windows[window].Size == 0 {
		p.failed = true
	}
	return uint16(window)
}

// checkRange checks that an access to `amount` bytes, in units of `unit` bytes, is aligned and
// inside the window.
func (p *parser) checkRange(a location, c *lmb.Command, amount, unit uint64, amountAt token) {
	switch offset := uint64(c.Offset); {
	case p.failed:
	case offset%unit != 0:
		p.fail(a.offsetToken, "offset 0x%x must be a multiple of the width, %d bytes", offset, unit)
	case unit > 1 && a.window.Offset%unit != 0:
		p.fail(a.offsetToken, "the offset of the window in the BAR, 0x%x, "+
			"must be a multiple of the width, %d bytes",
			a.window.Offset, unit)
	case amount == 0:
		p.fail(amountAt, "the size must not be 0")
	case amount%unit != 0:
		p.fail(amountAt, "the size, %d bytes, must be a multiple of %d bytes", amount, unit)
	case amount > a.window.Size-offset:
		p.fail(amountAt, "an access to %s at offset 0x%x ends outside the window, whose size is %s",
			lmb.SizeText(amount), offset, lmb.SizeText(a.window.Size))
	}
}

func (p *parser) write(c *lmb.Command) {
	p.registerAccess(c)
	if p.tok.isWord("bus") {
		p.busAddress(c)
		return
	}
	at := p.tok
	c.Value = p.value("a value or bus(window)", c.Width)
	if p.option("mask") == "" {
		return
	}
	mask := p.value("a mask", c.Width)
	switch {
	case mask == 0:
		p.fail(p.last, "the mask must not be 0, because the command would write nothing")
	case c.Value&^mask != 0:
		p.fail(at, "the value 0x%x has bits outside the mask 0x%x", c.Value, mask)
	}
	c.Opcode, c.Mask = gen.OpcodeModify, mask
}

// busAddress consumes bus(window)+addend.
func (p *parser) busAddress(c *lmb.Command) {
	if c.Width < 4 {
		p.fail(p.tok, "the command is too narrow for a bus address; use write.4 or write.8")
	}
	c.Opcode = gen.OpcodeRelocate
	p.expect("bus")
	p.expect("(")
	c.Index = p.windowIndex()
	p.expect(")")
	if p.accept("+") {
		c.Value = p.value("a number", c.Width)
	}
}

// copy parses a copy to the device, or from the device if the destination is a tensor.
func (p *parser) copy(c *lmb.Command) {
	if p.ahead.is("[") {
		c.Opcode = gen.OpcodeCopyOut
		amountAt := p.slice(c, gen.RoleOutput)
		p.expect("<-")
		p.access(c, p.windowOffset(c), amountAt, 1)
		return
	}
	a := p.windowOffset(c)
	p.expect("<-")
	p.access(c, a, p.source(c), 1)
}

// source consumes a slice of an input or data, and returns its first token.
func (p *parser) source(c *lmb.Command) (at token) {
	if p.ahead.is("[") {
		return p.slice(c, gen.RoleInput)
	}
	at = p.tok
	c.Data = p.data()
	c.Amount = p.amount(at, uint64(len(c.Data)))
	return at
}

func (p *parser) fill(c *lmb.Command) {
	a := p.windowOffset(c)
	p.expect("<-")
	c.Value = p.value("a value", c.Width)
	p.expect("size")
	size := p.size("a size")
	at := p.last
	c.Amount = p.amount(at, size)
	p.access(c, a, at, uint64(c.Width))
	if gen.Access(c.Mode) == gen.AccessBulk && !p.failed {
		p.bulkFill(c, a.window)
	}
}

// bulkFill splits a fill of memory into stores of up to 8 bytes: a few Writes up to a
// multiple of 8, a Fill, and a few Writes after it. c becomes the last of them.
func (p *parser) bulkFill(c *lmb.Command, w *lmb.Window) {
	value, left := c.Value, c.Amount
	for n := c.Width; n < 8; n *= 2 {
		value = value&fbs.WidthMask(n) | value<<(8*n)
	}
	part := lmb.Command{Command: fbs.Command{Window: c.Window, Offset: c.Offset}}
	widest := uint8(8)
	for w.Offset%uint64(widest) != 0 {
		widest /= 2
	}
	for left > 0 {
		width := widest
		for uint32(width) > left || part.Offset%uint32(width) != 0 {
			width /= 2
		}
		part.Opcode, part.Width, part.Mode, part.Amount, part.Value = gen.OpcodeWrite, width, 0, 0,
			value&fbs.WidthMask(width)
		size := uint32(width)
		if whole := left / size * size; whole > size && width == widest {
			part.Opcode, part.Mode, part.Amount, size = gen.OpcodeFill, uint8(gen.AccessExact),
				whole, whole
		}
		p.extraCommands = append(p.extraCommands, part)
		part.Offset += size
		left -= size
		turn := 8 * (size % 8)
		value = value>>turn | value<<(64-turn)
	}
	*c = p.extraCommands[len(p.extraCommands)-1]
	p.extraCommands = p.extraCommands[:len(p.extraCommands)-1]
}

// amount converts a number of bytes to the size of the field in a command.
func (p *parser) amount(at token, n uint64) uint32 {
	if n > math.MaxUint32 {
		p.fail(at, "the size, %s, is too large; a command may move at most 4 GiB - 1 byte",
			lmb.SizeText(n))
	}
	return uint32(n)
}

// access consumes fifo or bulk, and checks the range in the device. The offset and size of a bulk
// access need only be multiples of bulkUnit.
func (p *parser) access(c *lmb.Command, a location, amountAt token, bulkUnit uint64) {
	c.Mode = uint8(gen.AccessExact)
	if word := p.option("fifo", "bulk"); word != "" {
		c.Mode = uint8(slices.Index(accessWords, word))
	}
	switch width := uint64(c.Width); gen.Access(c.Mode) {
	case gen.AccessBulk:
		p.checkRange(a, c, uint64(c.Amount), bulkUnit, amountAt)
	case gen.AccessFixed:
		p.checkRange(a, c, width, width, a.offsetToken)
		if c.Amount == 0 || uint64(c.Amount)%width != 0 {
			p.fail(amountAt, "the size, %d bytes, must be a multiple of the width, %d bytes, "+
				"and not 0", c.Amount, width)
		}
	default:
		p.checkRange(a, c, uint64(c.Amount), width, amountAt)
	}
}

// slice consumes tensor[first:end], in bytes, and returns the tensor's token.
func (p *parser) slice(c *lmb.Command, role gen.Role) token {
	at := p.tok
	name := p.name("a tensor")
	index, ok := p.tensors[name]
	if !ok {
		p.fail(at, "there is no tensor %s%s", name, hint(name, "tensors",
			slices.Sorted(maps.Keys(p.tensors))))
	}
	if p.failed {
		return at
	}
	t := &p.image.Tensors[index]
	switch t.Role {
	case role:
	case gen.RoleInput:
		p.fail(at, "%s is an input; a copy from the device needs an output", name)
	case gen.RoleOutput:
		p.fail(at, "%s is an output; a copy to the device needs an input", name)
	default:
		p.failed = true // its declaration was wrong, and that has been reported
	}
	first, end := uint64(0), t.Size()
	p.expect("[")
	if !p.tok.is(":") {
		first = p.size("the offset of the first byte")
	}
	p.expect(":")
	endAt := p.tok
	if !p.tok.is("]") {
		end = p.size("the offset after the last byte")
	}
	p.expect("]")
	if end > t.Size() || first > end {
		p.fail(endAt, "[%d:%d] must be a range of bytes within tensor %s, whose size is %s", first,
			end, name,
			lmb.SizeText(t.Size()))
	}
	c.Index, c.Value, c.Amount = uint16(1+index), first, p.amount(endAt, end-first)
	return at
}
