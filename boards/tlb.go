package boards

// This file computes the configuration of TLB windows, and chooses free TLB windows.

// WindowConfig is the configuration of one TLB window: the content of the registers that program
// the TLB window, as one little-endian number. Element 0 has the lower 64 bits.
type WindowConfig [2]uint64

// EncodeWindow returns the configuration with which a TLB window of the group `g` shows the tiles
// `t` from the given address on. If the device has no such configuration, `ok` is false, and `w` is
// not valid.
//
// t.StaticVCPlusOne is 0 if the route has no static virtual channel, and 1 + n for channel n. If
// the layout has the field FieldUseStaticVC, this field is 1 for a static channel, and
// FieldStaticVC is n. Without FieldUseStaticVC, n can only be 0, and FieldStaticVC is 1 for a
// static channel, else 0.
func (l *TLBLayout) EncodeWindow(g *WindowGroup, t TileRoute, address uint64) (
	w WindowConfig, ok bool) {
	vc, useVC, multicast := uint64(t.StaticVCPlusOne), uint64(0), uint64(0)
	if l.FieldBits[FieldUseStaticVC] != 0 && vc != 0 {
		vc, useVC = vc-1, 1
	}
	if t.Multicast {
		multicast = 1
	}
	w[0] = address / g.Size
	ok = address%g.Size == 0 && isValidRoute(t) && w[0]>>g.AddressBits == 0
	low := g.AddressBits
	for i, v := range [...]uint64{
		FieldXEnd:        uint64(t.X),
		FieldYEnd:        uint64(t.Y),
		FieldXStart:      uint64(t.XStart),
		FieldYStart:      uint64(t.YStart),
		FieldNoC:         uint64(t.NoC),
		FieldMulticast:   multicast,
		FieldOrdering:    uint64(t.Ordering - OrderingDefault),
		FieldUseStaticVC: useVC,
		FieldStaticVC:    vc,
	} {
		// Reject a value that does not fit in its field. Store the value in the configuration, from
		// bit number `low` on. A field may begin in w[0] and end in w[1].
		ok = ok && v>>l.FieldBits[i] == 0
		w[low/64] |= v << (low % 64)
		if low < 64 {
			w[1] |= v >> (64 - low)
		}
		low += l.FieldBits[i]
	}
	return w, ok
}

// isValidRoute reports whether the fields of `t` have allowed values: NoC is 0 or 1, Ordering is
// one of the three orderings, and XStart and YStart are 0 unless Multicast is set. A particular
// device may still reject `t`.
func isValidRoute(t TileRoute) bool {
	return t.NoC <= 1 && t.Ordering >= OrderingDefault && t.Ordering <= OrderingPosted &&
		(t.Multicast || t.XStart == 0 && t.YStart == 0)
}

// GroupOf returns the group that contains TLB window number `slot`, or nil if the device has no TLB
// window with this number.
func (l *TLBLayout) GroupOf(slot int) *WindowGroup {
	for i := range l.Groups {
		g := &l.Groups[i]
		if slot >= g.First && slot < g.First+g.Count {
			return g
		}
	}
	return nil
}

// WindowOffset returns the offset of TLB window number `slot` in its BAR. The TLB window must
// belong to group `g`.
func (g *WindowGroup) WindowOffset(slot int) uint64 {
	return g.Offset + uint64(slot-g.First)*g.Size
}

// IsOwnedByKernel reports whether the kernel driver itself uses TLB window number `slot`. The TLB
// window must belong to group `g`.
func (g *WindowGroup) IsOwnedByKernel(slot int) bool {
	return slot >= g.First+g.Count-g.KernelOwnedCount
}

// ChooseWindow returns the number of a suitable TLB window, or -1 if no TLB window is suitable. A
// suitable TLB window has at least `size` bytes and lies inside its BAR. The kernel driver does not
// use it, and isTaken returns false for its number. barSizes has the size of each BAR in bytes.
//
// If the TLB window with the number `preferred` is suitable, ChooseWindow returns that number.
// Otherwise it returns the lowest number of a suitable TLB window. This is also the smallest
// suitable TLB window, because the groups are sorted by size.
func (l *TLBLayout) ChooseWindow(preferred uint16, size uint64, barSizes *[6]uint64,
	isTaken func(slot int) bool) int {
	isSuitable := func(slot int) bool {
		g := l.GroupOf(slot)
		return g != nil && g.Size >= size && !g.IsOwnedByKernel(slot) &&
			g.WindowOffset(slot)+g.Size <= barSizes[g.Bar] && !isTaken(slot)
	}
	if isSuitable(int(preferred)) {
		return int(preferred)
	}
	for slot := 0; l.GroupOf(slot) != nil; slot++ {
		if isSuitable(slot) {
			return slot
		}
	}
	return -1
}
