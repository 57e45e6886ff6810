package files

import (
	"unicode/utf8"

	"lightmetal/fbs"
)

// EscapeControls replaces hidden characters (see fbs.IsHidden), except line feed and tab, by
// \uXXXX, and bytes that are not valid UTF-8 by \xXX. JSON keeps its meaning: \uXXXX in it is the
// character.
func EscapeControls(text []byte) []byte {
	for _, b := range text {
		if (b < ' ' || b >= 0x7f) && b != '\n' && b != '\t' {
			return AppendEscaped(nil, Terminal, text)
		}
	}
	return text
}

// OneLine returns text as one line that is safe on a terminal. Line feeds become \n and tabs \t,
// the rest as EscapeControls does it.
func OneLine(text string) string { return string(AppendEscaped(nil, TerminalLine, []byte(text))) }

// Destination is where a text will appear.
type Destination int

const (
	Terminal Destination = iota // line feeds and tabs are not escaped
	TerminalLine
	JSON // between the quotation marks of a string
)

// EscapedMax is the most bytes that AppendEscaped makes from one byte.
const EscapedMax = 6

// AppendEscaped appends text, with control characters and invalid UTF-8 escaped. In JSON, U+FFFD
// replaces invalid UTF-8, as in encoding/json.
func AppendEscaped(safe []byte, destination Destination, text []byte) []byte {
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

// Inlining would enlarge the program.
//
//go:noinline
func appendEscape(text []byte, unit rune) []byte {
	text = append(text, `\u`...)
	for shift := 12; shift >= 0; shift -= 4 {
		text = append(text, digits[unit>>shift&15])
	}
	return text
}
