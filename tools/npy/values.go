package npy

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Values gives the bytes of elements that are written as numbers: integers in C's
// notation that fit, and floats, rounded to the type.
func Values(dtype gen.DType, words []string) ([]byte, error) {
	size := int(fbs.DTypeSize(dtype))
	data := make([]byte, 0, len(words)*size)
	for i, word := range words {
		bits, err := element(dtype, strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("element %d: %q is no %s", i, word, strings.ToLower(gen.EnumNamesDType[dtype]))
		}
		data = append(data, binary.LittleEndian.AppendUint64(nil, bits)[:size]...)
	}
	return data, nil
}

func element(dtype gen.DType, word string) (uint64, error) {
	size := int(fbs.DTypeSize(dtype)) * 8
	switch dtype {
	case gen.DTypeInt8, gen.DTypeInt16, gen.DTypeInt32, gen.DTypeInt64:
		n, err := strconv.ParseInt(word, 0, size)
		return uint64(n), err
	case gen.DTypeUint8, gen.DTypeUint16, gen.DTypeUint32, gen.DTypeUint64:
		return strconv.ParseUint(word, 0, size)
	case gen.DTypeFloat64:
		f, err := strconv.ParseFloat(word, 64)
		return math.Float64bits(f), err
	}
	f, err := strconv.ParseFloat(word, 32)
	bits := math.Float32bits(float32(f))
	switch dtype {
	case gen.DTypeBfloat16:
		bits = half(bits, 16)
	case gen.DTypeFloat16:
		// A binary16 has 13 bits of fraction less and an exponent that is 112 less;
		// what is below its least number is counted in units of that.
		sign := bits >> 16 & 0x8000
		switch magnitude := math.Abs(f); {
		case magnitude != magnitude:
			bits = 0x7e00
		case magnitude < 0x1p-14:
			bits = uint32(math.RoundToEven(magnitude * 0x1p24))
		default:
			bits = min(half(math.Float32bits(float32(magnitude))-112<<23, 13), 0x7c00)
		}
		bits |= sign
	}
	if math.IsInf(Float(dtype, uint64(bits)), 0) && !math.IsInf(f, 0) {
		err = strconv.ErrRange
	}
	return uint64(bits), err
}

// half drops the lowest bits of a float, rounding to even.
func half(bits uint32, drop int) uint32 {
	if bits&0x7fffffff > 0x7f800000 {
		return (bits | 1<<22) >> drop // a NaN stays one
	}
	return (bits + 1<<(drop-1) - 1 + bits>>drop&1) >> drop
}

// Words writes elements as numbers, so that Values gives the same bytes.
func Words(dtype gen.DType, data []byte) []string {
	size := int(fbs.DTypeSize(dtype))
	words := make([]string, len(data)/size)
	for i := range words {
		var word [8]byte
		copy(word[:], data[i*size:][:size])
		words[i] = text(dtype, binary.LittleEndian.Uint64(word[:]))
	}
	return words
}

func text(dtype gen.DType, bits uint64) string {
	unused := 64 - 8*fbs.DTypeSize(dtype)
	switch dtype {
	case gen.DTypeInt8, gen.DTypeInt16, gen.DTypeInt32, gen.DTypeInt64:
		return strconv.FormatInt(int64(bits<<unused)>>unused, 10)
	case gen.DTypeFloat64:
		return strconv.FormatFloat(math.Float64frombits(bits), 'g', -1, 64)
	case gen.DTypeFloat16, gen.DTypeBfloat16, gen.DTypeFloat32:
		return strconv.FormatFloat(Float(dtype, bits), 'g', -1, 32)
	}
	return strconv.FormatUint(bits, 10)
}

// Float is the value of an element. 64-bit integers are rounded to 53 bits.
func Float(dtype gen.DType, bits uint64) float64 {
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
