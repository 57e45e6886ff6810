package importer

import (
	"encoding/binary"
	"fmt"

	"lightmetal/fbs/gen"
)

// guess proposes an element type of data that differs between repetitions, and
// says by what. Registers are unsigned numbers of their width.
func guess(values [][]byte, p *piece) (gen.DType, string) {
	size := len(values[0])
	if !p.memory {
		t := map[uint64]gen.DType{1: gen.DTypeUint8, 2: gen.DTypeUint16, 4: gen.DTypeUint32, 8: gen.DTypeUint64}[p.size]
		if t != gen.DTypeInvalid && size%int(p.size) == 0 {
			return t, "a register"
		}
	}
	var all []byte
	for _, v := range values {
		all = append(all, v[:min(len(v), guessBytes)&^3]...)
	}
	if size%4 != 0 || p.address%4 != 0 || len(all) == 0 {
		return gen.DTypeUint8, "bytes"
	}
	for _, k := range kindsOfWord {
		n, of := 0, 0
		for at := 0; at < len(all); at += 4 {
			if word := binary.LittleEndian.Uint32(all[at:]); word != 0 {
				of++
				if k.like(word) {
					n++
				}
			}
		}
		if of > 0 && 10*n >= 9*of {
			return k.dtype, fmt.Sprintf("%d %% of the words other than 0 %s", 100*n/of, k.text)
		}
	}
	return gen.DTypeUint8, "bytes: the words look like no type"
}

// guessBytes of each repetition are looked at.
const guessBytes = 64 << 10

// kindsOfWord are what 32 bits look like, the surest first.
var kindsOfWord = []struct {
	dtype gen.DType
	text  string
	like  func(word uint32) bool
}{
	{gen.DTypeInt32, "are small integers", func(w uint32) bool { return int32(w) > -1<<23 && int32(w) < 1<<23 }},
	{gen.DTypeInt16, "are two small integers", func(w uint32) bool { return small16(w) && small16(w>>16) }},
	{gen.DTypeBfloat16, "are two floating-point numbers of 16 bits", func(w uint32) bool { return w<<16 != 0 && usual(w) && usual(w<<16) }},
	{gen.DTypeFloat32, "are floating-point numbers", usual},
}

func small16(w uint32) bool { return int16(w) > -1<<12 && int16(w) < 1<<12 }

// usual tells whether the exponent of a float32 is one that data has: up to
// 2^20, and no smaller than 2^-20.
func usual(w uint32) bool {
	const bias = 127
	e := int(w >> 23 & 0xff)
	return e >= bias-20 && e <= bias+20
}
