package mock

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// ConfigSpace is the Place.Bar of PCI configuration space: the number VFIO gives that region.
const ConfigSpace = 7

// Place is where an access arrives: in a tile, or where a board has none or the access goes past
// its windows, in a BAR.
type Place struct {
	Tile    bool
	X, Y    uint8  // NoC 0 coordinates of the tile; of DRAM, those of the first tile of its bank
	Bar     uint8  // where Tile is not set: 0 to 5, or ConfigSpace
	Address uint64 // in the tile, or bytes into the BAR
}

// Model is what lies behind the front of a device. It sees aligned accesses of
// 1, 2, 4 or 8 bytes to places that the board has; a multicast arrives as one
// store a tile. It need not check bits of value outside width: there are none.
//
// A Model may also have any of the methods of Clocked, Explainer, Interrupter,
// Master and Registers.
type Model interface {
	Load(at Place, width uint8) (uint64, hal.Code)
	Store(at Place, width uint8, value uint64) hal.Code
}

// Clocked is a Model that does something while time goes by. Advance comes before the access that
// took the time.
type Clocked interface{ Advance(nanoseconds int64) }

// Explainer is a Model that says why it answered hal.Refused.
type Explainer interface{ Reason() string }

// Master is a Model that reaches host memory, and that of devices on the same bus.
type Master interface{ Connect(host *Host) }

// Interrupter is a Model that interrupts whoever serves it, by a message each time.
type Interrupter interface{ Interrupt(raise func()) }

// Registers is a Model with registers in tiles that the board does not list. They take aligned
// accesses of 4 bytes.
type Registers interface{ HasRegister(at Place, op Op) bool }

// modelOf is the model that a board has when nobody asks for another.
func modelOf(b *boards.Board) Model {
	switch {
	case b == &boards.Edu:
		return NewEdu()
	case b == &boards.Nvme:
		return NewNvme()
	case chips.Of(b).Grid != nil:
		return NewTiles(b)
	}
	return NewMemory(b)
}
