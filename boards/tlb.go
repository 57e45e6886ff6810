package boards

import "lightmetal/fbs/gen"

// Words is the configuration of one window: its first 8 bytes and the next.
type WindowConfig [2]uint64

// Encode gives the configuration that points a window of group g at address in
// the target. ok is false where the device cannot express it; w is then of no
// use. A static virtual channel is 0, none, or 1 + n, channel n; a device with
// a single bit for it has channel 0 only.
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
	for i, v := range [...]uint64{uint64(t.X), uint64(t.Y), uint64(t.XStart), uint64(t.YStart),
		uint64(t.NoC), multicast,
		uint64(t.Ordering - gen.OrderingDefault), 0, useVC, 0, vc} {
		ok = ok && v>>l.Fields[i] == 0
		w[low/64] |= v << (low % 64)
		if low < 64 {
			w[1] |= v >> (64 - low)
		}
		low += l.Fields[i]
	}
	return w, ok
}

// sound tells whether t is a target at all, on whatever device: there are two
// NoCs and three orderings, and a unicast has no start corner.
func isValid(t TileRange) bool {
	return t.NoC <= 1 && t.Ordering >= gen.OrderingDefault && t.Ordering <= gen.OrderingPosted &&
		(t.Multicast || t.XStart == 0 && t.YStart == 0)
}

// Group gives the group that a window belongs to, nil for no such window.
func (l *TLB) GroupOf(slot int) *Group {
	for i := range l.Groups {
		g := &l.Groups[i]
		if slot >= g.First && slot < g.First+g.Count {
			return g
		}
	}
	return nil
}

// Start is where window slot of the group starts in the group's BAR.
func (g *Group) WindowOffset(slot int) uint64 { return g.Offset + uint64(slot-g.First)*g.Size }

// Kernel tells whether window slot of the group belongs to the kernel driver.
func (g *Group) OwnedByKernel(slot int) bool { return slot >= g.First+g.Count-g.KernelOwned }

// Choose finds a hardware window of at least size bytes that is inside the
// device's BARs, not the kernel driver's and not taken: the preferred one, else
// the first. Groups go from small windows to large. It is -1 if there is none.
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
