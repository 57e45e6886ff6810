package boards

// WindowConfig is the content of a TLB window's registers; element 0 has the lower 64 bits.
type WindowConfig [2]uint64

// EncodeWindow returns the configuration with which a TLB window of group g shows the tiles t from
// `address` on. `ok` is false if there is no such configuration.
//
// Without FieldUseStaticVC, there is only static virtual channel 0, and FieldStaticVC is 1 for it.
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
		// A field may begin in w[0] and end in w[1].
		ok = ok && v>>l.FieldBits[i] == 0
		w[low/64] |= v << (low % 64)
		if low < 64 {
			w[1] |= v >> (64 - low)
		}
		low += l.FieldBits[i]
	}
	return w, ok
}

func isValidRoute(t TileRoute) bool {
	return t.NoC <= 1 && t.Ordering >= OrderingDefault && t.Ordering <= OrderingPosted &&
		(t.Multicast || t.XStart == 0 && t.YStart == 0)
}

// GroupOf returns the group of TLB window number `slot`, or nil.
func (l *TLBLayout) GroupOf(slot int) *WindowGroup {
	for i := range l.Groups {
		g := &l.Groups[i]
		if slot >= g.First && slot < g.First+g.Count {
			return g
		}
	}
	return nil
}

// WindowOffset returns the offset of TLB window number `slot` in its BAR.
func (g *WindowGroup) WindowOffset(slot int) uint64 {
	return g.Offset + uint64(slot-g.First)*g.Size
}

// IsOwnedByKernel reports whether the kernel driver uses TLB window number `slot`.
func (g *WindowGroup) IsOwnedByKernel(slot int) bool {
	return slot >= g.First+g.Count-g.KernelOwnedCount
}

// ChooseWindow returns the number of a TLB window of at least `size` bytes that lies inside its
// BAR, and is neither taken nor the kernel driver's: `preferred` if possible, else the lowest,
// which is also the smallest; or -1.
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
