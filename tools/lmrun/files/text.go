package files

import (
	"unicode/utf8"

	"lightmetal/fbs"
)

// This file escapes text for terminals and JSON.

// EscapeControls replaces every hidden character (see fbs.IsHidden) except line feed and tab by
// \uXXXX. JSON text keeps its meaning, because \uXXXX in a JSON string stands for the character.
// EscapeControls replaces bytes that are not valid UTF-8 by \xXX.
func EscapeControls(text []byte) []byte {
	for _, b := range text {
		if (b < ' ' || b >= 0x7f) && b != '\n' && b != '\t' {
			return AppendEscaped(nil, Terminal, text)
		}
	}
	return text
}

// OneLine returns text as a single line that is safe to print on a terminal. It replaces line feeds
// by \n and tabs by \t. It replaces other hidden characters and invalid UTF-8 as EscapeControls
// does.
func OneLine(text string) string { return string(AppendEscaped(nil, TerminalLine, []byte(text))) }

// Destination is the place at which a text will appear.
type Destination int

const (
	Terminal     Destination = iota // several lines: line feeds and tabs are not escaped
	TerminalLine                    // one line
	JSON                            // the text between the quotation marks of a JSON string
)

// EscapedMax is the largest number of bytes that AppendEscaped makes from one byte.
const EscapedMax = 6

// AppendEscaped appends text to safe, and escapes control characters and invalid UTF-8. In JSON,
// U+FFFD replaces bytes that are not valid UTF-8, as in encoding/json.
func AppendEscaped(safe []byte, destination Destination, text []byte) []byte {
	const digits = "0123456789abcdef"
	for at, size := 0, 0; at < len(text); at += size {
		b, r := text[at], rune(0)
		r, size = utf8.DecodeRune(text[at:])
		switch invalid := r == utf8.RuneError && size == 1; {
		case destination == JSON && (b == '"' || b == '\\'):
			safe = append(safe, '\\', b)
		case invalid && destination == JSON:
			safe = append(safe, `\ufffd`...)
		case invalid:
			safe = append(safe, '\\', 'x', digits[b>>4], digits[b&15])
		case destination == Terminal && (b == '\n' || b == '\t'):
			safe = append(safe, b)
		case destination == TerminalLine && b == '\n':
			safe = append(safe, `\n`...)
		case destination == TerminalLine && b == '\t':
			safe = append(safe, `\t`...)
		case fbs.IsHidden(r):
			if r > 0xffff { // the surrogates of UTF-16, as in JSON
				safe = appendEscape(safe, 0xd7c0+r>>10)
				r = 0xdc00 | r&0x3ff
			}
			safe = appendEscape(safe, r)
		default:
			safe = append(safe, text[at:at+size]...)
		}
	}
	return safe
}

const digits = "0123456789abcdef"

//go:noinline
func appendEscape(text []byte, unit rune) []byte {
	text = append(text, `\u`...)
	for shift := 12; shift >= 0; shift -= 4 {
		text = append(text, digits[unit>>shift&15])
	}
	return text
}
