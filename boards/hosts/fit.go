package hosts

// This file finds the ports of a host with room for a device.

import (
	"math/bits"
	"slices"

	"lightmetal/boards"
)

// Room is a port that has room for all BARs of a device.
type Room struct {
	Port      *Port
	BARs      []BAR
	Addresses []uint64 // on the PCI bus, of each BAR
}

// Fit says whether a host has room for a device.
type Fit struct {
	Rooms []Room // ports with room
	BARs  []BAR  // what the device needs

	// Known is set if the windows of at least one port are known. Otherwise Rooms is empty because
	// nothing is known.
	Known bool
}

// NoRoom reports whether the kernel cannot place the BARs behind any known port. It
// leaves them unassigned then, and cannot switch the device on.
func (f *Fit) NoRoom() bool { return f.Known && len(f.Rooms) == 0 }

// Fit finds the ports with room for a device. board is nil if no board has its ids. least are the
// smallest BAR sizes that the image needs. Both lm check-board and bootimage use it.
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

// prefetchable lists the BARs that are 64 bits wide and prefetchable, by
// board. [KMD] lspci of a Wormhole in tt-kmd issue 193; ivshmem: QEMU 7.2
// hw/misc/ivshmem.c, ivshmem_common_realize.
var prefetchable = map[string][]int{"wormhole": {0, 4}, "blackhole": {0, 4}, "ivshmem": {2}}

// guessedPrefetchable is the size from which on a BAR of an unknown device is
// most likely prefetchable: no window below 4 GiB has room for much larger ones.
const guessedPrefetchable = 64 << 20

// candidates returns lists of BARs that a device may have, the most likely first. For a known
// board it is one list: the kernel places all BARs of the board, whether the image uses them or
// not. For an unknown device only the sizes that the image needs are known, and not which BARs
// are prefetchable: any list that fits is accepted.
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

// barsOf returns BARs of these sizes, each rounded up to a power of two.
func barsOf(sizes [6]uint64, isPrefetchable func(i int) bool) []BAR {
	bars := make([]BAR, len(sizes))
	for i, size := range sizes {
		if size != 0 {
			bars[i] = BAR{Size: 1 << bits.Len64(size-1), Prefetchable: isPrefetchable(i)}
		}
	}
	return bars
}
