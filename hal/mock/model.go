package mock

// This file declares Model, which defines the behaviour of a mock, and its optional methods.

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// ConfigSpace is the Place.Bar of PCI configuration space. It is the number of that region in
// VFIO.
const ConfigSpace = 7

// Place is the destination of an access: an address in a tile, if the access goes through a
// TLB window, else an offset in a BAR.
type Place struct {
	Tile    bool
	X, Y    uint8  // NoC 0 coordinates of the tile; of DRAM, those of the first tile of its bank
	Bar     uint8  // if Tile is not set: 0 to 5, or ConfigSpace
	Address uint64 // in the tile, or bytes into the BAR
}

// Model defines the behaviour of a device. It is called for aligned accesses of 1, 2, 4 or
// 8 bytes to places that the board has. A multicast is one store for each tile. Bits of
// value above width are 0.
//
// A Model may also implement Clocked, Explainer, Interrupter, BusMaster and Registers.
type Model interface {
	Load(at Place, width uint8) (uint64, hal.Code)
	Store(at Place, width uint8, value uint64) hal.Code
}

// Clocked is a Model whose state depends on time. Advance is called before the access that
// takes the time.
type Clocked interface{ Advance(nanoseconds int64) }

// Explainer is a Model that returns the reason for its last hal.Refused.
type Explainer interface{ Reason() string }

// BusMaster is a Model that accesses host memory and the memory of devices on its bus.
type BusMaster interface{ Connect(host *Host) }

// Interrupter is a Model that calls raise for each interrupt message.
type Interrupter interface{ Interrupt(raise func()) }

// Registers is a Model with registers in tiles that the board does not list. They accept
// aligned accesses of 4 bytes.
type Registers interface{ HasRegister(at Place, op Op) bool }

// defaultModel returns the model that New uses for a board.
func defaultModel(b *boards.Board) Model {
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
