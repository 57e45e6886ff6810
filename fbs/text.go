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
// quote, each control character (see IsControl), and each byte that is not valid UTF-8.
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
// line, or change the direction of text. These are the C0 and C1 control characters, DEL, the
// Unicode separators of lines and paragraphs, and the Unicode Bidi_Control characters.
func IsControl(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0, r == 0x61c, r == 0x200e, r == 0x200f:
		return true
	}
	return r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// IsPlainText reports whether text is valid UTF-8 and has no control characters (see IsControl).
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
