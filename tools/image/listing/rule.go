package listing

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
)

// rule declares the accesses that a range of a BAR accepts. The default is 32-bit accesses to the
// complete BAR.
func (p *parser) rule() {
	at := p.tok
	r := lmb.Rule{Name: p.name("a rule"), AccessRule: fbs.AccessRule{Widths: 4}}
	r.Bar = uint8(p.word("bar0 to bar5", barWords))
	var offset, size uint64
	p.parseOptions(ruleOptions(&r, &offset, &size))
	p.placeRule(&r, at, offset, size, slices.Contains(p.seenOptions, "size"))
}

func (p *printer) rule(r *lmb.Rule) {
	offset, size := r.First, r.Last-r.First+1
	p.printf("rule %s bar%d", nameText(r.Name), r.Bar)
	p.printOptions(ruleOptions(r, &offset, &size))
	p.printf("\n")
}

func ruleOptions(r *lmb.Rule, offset, size *uint64) []option {
	list := []option{
		offsetOption(offset),
		declaredSize(size),
		{"widths", func(p *parser) { r.Widths = p.widths() }, widthsText(r.Widths, " "), true},
		{"memory", func(*parser) { r.Memory = 1 }, "", r.Memory != 0},
	}
	return append(list, deviceNumberOptions(&r.Device)...)
}

// widths consumes one to four widths in bytes.
func (p *parser) widths() (widths uint8) {
	for widths == 0 || p.tok.kind == tokenWord && isDigit(p.tok.text[0]) {
		n := p.number("widths of accesses in bytes")
		if n > 8 || n == 0 || n&(n-1) != 0 || widths&uint8(n) != 0 {
			p.fail(p.last, "width %d is invalid or occurs twice; "+
				"the widths are 1, 2, 4 and 8 bytes", n)
		}
		widths |= uint8(n)
	}
	return widths
}

// placeRule inserts a rule in the order of lmb.CompareRules.
func (p *parser) placeRule(r *lmb.Rule, at token, offset, size uint64, sized bool) {
	t := p.deviceOf(r.Device, at, "rules")
	bar := t.Bars[r.Bar]
	if !sized {
		size = bar - min(offset, bar)
	}
	r.First, r.Last = offset, offset+size-1
	place, _ := slices.BinarySearchFunc(p.image.Rules, *r, lmb.CompareRules)
	switch board := boards.FindByID(t.Vendor, t.Device); {
	case board != nil:
		p.fail(at, "remove the rule: the device %04x:%04x is the board %s, which has its own rules",
			t.Vendor,
			t.Device, board.Name)
	case size == 0:
		p.fail(at, "the rule covers no bytes of bar%d of %s, whose size is %s", r.Bar, t.Board,
			lmb.SizeText(bar))
	case offset > bar || size > bar-offset:
		p.fail(at, "a rule for %s at offset 0x%x ends outside bar%d of %s, whose size is %s",
			lmb.SizeText(size),
			offset,
			r.Bar, t.Board, lmb.SizeText(bar))
	case len(p.image.Rules) == fbs.RulesMax:
		p.fail(at, "too many rules: a listing may have at most %d", fbs.RulesMax)
	case place > 0 && lmb.Overlap(r, &p.image.Rules[place-1]), place < len(p.image.Rules) &&
		lmb.Overlap(r, &p.image.Rules[place]):
		p.fail(at, "the rule overlaps another rule of bar%d", r.Bar)
	}
	p.image.Rules = slices.Insert(p.image.Rules, place, *r)
}

func widthsText(widths uint8, between string) string {
	var list []string
	for width := uint8(1); width <= 8; width *= 2 {
		if widths&width != 0 {
			list = append(list, fmt.Sprint(width))
		}
	}
	return strings.Join(list, between)
}
