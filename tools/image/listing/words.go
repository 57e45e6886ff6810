package listing

import (
	"slices"
	"strconv"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// Words for the values of enums in a listing. A value without a word cannot be written; it is the
// default or invalid.
var (
	roleWords = []string{gen.RoleInput: "input", gen.RoleOutput: "output",
		gen.RoleScratch: "scratch"}
	accessWords    = []string{gen.AccessFixed: "fifo", gen.AccessBulk: "bulk"}
	conditionSigns = []string{gen.ConditionEqual: "==", gen.ConditionNotEqual: "!=",
		gen.ConditionReached: "reached"}
	placeWords    = []string{gen.PlaceValue: "value", gen.PlaceOffset: "offset"}
	policyWords   = []string{gen.PolicyFail: "fail", gen.PolicyIgnore: "ignore"}
	orderingWords = []string{boards.OrderingDefault: "default", boards.OrderingStrict: "strict",
		boards.OrderingPosted: "posted"}
	dtypeWords = lmb.DTypes
	kindWords  = []string{gen.WindowKindTlb: "tlb", gen.WindowKindHost: "host",
		gen.WindowKindConfig: "config"}
)

// wordOf returns the word of an enum's value. For a value without a word it returns text
// that no listing can contain.
func wordOf[T ~uint8 | ~uint16](words []string, value T) string {
	if int(value) < len(words) && words[value] != "" {
		return words[value]
	}
	return unknown(int(value))
}

// unknown returns text for a value that a listing cannot express. The question mark belongs
// to no token, so that the text never parses.
func unknown(value int) string { return "?" + strconv.Itoa(value) }

// nonEmpty returns the words that can be written.
func nonEmpty(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
}

// isName reports whether a name can be written without quotes.
func isName(text string) bool {
	for i := range len(text) {
		if !isWordByte(text[i]) {
			return false
		}
	}
	return text != "" && isLetter(text[0])
}

// windowNumber parses w0, w1 and so on. No other text refers to a window by number.
func windowNumber(text string) (n int, ok bool) {
	digits, ok := strings.CutPrefix(text, "w")
	if !ok || len(digits) > 4 {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && strconv.Itoa(n) == digits
}

// oneOf lists words for an error: a, b or c.
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// closest suggests the candidate that is most similar to a misspelt word, if one is similar enough.
func closest(word string, candidates []string) string {
	best, distance := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if d := editDistance(word, c); d < distance {
			best, distance = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// hint suggests a similar candidate. If none is similar, hint lists all of up to 8 candidates, or
// says that the listing declares none.
func hint(word, kind string, candidates []string) string {
	near := closest(word, candidates)
	switch {
	case near != "" || len(candidates) > 8:
		return near
	case len(candidates) == 0:
		return "; the listing declares no " + kind
	}
	return "; expected " + oneOf(candidates)
}

// editDistance returns the number of letters to insert, delete, replace or swap with an adjacent
// one to turn a into b.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
