package boards

// This file computes the configuration of TLB windows, and chooses free TLB windows.

import "lightmetal/fbs/gen"

// WindowConfig is the configuration of one TLB window. The first element is the value of the
// first 8 bytes of registers; the second element is the value of the registers after them.
type WindowConfig [2]uint64

// EncodeWindow returns the configuration that makes a TLB window of group g show the given
// address of the tiles t. ok is false if the device has no such configuration; w is then
// invalid. t.StaticVC is 0 for no static virtual channel, and 1 + n for channel n. A device
// without the field UseStaticVC has only channel 0.
func (l *TLB) EncodeWindow(g *Group, t TileRange, address uint64) (w WindowConfig, ok bool) {
	vc, useVC, multicast := uint64(t.StaticVC), uint64(0), uint64(0)
	if l.Fields[UseStaticVC] != 0 && vc != 0 {
		vc, useVC = vc-1, 1
	}
	if t.Multicast {
		multicast = 1
	}
	w[0] = address / g.Size
	ok = address%g.Size == 0 && isValid(t) && w[0]>>g.AddressBits == 0
	low := g.AddressBits
	for i, v := range [...]uint64{
		XEnd:        uint64(t.X),
		YEnd:        uint64(t.Y),
		XStart:      uint64(t.XStart),
		YStart:      uint64(t.YStart),
		NoC:         uint64(t.NoC),
		Multicast:   multicast,
		Ordering:    uint64(t.Ordering - gen.OrderingDefault),
		UseStaticVC: useVC,
		StaticVC:    vc,
	} {
		// A value must fit in its field. A field may begin in w[0] and end in w[1].
		ok = ok && v>>l.Fields[i] == 0
		w[low/64] |= v << (low % 64)
		if low < 64 {
			w[1] |= v >> (64 - low)
		}
		low += l.Fields[i]
	}
	return w, ok
}

// isValid reports whether t can be valid on a device: t has one of two NoCs and one of three
// orderings, and XStart and YStart are 0 unless Multicast is set.
func isValid(t TileRange) bool {
	return t.NoC <= 1 && t.Ordering >= gen.OrderingDefault && t.Ordering <= gen.OrderingPosted &&
		(t.Multicast || t.XStart == 0 && t.YStart == 0)
}

// GroupOf returns the group of the TLB window with the number slot. It returns nil if the
// device has no TLB window with this number.
func (l *TLB) GroupOf(slot int) *Group {
	for i := range l.Groups {
		g := &l.Groups[i]
		if slot >= g.First && slot < g.First+g.Count {
			return g
		}
	}
	return nil
}

// WindowOffset returns the offset in the group's BAR of the TLB window with the number slot.
func (g *Group) WindowOffset(slot int) uint64 { return g.Offset + uint64(slot-g.First)*g.Size }

// OwnedByKernel reports whether the kernel driver uses the group's TLB window with the
// number slot.
func (g *Group) OwnedByKernel(slot int) bool { return slot >= g.First+g.Count-g.KernelOwned }

// ChooseWindow returns the number of a suitable TLB window: preferred if that TLB window is
// suitable, otherwise the first suitable one, which is one of the smallest because groups
// are sorted by size. A TLB window is suitable if it has at least size bytes, lies inside a
// BAR of the given barSizes, is not used by the kernel driver, and isTaken returns false.
// ChooseWindow returns -1 if no TLB window is suitable.
func (l *TLB) ChooseWindow(preferred uint16, size uint64, barSizes *[6]uint64,
	isTaken func(slot int) bool) int {
	isSuitable := func(slot int) bool {
		g := l.GroupOf(slot)
		return g != nil && g.Size >= size && !g.OwnedByKernel(slot) &&
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
