package lmb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/npy"
)

// Comparison is the result of comparing an output with its golden data. Its JSON is stable. Values
// are text, because JSON has no NaN and no exact 64-bit numbers.
type Comparison struct {
	Output   string   `json:"output"`
	DType    string   `json:"dtype"`
	Shape    []uint32 `json:"shape"`
	Method   string   `json:"method"` // equal, tolerance or correlation
	Matches  bool     `json:"matches"`
	Elements int      `json:"elements"`
	// Number of elements that are not equal or, with a tolerance, that differ by more than it
	// permits
	Differ      int        `json:"differ"`
	First       *Differing `json:"first,omitempty"`
	Largest     *Differing `json:"largest,omitempty"` // element with the largest difference
	Correlation string     `json:"correlation,omitempty"`
	Least       string     `json:"least,omitempty"` // the smallest correlation that matches
}

// Differing is an element of an output that differs from the golden one.
type Differing struct {
	Index      []uint32 `json:"index"` // one number for each dimension
	Got        string   `json:"got"`
	Golden     string   `json:"golden"`
	Difference string   `json:"difference"` // absolute
}

// Values of Comparison.Method.
const (
	methodEqual       = "equal"
	methodTolerance   = "tolerance"
	methodCorrelation = "correlation"
)

// Compare compares the bytes of an output with its golden bytes. Both have the same length.
func (g *Golden) Compare(name string, dtype gen.DType, shape []uint32, got, golden []byte,
) *Comparison {
	c := &Comparison{Output: name, DType: DTypes[dtype], Shape: shape, Method: methodEqual,
		Elements: len(golden) / int(fbs.DTypeSize(dtype))}
	switch g.Kind {
	case gen.JudgementTolerance:
		c.Method = methodTolerance
	case gen.JudgementCorrelation:
		c.Method = methodCorrelation
	}
	g.findDiffering(c, dtype, got, golden)
	c.Matches = c.Differ == 0
	if c.Method == methodCorrelation {
		g.correlate(c, dtype, got, golden)
	}
	return c
}

// findDiffering counts the elements that differ, and finds the first and the one with the largest
// difference.
func (g *Golden) findDiffering(c *Comparison, dtype gen.DType, got, golden []byte) {
	size := int(fbs.DTypeSize(dtype))
	largest, largestAt := -1.0, 0
	for i := range c.Elements {
		x, y := got[i*size:][:size], golden[i*size:][:size]
		if bytes.Equal(x, y) || g.isNear(npy.Float(dtype, Little(x)), npy.Float(dtype, Little(y))) {
			continue
		}
		if c.Differ++; c.Differ == 1 {
			c.First = differing(dtype, c.Shape, i, x, y)
		}
		if d := math.Abs(npy.Float(dtype, Little(x)) - npy.Float(dtype, Little(y))); d > largest {
			largest, largestAt = d, i
		}
	}
	// A difference from NaN is not a number, so there may be no largest difference
	if largest >= 0 {
		x, y := got[largestAt*size:][:size], golden[largestAt*size:][:size]
		c.Largest = differing(dtype, c.Shape, largestAt, x, y)
	}
}

func differing(dtype gen.DType, shape []uint32, at int, got, golden []byte) *Differing {
	return &Differing{Index: indexOf(shape, at), Got: npy.Words(dtype, got)[0],
		Golden:     npy.Words(dtype, golden)[0],
		Difference: npy.Difference(dtype, Little(got), Little(golden))}
}

// indexOf returns the position of an element in each dimension. The last dimension varies fastest.
func indexOf(shape []uint32, element int) []uint32 {
	index := make([]uint32, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		index[i] = uint32(element % int(shape[i]))
		element /= int(shape[i])
	}
	return index
}

// correlate sets the correlation of an output with the golden data, and whether it is sufficient.
func (g *Golden) correlate(c *Comparison, dtype gen.DType, got, golden []byte) {
	var sums correlation
	sums.add(dtype, got, golden)
	coefficient, least := sums.coefficient(), math.Float32frombits(g.First)
	c.Matches = coefficient >= float64(least) // false if the coefficient is NaN
	c.Correlation = strconv.FormatFloat(coefficient, 'g', 6, 64)
	c.Least = strconv.FormatFloat(float64(least), 'g', 6, 32)
}

