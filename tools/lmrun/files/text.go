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
			return escapeFor(destinationTerminal, text)
		}
	}
	return text
}

// OneLine returns text as a single line that is safe to print on a terminal. It replaces line feeds
// by \n and tabs by \t. It replaces other hidden characters and invalid UTF-8 as EscapeControls
// does.
func OneLine(text string) string { return string(escapeFor(destinationOneLine, []byte(text))) }

// JSONString returns text as a JSON string with quotation marks. The result contains no control
// characters and is therefore safe to print on a terminal. Bytes that are not valid UTF-8 are
// replaced by U+FFFD, as encoding/json does.
func JSONString(text string) string {
	return `"` + string(escapeFor(destinationJSON, []byte(text))) + `"`
}

// Values of the parameter `destination` of escapeFor. They name the place at which the text will
// appear.
const (
	destinationTerminal = iota // several lines on a terminal: line feeds and tabs are not escaped
	destinationOneLine         // one line on a terminal
	destinationJSON            // the text between the quotation marks of a JSON string
)

// escapeFor returns a copy of text in which control characters and invalid UTF-8 are escaped. The
// parameter `destination` is destinationTerminal, destinationOneLine or destinationJSON.
func escapeFor(destination int, text []byte) []byte {
	safe := make([]byte, 0, len(text)+16)
	for at, size := 0, 0; at < len(text); at += size {
		b, r := text[at], rune(0)
		r, size = utf8.DecodeRune(text[at:])
		switch invalid := r == utf8.RuneError && size == 1; {
		case destination == destinationJSON && (b == '"' || b == '\\'):
			safe = append(safe, '\\', b)
		case invalid && destination == destinationJSON:
			safe = append(safe, `\ufffd`...)
		case invalid:
			safe = append(safe, '\\', 'x', digits[b>>4], digits[b&15])
		case destination == destinationTerminal && (b == '\n' || b == '\t'):
			safe = append(safe, b)
		case destination == destinationOneLine && b == '\n':
			safe = append(safe, `\n`...)
		case destination == destinationOneLine && b == '\t':
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
