package listing

import (
	"fmt"
	"math"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// comparison consumes the type and the expected data of a compare, and how exact it is.
func (p *parser) comparison(c *lmb.Command) {
	dtype := gen.DType(p.word("a type such as float32", dtypeWords))
	p.expect("==")
	p.source(c)
	p.checkRange(c, uint64(c.Amount), uint64(max(c.Width, fbs.DTypeSize(dtype))), p.amountAt)
	var golden lmb.Golden
	policy := policyOption(c)
	readPolicy := policy.read
	policy.read = func(p *parser) {
		at := p.last
		readPolicy(p)
		p.setJudgement(&golden, golden.Kind, at)
	}
	p.parseOptions(append(toleranceOptions(&golden), policy))
	if golden.Kind != 0 {
		p.compareOnHost(c, dtype, golden)
	}
}

// unsignedWords are the types of exact compares, by width.
var unsignedWords = []string{1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}

func (p *printer) comparison(c *lmb.Command) {
	if output := p.goldenOutput(c); output != nil {
		p.printf(" %s == ", wordOf(dtypeWords, output.DType))
		p.writePayload(output.Data, "  ")
		p.judgement(&output.Golden)
		return
	}
	p.printf(" %s == ", wordOf(unsignedWords, c.Width))
	p.source(c)
	p.policy(c)
}

// isComparison reports whether a command is written as a compare.
func (p *printer) isComparison(c *lmb.Command) bool {
	return c.Opcode == gen.OpcodeCompare || p.goldenOutput(c) != nil
}

// goldenOutput returns the output that a compare with a tolerance made for itself, or nil if the
// command does not come from such a compare.
func (p *printer) goldenOutput(c *lmb.Command) *lmb.Tensor {
	tensor := int(c.Index) - 1
	if c.Opcode != gen.OpcodeCopyOut || tensor < p.firstGolden || tensor >= len(p.image.Tensors) {
		return nil
	}
	return &p.image.Tensors[tensor]
}

func (p *printer) judgement(g *lmb.Golden) {
	p.printOptions(toleranceOptions(g))
	if g.Kind > gen.JudgementCorrelation {
		p.printf(" %s", unknown(int(g.Kind)))
	}
}

// toleranceOptions are the permitted differences between an output and its golden data.
func toleranceOptions(g *lmb.Golden) []option {
	const tolerance = "a finite tolerance of 0 or more"
	return []option{
		judgementOption(g, gen.JudgementTolerance, "absolute", tolerance, &g.First, 0,
			math.MaxFloat32),
		judgementOption(g, gen.JudgementTolerance, "relative", tolerance, &g.Second, 0,
			math.MaxFloat32),
		judgementOption(g, gen.JudgementCorrelation, "correlation", "a correlation from -1 to 1",
			&g.First, -1, 1),
	}
}

func judgementOption(g *lmb.Golden, kind gen.Judgement, word, what string, to *uint32, least,
	most float64) option {
	read := func(p *parser) {
		at := p.last
		*to = p.float32Bits(what, least, most)
		p.setJudgement(g, kind, at)
	}
	return option{word, read, float32Text(*to, least, most), g.Kind == kind}
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
