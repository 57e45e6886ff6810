package fbs

// This file makes messages, and checks text that goes to terminals.

import (
	"strconv"
	"unicode/utf8"
)

// Text returns a message with numbers: each %d is replaced by the next number in
// decimal, each %x by the next in hexadecimal after 0x. Package fmt would add 130 KB to a
// static program.
//
//go:noinline
func Text(message string, numbers ...uint64) string {
	return string(AppendText(nil, message, numbers...))
}

// AppendText appends a Text to a buffer.
func AppendText(buffer []byte, message string, numbers ...uint64) []byte {
	for i := 0; i < len(message); i++ {
		if message[i] != '%' || len(numbers) == 0 {
			buffer = append(buffer, message[i])
			continue
		}
		i++ // to the d or x
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

// Quote returns text between quotes, with a question mark for each control character, each
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

// IsControl reports whether a terminal, or a program that reads lines, may act on a
// character: C0, DEL and C1, the separators of lines and paragraphs, and characters that
// change the direction of text (Unicode property Bidi_Control).
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
