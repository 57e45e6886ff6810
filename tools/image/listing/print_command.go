package listing

import (
	"fmt"
	"strconv"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// mnemonic writes the mnemonic of a command, with its width unless that is 0.
func (p *printer) mnemonic(word string, width uint8) {
	if width != 0 {
		word = fmt.Sprintf("%s.%d", word, width)
	}
	p.printf("%-*s ", p.column, word)
}

func (p *printer) windowText(index uint16) string {
	if int(index) < len(p.labels) {
		return p.labels[index]
	}
	return unknown(int(index))
}

func (p *printer) reference(c *lmb.Command) string {
	return fmt.Sprintf("%s+0x%x", p.windowText(c.Window), c.Offset)
}

func (p *printer) sliceText(c *lmb.Command) string {
	name := unknown(int(c.Index))
	if c.Index != 0 && int(c.Index) <= len(p.image.Tensors) {
		name = nameText(p.image.Tensors[c.Index-1].Name)
	}
	return fmt.Sprintf("%s[%d:%d]", name, c.Value, c.Value+uint64(c.Amount))
}

// source writes the payload of a command, or the slice of an input that it uses.
func (p *printer) source(c *lmb.Command) {
	if c.Index == 0 {
		p.writePayload(c.Data, "  ")
	} else {
		p.printf("%s", p.sliceText(c))
	}
}

func (p *printer) command(c *lmb.Command) {
	switch c.Opcode {
	case gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeRelocate:
		p.write(c)
	case gen.OpcodeCopyIn:
		p.mnemonic("copy", c.Width)
		p.printf("%s <- ", p.reference(c))
		p.source(c)
		p.access(c)
	case gen.OpcodeFill:
		p.mnemonic("fill", c.Width)
		p.printf("%s <- 0x%x size %s", p.reference(c), c.Value, sizeText(uint64(c.Amount)))
		p.access(c)
	case gen.OpcodeCopyOut:
		p.copyOut(c)
	case gen.OpcodeExpect:
		p.expect(c)
		p.policy(c)
	case gen.OpcodeCompare:
		p.mnemonic("compare", c.Width)
		p.printf("%s %s == ", p.reference(c), wordOf(unsignedWords, c.Width))
		p.source(c)
		p.policy(c)
	case gen.OpcodePoint:
		p.point(c)
	case gen.OpcodeFence:
		p.printf("fence")
	case gen.OpcodeDelay:
		p.mnemonic("delay", 0)
		p.printf("%s", durationText(uint64(c.Amount)))
	case gen.OpcodeCall:
		p.mnemonic("call", 0)
		p.printf("%s", p.sequenceText(c.Index))
	case lmb.OpcodeMark:
		p.mnemonic(wordOf(markWords, c.Mode), 0)
		p.printf("%s", strconv.Quote(string(c.Data)))
	default:
		p.printf("%s", unknown(int(c.Opcode)))
	}
}

// unsignedWords are the types of exact compares, by width.
var unsignedWords = []string{1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}

func (p *printer) copyOut(c *lmb.Command) {
	if tensor := int(c.Index) - 1; tensor >= p.firstGolden && tensor < len(p.image.Tensors) {
		t := &p.image.Tensors[tensor]
		p.mnemonic("compare", c.Width)
		p.printf("%s %s == ", p.reference(c), wordOf(dtypeWords, t.DType))
		p.writePayload(t.Data, "  ")
		p.judgement(&t.Golden)
		return
	}
	p.mnemonic("copy", c.Width)
	p.printf("%s <- %s", p.sliceText(c), p.reference(c))
	p.access(c)
}

func (p *printer) sequenceText(index uint16) string {
	if int(index) < len(p.image.Sequences) {
		return nameText(p.image.Sequences[index].Name)
	}
	return unknown(int(index))
}

func (p *printer) write(c *lmb.Command) {
	p.mnemonic("write", c.Width)
	p.printf("%s ", p.reference(c))
	switch c.Opcode {
	case gen.OpcodeWrite:
		p.printf("0x%x", c.Value)
	case gen.OpcodeModify:
		p.printf("0x%x mask 0x%x", c.Value, c.Mask)
	case gen.OpcodeRelocate:
		p.printf("bus(%s)", p.windowText(c.Index))
		if c.Value != 0 {
			p.printf("+0x%x", c.Value)
		}
	}
}

func (p *printer) access(c *lmb.Command) {
	if gen.Access(c.Mode) != gen.AccessExact {
		p.printf(" %s", wordOf(accessWords, c.Mode))
	}
}

func (p *printer) expect(c *lmb.Command) {
	switch {
	case c.Amount != 0:
		p.mnemonic("poll", c.Width)
		p.printf("%s %s within %s", p.reference(c), conditionText(c),
			durationText(uint64(c.Amount)))
		if c.Index != 0 {
			p.printf(" every %s", durationText(uint64(c.Index)))
		}
	case gen.Condition(c.Mode) == gen.ConditionEqual && c.Mask == 0 && c.Value == 0:
		p.mnemonic("read", c.Width)
		p.printf("%s", p.reference(c))
	default:
		p.mnemonic("expect", c.Width)
		p.printf("%s %s", p.reference(c), conditionText(c))
	}
}

func conditionText(c *lmb.Command) string {
	sign := wordOf(conditionSigns, c.Mode)
	if c.Mask == fbs.WidthMask(c.Width) {
		return fmt.Sprintf("%s 0x%x", sign, c.Value)
	}
	return fmt.Sprintf("& 0x%x %s 0x%x", c.Mask, sign, c.Value)
}

func (p *printer) policy(c *lmb.Command) {
	if gen.Policy(c.Option) != gen.PolicyFail {
		p.printf(" else %s", wordOf(policyWords, c.Option))
	}
}

func (p *printer) point(c *lmb.Command) {
	p.mnemonic("point", 0)
	t, ok := boards.UnpackTileRoute(c.Mask)
	switch {
	case !ok:
		p.printf("%s %s 0x%x", p.windowText(c.Window), unknown(0), c.Mask)
		return
	case t.Multicast:
		p.printf("%s tiles %d,%d to %d,%d", p.windowText(c.Window), t.XStart, t.YStart, t.X, t.Y)
	default:
		p.printf("%s tile %d,%d", p.windowText(c.Window), t.X, t.Y)
	}
	p.printf(" address 0x%x", c.Value)
	if t.Ordering != boards.OrderingDefault {
		p.printf(" ordering %s", wordOf(orderingWords, t.Ordering))
	}
	if t.NoC != 0 {
		p.printf(" noc %d", t.NoC)
	}
	if t.StaticVCPlusOne != 0 {
		p.printf(" vc %d", t.StaticVCPlusOne-1)
	}
}
