package listing

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// transfer consumes the source and the destination of a copy to the device, or from the device if
// the destination is a tensor.
func (p *parser) transfer(c *lmb.Command) {
	if p.ahead.is("[") {
		c.Opcode = gen.OpcodeCopyOut
		p.slice(c, gen.RoleOutput)
		p.expect("<-")
		p.reference(c)
		return
	}
	p.reference(c)
	p.expect("<-")
	p.source(c)
}

func (p *printer) transfer(c *lmb.Command) {
	if c.Opcode == gen.OpcodeCopyOut {
		p.printf(" %s <-", p.sliceText(c))
		p.reference(c)
		return
	}
	p.reference(c)
	p.printf(" <- ")
	p.source(c)
}

// source consumes data, or a slice of an input.
func (p *parser) source(c *lmb.Command) {
	if p.ahead.is("[") {
		p.slice(c, gen.RoleInput)
		return
	}
	p.amountAt = p.tok
	c.Data = p.data()
	c.Amount = p.amount(uint64(len(c.Data)))
}

// source writes the payload of a command, or the slice of an input that it uses.
func (p *printer) source(c *lmb.Command) {
	if c.Index == 0 {
		p.writePayload(c.Data, "  ")
	} else {
		p.printf("%s", p.sliceText(c))
	}
}

// slice consumes tensor[first:end], in bytes.
func (p *parser) slice(c *lmb.Command, role gen.Role) {
	p.amountAt = p.tok
	name := p.name("a tensor")
	index, ok := p.tensors[name]
	if !ok {
		p.fail(p.amountAt, "there is no tensor %s%s", name, hint(name, "tensors",
			slices.Sorted(maps.Keys(p.tensors))))
	}
	t := &p.image.Tensors[index]
	switch t.Role {
	case role:
	case gen.RoleScratch:
		if c.Opcode == gen.OpcodeCompare {
			p.fail(p.amountAt, "%s is scratch; a comparison needs an input", name)
		}
	case gen.RoleInput:
		p.fail(p.amountAt, "%s is an input; a copy from the device needs an output", name)
	case gen.RoleOutput:
		p.fail(p.amountAt, "%s is an output; a copy to the device needs an input", name)
	default:
		fail.On(errReported) // with its declaration
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
			end, name, lmb.SizeText(t.Size()))
	}
	c.Index, c.Value, c.Amount = uint16(1+index), first, p.amount(end-first)
}

func (p *printer) sliceText(c *lmb.Command) string {
	name := unknown(int(c.Index))
	if c.Index != 0 && int(c.Index) <= len(p.image.Tensors) {
		name = nameText(p.image.Tensors[c.Index-1].Name)
	}
	return fmt.Sprintf("%s[%d:%d]", name, c.Value, c.Value+uint64(c.Amount))
}

// amount converts a number of bytes to a command's Amount, at most 4 GiB - 1.
func (p *parser) amount(n uint64) uint32 {
	if n > math.MaxUint32 {
		p.fail(p.amountAt, "the size, %s, is too large; a command may move at most 4 GiB - 1 byte",
			lmb.SizeText(n))
	}
	return uint32(n)
}

// accessMode consumes `fifo` or `bulk`, and checks the range in the device. The offset and size of
// a bulk copy need not be multiples of the width.
func (p *parser) accessMode(c *lmb.Command) {
	c.Mode = uint8(gen.AccessExact)
	if word := p.option("fifo", "bulk"); word != "" {
		c.Mode = uint8(slices.Index(accessWords, word))
	}
	isFill := c.Opcode == gen.OpcodeFill
	switch width := uint64(c.Width); {
	case gen.Access(c.Mode) == gen.AccessFixed:
		p.checkRange(c, width, width, p.offsetAt)
		if c.Amount == 0 || uint64(c.Amount)%width != 0 {
			p.fail(p.amountAt, "the size, %d bytes, must be a multiple of the width, %d bytes, "+
				"and not 0", c.Amount, width)
		}
	case gen.Access(c.Mode) == gen.AccessBulk && !isFill:
		p.checkRange(c, uint64(c.Amount), 1, p.amountAt)
	default:
		p.checkRange(c, uint64(c.Amount), width, p.amountAt)
	}
	if isFill && gen.Access(c.Mode) == gen.AccessBulk {
		p.bulkFill(c)
	}
}

func (p *printer) accessMode(c *lmb.Command) {
	if gen.Access(c.Mode) != gen.AccessExact {
		p.printf(" %s", wordOf(accessWords, c.Mode))
	}
}

func (p *parser) fillValue(c *lmb.Command) {
	p.expect("<-")
	c.Value = p.value("a value", c.Width)
	p.expect("size")
	size := p.size("a size")
	p.amountAt = p.last
	c.Amount = p.amount(size)
}

func (p *printer) fillValue(c *lmb.Command) {
	p.printf(" <- 0x%x size %s", c.Value, sizeText(uint64(c.Amount)))
}

// bulkFill splits a fill of memory into stores of up to 8 bytes: a few Writes up to an aligned
// offset, a Fill, and a few Writes after it. c becomes the last command.
func (p *parser) bulkFill(c *lmb.Command) {
	value, left := c.Value, c.Amount
	for n := c.Width; n < 8; n *= 2 {
		value = value&fbs.WidthMask(n) | value<<(8*n)
	}
	part := lmb.Command{Command: fbs.Command{Window: c.Window, Offset: c.Offset}}
	widest := uint8(8)
	for p.accessed.Offset%uint64(widest) != 0 {
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
