package hosts

// BAR describes the addresses that a device needs for one of its BARs.
type BAR struct {
	Size         uint64 // size in bytes, a power of two; 0: the device has no such BAR
	Prefetchable bool   // the BAR is prefetchable and 64 bits wide: it may lie above 4 GiB
}

const (
	// The size and the address of a bridge window are multiples of this number of bytes (PCI-to-PCI
	// Bridge Architecture Specification 1.2, section 3.2.5).
	bridgeWindowAlign = 1 << 20

	// A 32-bit BAR must lie below this address.
	bar32AddressEnd = 1 << 32
)

// barGroup lists all prefetchable BARs of a device, or all others. They get consecutive addresses
// in descending order of size, so that the address of each is a multiple of its size.
type barGroup struct {
	prefetchable bool
	bars         []int  // numbers of the BARs
	largestSize  uint64 // of one BAR, in bytes
	totalSize    uint64 // of all BARs, in bytes
}

// AssignAddresses returns the PCI address that Linux gives each BAR of a device at the port, or nil
// if the port does not have enough free addresses.
//
// In Linux (drivers/pci/setup-bus.c and setup-res.c), the bridge of a root port has two windows,
// and each bridge window is one range of addresses. Prefetchable BARs use the prefetchable bridge
// window. All other BARs use the other bridge window, which ends below 4 GiB. Linux may place the
// prefetchable bridge window in a window of the host that is not prefetchable.
func (p *Port) AssignAddresses(bars []BAR) []uint64 {
	groups := groupByPrefetchable(bars)
	if groups[0].largestSize < groups[1].largestSize {
		// The group with the largest BAR is harder to align: assign its addresses first.
		groups[0], groups[1] = groups[1], groups[0]
	}
	placed := make([]uint64, len(bars))
	nextFree := make([]uint64, len(p.Windows.Value)) // first free PCI address of each window
	for i, w := range p.Windows.Value {
		nextFree[i] = w.PCIAddress
	}
	for _, g := range groups {
		start, ok := p.allocateAddresses(&g, nextFree)
		if !ok {
			return nil
		}
		for _, i := range g.bars {
			placed[i] = start
			start += bars[i].Size
		}
	}
	return placed
}

// groupByPrefetchable returns the group of the prefetchable BARs, then that of all others.
func groupByPrefetchable(bars []BAR) [2]barGroup {
	groups := [2]barGroup{{prefetchable: true}, {}}
	for size := uint64(1) << 63; size > 0; size >>= 1 {
		for i, b := range bars {
			for j := range groups {
				if g := &groups[j]; b.Size == size && b.Prefetchable == g.prefetchable {
					g.bars = append(g.bars, i)
					g.largestSize = max(g.largestSize, size)
					g.totalSize += size
				}
			}
		}
	}
	return groups
}

// allocateAddresses allocates addresses for a group of BARs in the first window with enough free
// addresses, and returns the first. It updates nextFree, the first free address of each window.
// `ok` is false if no window has enough.
func (p *Port) allocateAddresses(g *barGroup, nextFree []uint64) (start uint64, ok bool) {
	if g.totalSize == 0 {
		return 0, true
	}
	sum := alignUp(g.totalSize, bridgeWindowAlign)
	// Prefetchable BARs use a prefetchable window if possible, and otherwise another window.
	for _, wantPrefetchable := range [...]bool{g.prefetchable, false} {
		for w, window := range p.Windows.Value {
			start := alignUp(nextFree[w], max(g.largestSize, bridgeWindowAlign))
			end := window.PCIAddress + window.Size
			if !g.prefetchable {
				end = min(end, bar32AddressEnd)
			}
			if window.Prefetchable == wantPrefetchable && start <= end && sum <= end-start {
				nextFree[w] = start + sum
				return start, true
			}
		}
	}
	return 0, false
}

// alignUp rounds v up to a multiple of `align`, which must be a power of two.
func alignUp(v, align uint64) uint64 { return (v + align - 1) &^ (align - 1) }
