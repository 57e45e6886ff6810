// Package chips has data about devices that mocks (simulated devices) and host tools need, but
// programs on a target do not: titles, status registers, and the tiles with their coordinates,
// memories and registers. Package boards has all other data about the same devices.
//
// Comments name the source of every constant. The file of the same device in package boards
// explains the names of sources in brackets, such as [UMD].
package chips

import "lightmetal/boards"

// Chip describes one kind of PCIe device for host tools and mocks. It adds to a boards.Board the
// data that the runtime on a target does not need.
type Chip struct {
	*boards.Board
	Title string // names of the maker and the product, for reports

	// StatusRegisters lists the status registers of the device. When a host tool converts a
	// recording to an image, it converts every load of a status register to a poll with a time
	// limit.
	StatusRegisters []StatusRegister

	// Aliases lists the BARs that show a part of another BAR.
	Aliases []Alias

	// Grid describes the tiles of the device. It is nil if the device has no tiles.
	Grid *Grid
}

// StatusRegister describes a register that the device changes by itself, without a store.
type StatusRegister struct {
	Bar    uint8  // number of the BAR
	Offset uint64 // offset of the register in the BAR
	Mask   uint64 // bits to poll; a poll ignores all other bits
	Name   string // name of the register or of its field
}

// Alias describes a BAR that shows bytes of another BAR. The first Size bytes of BAR number Bar are
// the same registers and memory as the Size bytes that start at RealOffset in BAR number RealBar.
type Alias struct {
	Bar        uint8
	Size       uint64
	RealBar    uint8
	RealOffset uint64
}

// Unalias returns the BAR number and the offset of a byte without aliases: if an alias shows the
// byte at `offset` in BAR number `bar`, Unalias returns RealBar of the alias, and the offset of the
// same byte in that BAR. Otherwise, Unalias returns its arguments.
func (c *Chip) Unalias(bar uint8, offset uint64) (realBar uint8, realOffset uint64) {
	for _, a := range c.Aliases {
		if a.Bar == bar && offset < a.Size {
			return a.RealBar, a.RealOffset + offset
		}
	}
	return bar, offset
}

// All lists the chips of all boards.
var All = []*Chip{&edu, &ivshmem, &nvme, &wormhole, &blackhole}

// ForBoard returns the chip that has the PCI ids of the board `b`. If no chip has these ids,
// ForBoard returns a new Chip without tiles and status registers. The title of the new Chip is the
// name of the board.
func ForBoard(b *boards.Board) *Chip {
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
