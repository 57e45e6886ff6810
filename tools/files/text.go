package files

import "unicode/utf8"

const digits = "0123456789abcdef"

// Safe gives a text in which nothing is left that a terminal obeys: of the
// control characters of both sets only line ends and tabs. The others become
// \u00XX, which is the same character in JSON, and bytes that are no UTF-8 \xXX.
func Safe(text []byte) []byte {
	clean := 0
	for clean < len(text) && isPlain(text[clean]) {
		clean++
	}
	if clean == len(text) {
		return text
	}
	safe := append(make([]byte, 0, len(text)+16), text[:clean]...)
	for at := clean; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		switch b := text[at]; {
		case r == utf8.RuneError && size == 1:
			safe = append(safe, '\\', 'x', digits[b>>4], digits[b&15])
		case r < ' ' && !isPlain(b) || r >= 0x7f && r < 0xa0:
			safe = append(safe, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		default:
			safe = append(safe, text[at:at+size]...)
		}
		at += size
	}
	return safe
}

// Quote is a JSON string, as encoding/json makes it: bytes that are no UTF-8
// become U+FFFD. What else a terminal obeys is left to Safe.
func Quote(text string) string {
	quoted := []byte{'"'}
	for at, r := range text {
		switch {
		case r == '"' || r == '\\':
			quoted = append(quoted, '\\', byte(r))
		case r < ' ':
			quoted = append(quoted, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		case r == utf8.RuneError:
			quoted = append(quoted, `\ufffd`...)
		default:
			quoted = append(quoted, text[at:at+utf8.RuneLen(r)]...)
		}
	}
	return string(append(quoted, '"'))
}

func isPlain(b byte) bool { return b >= ' ' && b < 0x7f || b == '\n' || b == '\t' }
