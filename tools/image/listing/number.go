package listing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
)

// unit is a suffix of a number. Units are listed with the largest first. unitText uses the first
// unit that divides the number, and numberIn the last one whose suffix matches (ms and us also end
// with s).
type unit struct {
	suffix string
	factor uint64
}

var (
	sizeUnits     = []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
	durationUnits = []unit{{"s", 1_000_000}, {"ms", 1000}, {"us", 1}}
)

// parseNumber parses 12, 0x1f, 0b101 or 1_000. A reason that is not empty is an error.
func parseNumber(text string) (n uint64, reason string) {
	octal := len(text) > 1 && text[0] == '0' && !strings.ContainsRune("xXbB", rune(text[1]))
	n, err := strconv.ParseUint(text, 0, 64)
	switch {
	case octal:
		return 0, "a number must not start with 0; write 10, 0x10 or 0b10"
	case err != nil && err.(*strconv.NumError).Err == strconv.ErrRange:
		return 0, "the number does not fit into 64 bits"
	case err != nil:
		return 0, "not a number"
	}
	return n, ""
}

// numberIn consumes a number with one of the units. Without `optional`, a unit is required.
func (p *parser) numberIn(what string, units []unit, optional bool) uint64 {
	t := p.tok
	if t.kind != tokenWord {
		p.fail(t, "expected %s, found %s", what, t)
	}
	text, factor := t.text, uint64(0)
	for _, u := range slices.Backward(units) {
		if cut, ok := strings.CutSuffix(text, u.suffix); ok {
			text, factor = cut, u.factor
			break
		}
	}
	n, reason := parseNumber(text)
	switch {
	case reason == "not a number":
		p.fail(t, "expected %s, found %s", what, t)
	case reason != "":
		p.fail(t, "%s", reason)
	case factor == 0 && !optional:
		p.fail(t, "expected %s with a unit, such as 10us, 5ms or 1s; found %s", what, t)
	case n > math.MaxUint64/max(factor, 1):
		p.fail(t, "the number does not fit into 64 bits")
	}
	p.advance()
	return n * max(factor, 1)
}

func (p *parser) number(what string) uint64 { return p.numberIn(what, nil, true) }

func (p *parser) size(what string) uint64 { return p.numberIn(what, sizeUnits, true) }

func (p *parser) numberUpTo(what string, most uint64) uint64 {
	n := p.number(what)
	if n > most {
		p.fail(p.last, "%s must be at most %d", what, most)
	}
	return n
}

// duration consumes a time and returns it in microseconds.
func (p *parser) duration(what string, most uint64) uint64 {
	n := p.numberIn(what, durationUnits, false)
	if n > most {
		p.fail(p.last, "%s must be at most %s", what, durationText(most))
	}
	return n
}

// nonzeroDuration consumes a time, which must not be 0, and returns it in microseconds.
func (p *parser) nonzeroDuration(noun string, most uint64) uint64 {
	n := p.duration("a "+noun, most)
	if n == 0 {
		p.fail(p.last, "the %s must not be 0", noun)
	}
	return n
}

// value consumes a number that fits an access of width bytes.
func (p *parser) value(what string, width uint8) uint64 {
	n := p.number(what)
	if n&^fbs.WidthMask(width) != 0 {
		p.fail(p.last, "the value 0x%x does not fit into %s", n, lmb.SizeText(uint64(width)))
	}
	return n
}

// pciID consumes one half of PCI ids such as 1234:11e8, in hex as in the output of lspci.
func (p *parser) pciID() uint16 {
	n, err := strconv.ParseUint(p.tok.text, 16, 16)
	if p.tok.kind != tokenWord || len(p.tok.text) != 4 || err != nil {
		p.fail(p.tok, "expected PCI ids in hex such as 1234:11e8, found %s", p.tok)
	}
	p.advance()
	return uint16(n)
}

// float32Bits consumes a decimal number from least to most, and returns its bits. A hex number
// specifies the bits directly, which may be out of range.
func (p *parser) float32Bits(what string, least, most float64) uint32 {
	t := p.tok
	bits, err := strconv.ParseUint(t.text, 0, 32)
	if !strings.HasPrefix(t.text, "0x") {
		var x float64
		x, err = strconv.ParseFloat(t.text, 32)
		bits = uint64(math.Float32bits(float32(x)))
		if err == nil && !(x >= least && x <= most) {
			err = strconv.ErrRange
		}
	}
	if t.kind != tokenWord || err != nil {
		p.fail(t, "expected %s, found %s", what, t)
	}
	p.advance()
	return uint32(bits)
}

func float32Text(bits uint32, least, most float64) string {
	x := float64(math.Float32frombits(bits))
	if !(x >= least && x <= most) {
		return fmt.Sprintf("0x%08x", bits)
	}
	return strings.Replace(strconv.FormatFloat(x, 'g', -1, 32), "e+", "e", 1)
}

func unitText(n uint64, units []unit) string {
	for _, u := range units {
		if n%u.factor == 0 && (n > 0 || u.factor == 1) {
			return strconv.FormatUint(n/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatUint(n, 10)
}

func sizeText(n uint64) string      { return unitText(n, sizeUnits) }
func durationText(us uint64) string { return unitText(us, durationUnits) }
