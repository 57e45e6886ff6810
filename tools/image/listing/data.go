package listing

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/npy"
)

// patternMax limits the bytes of all patterns of one listing together, so that a short text cannot
// use up all memory.
const patternMax = 64 << 20

// data consumes the data of a tensor or command in any notation, such as hex or file.
func (p *parser) data() []byte {
	at := p.tok
	switch {
	case p.accept("hex"):
		return p.hexBytes()
	case p.accept("file"):
		return p.fileBytes()
	case p.accept("pattern"):
		return p.patternBytes()
	case p.accept("data"):
		return p.declaredBytes()
	case at.kind == tokenWord && p.isTensor(at.text):
		p.fail(at, "%s is a tensor; write %s[:] for the whole tensor", at.text, at.text)
	}
	words := append([]string{"hex", "file", "pattern", "data"}, nonEmpty(dtypeWords)...)
	for dtype, word := range dtypeWords {
		if word != "" && p.accept(word) {
			return p.elements(gen.DType(dtype))
		}
	}
	p.fail(at, "expected hex, file, pattern, data or a type such as int32, found %s%s", at,
		hint(at.text, "data", words))
	return nil
}

// items calls `each` for every word of a list: all words of a block in braces, or the words of the
// line for which `belongs` returns true.
func (p *parser) items(what string, belongs func(string) bool, each func(token)) {
	block, count := p.accept("{"), 0
	for ; p.tok.kind == tokenWord && belongs(p.tok.text); count++ {
		each(p.tok)
		p.advance()
	}
	switch {
	case block:
		if !p.accept("}") {
			p.fail(p.tok, "expected %s or }, found %s", what, p.tok)
		}
	case count == 0 || p.tok.kind == tokenWord && isDigit(p.tok.text[0]):
		p.fail(p.tok, "expected %s, found %s", what, p.tok)
	}
}

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdefABCDEF") == "" }

func (p *parser) hexBytes() []byte {
	data := []byte{}
	p.items("bytes in hex", isHex, func(t token) {
		var err error
		if data, err = hex.AppendDecode(data, []byte(t.text)); err != nil {
			p.fail(t, "%s has an odd number of hex digits", t.text)
		}
	})
	return data
}

func (p *parser) fileBytes() []byte {
	at := p.tok
	path := p.text("the path of a file")
	if p.read == nil {
		p.fail(at, "this listing must not name files; write the data as hex")
	}
	data, known := p.files[path]
	if !known {
		var err error
		if data, err = p.read(path); err != nil {
			p.fail(at, "%v", err)
		}
		p.files[path] = data
	}
	return p.part(at, path, data)
}

// declaredBytes consumes the name of declared data and returns them, or a part of them.
func (p *parser) declaredBytes() []byte {
	at := p.tok
	name := p.name("data")
	block, known := p.blocks[name]
	switch {
	case !known:
		p.fail(at, "data %s is not declared%s", name, hint(name, "data",
			slices.Sorted(maps.Keys(p.blocks))))
	case block.bytes == nil:
		fail.On(errReported) // with its declaration
	}
	return p.part(at, name, block.bytes)
}

// part consumes an optional range and returns that part of the data. Parts of the same data share
// memory, and therefore payload of the image.
func (p *parser) part(at token, name string, data []byte) []byte {
	from, size := uint64(0), uint64(len(data))
	if p.accept("from") {
		from = p.size("the offset of the first byte")
		size -= min(from, size)
	}
	if p.accept("size") {
		size = p.size("a size")
	}
	if length := uint64(len(data)); from > length || size > length-from {
		p.fail(at, "%s has only %d bytes, "+
			"but this line uses %d bytes from byte %d on", name, length,
			size, from)
	}
	return data[from : from+size : from+size]
}

func (p *parser) patternBytes() []byte {
	seed := p.numberUpTo("a seed", math.MaxUint32)
	if seed == 0 {
		p.fail(p.last, "the seed must not be 0")
	}
	p.expect("size")
	size := p.size("a size")
	if size > p.patternLeft {
		p.fail(p.last, "the pattern is too large: all patterns of a listing together may have "+
			"at most %s", lmb.SizeText(patternMax))
	}
	p.patternLeft -= size
	return Pattern(uint32(seed), int(size))
}

// Pattern returns the data of `pattern seed size n`: the numbers of Marsaglia's xorshift32 (13, 17,
// 5) after seed, little endian.
func Pattern(seed uint32, size int) []byte {
	data := make([]byte, 0, size+3)
	for len(data) < size {
		seed ^= seed << 13
		seed ^= seed >> 17
		seed ^= seed << 5
		data = binary.LittleEndian.AppendUint32(data, seed)
	}
	return data[:size]
}

func isElement(text string) bool {
	return isDigit(text[0]) || text[0] == '-' || text[0] == '.' || text == "nan" || text == "inf"
}

// elements consumes the values of one type.
func (p *parser) elements(dtype gen.DType) []byte {
	data := []byte{}
	size := int(fbs.DTypeSize(dtype))
	p.items("values", isElement, func(t token) {
		bits, ok := npy.Bits(dtype, t.text)
		if !ok {
			p.fail(t, "%s is not a value of type %s (%s)", t.text, wordOf(dtypeWords, dtype),
				npy.Range(dtype))
		}
		data = append(data, binary.LittleEndian.AppendUint64(nil, bits)[:size]...)
	})
	return data
}
