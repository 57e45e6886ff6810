package runtime

import (
	"math"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// compare streams a device range past its golden payload, a chunk at a time.
func (r *Replay) compare(c *fbs.Command) hal.Code {
	golden := r.view.Payload[c.Value : c.Value+uint64(c.Amount)]
	dtype := gen.DType(c.Index)
	var sums correlation
	for start := 0; start < len(golden); start += len(r.chunk) {
		want := golden[start:min(start+len(r.chunk), len(golden))]
		got := r.chunk[:len(want)]
		code := r.apertures[c.Window].CopyOut(uint64(c.Offset)+uint64(start), c.Width, gen.AccessExact, got)
		if code != hal.OK {
			return code
		}
		if gen.CompareMode(c.Mode) == gen.CompareModeCorrelation {
			sums.add(dtype, got, want)
		} else if i := r.differs(c, dtype, got, want); i >= 0 {
			size := int(fbs.DTypeSize(dtype))
			r.detail = Result{
				Got: bits(got[i*size:], size), Want: bits(want[i*size:], size),
				Mask: fbs.WidthMask(uint8(size)), Element: uint64(start/size + i),
			}
			return hal.CompareFailed
		}
	}
	if gen.CompareMode(c.Mode) == gen.CompareModeCorrelation {
		if got, threshold := sums.coefficient(), float64(math.Float32frombits(uint32(c.Mask))); !(got >= threshold) {
			r.detail = Result{Got: math.Float64bits(got), Want: math.Float64bits(threshold), Mask: fbs.WidthMask(8)}
			return hal.CompareFailed
		}
	}
	return hal.OK
}

// differs gives the first element of got that is not what is wanted, -1 if all are.
func (r *Replay) differs(c *fbs.Command, dtype gen.DType, got, want []byte) int {
	if string(got) == string(want) && gen.CompareMode(c.Mode) == gen.CompareModeExact {
		return -1
	}
	absolute, relative := float64(math.Float32frombits(uint32(c.Mask))), float64(math.Float32frombits(uint32(c.Mask>>32)))
	size := int(fbs.DTypeSize(dtype))
	for i := 0; i*size < len(want); i++ {
		g, w := bits(got[i*size:], size), bits(want[i*size:], size)
		if g == w {
			continue
		}
		if gen.CompareMode(c.Mode) == gen.CompareModeExact {
			return i
		}
		golden := number(dtype, w)
		// Written so that a NaN differs from everything but its own bits.
		if !(math.Abs(number(dtype, g)-golden) <= absolute+relative*math.Abs(golden)) {
			return i
		}
	}
	return -1
}

// bits is the little-endian number in the first size bytes.
func bits(data []byte, size int) (n uint64) {
	for i := size - 1; i >= 0; i-- {
		n = n<<8 | uint64(data[i])
	}
	return n
}

// number is the value of an element. 64-bit integers are rounded to 53 bits.
func number(dtype gen.DType, bits uint64) float64 {
	switch dtype {
	case gen.DTypeInt8:
		return float64(int8(bits))
	case gen.DTypeInt16:
		return float64(int16(bits))
	case gen.DTypeInt32:
		return float64(int32(bits))
	case gen.DTypeInt64:
		return float64(int64(bits))
	case gen.DTypeFloat16:
		return float16(uint16(bits))
	case gen.DTypeBfloat16:
		return float64(math.Float32frombits(uint32(bits) << 16))
	case gen.DTypeFloat32:
		return float64(math.Float32frombits(uint32(bits)))
	case gen.DTypeFloat64:
		return math.Float64frombits(bits)
	}
	return float64(bits)
}

// float16 is the value of an IEEE 754 binary16: a binary32 with the exponent 112
// less, but for infinities and NaN.
func float16(bits uint16) float64 {
	value := math.Float32frombits(uint32(bits&0x7fff)<<13) * 0x1p112
	if bits&0x7c00 == 0x7c00 {
		value = math.Float32frombits(0x7f800000 | uint32(bits&0x3ff)<<13)
	}
	return math.Copysign(float64(value), float64(int16(bits|1)))
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
		g, w := number(dtype, bits(got[i:], size)), number(dtype, bits(want[i:], size))
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
