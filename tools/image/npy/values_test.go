package npy

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// TestValuesReadsWhatWordsReturns for every float of 16 bits, and for many values of all other
// types.
func TestValuesReadsWhatWordsReturns(t *testing.T) {
	for d := gen.DTypeInt8; fbs.DTypeSize(d) != 0; d++ {
		size := int(fbs.DTypeSize(d))
		var data []byte
		for n := range 1 << 16 {
			bits := uint64(n)
			if size > 2 {
				bits = uint64(n)<<(8*size-16) | uint64(n)
			}
			isFloat := d >= gen.DTypeFloat16
			if f := Float(d, bits&(1<<(8*size)-1)); isFloat && f != f {
				continue // Words has one word for all NaNs
			}
			data = append(data, binary.LittleEndian.AppendUint64(nil, bits)[:size]...)
		}
		back, err := Values(d, Words(d, data))
		if err != nil || !bytes.Equal(back, data) {
			t.Errorf("%v: Values does not return the data that Words had (%v)",
				gen.EnumNamesDType[d], err)
		}
	}
}

func TestValuesRoundsAndRejects(t *testing.T) {
	for _, test := range []struct {
		dtype gen.DType
		word  string
		bits  uint64
	}{
		{gen.DTypeInt8, "-128", 0x80}, {gen.DTypeUint8, "0xff", 0xff},
		{gen.DTypeInt64, "-1", math.MaxUint64},
		{gen.DTypeFloat16, "1", 0x3c00}, {gen.DTypeFloat16, "65519", 0x7bff},
		{gen.DTypeFloat16, "-inf", 0xfc00},
		{gen.DTypeFloat16, "6e-8", 1}, {gen.DTypeFloat16, "2049", 0x6800},
		{gen.DTypeFloat16, "2051", 0x6802}, {gen.DTypeFloat16, "nan", 0x7e00},
		{gen.DTypeBfloat16, "1", 0x3f80}, {gen.DTypeBfloat16, "1.00390625", 0x3f80},
		{gen.DTypeBfloat16, "1.01171875", 0x3f82},
	} {
		got, err := Values(test.dtype, []string{test.word})
		want := binary.LittleEndian.AppendUint64(nil, test.bits)[:fbs.DTypeSize(test.dtype)]
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x %v, want %x", test.word, got, err, want)
		}
	}
	for dtype, word := range map[gen.DType]string{
		gen.DTypeInt8: "128", gen.DTypeUint8: "-1", gen.DTypeInt32: "1.5", gen.DTypeFloat32: "1e39",
		gen.DTypeFloat64: "x", gen.DTypeUint64: "",
		gen.DTypeFloat16: "65520", gen.DTypeBfloat16: "3.4e38",
	} {
		if data, err := Values(dtype, []string{"0", word}); err == nil {
			t.Errorf("%v accepts %q as %x, want an error", dtype, word, data)
		}
	}
}
