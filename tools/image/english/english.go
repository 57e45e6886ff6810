// Package english writes counts and lists as English text, for reports and messages.
package english

import (
	"fmt"
	"strings"
)

// Count returns the number n with its noun, which is plural unless n is 1: "1 access",
// "2 accesses", "3 entries".
func Count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "y"):
		noun = strings.TrimSuffix(noun, "y") + "ies"
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Join returns the texts of all items of a list with a separator between them.
func Join[T any](list []T, separator string, text func(T) string) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = text(item)
	}
	return strings.Join(texts, separator)
}