// String describes the result, with the first and the largest difference.
func (c *Comparison) String() string {
	text := "output " + c.Output + ": "
	if c.Method == methodCorrelation {
		compared := "at least"
		if !c.Matches {
			compared = "less than"
		}
		text += fmt.Sprintf("the correlation with the golden data is %s, %s the required %s; ",
			c.Correlation,
			compared, c.Least)
	}
	beyond, equal := "", "equal to the golden data"
	if c.Method == methodTolerance {
		beyond, equal = " by more than the tolerance", "within the tolerance"
	}
	elements := english.Count(c.Elements, c.DType+" element")
	if c.Differ == 0 {
		return text + elements + ", all " + equal
	}
	differ := "differ"
	if c.Differ == 1 {
		differ = "differs"
	}
	text += fmt.Sprintf("%s of %s %s from the golden data%s; the first, %s, is %s instead of %s",
		english.Number(c.Differ), elements, differ, beyond,
		indexText(c.First.Index), c.First.Got, c.First.Golden)
	if c.Largest != nil {
		text += fmt.Sprintf("; the largest difference is %s at %s", c.Largest.Difference,
			indexText(c.Largest.Index))
	}
	return text
}

// indexText formats the position of an element as NumPy does: "[0]", "[3, 12]".
func indexText(index []uint32) string {
	return strings.ReplaceAll(fmt.Sprint(index), " ", ", ")
}

// ComparedText returns a summary of comparisons of outputs, all of which match.
func ComparedText(list []*Comparison) string {
	counts := map[string]int{}
	for _, c := range list {
		counts[c.Method]++
	}
	text := english.Count(len(list), "output") + " compared with golden data, "
	if counts[methodEqual] == len(list) {
		return text + "all equal"
	}
	var parts []string
	for _, method := range []struct{ name, text string }{
		{methodEqual, "equal"}, {methodTolerance, "within the tolerance"},
		{methodCorrelation, "with at least the required correlation"},
	} {
		if n := counts[method.name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, method.text))
		}
	}
	return text + strings.Join(parts, ", ")
}

// isNear reports whether two values are equal within the tolerance. NaN is near to no value. Nor is
// an infinity: a relative tolerance of infinity would permit every number.
func (g *Golden) isNear(got, want float64) bool {
	absolute, relative := float64(math.Float32frombits(g.First)),
		float64(math.Float32frombits(g.Second))
	return g.Kind == gen.JudgementTolerance && !math.IsInf(got, 0) && !math.IsInf(want, 0) &&
		math.Abs(got-want) <= absolute+relative*math.Abs(want)
}

// Little returns the little-endian number in up to 8 bytes.
func Little(data []byte) uint64 {
	var word [8]byte
	copy(word[:], data)
	return binary.LittleEndian.Uint64(word[:])
}

// correlation computes Pearson's coefficient of two series in one pass with Welford's method, which
// stays precise if the means are large.
type correlation struct {
	n, meanGot, meanWant    float64
	varGot, varWant, shared float64
}

func (s *correlation) add(dtype gen.DType, got, want []byte) {
	size := int(fbs.DTypeSize(dtype))
	for i := 0; i+size <= len(want); i += size {
		g, w := npy.Float(dtype, Little(got[i:][:size])), npy.Float(dtype, Little(want[i:][:size]))
		s.n++
		offGot, offWant := g-s.meanGot, w-s.meanWant
		s.meanGot += offGot / s.n
		s.meanWant += offWant / s.n
		s.varGot += offGot * (g - s.meanGot)
		s.varWant += offWant * (w - s.meanWant)
		s.shared += offGot * (w - s.meanWant)
	}
}

// coefficient returns 1 for two equal constant series, and 0 if only one series varies or if the
// constants differ.
func (s *correlation) coefficient() float64 {
	if s.varGot == 0 && s.varWant == 0 {
		if s.meanGot == s.meanWant {
			return 1
		}
		return 0
	}
	if s.varGot == 0 || s.varWant == 0 {
		return 0
	}
	return s.shared / math.Sqrt(s.varGot*s.varWant)
}
