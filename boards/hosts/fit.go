package hosts

import (
	"math/bits"
	"slices"

	"lightmetal/boards"
)

// Placement is a PCIe port with room for a device, and an address for each BAR of the device. A
// port has room if its windows have enough free addresses for all BARs.
type Placement struct {
	Port      *Port
	BARs      []BAR    // all BARs of the device
	Addresses []uint64 // PCI address of each BAR
}

// Fit is the result of Host.FitDevice: the ports of a host that have room for a device.
type Fit struct {
	Placements []Placement // one for each port with room
	BARs       []BAR       // all BARs of the device; for an unknown device, the most likely BARs

	// WindowsKnown is true if the windows of at least one port are known. If WindowsKnown is false,
	// Placements is empty, but the host may still have room for the device.
	WindowsKnown bool
}

// HasNoRoom reports whether the host has no room for the device: the windows of some ports are
// known, and none of these ports has room. On such a host, the kernel assigns no addresses to the
// BARs, and cannot enable the device.
func (f *Fit) HasNoRoom() bool { return f.WindowsKnown && len(f.Placements) == 0 }

// FitDevice returns the ports of the host that have room for a device. `board` is the board with
// the PCI ids of the device, or nil if there is no such board. minSizes[i] is the size in bytes
// that an image needs of BAR i.
func (h *Host) FitDevice(board *boards.Board, minSizes [6]uint64) Fit {
	var fit Fit
	for _, bars := range possibleBARs(board, minSizes) {
		if fit.BARs == nil {
			fit.BARs = bars
		}
		for i := range h.Ports {
			p := &h.Ports[i]
			fit.WindowsKnown = fit.WindowsKnown || p.Windows.IsKnown()
			if addresses := p.AssignAddresses(bars); addresses != nil && !fit.hasPort(p) {
				fit.Placements = append(fit.Placements, Placement{p, bars, addresses})
			}
		}
	}
	return fit
}

func (f *Fit) hasPort(p *Port) bool {
	return slices.ContainsFunc(f.Placements, func(r Placement) bool { return r.Port == p })
}

// prefetchableBARs lists, for each board, the numbers of the BARs that are prefetchable and 64 bits
// wide. Sources: the output of lspci for a Wormhole in tt-kmd issue 193; QEMU 7.2
// hw/misc/ivshmem.c, ivshmem_common_realize.
var prefetchableBARs = map[string][]int{"wormhole": {0, 4}, "blackhole": {0, 4}, "ivshmem": {2}}

// likelyPrefetchableSize is a size in bytes. On an unknown device, a BAR of at least this size is
// most likely prefetchable. A BAR that is not prefetchable needs a window that ends below 4 GiB,
// and such a window often has no room for a BAR of this size.
const likelyPrefetchableSize = 64 << 20

// possibleBARs returns lists of the BARs that a device may have, the most likely list first.
//
// For a known board there is one list. It has all BARs of the board, because the kernel assigns
// addresses to all BARs, even to those that the image does not use.
//
// For an unknown device, the sizes of the BARs are those that the image needs. There are several
// lists, because it is unknown which BARs are prefetchable. A port has room for the device if it
// has room for all BARs of at least one list.
func possibleBARs(board *boards.Board, minSizes [6]uint64) (lists [][]BAR) {
	if board != nil {
		for i, size := range board.BarSizes {
			minSizes[i] = max(minSizes[i], size)
		}
		known := prefetchableBARs[board.Name]
		isPrefetchable := func(i int) bool { return slices.Contains(known, i) }
		return append(lists, makeBARs(minSizes, isPrefetchable))
	}
	return append(lists,
		makeBARs(minSizes, func(i int) bool { return minSizes[i] >= likelyPrefetchableSize }),
		makeBARs(minSizes, func(int) bool { return false }),
		makeBARs(minSizes, func(int) bool { return true }))
}

// makeBARs returns BARs with these sizes in bytes, each rounded up to a power of two. BAR number i
// is prefetchable if isPrefetchable says so.
func makeBARs(sizes [6]uint64, isPrefetchable func(i int) bool) []BAR {
	bars := make([]BAR, len(sizes))
	for i, size := range sizes {
		if size != 0 {
			bars[i] = BAR{Size: 1 << bits.Len64(size-1), Prefetchable: isPrefetchable(i)}
		}
	}
	return bars
}
