// Package english writes counts and lists as English text, for reports and messages.
package english

import (
	"strconv"
	"strings"
)

// Number returns a number that is not negative, with a comma between thousands: "7,380".
func Number[T ~int | ~uint32 | ~uint64](n T) string {
	digits := strconv.FormatUint(uint64(n), 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// Count returns the number n with its noun, which is plural unless n is 1: "1 access",
// "2 accesses", "3 entries", "7,380 bytes".
func Count[T ~int | ~uint32 | ~uint64](n T, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "y"):
		noun = strings.TrimSuffix(noun, "y") + "ies"
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return Number(n) + " " + noun
}

// Join returns the texts of all items of a list with a separator between them.
func Join[T any](list []T, separator string, text func(T) string) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = text(item)
	}
	return strings.Join(texts, separator)
}
