package report

import (
	"fmt"

	"lightmetal/tools/image/lmb"
)

// GoldenResultOf returns what a profile keeps of a comparison with golden data.
func GoldenResultOf(c *lmb.Comparison) GoldenResult {
	result := GoldenResult{Output: c.Output, Elements: uint64(c.Elements), Differ: uint64(c.Differ)}
	if !c.Matches {
		result.Reason = c.String()
	}
	return result
}

// text says in a few words how the output compared.
func (g *GoldenResult) text() string {
	count := fmt.Sprintf("%s of %s differ", countText(g.Differ), countText(g.Elements))
	switch {
	case g.Reason == "" && g.Differ == 0:
		return "equal"
	case g.Reason == "":
		return "matches; " + count
	case g.Differ == 0:
		return "does not match"
	}
	return count
}

// goldenText returns the cell of a tensor in the column of golden data: empty without a profile
// and for tensors without golden data.
func (p *Profile) goldenText(x *Used) string {
	if p == nil || x.Role != "output" || !x.HasData {
		return ""
	}
	for i := range p.Golden {
		if p.Golden[i].Output == x.Name {
			return p.Golden[i].text()
		}
	}
	return "not compared"
}
