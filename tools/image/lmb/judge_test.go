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
		result := judge.Compare("x", gen.DTypeFloat32, []uint32{1}, float32s(c.got),
			float32s(c.want))
		if result.Matches != c.good {
			t.Errorf("%v for %v: %s", c.got, c.want, result)
		}
	}
}

func float32s(list ...float64) (data []byte) {
	for _, f := range list {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(f)))
	}
	return data
}

// TestComparisonShowsElementsAsNumbers: how many differ, the first, and the largest difference.
func TestComparisonShowsElementsAsNumbers(t *testing.T) {
	nan := math.NaN()
	bits := math.Float32bits
	tolerance := Golden{Kind: gen.JudgementTolerance, First: bits(0.25)}
	correlation := Golden{Kind: gen.JudgementCorrelation, First: bits(0.99)}
	const lowest = "\x00\x00\x00\x00\x00\x00\x00\x80" // of int64
	const highest = "\xff\xff\xff\xff\xff\xff\xff\x7f"
	for _, test := range []struct {
		want        string
		how         Golden
		dtype       gen.DType
		shape       []uint32
		got, golden []byte
	}{
		{"output d: all 2 uint8 equal", Golden{}, gen.DTypeUint8, []uint32{2},
			[]byte{1, 2}, []byte{1, 2}},
		{"output d: 2 of 6 uint8 differ; first [0, 1]: 5, golden 7; " +
			"largest difference 249 at [1, 2]", Golden{}, gen.DTypeUint8, []uint32{2, 3},
			[]byte{1, 5, 2, 3, 4, 255}, []byte{1, 7, 2, 3, 4, 6}},
		{"output d: 1 of 1 int64 differ; first []: -9223372036854775808, golden " +
			"9223372036854775807; largest difference 18446744073709551615 at []",
			Golden{}, gen.DTypeInt64, nil, []byte(lowest), []byte(highest)},
		{"output d: 1 of 1 uint64 differ; first [0]: 9223372036854775807, golden " +
			"9223372036854775808; largest difference 1 at [0]",
			Golden{}, gen.DTypeUint64, []uint32{1}, []byte(highest), []byte(lowest)},
		{"output d: 1 of 2 float32 differ; first [1]: NaN, golden 2",
			Golden{}, gen.DTypeFloat32, []uint32{2}, float32s(1, nan), float32s(1, 2)},
		{"output d: 2 of 3 float32 differ by more than the tolerance; first [1]: 2.5, golden 2; " +
			"largest difference 0.75 at [2]", tolerance, gen.DTypeFloat32, []uint32{3},
			float32s(1.125, 2.5, 3), float32s(1, 2, 3.75)},
		{"output d: all 1 float32 within the tolerance",
			tolerance, gen.DTypeFloat32, []uint32{1}, float32s(1.25), float32s(1)},
		{"output d: correlation with the golden data is -1, less than 0.99; 2 of 3 float32 " +
			"differ; first [0]: 3, golden 1; largest difference 2 at [0]",
			correlation, gen.DTypeFloat32, []uint32{3}, float32s(3, 2, 1), float32s(1, 2, 3)},
		{"output d: correlation with the golden data is 1, at least 0.99; 3 of 3 float32 " +
			"differ; first [0]: 2, golden 1; largest difference 3 at [2]",
			correlation, gen.DTypeFloat32, []uint32{3}, float32s(2, 4, 6), float32s(1, 2, 3)},
	} {
		t.Run(test.want, func(t *testing.T) {
			c := test.how.Compare("d", test.dtype, test.shape, test.got, test.golden)
			if got := c.String(); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestComparisonsAreCountedByMethod.
func TestComparisonsAreCountedByMethod(t *testing.T) {
	equal, near := &Comparison{Method: methodEqual}, &Comparison{Method: methodTolerance}
	for _, test := range []struct {
		want string
		list []*Comparison
	}{
		{"1 output compared with golden data, all equal", []*Comparison{equal}},
		{"3 outputs compared with golden data, all equal", []*Comparison{equal, equal, equal}},
		{"3 outputs compared with golden data, 1 equal, 2 within the tolerance",
			[]*Comparison{near, equal, near}},
		{"1 output compared with golden data, 1 within the tolerance", []*Comparison{near}},
	} {
		if got := ComparedText(test.list); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
