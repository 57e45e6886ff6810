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

// Values returns the bytes of elements that are given as numbers in text form.
func Values(dtype gen.DType, words []string) ([]byte, error) {
	size := int(fbs.DTypeSize(dtype))
	data := make([]byte, 0, len(words)*size)
	for i, word := range words {
		bits, ok := Bits(dtype, strings.TrimSpace(word))
		if !ok {
			return nil, fmt.Errorf("element %d: %q is not a value of type %s (%s)", i, word,
				strings.ToLower(gen.EnumNamesDType[dtype]), Range(dtype))
		}
		data = append(data, binary.LittleEndian.AppendUint64(nil, bits)[:size]...)
	}
	return data, nil
}

// Range describes the values that a type has.
func Range(dtype gen.DType) string {
	bits := 8 * fbs.DTypeSize(dtype)
	switch dtype {
	case gen.DTypeFloat16:
		return "numbers up to 65504"
	case gen.DTypeBfloat16, gen.DTypeFloat32:
		return "numbers up to 3.4e38"
	case gen.DTypeFloat64:
		return "numbers up to 1.8e308"
	case gen.DTypeUint8, gen.DTypeUint16, gen.DTypeUint32, gen.DTypeUint64:
		return fmt.Sprintf("integers from 0 to %d", uint64(math.MaxUint64)>>(64-bits))
	}
	most := int64(math.MaxInt64) >> (64 - bits)
	return fmt.Sprintf("integers from %d to %d", -most-1, most)
}

// Bits returns the bits of an element that is given as a number in text form. A decimal number is
// rounded if the type is a float. A hex or binary number specifies the bits directly.
func Bits(dtype gen.DType, text string) (bits uint64, ok bool) {
	size := 8 * int(fbs.DTypeSize(dtype))
	if len(text) > 1 && text[0] == '0' && strings.ContainsRune("xXbB", rune(text[1])) {
		bits, err := strconv.ParseUint(text, 0, size)
		return bits, err == nil
	}
	switch dtype {
	case gen.DTypeFloat16:
		return narrowFloat(text, 5, 10)
	case gen.DTypeBfloat16:
		return narrowFloat(text, 8, 7)
	case gen.DTypeFloat32:
		x, err := strconv.ParseFloat(text, 32)
		return uint64(math.Float32bits(float32(x))), err == nil
	case gen.DTypeFloat64:
		x, err := strconv.ParseFloat(text, 64)
		return math.Float64bits(x), err == nil
	}
	return integerBits(dtype, text, size)
}

func integerBits(dtype gen.DType, text string, size int) (bits uint64, ok bool) {
	if digits := strings.TrimPrefix(text, "-"); len(digits) > 1 && digits[0] == '0' {
		return 0, false // strconv would read it as octal
	}
	switch dtype {
	case gen.DTypeUint8, gen.DTypeUint16, gen.DTypeUint32, gen.DTypeUint64:
		bits, err := strconv.ParseUint(text, 0, size)
		return bits, err == nil
	}
	n, err := strconv.ParseInt(text, 0, size)
	return uint64(n), err == nil
}

// narrowFloat rounds a decimal number to the nearest IEEE number with the given numbers of exponent
// and mantissa bits, ties to even. ok is false if the number is too large.
func narrowFloat(text string, exponent, mantissa int) (bits uint64, ok bool) {
	x, err := strconv.ParseFloat(text, 64)
	infinity := (uint64(1)<<exponent - 1) << mantissa
	switch {
	case err != nil:
		return 0, false
	case x != x:
		return infinity | 1<<(mantissa-1), true
	case math.IsInf(x, 0):
		bits, ok = infinity, true
	case x == 0:
		ok = true
	default:
		// Below the smallest normal number, the unit in the last place is constant.
		bias := 1<<(exponent-1) - 1
		_, e := math.Frexp(x) // 2^(e-1) <= |x| < 2^e
		e = max(e-1, 1-bias)
		units := uint64(math.RoundToEven(math.Ldexp(math.Abs(x), mantissa-e)))
		// The leading one of units is in bit `mantissa`: adding it, or a carry from rounding,
		// increments the exponent.
		bits = uint64(e+bias-1)<<mantissa + units
		ok = bits < infinity
	}
	if math.Signbit(x) {
		bits |= 1 << (exponent + mantissa)
	}
	return bits, ok
}

// Words returns elements as numbers in text form, which Values converts to the same bytes, except
// for NaNs.
func Words(dtype gen.DType, data []byte) []string {
	size := int(fbs.DTypeSize(dtype))
	words := make([]string, len(data)/size)
	for i := range words {
		var word [8]byte
		copy(word[:], data[i*size:][:size])
		words[i] = formatBits(dtype, binary.LittleEndian.Uint64(word[:]))
	}
	return words
}

func formatBits(dtype gen.DType, bits uint64) string {
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

// Difference returns the absolute difference of two elements as text: exact for integers, with six
// digits for floats.
func Difference(dtype gen.DType, a, b uint64) string {
	unused := 64 - 8*fbs.DTypeSize(dtype)
	switch dtype {
	case gen.DTypeFloat16, gen.DTypeBfloat16, gen.DTypeFloat32, gen.DTypeFloat64:
		difference := math.Abs(Float(dtype, a) - Float(dtype, b))
		return strconv.FormatFloat(difference, 'g', 6, 64)
	case gen.DTypeInt8, gen.DTypeInt16, gen.DTypeInt32, gen.DTypeInt64:
		x, y := int64(a<<unused)>>unused, int64(b<<unused)>>unused
		return strconv.FormatUint(uint64(max(x, y))-uint64(min(x, y)), 10)
	}
	return strconv.FormatUint(max(a, b)-min(a, b), 10)
}

// Float returns the value of an element. 64-bit integers are rounded to 53 bits.
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

// float16 returns the value of an IEEE 754 binary16. A binary32 with the same bits has an exponent
// that is 112 less, except for infinities and NaN.
func float16(bits uint16) float64 {
	value := math.Float32frombits(uint32(bits&0x7fff)<<13) * 0x1p112
	if bits&0x7c00 == 0x7c00 {
		value = math.Float32frombits(0x7f800000 | uint32(bits&0x3ff)<<13)
	}
	return math.Copysign(float64(value), float64(int16(bits|1)))
}
