package lmb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/npy"
)

// Judge compares the bytes of an output with its golden bytes, of the same
// size, and says how they differ, empty if they are as good.
func (g *Golden) Judge(dtype gen.DType, got, want []byte) string {
	if bytes.Equal(got, want) && g.Kind != gen.JudgementCorrelation {
		return ""
	}
	if g.Kind == gen.JudgementCorrelation {
		var sums correlation
		sums.add(dtype, got, want)
		if c, threshold := sums.coefficient(),
			math.Float32frombits(g.First); !(c >= float64(threshold)) {
			return fmt.Sprintf("correlation is %v, at least %v is wanted", c, threshold)
		}
		return ""
	}
	size := int(fbs.DTypeSize(dtype))
	for i := 0; i*size < len(want); i++ {
		x, y := got[i*size:][:size], want[i*size:][:size]
		if !bytes.Equal(x, y) && !g.near(npy.Float(dtype, bits(x)), npy.Float(dtype, bits(y))) {
			return fmt.Sprintf("element %d is %x, recorded %x (bytes in memory order)", i, x, y)
		}
	}
	return ""
}

// near is written so that a NaN differs from everything. An infinity is near to
// nothing: any number is within a part of it.
func (g *Golden) near(got, want float64) bool {
	absolute, relative := float64(math.Float32frombits(g.First)),
		float64(math.Float32frombits(g.Second))
	return g.Kind == gen.JudgementTolerance && !math.IsInf(got, 0) && !math.IsInf(want, 0) &&
		math.Abs(got-want) <= absolute+relative*math.Abs(want)
}

// bits is the little-endian number in data, of up to 8 bytes.
func bits(data []byte) uint64 {
	var word [8]byte
	copy(word[:], data)
	return binary.LittleEndian.Uint64(word[:])
}

// correlation gathers Pearson's coefficient of two series in one pass, by
// Welford's updates, which do not lose digits to large means.
type correlation struct {
	n, meanGot, meanWant    float64
	varGot, varWant, shared float64
}

func (s *correlation) add(dtype gen.DType, got, want []byte) {
	size := int(fbs.DTypeSize(dtype))
	for i := 0; i+size <= len(want); i += size {
		g, w := npy.Float(dtype, bits(got[i:][:size])), npy.Float(dtype, bits(want[i:][:size]))
		s.n++
		offGot, offWant := g-s.meanGot, w-s.meanWant
		s.meanGot += offGot / s.n
		s.meanWant += offWant / s.n
		s.varGot += offGot * (g - s.meanGot)
		s.varWant += offWant * (w - s.meanWant)
		s.shared += offGot * (w - s.meanWant)
	}
}

// coefficient is 1 for two equal constant series, 0 where only one varies or
// the constants differ.
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
