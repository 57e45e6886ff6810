package mock

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// ConfigSpace is the value of Place.Bar for PCI configuration space. VFIO uses the same number
// for configuration space.
const ConfigSpace = 7

// Place is the destination of an access: an address in a tile if the access goes through a TLB
// window, otherwise an offset in a BAR or in configuration space.
type Place struct {
	Tile bool // the place is in a tile

	// X and Y are the NoC 0 coordinates of the tile. All tiles of a DRAM bank access the same
	// memory; in this memory, X and Y are the coordinates of the bank's first tile.
	X, Y    uint8
	Bar     uint8  // number of the BAR, 0 to 5, or ConfigSpace; only if Tile is false
	Address uint64 // address in the tile, or offset in the BAR in bytes
}

// Model defines the behaviour of a device. The device checks each access before it calls the
// model: the width is 1, 2, 4 or 8 bytes, the address is aligned, the board accepts the access, and
// a stored value has no bits above the width. A store to several tiles (multicast) is one call of
// Store for each tile.
//
// A Model may also implement Clocked, Halter, Explainer, Interrupter, VectorUser, BusMaster and
// Registers.
type Model interface {
	Load(at Place, width uint8) (uint64, hal.Code)

	Store(at Place, width uint8, value uint64) hal.Code
}

// Clocked is implemented by a Model whose state depends on time.
type Clocked interface {
	// Advance advances the time of the model. Each access takes time; the device calls Advance
	// first, and then executes the access.
	Advance(nanoseconds int64)
}

// Halter is implemented by a Model that may take much real time for little virtual time.
type Halter interface {
	// Halt stops the processors of the model for ever. Any goroutine may call it, during Advance
	// too, which then returns soon.
	Halt()
}

// Explainer is implemented by a Model that can explain why it has rejected an access.
type Explainer interface {
	// Reason returns the reason for the last hal.Refused that the model returned.
	Reason() string
}

// BusMaster is implemented by a Model that accesses host memory or the memory of other devices
// on its bus.
type BusMaster interface {
	// Connect sets the memory that the model accesses by DMA.
	Connect(host *Host)
}

// VectorUser is implemented by a Model to which the number of enabled interrupt vectors matters.
type VectorUser interface{ SetVectors(count uint16) }

// Interrupter is implemented by a Model that can send interrupt messages.
type Interrupter interface {
	// Interrupt sets the function that the model calls to send an interrupt message.
	Interrupt(raise func())
}

// Registers is implemented by a Model with registers in tiles that the board does not list. Such
// registers accept only aligned accesses of 4 bytes.
type Registers interface {
	// HasRegister reports whether such a register at a place accepts a load or a store.
	HasRegister(at Place, op Op) bool
}

func defaultModel(b *boards.Board) Model {
	switch {
	case b == &boards.Edu:
		return NewEdu()
	case b == &boards.Nvme:
		return NewNvme()
	case chips.ForBoard(b).Grid != nil:
		return NewTiles(b)
	}
	return NewMemory(b)
}
