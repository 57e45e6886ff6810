package listing

import (
	"math"
	"strconv"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// storeValue consumes what a write stores: a value, a value and a mask, or bus(window)+addend.
func (p *parser) storeValue(c *lmb.Command) {
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

func (p *printer) storeValue(c *lmb.Command) {
	switch {
	case c.Opcode == gen.OpcodeModify:
		p.printf(" 0x%x mask 0x%x", c.Value, c.Mask)
	case c.Opcode == gen.OpcodeWrite:
		p.printf(" 0x%x", c.Value)
	case c.Value != 0:
		p.printf(" bus(%s)+0x%x", p.windowText(c.Index), c.Value)
	default:
		p.printf(" bus(%s)", p.windowText(c.Index))
	}
}

// condition consumes the condition that a loaded value must meet.
func (p *parser) condition(c *lmb.Command) {
	switch {
	case p.accept("any-set"):
		c.Mode = uint8(gen.ConditionNotEqual)
		c.Mask = p.mask(c.Width)
		return
	case p.accept("any-clear"):
		c.Mode = uint8(gen.ConditionNotEqual)
		c.Mask = p.mask(c.Width)
		c.Value = c.Mask
		return
	}
	c.Mask = fbs.WidthMask(c.Width)
	if p.accept("&") {
		c.Mask = p.mask(c.Width)
	}
	switch {
	case p.accept("=="):
		c.Mode = uint8(gen.ConditionEqual)
	case p.accept("!="):
		c.Mode = uint8(gen.ConditionNotEqual)
	case p.accept("reached"):
		c.Mode = uint8(gen.ConditionReached)
		if c.Mask&(c.Mask+1) != 0 {
			p.fail(p.last, "`reached` needs a mask of the form 2^n - 1, such as 0xffff, not 0x%x",
				c.Mask)
		}
	default:
		p.fail(p.tok, "expected a condition such as `== 1`, `!= 1`, `reached 1`, "+
			"`& 1 == 0`, `any-set 0x6` or `any-clear 0x6`, found %s", p.tok)
	}
	c.Value = p.value("a value", c.Width)
	if c.Value&^c.Mask != 0 {
		p.fail(p.last, "the value 0x%x has bits outside the mask 0x%x, "+
			"so the result would always be the same", c.Value, c.Mask)
	}
}

func (p *parser) mask(width uint8) uint64 {
	mask := p.value("a mask", width)
	if mask == 0 {
		p.fail(p.last, "the mask must not be 0; to load without a condition, use read.%d", width)
	}
	return mask
}

func (p *printer) condition(c *lmb.Command) {
	if c.Mask != fbs.WidthMask(c.Width) {
		p.printf(" & 0x%x", c.Mask)
	}
	p.printf(" %s 0x%x", wordOf(conditionSigns, c.Mode), c.Value)
}

// pollLimits consumes the deadline and the other options of a poll.
func (p *parser) pollLimits(c *lmb.Command) {
	p.parseOptions(pollOptions(c))
	if c.Amount == 0 {
		p.fail(p.tok, "the poll has no deadline; add a deadline such as `within 10ms`")
	}
}

func (p *printer) pollLimits(c *lmb.Command) { p.printOptions(pollOptions(c)) }

func pollOptions(c *lmb.Command) []option {
	return []option{
		{"within", func(p *parser) {
			c.Amount = uint32(p.nonzeroDuration("deadline", math.MaxUint32))
		}, durationText(uint64(c.Amount)), true},
		{"every", func(p *parser) {
			c.Index = uint16(p.duration("an interval", math.MaxUint16))
		}, durationText(uint64(c.Index)), c.Index != 0},
		policyOption(c),
	}
}

// policy consumes what a command does if its condition does not hold.
func (p *parser) policy(c *lmb.Command)  { p.parseOptions([]option{policyOption(c)}) }
func (p *printer) policy(c *lmb.Command) { p.printOptions([]option{policyOption(c)}) }

func policyOption(c *lmb.Command) option {
	read := func(p *parser) {
		if p.tok.isWord("defer") {
			p.fail(p.tok, "`else defer` is not supported; use `else ignore`, or an expect command "+
				"at the end")
		}
		c.Option = uint8(p.word("ignore or fail", policyWords))
	}
	return option{"else", read, wordOf(policyWords, c.Option), c.Option != uint8(gen.PolicyFail)}
}

// firstFence adds a fence before the command.
func (p *parser) firstFence(*lmb.Command) {
	p.extraCommands = append(p.extraCommands,
		lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
}

func (p *parser) delayTime(c *lmb.Command) {
	c.Amount = uint32(p.nonzeroDuration("delay", fbs.DelayMaxUs))
}

func (p *printer) delayTime(c *lmb.Command) { p.printf(" %s", durationText(uint64(c.Amount))) }

// calledSequence consumes the name of a sequence, which a later line may declare.
func (p *parser) calledSequence(*lmb.Command) {
	name, from := p.name("a sequence"), len(p.image.Sequences)-1
	p.calls = append(p.calls, call{p.last, name, from, len(p.image.Sequences[from].Commands)})
}

func (p *printer) calledSequence(c *lmb.Command) {
	if int(c.Index) < len(p.image.Sequences) {
		p.printf(" %s", nameText(p.image.Sequences[c.Index].Name))
	} else {
		p.printf(" %s", unknown(int(c.Index)))
	}
}

func (p *parser) markName(c *lmb.Command) {
	c.Data = []byte(p.text("a name"))
	if len(c.Data) == 0 || len(c.Data) > fbs.NameMax {
		p.fail(p.last, "a name must have 1 to %d bytes, but has %d", fbs.NameMax, len(c.Data))
	}
}

func (p *printer) markName(c *lmb.Command) { p.printf(" %s", strconv.Quote(string(c.Data))) }
