package boards

import "lightmetal/fbs/gen"

// Words is the configuration of one window, as ConfigWords stores of
// ConfigWidth bytes hold it.
type Words [3]uint64

// Pack gives a configuration of words of width bytes as 16 bytes, the first
// eight and the next.
func (w *Words) Pack(width uint8) (low, high uint64) {
	if width == 8 {
		return w[0], w[1]
	}
	return w[0] | w[1]<<32, w[2]
}

// Encode gives the configuration that points a window of group g at address in
// the target. ok is false where the device cannot express it.
func (l *TLB) Encode(g *Group, t Target, address uint64) (w Words, ok bool) {
	f := &g.Fields
	if address%g.Size != 0 || !sound(t) {
		return Words{}, false
	}
	// Target counts channels from 1, and a device with a single bit has the first only.
	vc, numbered := uint64(t.StaticVC), t.StaticVC != 0 && f.UseStaticVC.Bits != 0
	if numbered {
		vc--
	}
	ok = l.insert(&w, f.Address, address/g.Size) &&
		l.insert(&w, f.XEnd, uint64(t.X)) &&
		l.insert(&w, f.YEnd, uint64(t.Y)) &&
		l.insert(&w, f.XStart, uint64(t.XStart)) &&
		l.insert(&w, f.YStart, uint64(t.YStart)) &&
		l.insert(&w, f.NoC, uint64(t.NoC)) &&
		(!t.Multicast || l.insert(&w, f.Multicast, 1)) &&
		l.insert(&w, f.Ordering, uint64(t.Ordering-gen.OrderingDefault)) &&
		(!numbered || l.insert(&w, f.UseStaticVC, 1)) && l.insert(&w, f.StaticVC, vc)
	if !ok {
		return Words{}, false
	}
	return w, true
}

// insert places v in the bits of a field, which are still zero; false where the
// field is too small for it.
func (l *TLB) insert(w *Words, f Field, v uint64) bool {
	if v>>f.Bits != 0 {
		return false
	}
	size := 8 * uint(l.ConfigWidth)
	i, shift := uint(f.Low)/size, uint(f.Low)%size
	w[i] |= v << shift & (^uint64(0) >> (64 - size))
	if shift+uint(f.Bits) > size {
		w[i+1] |= v >> (size - shift)
	}
	return true
}

// sound tells whether t is a target at all, on whatever device: there are two
// NoCs and three orderings, and a unicast has no start corner.
func sound(t Target) bool {
	return t.NoC <= 1 && t.Ordering >= gen.OrderingDefault && t.Ordering <= gen.OrderingPosted &&
		(t.Multicast || t.XStart == 0 && t.YStart == 0)
}

// Group gives the group that a window belongs to, nil for no such window.
func (l *TLB) Group(slot int) *Group {
	for i := range l.Groups {
		g := &l.Groups[i]
		if slot >= g.First && slot < g.First+g.Count {
			return g
		}
	}
	return nil
}

// Start is where window slot of the group starts in the group's BAR.
func (g *Group) Start(slot int) uint64 {
	return g.Offset + uint64(slot-g.First)*g.Size
}

// Kernel tells whether window slot of the group belongs to the kernel driver.
func (g *Group) Kernel(slot int) bool {
	return slot >= g.First+g.Count-g.KernelOwned
}

// Choose finds a hardware window of at least size bytes that is inside the
// device's BARs, not the kernel driver's and not taken: the preferred one, else
// the first. Groups go from small windows to large. It is -1 if there is none.
func (l *TLB) Choose(prefer uint16, size uint64, bars *[6]uint64, taken func(slot int) bool) int {
	fits := func(slot int) bool {
		g := l.Group(slot)
		return g != nil && g.Size >= size && !g.Kernel(slot) && g.Start(slot)+g.Size <= bars[g.Bar] && !taken(slot)
	}
	if fits(int(prefer)) {
		return int(prefer)
	}
	for slot := 0; l.Group(slot) != nil; slot++ {
		if fits(slot) {
			return slot
		}
	}
	return -1
}
