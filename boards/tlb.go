package boards

// This file computes the configuration of TLB windows and selects free ones.

import "lightmetal/fbs/gen"

// WindowConfig is the configuration of one TLB window: its registers' first 8 bytes, and
// the bytes after them.
type WindowConfig [2]uint64

// EncodeWindow returns the configuration that points a TLB window of group g at an
// address of the tiles t. ok is false if the device cannot express it; w is then invalid.
// In t.StaticVC, 0 means no static virtual channel, and 1 + n means channel n. A device
// with only one bit for it has channel 0 only.
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
		// Each value must fit its field; a field may lie across the two words.
		ok = ok && v>>l.Fields[i] == 0
		w[low/64] |= v << (low % 64)
		if low < 64 {
			w[1] |= v >> (64 - low)
		}
		low += l.Fields[i]
	}
	return w, ok
}

// isValid reports whether t is valid on any device: there are two NoCs and three
// orderings, and a single tile has no start corner.
func isValid(t TileRange) bool {
	return t.NoC <= 1 && t.Ordering >= gen.OrderingDefault && t.Ordering <= gen.OrderingPosted &&
		(t.Multicast || t.XStart == 0 && t.YStart == 0)
}

// GroupOf returns the group of a TLB window, nil if there is no such window.
func (l *TLB) GroupOf(slot int) *Group {
	for i := range l.Groups {
		g := &l.Groups[i]
		if slot >= g.First && slot < g.First+g.Count {
			return g
		}
	}
	return nil
}

// WindowOffset returns the offset of TLB window slot in the group's BAR.
func (g *Group) WindowOffset(slot int) uint64 { return g.Offset + uint64(slot-g.First)*g.Size }

// OwnedByKernel reports whether the kernel driver uses TLB window slot of the group.
func (g *Group) OwnedByKernel(slot int) bool { return slot >= g.First+g.Count-g.KernelOwned }

// ChooseWindow returns the number of a TLB window of at least size bytes that lies inside
// the device's BARs, is not the kernel driver's and is not taken: prefer if possible, else
// the first. Groups are sorted by size, the smallest first. It returns -1 if none exists.
func (l *TLB) ChooseWindow(prefer uint16, size uint64, bars *[6]uint64,
	taken func(slot int) bool) int {
	fits := func(slot int) bool {
		g := l.GroupOf(slot)
		return g != nil && g.Size >= size && !g.OwnedByKernel(slot) &&
			g.WindowOffset(slot)+g.Size <= bars[g.Bar] && !taken(slot)
	}
	if fits(int(prefer)) {
		return int(prefer)
	}
	for slot := 0; l.GroupOf(slot) != nil; slot++ {
		if fits(slot) {
			return slot
		}
	}
	return -1
}
