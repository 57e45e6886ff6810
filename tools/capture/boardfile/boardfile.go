// Package boardfile describes PCI devices whose ids belong to no board in package boards. A board
// file is a listing (tools/image/listing/LANGUAGE.md) with one device and its rules, and nothing
// else. A user writes it by hand, or lm makes it from a device under /sys or from a recording.
// README.md explains how to use a device with it.
package boardfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// IsText reports whether a file starts like a board file, after comments.
func IsText(data []byte) bool {
	for line := range strings.Lines(string(data[:min(len(data), 4096)])) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return strings.HasPrefix(line, "lightmetal")
		}
	}
	return false
}

// Parse parses a board file. name is used in errors.
func Parse(name string, text []byte) (*lmb.Image, error) {
	image, err := listing.Parse(name, text, func(string) ([]byte, error) {
		return nil, errors.New("a board file cannot contain data: remove this line")
	})
	switch {
	case err != nil:
		return nil, err
	case len(image.Devices) != 1 || len(image.Windows)+len(image.Tensors)+len(image.Sequences) > 0:
		return nil, fmt.Errorf("%s: a board file must have exactly one `device` line, "+
			"and otherwise only `rule` lines", name)
	case len(image.Rules) == 0:
		return nil,
			fmt.Errorf("%s: the board file has no rules, so no access is allowed; "+
				"a line `rule registers bar0` allows 32-bit accesses to all of BAR 0", name)
	}
	if b := chips.BoardByName(image.Devices[0].Board); b != nil {
		return nil,
			fmt.Errorf("%s: lm has a board with the name %q and other PCI ids; "+
				"choose another name", name, b.Name)
	}
	return image, nil
}

// unknownBarSize is the size of a BAR whose real size is unknown.
const unknownBarSize = 1 << 40

// Generic returns a board without ids, for any device. It accepts 32-bit accesses in all BARs,
// except where rules (see ParseRule) differ.
func Generic(rules []string) (*boards.Board, error) {
	b := &boards.Board{Name: "generic"}
	for bar := range b.BarSizes {
		b.BarSizes[bar] = unknownBarSize
	}
	var own []boards.AccessRule
	for _, text := range rules {
		rule, err := ParseRule(text)
		if err != nil {
			return nil, err
		}
		own = append(own, rule)
	}
	var err error
	b.Rules, err = overlay(registerRules(b.BarSizes), own)
	return b, err
}

// With returns a copy of a board in which rules (see ParseRule) override the board's own.
func With(b *boards.Board, rules []string) (*boards.Board, error) {
	over, err := Generic(rules)
	if err != nil {
		return nil, err
	}
	changed := *b
	own := slices.DeleteFunc(over.Rules,
		func(r boards.AccessRule) bool { return r.Name == registers })
	for _, r := range own {
		if size := b.BarSizes[r.Bar]; r.First >= size {
			return nil, fmt.Errorf("a --rule for BAR %d starts at 0x%x, "+
				"but BAR %d of board %s has only 0x%x bytes",
				r.Bar, r.First, r.Bar, b.Name, size)
		}
	}
	for i := range own {
		own[i].Last = min(own[i].Last, b.BarSizes[own[i].Bar]-1)
	}
	changed.Rules, err = overlay(b.Rules, own)
	return &changed, err
}

// Names of rules to which the user has given no name.
const (
	registers = "registers"
	memory    = "memory"
)

// registerRules returns rules for 32-bit registers in every BAR.
func registerRules(bars [6]uint64) (rules []boards.AccessRule) {
	for bar, size := range bars {
		if size >= 4 {
			rules = append(rules, boards.AccessRule{Bar: uint8(bar), Last: size&^3 - 1, Widths: 4,
				Name: registers})
		}
	}
	return rules
}

