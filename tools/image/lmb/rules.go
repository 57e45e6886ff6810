package lmb

import (
	"cmp"

	"lightmetal/boards"
	"lightmetal/fbs"
)

// CompareRules orders rules as in an image: by device, BAR and address.
func CompareRules(a, b Rule) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Bar, b.Bar),
		cmp.Compare(a.First, b.First))
}

// Overlap reports whether two rules contain the same byte.
func Overlap(a, b *Rule) bool {
	return a.Device == b.Device && a.Bar == b.Bar && a.First <= b.Last && b.First <= a.Last
}

// BoardOf returns the board of a device: the known board with its PCI ids, or one made of the
// image's rules. fbs.View.Board does the same for a verified file.
func (i *Image) BoardOf(device int) *boards.Board {
	t := &i.Devices[device]
	if known := boards.FindByID(t.Vendor, t.Device); known != nil {
		return known
	}
	b := &boards.Board{Name: t.Board, Vendor: t.Vendor, Device: t.Device,
		BarSizes: t.Bars}
	for _, r := range i.Rules {
		if int(r.Device) == device {
			b.Rules = append(b.Rules, boards.AccessRule{Bar: r.Bar, First: r.First, Last: r.Last,
				Widths: r.Widths, IsMemory: r.Memory != 0, Name: r.Name})
		}
	}
	return b
}

// RulesOf returns a board's rules for a device of an image, limited to the given BAR sizes. Rules
// for loads only are left out.
func RulesOf(b *boards.Board, device uint8, bars [6]uint64) (list []Rule) {
	for _, r := range b.Rules {
		if r.First >= bars[r.Bar] || r.LoadOnly {
			continue
		}
		rule := Rule{Name: r.Name, AccessRule: fbs.AccessRule{First: r.First, Last: min(r.Last,
			bars[r.Bar]-1),
			Device: device, Bar: r.Bar, Widths: r.Widths}}
		if r.IsMemory {
			rule.Memory = 1
		}
		list = append(list, rule)
	}
	return list
}
