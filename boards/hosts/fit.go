package hosts

// This file finds the PCIe ports of a host whose windows have room for a device's BARs.

import (
	"math/bits"
	"slices"

	"lightmetal/boards"
)

// Room is a PCIe port whose windows have room for all BARs of a device.
type Room struct {
	Port      *Port
	BARs      []BAR
	Addresses []uint64 // bus address of each BAR
}

// Fit is the result of Host.Fit: the ports of a host that have room for a device.
type Fit struct {
	Rooms []Room // ports with room
	BARs  []BAR  // size and kind of each BAR of the device

	// Known reports whether the windows of at least one port are known. If Known is false,
	// Rooms is empty, but the device may fit.
	Known bool
}

// NoRoom reports whether no port with known windows has room for the BARs. The kernel then
// assigns no addresses to the BARs, and cannot enable the device.
func (f *Fit) NoRoom() bool { return f.Known && len(f.Rooms) == 0 }

// Fit returns the ports with room for a device. board is nil if no board has the PCI ids of
// the device. least has the smallest size of each BAR that the image needs, in bytes.
func (h *Host) Fit(board *boards.Board, least [6]uint64) Fit {
	var fit Fit
	for _, bars := range candidates(board, least) {
		if fit.BARs == nil {
			fit.BARs = bars
		}
		for i := range h.Ports {
			p := &h.Ports[i]
			fit.Known = fit.Known || p.Windows.Known()
			if addresses := p.Place(bars); addresses != nil && !fit.has(p) {
				fit.Rooms = append(fit.Rooms, Room{p, bars, addresses})
			}
		}
	}
	return fit
}

func (f *Fit) has(p *Port) bool {
	return slices.ContainsFunc(f.Rooms, func(r Room) bool { return r.Port == p })
}

// prefetchable lists the numbers of each board's BARs that are 64 bits wide and prefetchable.
// Sources: the output of lspci for a Wormhole in tt-kmd issue 193; QEMU 7.2
// hw/misc/ivshmem.c, ivshmem_common_realize.
var prefetchable = map[string][]int{"wormhole": {0, 4}, "blackhole": {0, 4}, "ivshmem": {2}}

// guessedPrefetchable is a size in bytes. A BAR of an unknown device with at least this size
// is most likely prefetchable, because windows below 4 GiB have no room for larger BARs.
const guessedPrefetchable = 64 << 20

// candidates returns the lists of BARs that a device may have, the most likely list first. For
// a known board, the only list has all BARs of the board, because the kernel places them even
// if the image does not use them. For an unknown device, candidates knows the sizes that the
// image needs, but not which BARs are prefetchable. Fit accepts any list that has room.
func candidates(board *boards.Board, least [6]uint64) (lists [][]BAR) {
	if board != nil {
		for i, size := range board.Bars {
			least[i] = max(least[i], size)
		}
		known := prefetchable[board.Name]
		return append(lists, barsOf(least, func(i int) bool { return slices.Contains(known, i) }))
	}
	return append(lists,
		barsOf(least, func(i int) bool { return least[i] >= guessedPrefetchable }),
		barsOf(least, func(int) bool { return false }),
		barsOf(least, func(int) bool { return true }))
}

// barsOf returns BARs of the given sizes in bytes, each rounded up to a power of two.
func barsOf(sizes [6]uint64, isPrefetchable func(i int) bool) []BAR {
	bars := make([]BAR, len(sizes))
	for i, size := range sizes {
		if size != 0 {
			bars[i] = BAR{Size: 1 << bits.Len64(size-1), Prefetchable: isPrefetchable(i)}
		}
	}
	return bars
}
