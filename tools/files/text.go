package files

import (
	"unicode/utf8"

	"lightmetal/fbs"
)

// Safe returns text without what a terminal obeys: of the characters of
// fbs.IsControl only line ends and tabs stay. The others become \uXXXX, which is the same character
// in JSON, and bytes that are no UTF-8 \xXX.
func Safe(text []byte) []byte {
	for _, b := range text {
		if (b < ' ' || b >= 0x7f) && b != '\n' && b != '\t' {
			return escaped(text, false)
		}
	}
	return text
}

// Quote is a JSON string, as encoding/json makes it: bytes that are no UTF-8
// become U+FFFD. It is safe, too.
func Quote(text string) string { return `"` + string(escaped([]byte(text), true)) + `"` }

func escaped(text []byte, quoted bool) []byte {
	const digits = "0123456789abcdef"
	safe := make([]byte, 0, len(text)+16)
	for at, size := 0, 0; at < len(text); at += size {
		b, r := text[at], rune(0)
		r, size = utf8.DecodeRune(text[at:])
		switch control := fbs.IsControl(r); {
		case quoted && (b == '"' || b == '\\'):
			safe = append(safe, '\\', b)
		case r == utf8.RuneError && size == 1 && quoted:
			safe = append(safe, `\ufffd`...)
		case r == utf8.RuneError && size == 1:
			safe = append(safe, '\\', 'x', digits[b>>4], digits[b&15])
		case control && (quoted || b != '\n' && b != '\t'):
			safe = append(safe, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15],
				digits[r&15])
		default:
			safe = append(safe, text[at:at+size]...)
		}
	}
	return safe
}
