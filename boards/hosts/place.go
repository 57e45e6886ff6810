package hosts

// BAR is what a device asks of a port.
type BAR struct {
	Size         uint64 // bytes, a power of two; 0: none
	Wide         bool   // takes addresses above 4 GiB
	Prefetchable bool
}

const (
	bridgeStep = 1 << 20 // the unit of a bridge's windows (PCI-to-PCI Bridge 1.2, 3.2.5)
	narrowEnd  = 1 << 32
)

// Place gives the PCI address of each BAR of a device behind the port, nil
// where they do not all fit. As Linux does it, prefetchable wide BARs go
// through the root port's prefetchable window and all others through its other
// one, which ends below 4 GiB; each is one run of addresses, and the
// prefetchable one may lie in a window of the host that is not (drivers/pci
// setup-bus.c and setup-res.c).
func (p *Port) Place(bars []BAR) []uint64 {
	placed := make([]uint64, len(bars))
	next := make([]uint64, len(p.Windows.Value)) // first free address of each window
	for i, w := range p.Windows.Value {
		next[i] = w.PCI
	}
	for _, prefetchable := range largerFirst(bars) {
		var group []int
		for i := range bars {
			if bars[i].Size != 0 && bars[i].through() == prefetchable {
				group = append(group, i)
			}
		}
		if len(group) > 0 && !p.placeGroup(bars, group, prefetchable, next, placed) {
			return nil
		}
	}
	return placed
}

// through tells which of a bridge's two windows a BAR goes through.
func (b BAR) through() (prefetchable bool) { return b.Wide && b.Prefetchable }

// largerFirst gives the two kinds of BAR, the one with the largest first: it
// is the harder to align.
func largerFirst(bars []BAR) [2]bool {
	var largest [2]uint64
	for _, b := range bars {
		k := 0
		if b.through() {
			k = 1
		}
		largest[k] = max(largest[k], b.Size)
	}
	if largest[1] >= largest[0] {
		return [2]bool{true, false}
	}
	return [2]bool{false, true}
}

// placeGroup puts one run of BARs into the first window that holds it.
func (p *Port) placeGroup(bars []BAR, group []int, prefetchable bool, next, placed []uint64) bool {
	largest, sum := uint64(0), uint64(0)
	for _, i := range group {
		largest = max(largest, bars[i].Size)
		sum += bars[i].Size
	}
	align := max(largest, bridgeStep)
	sum = alignUp(sum, bridgeStep)
	for _, pass := range [...]bool{prefetchable, false} {
		for w, window := range p.Windows.Value {
			start, end := alignUp(next[w], align), window.PCI+window.Size
			if !prefetchable {
				end = min(end, narrowEnd)
			}
			if window.Prefetchable != pass || start > end || sum > end-start {
				continue
			}
			next[w] = start + sum
			fill(bars, group, start, placed)
			return true
		}
	}
	return false
}

// fill hands out a run of addresses, the largest BAR first, so that each is
// aligned to its size.
func fill(bars []BAR, group []int, start uint64, placed []uint64) {
	for size := uint64(1) << 63; size > 0; size >>= 1 {
		for _, i := range group {
			if bars[i].Size == size {
				placed[i] = start
				start += size
			}
		}
	}
}

func alignUp(v, align uint64) uint64 { return (v + align - 1) &^ (align - 1) }
