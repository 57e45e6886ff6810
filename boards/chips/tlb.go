package chips

// This file decodes the configuration of TLB windows.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Decode returns the tiles and the address that a TLB window with the configuration w shows.
// Decode is the inverse of TLB.EncodeWindow. ok is false if the configuration sets bits that
// EncodeWindow never sets: Linked or reserved bits.
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
	// If the encoded result differs from w, w has bits set that EncodeWindow never sets.
	again, ok := l.EncodeWindow(g, t, address)
	if !ok || again != w {
		return fbs.TileRange{}, 0, false
	}
	return t, address, true
}

// Extract returns the value of one field of a configuration. The configuration need not be
// valid. field is an index of FieldWidths.
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

// LoadRegister returns the width bytes of a configuration from the offset inside on.
func LoadRegister(w *boards.WindowConfig, inside uint64, width uint8) uint64 {
	return w[inside/8] >> (8 * (inside % 8)) & fbs.WidthMask(width)
}

// StoreRegister sets the width bytes of a configuration from the offset inside on.
func StoreRegister(w *boards.WindowConfig, inside uint64, width uint8, value uint64) {
	shift := 8 * (inside % 8)
	w[inside/8] = w[inside/8]&^(fbs.WidthMask(width)<<shift) | value<<shift
}

// Slot returns the number of the TLB window that includes the given offset of a BAR, and the
// offset inside that TLB window. ok is false if no TLB window includes the offset.
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

// Config returns the number of the TLB window that the register at the given offset of a BAR
// programs, and the register's offset from the first register of that TLB window. ok is false
// if the offset has no register of a TLB window.
func Config(l *boards.TLB, bar uint8, offset uint64) (slot int, inside uint64, ok bool) {
	if bar != l.ConfigBar || offset < l.ConfigOffset {
		return 0, 0, false
	}
	slot = int((offset - l.ConfigOffset) / l.ConfigStride)
	return slot, (offset - l.ConfigOffset) % l.ConfigStride, l.GroupOf(slot) != nil
}
