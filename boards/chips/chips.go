// Package chips describes what a target does not need to know of a board: its
// title, its status registers, and the tiles behind its TLB windows with their
// coordinates, memories and registers. Mocks and host tools read it. Every
// constant names its source, as in package boards, whose files list the sources
// that are named in brackets.
package chips

import "lightmetal/boards"

// Chip describes a board with everything that only host tools and mocks read.
type Chip struct {
	*boards.Board
	Title string // maker and product, for people

	// Status lists registers that change without a store. An importer turns
	// every load of one into a bounded poll.
	Status []Status

	// Aliases lists BARs that show a part of another BAR.
	Aliases []Alias

	// Grid describes the tiles behind the TLB windows; nil if there are none.
	Grid *Grid
}

// Status is a register whose value changes without a store.
type Status struct {
	Bar    uint8
	Offset uint64
	Mask   uint64 // the bits to poll; the others are ignored
	Name   string
}

// Alias says that a BAR shows a part of another one, from its first byte on.
type Alias struct {
	Bar    uint8
	Size   uint64
	Of     uint8  // the other BAR
	Offset uint64 // bytes into it
}

// Unalias returns the original place of a byte: if its BAR shows a part of
// another BAR, the other BAR and the offset there.
func (c *Chip) Unalias(bar uint8, offset uint64) (uint8, uint64) {
	for _, a := range c.Aliases {
		if a.Bar == bar && offset < a.Size {
			return a.Of, a.Offset + offset
		}
	}
	return bar, offset
}

// All lists the chip of every board.
var All = []*Chip{&edu, &ivshmem, &nvme, &wormhole, &blackhole}

// Of returns the chip with the PCI ids of a board. For an unknown board it
// returns a Chip without tiles and status registers, titled as the board is named.
func Of(b *boards.Board) *Chip {
	for _, c := range All {
		if c.Vendor == b.Vendor && c.Device == b.Device {
			return c
		}
	}
	return &Chip{Board: b, Title: b.Name}
}

// ByName returns the board of that name, nil if there is none.
func ByName(name string) *boards.Board {
	for _, b := range boards.All {
		if b.Name == name {
			return b
		}
	}
	return nil
}
