package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// themes has the variables of the two themes of page.css.
var themes = map[string]map[string]string{
	"light": variablesOf(pageStyle[:strings.Index(pageStyle, "@media screen")]),
	"dark":  variablesOf(pageStyle[:strings.Index(pageStyle, "* { box-sizing")]),
}

// variablesOf returns the variables of a style sheet; a later definition replaces an earlier one.
func variablesOf(style string) map[string]string {
	values := map[string]string{}
	for _, m := range regexp.MustCompile(`--([a-z0-9-]+): ([^;]+);`).FindAllStringSubmatch(style,
		-1) {
		values[m[1]] = m[2]
	}
	return values
}

// linear returns the linear red, green and blue of a colour such as #0072b2, from 0 to 1.
func linear(t *testing.T, text string) (c [3]float64) {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "#"), 16, 24)
	if err != nil || len(text) != 7 {
		t.Fatalf("%q is not a colour", text)
	}
	for i := range c {
		v := float64(n>>(16-8*i)&0xff) / 255
		if c[i] = v / 12.92; v > 0.04045 {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

// contrast returns the contrast of two colours as WCAG 2.2 defines it, from 1 to 21.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(text string) float64 {
		c := linear(t, text)
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// TestTextHasEnoughContrast computes, for both themes, the contrast of every rule with a background
// and a colour, and of texts on the page, on cards and on bars. The least contrast is 4.5, the
// limit of WCAG 2.2 AA (1.4.3).
func TestTextHasEnoughContrast(t *testing.T) {
	pairs := [][2]string{{"soft", "paper"}, {"soft", "card"}, {"soft", "code"}, {"ink", "code"},
		{"ink", "bar"}, {"link", "paper"}, {"link", "card"}, {"link", "fail-paper"},
		{"ink", "card"}, {"ink", "fail-paper"}, {"ink", "target"}, {"soft", "target"},
		{"fail", "paper"}}
	rule := regexp.MustCompile(`background: var\(--([a-z0-9-]+)\);` +
		`[^}]*?\bcolor: var\(--([a-z0-9-]+)\)`)
	for _, m := range rule.FindAllStringSubmatch(pageStyle, -1) {
		pairs = append(pairs, [2]string{m[2], m[1]})
	}
	if len(pairs) < 35 {
		t.Fatalf("only %d pairs of colours were found in page.css, want at least 35", len(pairs))
	}
	for theme, values := range themes {
		for _, pair := range pairs {
			text, paper := values[pair[0]], values[pair[1]]
			if ratio := contrast(t, text, paper); ratio < 4.5 {
				t.Errorf("%s theme: %s on %s has a contrast of %.2f, want at least 4.5", theme,
					pair[0], pair[1], ratio)
			}
		}
	}
}

// TestNoOpcodeHasTheColourOfFailure compares colours by their distance in Oklab, where 0.02 is
// just visible.
func TestNoOpcodeHasTheColourOfFailure(t *testing.T) {
	class := regexp.MustCompile(`\.op-[a-z-]+ \{ background: var\(--([a-z-]+)\)`)
	opcodes := class.FindAllStringSubmatch(pageStyle, -1)
	if len(opcodes) != len(colouredOpcodes)+1 { // and "mixed"
		t.Fatalf("%d opcodes have a colour, want %d", len(opcodes), len(colouredOpcodes)+1)
	}
	for theme, values := range themes {
		failure := oklab(t, values["fail"])
		for _, m := range opcodes {
			color := oklab(t, values[m[1]])
			distance := math.Hypot(math.Hypot(color[0]-failure[0], color[1]-failure[1]),
				color[2]-failure[2])
			if distance < 0.15 {
				t.Errorf("%s theme: %s is %.3f from the colour of failure, want at least 0.15",
					theme, m[1], distance)
			}
		}
	}
}

// oklab returns a colour in Oklab (Ottosson, 2020).
func oklab(t *testing.T, text string) [3]float64 {
	t.Helper()
	c := linear(t, text)
	l := math.Cbrt(0.4122214708*c[0] + 0.5363325363*c[1] + 0.0514459929*c[2])
	m := math.Cbrt(0.2119034982*c[0] + 0.6806995451*c[1] + 0.1073969566*c[2])
	s := math.Cbrt(0.0883024619*c[0] + 0.2817188376*c[1] + 0.6299787005*c[2])
	return [3]float64{0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		1.9779984951*l - 2.4285922050*m + 0.4505937099*s,
		0.0259040371*l + 0.7827717662*m - 0.8086757660*s}
}

// TestStyleHasEveryClass: each opcode, kind and heat level of a picture has a rule, and every
// variable that a rule uses has a value.
func TestStyleHasEveryClass(t *testing.T) {
	classes := []string{"kind-" + kindSequence, "kind-" + kindCall, "kind-" + kindScope,
		"kind-" + kindPhase, "written", "read", "compared", "none", "router", opcodeClass("")}
	for _, word := range colouredOpcodes {
		classes = append(classes, opcodeClass(word))
	}
	for level := range heatLevels {
		classes = append(classes, fmt.Sprintf("heat%d", level+1))
	}
	for _, class := range classes {
		if !strings.Contains(pageStyle, "."+class+" {") {
			t.Errorf("page.css has no rule for %s", class)
		}
	}
	for _, m := range regexp.MustCompile(`var\(--([a-z0-9-]+)\)`).FindAllStringSubmatch(pageStyle,
		-1) {
		for theme, values := range themes {
			if values[m[1]] == "" {
				t.Errorf("%s theme: --%s has no value", theme, m[1])
			}
		}
	}
}
