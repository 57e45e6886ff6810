package files

import (
	"unicode/utf8"

	"lightmetal/fbs"
)

// This file escapes text for terminals and JSON.

// EscapeControls returns text with its control characters (see fbs.IsControl) replaced by
// \uXXXX, which in JSON is the same character. Line feeds and tabs stay as they are. Bytes
// that are not UTF-8 are replaced by \xXX.
func EscapeControls(text []byte) []byte {
	for _, b := range text {
		if (b < ' ' || b >= 0x7f) && b != '\n' && b != '\t' {
			return escapeFor(forTerminal, text)
		}
	}
	return text
}

// Line escapes text as EscapeControls does, but returns a single line: it also replaces line
// feeds by \n and tabs by \t.
func Line(text string) string { return string(escapeFor(forLine, []byte(text))) }

// Quote returns text as a JSON string, with quotation marks. The result has no control
// characters, so that it can be printed on a terminal. As in encoding/json, bytes that are
// not UTF-8 are replaced by U+FFFD.
func Quote(text string) string { return `"` + string(escapeFor(forJSON, []byte(text))) + `"` }

// Values of the parameter place of escapeFor.
const (
	forTerminal = iota // several lines on a terminal: line feeds and tabs stay as they are
	forLine            // one line on a terminal
	forJSON            // the inside of a JSON string
)

// escapeFor returns a copy of text, escaped for the given place: forTerminal, forLine or
// forJSON.
func escapeFor(place int, text []byte) []byte {
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
