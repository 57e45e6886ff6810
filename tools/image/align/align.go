// Package align finds what two lists have in common.
package align

import (
	"time"
	"unicode/utf8"

	"github.com/sergi/go-diff/diffmatchpatch"
)

// Pair is an index in each of two lists.
type Pair struct{ A, B int }

// Two lists with more than searchedWhole elements together are searched for at most searchMax. Then
// more elements than necessary may stay unpaired.
const searchedWhole, searchMax = 1 << 16, time.Minute

// Common returns pairs of equal elements, in rising order of both lists, as many as possible.
func Common[K comparable](a, b []K) (list []Pair) {
	runes := map[K]rune{}
	textA, textB := textOf(a, runes), textOf(b, runes)
	differ := diffmatchpatch.New()
	if differ.DiffTimeout = 0; len(a)+len(b) > searchedWhole {
		differ.DiffTimeout = searchMax
	}
	at := Pair{}
	for _, d := range differ.DiffMainRunes(textA, textB, false) {
		n := utf8.RuneCountInString(d.Text)
		switch d.Type {
		case diffmatchpatch.DiffDelete:
			at.A += n
		case diffmatchpatch.DiffInsert:
			at.B += n
		default:
			for i := range n {
				// If there are more distinct elements than runes, several share the last rune.
				if a[at.A+i] == b[at.B+i] {
					list = append(list, Pair{at.A + i, at.B + i})
				}
			}
			at = Pair{at.A + n, at.B + n}
		}
	}
	return list
}

// textOf returns a text with a rune for each element of a list.
func textOf[K comparable](list []K, runes map[K]rune) []rune {
	text := make([]rune, len(list))
	for i, k := range list {
		r, known := runes[k]
		if !known {
			r = runeOf(len(runes))
			runes[k] = r
		}
		text[i] = r
	}
	return text
}

// runeOf returns the nth rune, not counting surrogates, or the last rune if n is too large.
func runeOf(n int) rune {
	const surrogates, surrogatesEnd = 0xd800, 0xe000
	if n >= surrogates {
		n += surrogatesEnd - surrogates
	}
	return rune(min(n, utf8.MaxRune))
}
