package chips

import (
	"lightmetal/boards"
)

// DecodeWindow returns the tiles and the address that a TLB window of group g with the
// configuration w shows. It is the inverse of TLBLayout.EncodeWindow. `ok` is false if EncodeWindow
// never returns w, for example because its field Linked or a reserved bit is set.
func DecodeWindow(l *boards.TLBLayout, g *boards.WindowGroup, w boards.WindowConfig) (
	t boards.TileRoute, address uint64, ok bool) {
	field := func(i int) uint8 { return uint8(ExtractField(l, g, w, i)) }
	t = boards.TileRoute{
		X: field(boards.FieldXEnd), Y: field(boards.FieldYEnd), XStart: field(boards.FieldXStart),
		YStart:          field(boards.FieldYStart),
		NoC:             field(boards.FieldNoC),
		Ordering:        boards.OrderingDefault + boards.Ordering(field(boards.FieldOrdering)),
		StaticVCPlusOne: field(boards.FieldStaticVC), Multicast: field(boards.FieldMulticast) == 1,
	}
	if l.FieldBits[boards.FieldUseStaticVC] != 0 {
		t.StaticVCPlusOne = (t.StaticVCPlusOne + 1) * field(boards.FieldUseStaticVC)
	}
	address = w[0] & (1<<g.AddressBits - 1) * g.Size
	again, ok := l.EncodeWindow(g, t, address)
	if !ok || again != w {
		return boards.TileRoute{}, 0, false
	}
	return t, address, true
}

// ExtractField returns one field of the configuration w, which need not be valid. `field` is an
// index in boards.FieldBits.
func ExtractField(l *boards.TLBLayout, g *boards.WindowGroup, w boards.WindowConfig,
	field int) uint64 {
	low := g.AddressBits
	for _, bits := range l.FieldBits[:field] {
		low += bits
	}
	v := w[low/64] >> (low % 64)
	if low < 64 {
		v |= w[1] << (64 - low)
	}
	return v & (1<<l.FieldBits[field] - 1)
}

// LoadRegister simulates a load of `width` bytes from the registers of a TLB window with the
// configuration w. `offset` counts from the first of these registers.
func LoadRegister(w *boards.WindowConfig, offset uint64, width uint8) uint64 {
	return w[offset/8] >> (8 * (offset % 8)) & (1<<(8*width) - 1)
}

// StoreRegister simulates a store of `width` bytes to the registers of a TLB window: it changes
// their configuration w. `offset` counts from the first of these registers.
func StoreRegister(w *boards.WindowConfig, offset uint64, width uint8, value uint64) {
	shift := 8 * (offset % 8)
	mask := uint64(1)<<(8*width) - 1
	w[offset/8] = w[offset/8]&^(mask<<shift) | value<<shift
}

// SlotAt returns the number of the TLB window at this offset of a BAR, and the offset in that TLB
// window. `ok` is false if no TLB window is there.
func SlotAt(l *boards.TLBLayout, bar uint8, offset uint64) (
	slot int, offsetInWindow uint64, ok bool) {
	for i := range l.Groups {
		g := &l.Groups[i]
		if g.Bar != bar || offset < g.Offset || offset-g.Offset >= uint64(g.Count)*g.Size {
			continue
		}
		return g.First + int((offset-g.Offset)/g.Size), (offset - g.Offset) % g.Size, true
	}
	return 0, 0, false
}

// SlotOfRegister returns the number of the TLB window with a register at this offset of a BAR, and
// the distance from its first register. `ok` is false if no TLB window has one there.
func SlotOfRegister(l *boards.TLBLayout, bar uint8, offset uint64) (
	slot int, offsetInSlot uint64, ok bool) {
	if bar != l.ConfigBar || offset < l.ConfigOffset {
		return 0, 0, false
	}
	slot = int((offset - l.ConfigOffset) / l.ConfigStride)
	return slot, (offset - l.ConfigOffset) % l.ConfigStride, l.GroupOf(slot) != nil
}
