package files

import (
	"unicode/utf8"

	"lightmetal/fbs"
)

// This file escapes text for terminals and JSON.

// EscapeControls returns text without the control characters of fbs.IsControl, except line
// feeds and tabs. The others become \uXXXX, which is the same character in JSON, and bytes
// that are not UTF-8 become \xXX.
func EscapeControls(text []byte) []byte {
	for _, b := range text {
		if (b < ' ' || b >= 0x7f) && b != '\n' && b != '\t' {
			return escaped(text, forTerminal)
		}
	}
	return text
}

// Line returns text as EscapeControls does, in one line: a line feed becomes \n, a tab \t.
func Line(text string) string { return string(escaped([]byte(text), forLine)) }

// Quote returns a JSON string that is safe for a terminal. Bytes that are not UTF-8
// become U+FFFD, as in encoding/json.
func Quote(text string) string { return `"` + string(escaped([]byte(text), forJSON)) + `"` }

// Places that text is escaped for.
const (
	forTerminal = iota // line feeds and tabs stay
	forLine
	forJSON
)

// escaped returns a copy of text that is escaped for a place.
func escaped(text []byte, place int) []byte {
	const digits = "0123456789abcdef"
	safe := make([]byte, 0, len(text)+16)
	for at, size := 0, 0; at < len(text); at += size {
		b, r := text[at], rune(0)
		r, size = utf8.DecodeRune(text[at:])
		switch invalid := r == utf8.RuneError && size == 1; {
		case place == forJSON && (b == '"' || b == '\\'):
			safe = append(safe, '\\', b)
		case invalid && place == forJSON:
			safe = append(safe, `\ufffd`...)
		case invalid:
			safe = append(safe, '\\', 'x', digits[b>>4], digits[b&15])
		case place == forTerminal && (b == '\n' || b == '\t'):
			safe = append(safe, b)
		case place == forLine && b == '\n':
			safe = append(safe, `\n`...)
		case place == forLine && b == '\t':
			safe = append(safe, `\t`...)
		case fbs.IsControl(r):
			safe = append(safe, '\\', 'u',
				digits[r>>12], digits[r>>8&15], digits[r>>4&15], digits[r&15])
		default:
			safe = append(safe, text[at:at+size]...)
		}
	}
	return safe
}
