package lmb

import (
	"encoding/binary"
	"math"
	"testing"

	"lightmetal/fbs/gen"
)

// TestToleranceIsForNumbers: infinities and what is no number equal their own
// bits alone, whatever the tolerance.
func TestToleranceIsForNumbers(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	judge := Golden{Kind: gen.JudgementTolerance, First: math.Float32bits(1),
		Second: math.Float32bits(1)}
	for _, c := range []struct {
		got, want float64
		good      bool
	}{
		{7, 3, true}, {7.5, 3, false}, {inf, inf, true}, {7, inf, false}, {inf, 7, false},
		{-inf, inf, false}, {nan, nan, true}, {7, nan, false}, {nan, 7, false},
	} {
		why := judge.Judge(gen.DTypeFloat32, float32s(c.got), float32s(c.want))
		if (why == "") != c.good {
			t.Errorf("%v for %v: %q", c.got, c.want, why)
		}
	}
}

func float32s(f float64) []byte {
	return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(f)))
}
