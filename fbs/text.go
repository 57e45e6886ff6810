package fbs

// This file formats messages, and checks text that is printed on terminals.

import (
	"strconv"
	"unicode/utf8"
)

// Text returns a message in which each %d is replaced by the next number in decimal, and
// each %x by the next number in hexadecimal with the prefix 0x. Package fmt is not used,
// because it would add 130 KB to a static program.
//
//go:noinline
func Text(message string, numbers ...uint64) string {
	return string(AppendText(nil, message, numbers...))
}

// AppendText appends the result of Text to a buffer, and returns the longer buffer.
func AppendText(buffer []byte, message string, numbers ...uint64) []byte {
	for i := 0; i < len(message); i++ {
		if message[i] != '%' || len(numbers) == 0 {
			buffer = append(buffer, message[i])
			continue
		}
		i++ // skip the percent sign; message[i] is now d or x
		base := 10
		if message[i] == 'x' {
			base = 16
			buffer = append(buffer, "0x"...)
		}
		buffer = strconv.AppendUint(buffer, numbers[0], base)
		numbers = numbers[1:]
	}
	return buffer
}

// Quote returns text between quotes. A question mark replaces each control character, each
// quote and each byte that is not UTF-8.
func Quote(text string) string {
	quoted := `"`
	for _, r := range text {
		if r == '"' || r == utf8.RuneError || IsControl(r) {
			r = '?'
		}
		quoted += string(r)
	}
	return quoted + `"`
}

// IsControl reports whether r is a character that may change the state of a terminal, end a
// line, or change the direction of text. These are the control characters C0, DEL and C1,
// the separators of lines and of paragraphs, and Unicode's Bidi_Control characters.
func IsControl(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0, r == 0x61c, r == 0x200e, r == 0x200f:
		return true
	}
	return r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// IsPlainText reports whether text is UTF-8 without control characters.
func IsPlainText(text []byte) bool {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if IsControl(r) || r == utf8.RuneError && size == 1 {
			return false
		}
		text = text[size:]
	}
	return true
}
