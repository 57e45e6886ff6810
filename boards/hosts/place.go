package hosts

// This file assigns bus addresses to BARs as Linux does.

// BAR is the address space that a device needs for one of its BARs.
type BAR struct {
	Size         uint64 // bytes, a power of two; 0: the device has no such BAR
	Prefetchable bool   // prefetchable and 64 bits wide; accepts addresses above 4 GiB
}

const (
	bridgeStep = 1 << 20 // unit of bridge windows in bytes (PCI-to-PCI Bridge 1.2, 3.2.5)
	narrowEnd  = 1 << 32
)

// run is a list of BARs of the same kind that get consecutive addresses. The BARs are in
// descending order of size, so that each BAR is aligned to its size.
type run struct {
	prefetchable bool
	bars         []int
	largest, sum uint64 // bytes
}

// Place returns the PCI address of each BAR of a device at the port, or nil if the port has no
// room for all BARs. As in Linux (drivers/pci setup-bus.c and setup-res.c), a root port has two
// windows, each of one range of addresses. Prefetchable BARs use the prefetchable window. All
// other BARs use the other window, which ends below 4 GiB. The prefetchable window may lie in a
// window of the host that is not prefetchable.
func (p *Port) Place(bars []BAR) []uint64 {
	runs := runsOf(bars)
	if runs[0].largest < runs[1].largest {
		runs[0], runs[1] = runs[1], runs[0] // place the larger run first: it is harder to align
	}
	placed := make([]uint64, len(bars))
	next := make([]uint64, len(p.Windows.Value)) // first free PCI address of each window
	for i, w := range p.Windows.Value {
		next[i] = w.PCI
	}
	for _, r := range runs {
		start, ok := p.room(&r, next)
		if !ok {
			return nil
		}
		for _, i := range r.bars {
			placed[i] = start
			start += bars[i].Size
		}
	}
	return placed
}

// runsOf returns two runs: the prefetchable BARs, and all other BARs.
func runsOf(bars []BAR) [2]run {
	runs := [2]run{{prefetchable: true}, {}}
	for size := uint64(1) << 63; size > 0; size >>= 1 {
		for i, b := range bars {
			for j := range runs {
				if r := &runs[j]; b.Size == size && b.Prefetchable == r.prefetchable {
					r.bars, r.largest, r.sum = append(r.bars, i), max(r.largest, size), r.sum+size
				}
			}
		}
	}
	return runs
}

// room allocates addresses for a run in the first window with enough space. next has the
// first free address of each window. ok is false if no window has enough space.
func (p *Port) room(r *run, next []uint64) (start uint64, ok bool) {
	if r.sum == 0 {
		return 0, true
	}
	sum := alignUp(r.sum, bridgeStep)
	for _, pass := range [...]bool{r.prefetchable, false} {
		for w, window := range p.Windows.Value {
			start, end := alignUp(next[w], max(r.largest, bridgeStep)), window.PCI+window.Size
			if !r.prefetchable {
				end = min(end, narrowEnd)
			}
			if window.Prefetchable == pass && start <= end && sum <= end-start {
				next[w] = start + sum
				return start, true
			}
		}
	}
	return 0, false
}

func alignUp(v, align uint64) uint64 { return (v + align - 1) &^ (align - 1) }
