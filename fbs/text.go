package fbs

import (
	"strconv"
	"unicode/utf8"
)

// Text formats unsigned numbers like fmt.Sprintf. It has only the verbs %d and %x, which writes 0x
// first. Package fmt would make a static program 130 KB larger, inlining 4 KB.
//
//go:noinline
func Text(format string, numbers ...uint64) string {
	return string(AppendText(nil, format, numbers...))
}

// AppendText appends what Text returns.
func AppendText(buffer []byte, format string, numbers ...uint64) []byte {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || len(numbers) == 0 {
			buffer = append(buffer, format[i])
			continue
		}
		i++ // d or x
		base := 10
		if format[i] == 'x' {
			base = 16
			buffer = append(buffer, "0x"...)
		}
		buffer = strconv.AppendUint(buffer, numbers[0], base)
		numbers = numbers[1:]
	}
	return buffer
}

// ImageID returns Preamble.Checksum, which identifies an image, as all programs print it.
func ImageID(checksum uint32) string {
	return "0x" + strconv.FormatUint(1<<32|uint64(checksum), 16)[1:] // 8 digits
}

// Quote returns text in double quotes, with a question mark for each double quote, hidden character
// and byte that is not UTF-8.
func Quote(text string) string {
	quoted := `"`
	for _, r := range text {
		if r == '"' || r == utf8.RuneError || IsHidden(r) {
			r = '?'
		}
		quoted += string(r)
	}
	return quoted + `"`
}

// hiddenLimits has two characters for each range that names must not contain (FORMAT.md section
// 1.2): the first of the range, and the first after it.
var hiddenLimits = [...]rune{
	0x0, 0x20, 0x7f, 0xa0, 0xad, 0xae, 0x34f, 0x350, 0x61c, 0x61d, 0x115f, 0x1161,
	0x17b4, 0x17b6, 0x180b, 0x1810, 0x200b, 0x2010, 0x2028, 0x202f, 0x2060, 0x2070,
	0x3164, 0x3165, 0xfe00, 0xfe10, 0xfeff, 0xff00, 0xffa0, 0xffa1, 0xfff0, 0xfffc,
	0x13430, 0x13440, 0x1bca0, 0x1bca4, 0x1d173, 0x1d17b, 0xe0000, 0xe1000,
}

// IsHidden reports whether r may change the state of a terminal, end a line, change the direction
// or the look of text, or is invisible. A name with such characters can look like another name.
func IsHidden(r rune) bool {
	passed := 0
	for passed < len(hiddenLimits) && r >= hiddenLimits[passed] {
		passed++
	}
	return passed%2 == 1
}

// IsPlainText reports whether text is UTF-8 without hidden characters.
func IsPlainText(text []byte) bool {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if IsHidden(r) || r == utf8.RuneError && size == 1 {
			return false
		}
		text = text[size:]
	}
	return true
}

// IsSequenceName reports whether a sequence may have the name: printable ASCII without blanks, so
// that no name looks like `safe`.
func IsSequenceName(name []byte) bool {
	for _, b := range name {
		if b <= ' ' || b >= 0x7f {
			return false
		}
	}
	return true
}
