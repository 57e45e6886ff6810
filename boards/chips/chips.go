// Package chips has data about devices that mocks (simulated devices) and host tools need, but
// programs on a target do not: titles, status registers, and the tiles with their coordinates,
// memories and registers. Package boards has all other data about the same devices.
//
// Comments name the source of every constant. The file of the same device in package boards
// explains the names of sources in brackets, such as [UMD].
package chips

import "lightmetal/boards"

// Chip describes one kind of PCIe device for host tools and mocks. It consists of a board, and
// of data that a target does not need.
type Chip struct {
	*boards.Board
	Title string // names of the maker and the product, for reports

	// Status lists the status registers of the device. When a host tool converts a recording to
	// an image, it converts every load of a status register to a poll with a time limit.
	Status []Status

	// Aliases lists the BARs through which a part of another BAR can be accessed.
	Aliases []Alias

	// Grid describes the tiles of the device. It is nil if the device has no tiles.
	Grid *Grid
}

// Status describes a register that the device changes by itself, without a store.
type Status struct {
	Bar    uint8  // number of the BAR
	Offset uint64 // offset of the register in the BAR
	Mask   uint64 // bits to poll; a poll ignores all other bits
	Name   string // name of the register or of its field
}

// Alias describes a BAR that shows bytes of another BAR. The first Size bytes of BAR number Bar are
// the same registers and memory as the Size bytes that start at Offset in BAR number Of.
type Alias struct {
	Bar    uint8
	Size   uint64
	Of     uint8
	Offset uint64
}

// Unalias replaces the BAR number and offset of a byte in an aliased BAR by the BAR number and
// offset of the same byte in the other BAR. If no alias applies to the byte, Unalias returns its
// arguments.
func (c *Chip) Unalias(bar uint8, offset uint64) (realBar uint8, realOffset uint64) {
	for _, a := range c.Aliases {
		if a.Bar == bar && offset < a.Size {
			return a.Of, a.Offset + offset
		}
	}
	return bar, offset
}

// All lists the chips of all boards.
var All = []*Chip{&edu, &ivshmem, &nvme, &wormhole, &blackhole}

// Of returns the chip that has the PCI ids of the board `b`. If no chip has these ids, Of returns a
// new Chip without tiles and status registers. The title of the new Chip is the name of the board.
func Of(b *boards.Board) *Chip {
	for _, c := range All {
		if c.Vendor == b.Vendor && c.Device == b.Device {
			return c
		}
	}
	return &Chip{Board: b, Title: b.Name}
}

// BoardByName returns the board with the given name, or nil if no board has the name.
func BoardByName(name string) *boards.Board {
	for _, b := range boards.All {
		if b.Name == name {
			return b
		}
	}
	return nil
}
