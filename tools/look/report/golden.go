package report

import (
	"fmt"

	"lightmetal/tools/image/lmb"
)

// GoldenResultOf returns the part of a comparison with golden data that a profile contains.
func GoldenResultOf(c *lmb.Comparison) GoldenResult {
	result := GoldenResult{Output: c.Output, Elements: uint64(c.Elements), Differ: uint64(c.Differ)}
	if !c.Matches {
		result.Reason = c.String()
	}
	return result
}

// text returns the result of the comparison in a few words.
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

// goldenText returns the text for a tensor in the column of golden data. It is empty without a
// profile, and for a tensor without golden data.
func (p *Profile) goldenText(x *TensorUse) string {
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
