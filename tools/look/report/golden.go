package report

import (
	"bytes"
	"fmt"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// CompareGolden compares the bytes of an output with its golden data, which are as many.
func CompareGolden(name string, dtype gen.DType, how *lmb.Golden, got, golden []byte) GoldenResult {
	size := int(fbs.DTypeSize(dtype))
	result := GoldenResult{Output: name, Elements: uint64(len(golden) / size),
		Reason: how.Judge(dtype, got, golden)}
	for at := 0; at+size <= len(golden); at += size {
		a, b := got[at:at+size], golden[at:at+size]
		switch {
		case bytes.Equal(a, b):
		case how.Kind == gen.JudgementCorrelation, how.Judge(dtype, a, b) != "":
			result.Differ++
		}
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
