package hosts

// This file finds the PCIe ports of a host whose windows have enough free addresses for the BARs
// of a device.

import (
	"math/bits"
	"slices"

	"lightmetal/boards"
)

// Room is a PCIe port with room for a device: the windows of the port have enough free addresses
// for all BARs of the device.
type Room struct {
	Port      *Port
	BARs      []BAR    // size and kind of each BAR
	Addresses []uint64 // PCI address of each BAR
}

// Fit is the result of Host.Fit: the ports of a host that have room for a device.
type Fit struct {
	Rooms []Room // ports with room
	BARs  []BAR  // size and most likely kind of each BAR of the device

	// Known is true if the windows of at least one port are known. If Known is false, Rooms is
	// empty, but the device may still fit.
	Known bool
}

// NoRoom reports whether the host has no room for the device: the windows of some ports are
// known, and none of these ports has room. Then the kernel assigns no addresses to the BARs,
// and cannot enable the device.
func (f *Fit) NoRoom() bool { return f.Known && len(f.Rooms) == 0 }

// Fit returns the ports of the host with room for a device. `board` is the board with the PCI ids
// of the device, or nil if there is no such board. `minSizes` has the size in bytes that an image
// needs of each BAR.
func (h *Host) Fit(board *boards.Board, minSizes [6]uint64) Fit {
	var fit Fit
	for _, bars := range possibleBARs(board, minSizes) {
		if fit.BARs == nil {
			fit.BARs = bars
		}
		for i := range h.Ports {
			p := &h.Ports[i]
			fit.Known = fit.Known || p.Windows.Known()
			if addresses := p.AssignAddresses(bars); addresses != nil && !fit.includes(p) {
				fit.Rooms = append(fit.Rooms, Room{p, bars, addresses})
			}
		}
	}
	return fit
}

// includes reports whether f.Rooms includes port p.
func (f *Fit) includes(p *Port) bool {
	return slices.ContainsFunc(f.Rooms, func(r Room) bool { return r.Port == p })
}

// prefetchable lists, for each board, the numbers of the BARs that are prefetchable and 64 bits
// wide. Sources: the output of lspci for a Wormhole in tt-kmd issue 193; QEMU 7.2
// hw/misc/ivshmem.c, ivshmem_common_realize.
var prefetchable = map[string][]int{"wormhole": {0, 4}, "blackhole": {0, 4}, "ivshmem": {2}}

// guessedPrefetchable is a size in bytes. If the device is unknown, a BAR of at least this size is
// most likely prefetchable: the windows for other BARs end below 4 GiB, and often have no room for
// a BAR of this size.
const guessedPrefetchable = 64 << 20

// possibleBARs returns lists of the BARs that a device may have, the most likely list first.
//
// For a known board there is one list. It has all BARs of the board, because the kernel assigns
// addresses to all BARs, even to those that the image does not use.
//
// For an unknown device, the sizes of the BARs are those that the image needs. It is unknown which
// BARs are prefetchable. Therefore there are several lists. A port has room for the device if it
// has room for the BARs of any list.
func possibleBARs(board *boards.Board, minSizes [6]uint64) (lists [][]BAR) {
	if board != nil {
		for i, size := range board.BarSizes {
			minSizes[i] = max(minSizes[i], size)
		}
		known := prefetchable[board.Name]
		isPrefetchable := func(i int) bool { return slices.Contains(known, i) }
		return append(lists, makeBARs(minSizes, isPrefetchable))
	}
	return append(lists,
		makeBARs(minSizes, func(i int) bool { return minSizes[i] >= guessedPrefetchable }),
		makeBARs(minSizes, func(int) bool { return false }),
		makeBARs(minSizes, func(int) bool { return true }))
}

// makeBARs returns BARs with the given sizes in bytes, each rounded up to a power of two.
// isPrefetchable reports whether the BAR with the number i is prefetchable.
func makeBARs(sizes [6]uint64, isPrefetchable func(i int) bool) []BAR {
	bars := make([]BAR, len(sizes))
	for i, size := range sizes {
		if size != 0 {
			bars[i] = BAR{Size: 1 << bits.Len64(size-1), Prefetchable: isPrefetchable(i)}
		}
	}
	return bars
}
