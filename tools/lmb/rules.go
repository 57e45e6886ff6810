package lmb

import (
	"cmp"

	"lightmetal/boards"
	"lightmetal/fbs"
)

// CompareRules orders rules as an image has them: by target, BAR and place.
func CompareRules(a, b Rule) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Bar, b.Bar),
		cmp.Compare(a.First, b.First))
}

// Overlap tells whether two rules say something of one byte.
func Overlap(a, b *Rule) bool {
	return a.Device == b.Device && a.Bar == b.Bar && a.First <= b.Last && b.First <= a.Last
}

// BoardOf is what is known of a target: by its ids, or by the rules of the image.
// fbs.View.Board is the same of a verified file.
func (i *Image) BoardOf(target int) *boards.Board {
	t := &i.Devices[target]
	if known := boards.FindByID(t.Vendor, t.Device); known != nil {
		return known
	}
	b := &boards.Board{Name: t.Board, Title: t.Board, Vendor: t.Vendor, Device: t.Device,
		Bars: t.Bars}
	for _, r := range i.Rules {
		if int(r.Device) == target {
			b.Rules = append(b.Rules, boards.Rule{Bar: r.Bar, First: r.First, Last: r.Last,
				Widths: r.Widths, Memory: r.Memory != 0, Name: r.Name})
		}
	}
	return b
}

// RulesOf are the rules of a board as an image has them for a target, as far as
// they lie in BARs of these sizes.
func RulesOf(b *boards.Board, target uint8, bars [6]uint64) (list []Rule) {
	for _, r := range b.Rules {
		if r.First >= bars[r.Bar] || r.LoadOnly {
			continue
		}
		rule := Rule{Name: r.Name, Rule: fbs.Rule{First: r.First, Last: min(r.Last, bars[r.Bar]-1),
			Device: target, Bar: r.Bar, Widths: r.Widths}}
		if r.Memory {
			rule.Memory = 1
		}
		list = append(list, rule)
	}
	return list
}
