package chips

// This file decodes the configuration of TLB windows.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Decode returns the tiles and address that a configuration points to: it is the inverse of
// TLB.EncodeWindow. ok is false if the configuration sets bits that EncodeWindow never sets
// (linked, reserved).
func Decode(l *boards.TLB, g *boards.Group, w boards.WindowConfig) (
	t fbs.TileRange, address uint64, ok bool) {
	field := func(i int) uint8 { return uint8(Extract(l, g, w, i)) }
	t = fbs.TileRange{
		X: field(boards.XEnd), Y: field(boards.YEnd), XStart: field(boards.XStart),
		YStart:   field(boards.YStart),
		NoC:      field(boards.NoC),
		Ordering: gen.OrderingDefault + gen.Ordering(field(boards.Ordering)),
		StaticVC: field(boards.StaticVC), Multicast: field(boards.Multicast) == 1,
	}
	if l.Fields[boards.UseStaticVC] != 0 {
		t.StaticVC = (t.StaticVC + 1) * field(boards.UseStaticVC)
	}
	address = w[0] & (1<<g.AddressBits - 1) * g.Size
	// If encoding the result does not restore w, then w sets other bits.
	again, ok := l.EncodeWindow(g, t, address)
	if !ok || again != w {
		return fbs.TileRange{}, 0, false
	}
	return t, address, true
}

// Extract returns the bits of one field of a configuration, which may be invalid.
func Extract(l *boards.TLB, g *boards.Group, w boards.WindowConfig, field int) uint64 {
	low := g.AddressBits
	for _, bits := range l.Fields[:field] {
		low += bits
	}
	v := w[low/64] >> (low % 64)
	if low < 64 {
		v |= w[1] << (64 - low)
	}
	return v & (1<<l.Fields[field] - 1)
}

// LoadRegister returns the value of a register of a configuration. inside is its offset.
func LoadRegister(w *boards.WindowConfig, inside uint64, width uint8) uint64 {
	return w[inside/8] >> (8 * (inside % 8)) & fbs.WidthMask(width)
}

// StoreRegister sets a register of a configuration. inside is its offset.
func StoreRegister(w *boards.WindowConfig, inside uint64, width uint8, value uint64) {
	shift := 8 * (inside % 8)
	w[inside/8] = w[inside/8]&^(fbs.WidthMask(width)<<shift) | value<<shift
}

// Slot returns the number of the TLB window at an offset in a BAR, and the offset inside it; ok
// is false if there is no window.
func Slot(l *boards.TLB, bar uint8, offset uint64) (slot int, inside uint64, ok bool) {
	for i := range l.Groups {
		g := &l.Groups[i]
		if g.Bar != bar || offset < g.Offset || offset-g.Offset >= uint64(g.Count)*g.Size {
			continue
		}
		return g.First + int((offset-g.Offset)/g.Size), (offset - g.Offset) % g.Size, true
	}
	return 0, 0, false
}

// Config returns the number of the TLB window that a register at an offset in a BAR configures,
// and the offset in that window's registers; ok is false if it is not such a register.
func Config(l *boards.TLB, bar uint8, offset uint64) (slot int, inside uint64, ok bool) {
	if bar != l.ConfigBar || offset < l.ConfigOffset {
		return 0, 0, false
	}
	slot = int((offset - l.ConfigOffset) / l.ConfigStride)
	return slot, (offset - l.ConfigOffset) % l.ConfigStride, l.GroupOf(slot) != nil
}
