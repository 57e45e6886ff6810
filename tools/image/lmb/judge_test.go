package lmb

import (
	"encoding/binary"
	"math"
	"testing"

	"lightmetal/fbs/gen"
)

// TestInfinitiesAndNaNsMatchOnlyTheirOwnBits, whatever the tolerance.
func TestInfinitiesAndNaNsMatchOnlyTheirOwnBits(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	golden := Golden{Kind: gen.JudgementTolerance, First: math.Float32bits(1),
		Second: math.Float32bits(1)}
	for _, c := range []struct {
		got, want float64
		good      bool
	}{
		{7, 3, true}, {7.5, 3, false}, {inf, inf, true}, {7, inf, false}, {inf, 7, false},
		{-inf, inf, false}, {nan, nan, true}, {7, nan, false}, {nan, 7, false},
	} {
		result := golden.Compare("x", gen.DTypeFloat32, []uint32{1}, float32s(c.got),
			float32s(c.want))
		if result.Matches != c.good {
			t.Errorf("output %v, golden %v: matches %v, want %v: %s", c.got, c.want, result.Matches,
				c.good, result)
		}
	}
}

// float32s returns numbers as float32 in little-endian order.
func float32s(list ...float64) (data []byte) {
	for _, f := range list {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(f)))
	}
	return data
}

// TestComparisonShowsElementsAsNumbers: the text has the number of elements that differ, the first
// of them, and the largest difference.
func TestComparisonShowsElementsAsNumbers(t *testing.T) {
	nan := math.NaN()
	bits := math.Float32bits
	tolerance := Golden{Kind: gen.JudgementTolerance, First: bits(0.25)}
	correlation := Golden{Kind: gen.JudgementCorrelation, First: bits(0.99)}
	const lowest = "\x00\x00\x00\x00\x00\x00\x00\x80" // the lowest int64
	const highest = "\xff\xff\xff\xff\xff\xff\xff\x7f"
	for _, test := range []struct {
		want        string
		how         Golden
		dtype       gen.DType
		shape       []uint32
		got, golden []byte
	}{
		{"output d: 2 uint8 elements, all equal to the golden data", Golden{}, gen.DTypeUint8,
			[]uint32{2},
			[]byte{1, 2}, []byte{1, 2}},
		{"output d: 2 of 6 uint8 elements differ from the golden data; the first, [0, 1], is 5 " +
			"instead of 7; " +
			"the largest difference is 249 at [1, 2]", Golden{}, gen.DTypeUint8, []uint32{2, 3},
			[]byte{1, 5, 2, 3, 4, 255}, []byte{1, 7, 2, 3, 4, 6}},
		{"output d: 1 of 1 int64 element differs from the golden data; the first, [], is " +
			"-9223372036854775808 instead of " +
			"9223372036854775807; the largest difference is 18446744073709551615 at []",
			Golden{}, gen.DTypeInt64, nil, []byte(lowest), []byte(highest)},
		{"output d: 1 of 1 uint64 element differs from the golden data; the first, [0], is " +
			"9223372036854775807 instead of " +
			"9223372036854775808; the largest difference is 1 at [0]",
			Golden{}, gen.DTypeUint64, []uint32{1}, []byte(highest), []byte(lowest)},
		{"output d: 1 of 2 float32 elements differs from the golden data; the first, [1], is " +
			"NaN instead of 2",
			Golden{}, gen.DTypeFloat32, []uint32{2}, float32s(1, nan), float32s(1, 2)},
		{"output d: 2 of 3 float32 elements differ from the golden data by more than the " +
			"tolerance; the first, [1], is 2.5 instead of 2; " +
			"the largest difference is 0.75 at [2]", tolerance, gen.DTypeFloat32, []uint32{3},
			float32s(1.125, 2.5, 3), float32s(1, 2, 3.75)},
		{"output d: 1 float32 element, all within the tolerance",
			tolerance, gen.DTypeFloat32, []uint32{1}, float32s(1.25), float32s(1)},
		{"output d: the correlation with the golden data is -1, less than the required 0.99; 2 " +
			"of 3 float32 elements " +
			"differ from the golden data; the first, [0], is 3 instead of 1; the largest " +
			"difference is 2 at [0]",
			correlation, gen.DTypeFloat32, []uint32{3}, float32s(3, 2, 1), float32s(1, 2, 3)},
		{"output d: the correlation with the golden data is 1, at least the required 0.99; 3 of " +
			"3 float32 elements " +
			"differ from the golden data; the first, [0], is 2 instead of 1; the largest " +
			"difference is 3 at [2]",
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

// TestComparisonsAreCountedByMethod in the text for several outputs.
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
