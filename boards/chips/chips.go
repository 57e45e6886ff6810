// Package chips has data about devices that mocks (simulated devices) and host tools need, but
// programs on a target do not: titles, status registers, and the tiles with their coordinates,
// memories and registers. Package boards has all other data about the same devices.
//
// Comments name the source of every constant. A source in brackets, such as [KMD], is explained at
// the device's variable in this package or in package boards.
package chips

import "lightmetal/boards"

// Chip adds to a boards.Board the data that the runtime on a target does not need.
type Chip struct {
	*boards.Board
	Title string // names of the maker and the product, for reports

	// When a host tool converts a recording to an image, it makes every load of these registers a
	// poll with a time limit.
	StatusRegisters []StatusRegister

	Aliases []Alias

	Grid *Grid // nil: no tiles
}

// StatusRegister describes a register that the device changes by itself, without a store.
type StatusRegister struct {
	Bar    uint8
	Offset uint64 // in the BAR
	Mask   uint64 // bits to poll
	Name   string // of the register or its field
}

// Alias describes a BAR that shows bytes of another BAR. The first Size bytes of BAR number Bar are
// the same registers and memory as the Size bytes that start at RealOffset in BAR number RealBar.
type Alias struct {
	Bar        uint8
	Size       uint64
	RealBar    uint8
	RealOffset uint64
}

// Unalias returns its arguments, or if an alias shows the byte at `offset` of BAR number `bar`, the
// real BAR and the byte's offset there.
func (c *Chip) Unalias(bar uint8, offset uint64) (realBar uint8, realOffset uint64) {
	for _, a := range c.Aliases {
		if a.Bar == bar && offset < a.Size {
			return a.RealBar, a.RealOffset + offset
		}
	}
	return bar, offset
}

// All lists the chips of boards.All, in the same order.
var All = []*Chip{&edu, &ivshmem, &nvme, &wormhole, &blackhole}

// ForBoard returns the chip with the PCI ids of the board b. If there is none, it returns a new
// Chip without tiles and status registers, whose title is the board's name.
func ForBoard(b *boards.Board) *Chip {
	for _, c := range All {
		if c.Vendor == b.Vendor && c.Device == b.Device {
			return c
		}
	}
	return &Chip{Board: b, Title: b.Name}
}

// BoardByName returns the board with this name, or nil.
func BoardByName(name string) *boards.Board {
	for _, b := range boards.All {
		if b.Name == name {
			return b
		}
	}
	return nil
}
