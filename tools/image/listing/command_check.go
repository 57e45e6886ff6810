package listing

import (
	"fmt"
	"math"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

func (p *parser) poll(c *lmb.Command) {
	c.Option = uint8(gen.PolicyFail)
	p.registerAccess(c)
	p.condition(c)
	p.settings(
		setting{"within", func() {
			if c.Amount = uint32(p.duration("a deadline", math.MaxUint32)); c.Amount == 0 {
				p.fail(p.last, "the deadline must not be 0")
			}
		}},
		setting{"every", func() { c.Index = uint16(p.duration("an interval", math.MaxUint16)) }},
		setting{"else", func() { p.policy(c) }})
	if c.Amount == 0 {
		p.fail(p.tok, "the poll has no deadline; add a deadline such as `within 10ms`")
	}
}

func (p *parser) policy(c *lmb.Command) {
	if p.tok.isWord("defer") {
		p.fail(p.tok, "`else defer` is not supported; use `else ignore`, or an expect command "+
			"at the end")
	}
	c.Option = uint8(p.word("ignore or fail", policyWords))
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
			"so the result would always be the same",
			c.Value, c.Mask)
	}
}

func (p *parser) mask(width uint8) uint64 {
	mask := p.value("a mask", width)
	if mask == 0 {
		p.fail(p.last, "the mask must not be 0; to load without a condition, use read.%d", width)
	}
	return mask
}

func (p *parser) expectation(c *lmb.Command) {
	p.registerAccess(c)
	p.condition(c)
	p.policyOption(c)
}

// readValue parses an Expect that accepts every value.
func (p *parser) readValue(c *lmb.Command) {
	c.Mode = uint8(gen.ConditionEqual)
	p.registerAccess(c)
	p.policyOption(c)
}

func (p *parser) policyOption(c *lmb.Command) {
	c.Option = uint8(gen.PolicyFail)
	p.settings(setting{"else", func() { p.policy(c) }})
}

func (p *parser) compare(c *lmb.Command) {
	c.Option = uint8(gen.PolicyFail)
	a := p.windowOffset(c)
	dtype := gen.DType(p.word("a type such as float32", dtypeWords))
	p.expect("==")
	at := p.source(c)
	unit := max(c.Width, fbs.DTypeSize(dtype))
	p.checkRange(a, c, uint64(c.Amount), uint64(unit), at)
	var golden lmb.Golden
	p.tolerance(&golden, c)
	if golden.Kind != 0 && !p.failed {
		p.compareOnHost(c, dtype, golden)
	}
}

// tolerance consumes the permitted difference between an output and its golden data. For a compare,
// c, it also consumes the policy.
func (p *parser) tolerance(g *lmb.Golden, c *lmb.Command) {
	judged := func(word string, kind gen.Judgement, to *uint32, what string, least,
		most float64) setting {
		return setting{word, func() {
			at := p.last
			*to = p.float32Bits(what, least, most)
			p.setJudgement(g, kind, at)
		}}
	}
	const tolerance = "a finite tolerance of 0 or more"
	settings := []setting{
		judged("absolute", gen.JudgementTolerance, &g.First, tolerance, 0, math.MaxFloat32),
		judged("relative", gen.JudgementTolerance, &g.Second, tolerance, 0, math.MaxFloat32),
		judged("correlation", gen.JudgementCorrelation, &g.First, "a correlation from -1 to 1", -1,
			1),
	}
	if c != nil {
		settings = append(settings, setting{"else", func() {
			at := p.last
			p.policy(c)
			p.setJudgement(g, g.Kind, at)
		}})
	}
	p.settings(settings...)
}

func (p *parser) setJudgement(g *lmb.Golden, kind gen.Judgement, at token) {
	if g.Kind != 0 && g.Kind != kind {
		p.fail(at, "use either tolerances or a correlation, not both")
	}
	if g.Kind = kind; kind != 0 && slices.Contains(p.seenOptions, "else") {
		p.fail(at, "remove `else`: lm replay --check-golden makes this comparison after the run, "+
			"so the comparison cannot end the run")
	}
}

// goldenPrefix starts the names of outputs that belong to a compare.
const goldenPrefix = "golden:"

// compareOnHost turns a compare with a tolerance into a copy to a separate output, whose
// golden data are the expected bytes. The host compares them after the run.
func (p *parser) compareOnHost(c *lmb.Command, dtype gen.DType, golden lmb.Golden) {
	name := fmt.Sprintf("%s%d", goldenPrefix, p.goldenCount)
	_, taken := p.tensors[name]
	switch {
	case taken:
		p.fail(p.head, "tensor %s is declared already, "+
			"but this compare needs that name; rename the tensor", name)
	case c.Index != 0:
		p.fail(p.head, "a comparison with an input must be exact; "+
			"leave out the tolerance or correlation")
	case len(p.image.Tensors) == fbs.TensorsMax:
		p.fail(p.head, "too many tensors: a listing may have at most %d", fbs.TensorsMax)
	}
	elements := c.Amount / uint32(fbs.DTypeSize(dtype))
	p.goldenCount++
	p.image.Tensors = append(p.image.Tensors, lmb.Tensor{
		Name: name, Role: gen.RoleOutput, DType: dtype, Shape: []uint32{elements}, Data: c.Data,
		Golden: golden,
	})
	c.Command = fbs.Command{Opcode: gen.OpcodeCopyOut, Width: c.Width, Mode: uint8(gen.AccessExact),
		Window: c.Window,
		Index:  uint16(len(p.image.Tensors)), Offset: c.Offset, Amount: c.Amount}
	c.Data = nil
}
