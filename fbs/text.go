package fbs

import (
	"strconv"
	"unicode/utf8"
)

// Text is a message with numbers in it: each %d stands for the next number in
// decimal, each %x in hexadecimal with 0x in front. Package fmt would cost a
// static program 130 KB.
//
//go:noinline
func Text(message string, numbers ...uint64) string {
	return string(AppendText(nil, message, numbers...))
}

// wrong is a Text where something holds, and else empty.
//
//go:noinline
func failIf(holds bool, message string, numbers ...uint64) string {
	if !holds {
		return ""
	}
	return Text(message, numbers...)
}

// first is the first of reasons that is not empty, empty if all are.
//
//go:noinline
func firstNonEmpty(reasons ...string) (reason string) {
	for _, reason = range reasons {
		if reason != "" {
			break
		}
	}
	return reason
}

// AppendText adds a Text to what is there.
func AppendText(filled []byte, message string, numbers ...uint64) []byte {
	for i := 0; i < len(message); i++ {
		if message[i] != '%' || len(numbers) == 0 {
			filled = append(filled, message[i])
			continue
		}
		i++
		base := 10
		if message[i] == 'x' {
			base, filled = 16, append(filled, "0x"...)
		}
		filled = strconv.AppendUint(filled, numbers[0], base)
		numbers = numbers[1:]
	}
	return filled
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
// character: C0, DEL and C1, the separators of lines and paragraphs, and what changes
// the direction of text (Unicode property Bidi_Control).
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