// ParseRule parses BAR+OFFSET..END=WIDTHS[,memory], or BAR=WIDTHS[,memory] for a complete BAR. END
// is the offset after the last byte.
func ParseRule(text string) (r boards.AccessRule, err error) {
	bad := func(why string) (boards.AccessRule, error) {
		return r,
			fmt.Errorf("--rule %s: %s; write BAR+OFFSET..END=WIDTHS[,memory], "+
				"such as 0+0x1000..0x2000=4,8 or 2=1,2,4,8,memory", text, why)
	}
	place, widths, ok := strings.Cut(text, "=")
	if !ok {
		return bad("=WIDTHS is missing")
	}
	bar, span, part := strings.Cut(place, "+")
	n, err := strconv.ParseUint(strings.TrimPrefix(bar, "bar"), 10, 8)
	if err != nil || n > 5 {
		return bad("the BAR must be 0 to 5")
	}
	r.Bar, r.Last = uint8(n), unknownBarSize-1
	if part {
		first, end, ok := strings.Cut(span, "..")
		from, err1 := strconv.ParseUint(first, 0, 64)
		to, err2 := strconv.ParseUint(end, 0, 64)
		if !ok || err1 != nil || err2 != nil || from >= to || to > unknownBarSize {
			return bad("OFFSET and END must be numbers, OFFSET < END <= 2^40")
		}
		r.First, r.Last = from, to-1
	}
	r.Name = fmt.Sprintf("at 0x%x", r.First)
	for _, word := range strings.Split(widths, ",") {
		width, err := strconv.ParseUint(word, 10, 8)
		switch {
		case word == memory:
			r.IsMemory, r.Name = true, memory
		case err != nil || width == 0 || width > 8 || width&(width-1) != 0:
			return bad("each width must be 1, 2, 4 or 8")
		default:
			r.Widths |= uint8(width)
		}
	}
	least := uint64(r.Widths & -r.Widths)
	if least == 0 {
		return bad("a width is missing after =")
	}
	if r.First%least != 0 || (r.Last+1)%least != 0 {
		return bad("OFFSET and END must be multiples of the smallest width")
	}
	return r, nil
}

// overlay returns the rules in `over`, and the parts of rules in `under` that they do not cover,
// sorted by BAR and offset.
func overlay(under, over []boards.AccessRule) ([]boards.AccessRule, error) {
	for i, r := range over {
		for _, other := range over[:i] {
			if overlap(r, other) {
				return nil, fmt.Errorf("two rules contain byte 0x%x of BAR %d; "+
					"remove the byte from one of them",
					max(r.First, other.First), r.Bar)
			}
		}
		left := make([]boards.AccessRule, 0, len(under)+1)
		for _, u := range under {
			if !overlap(u, r) {
				left = append(left, u)
				continue
			}
			if u.First < r.First {
				front := u
				front.Last = r.First - 1
				left = append(left, alignRule(front))
			}
			if u.Last > r.Last {
				u.First = r.Last + 1
				left = append(left, alignRule(u))
			}
		}
		under = left
	}
	all := slices.DeleteFunc(append(under, over...),
		func(r boards.AccessRule) bool { return r.First > r.Last })
	slices.SortFunc(all,
		func(a, b boards.AccessRule) int {
			return cmp.Or(cmp.Compare(a.Bar, b.Bar), cmp.Compare(a.First, b.First))
		})
	if len(all) > fbs.RulesMax {
		return nil, fmt.Errorf("there are %d access rules, but an image may have at most %d: "+
			"use fewer or larger ranges in --rule", len(all), fbs.RulesMax)
	}
	return all, nil
}

// alignRule shrinks a rule to multiples of its least width. If nothing is left, Last is less than
// First.
func alignRule(r boards.AccessRule) boards.AccessRule {
	least := uint64(r.Widths & -r.Widths)
	r.First = (r.First + least - 1) &^ (least - 1)
	r.Last = (r.Last+1)&^(least-1) - 1
	if r.Last+1 == 0 {
		r.First, r.Last = 1, 0
	}
	return r
}

func overlap(a, b boards.AccessRule) bool {
	return a.Bar == b.Bar && a.First <= b.Last && b.First <= a.Last
}
