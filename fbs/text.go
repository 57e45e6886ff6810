package fbs

// This file formats messages, and checks that text is safe to print on a terminal.

import (
	"strconv"
	"unicode/utf8"
)

// Text formats a message like fmt.Sprintf, but supports only the verbs %d and %x, and only unsigned
// numbers. For %x it writes the prefix 0x before the number. Programs for the target do not use
// package fmt, because fmt makes a static program 130 KB larger.
//
//go:noinline
func Text(format string, numbers ...uint64) string {
	return string(AppendText(nil, format, numbers...))
}

// AppendText formats a message like Text, appends the message to a buffer, and returns the longer
// buffer.
func AppendText(buffer []byte, format string, numbers ...uint64) []byte {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || len(numbers) == 0 {
			buffer = append(buffer, format[i])
			continue
		}
		i++ // skip the percent sign; format[i] is now d or x
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

// Quote returns text in double quotes. In the result, a question mark replaces each double
// quote, each hidden character (see IsHidden), and each byte that is not valid UTF-8.
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

// hiddenLimits has the first character of each range of FORMAT.md section 1.2 that names must not
// contain, and the first character after the range.
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

// IsPlainText reports whether text is valid UTF-8 without hidden characters (see IsHidden).
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

// IsSequenceName reports whether a sequence may have the name. Its characters are ASCII without
// blanks, so that no name looks like `safe`.
//
//go:noinline
func IsSequenceName(name []byte) bool {
	for _, b := range name {
		if b <= ' ' || b >= 0x7f {
			return false
		}
	}
	return true
}
