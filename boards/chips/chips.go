// Package chips describes the parts of a board that only mocks and host tools read: the
// title, the status registers, and the tiles with their coordinates, memories and registers.
// Comments name the source of every constant. A name in brackets, such as [UMD], is a source
// that the file of the same board in package boards lists.
package chips

import "lightmetal/boards"

// Chip is a board, together with the data that only host tools and mocks read.
type Chip struct {
	*boards.Board
	Title string // maker and product, as reports print them

	// Status lists the registers that change without a store. An importer converts every
	// recorded load of a status register to a poll with a time limit.
	Status []Status

	// Aliases lists the BARs through which a part of another BAR can be accessed.
	Aliases []Alias

	// Grid describes the tiles that TLB windows show. It is nil if the chip has no tiles.
	Grid *Grid
}

// Status is a register whose value changes without a store.
type Status struct {
	Bar    uint8
	Offset uint64
	Mask   uint64 // bits to poll; a poll ignores all other bits
	Name   string
}

// Alias describes a BAR whose first Size bytes are a second way to access bytes of BAR Of.
type Alias struct {
	Bar    uint8
	Size   uint64
	Of     uint8  // number of the BAR that has the bytes
	Offset uint64 // offset of the first of these bytes in BAR Of
}

// Unalias returns the BAR that has the byte at the given offset of a BAR, and the byte's
// offset in that BAR. Without an alias for the byte, Unalias returns its arguments.
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

// Of returns the chip with the PCI ids of a board. For an unknown board, Of returns a Chip
// without tiles and status registers, whose title is the name of the board.
func Of(b *boards.Board) *Chip {
	for _, c := range All {
		if c.Vendor == b.Vendor && c.Device == b.Device {
			return c
		}
	}
	return &Chip{Board: b, Title: b.Name}
}

// ByName returns the board with the given name, or nil if no board has the name.
func ByName(name string) *boards.Board {
	for _, b := range boards.All {
		if b.Name == name {
			return b
		}
	}
	return nil
}
