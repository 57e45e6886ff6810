package mock

// This file lists the registers that only kernel drivers use.

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// registerRange is a range of registers. If shows.Tile is true, the range lies in a BAR and
// mirrors registers of a tile: an access to the range accesses these registers. Otherwise the
// registers are plain: they keep the stored values.
type registerRange struct {
	board *boards.Board
	first Place  // place of the first register
	size  uint64 // bytes
	shows Place  // place in a tile of the first mirrored register
}

// driverOnly lists the register ranges that exist only after a call of AsHardware. Only
// Tenstorrent's drivers use the plain registers; images must not access them. The rules of the
// board allow images to access some of the ranges that mirror registers of a tile. Sources: tt-kmd;
// for the ARC tile and the mirrored ranges, tt-umd 0.9.9, {wormhole,blackhole}_implementation.hpp,
// and ttsim v1.10.0 src/libttsim.cpp, pci_mem_rd_cur.
var driverOnly = []registerRange{
	// Registers of strided TLB windows: blackhole.c, TLB_STRIDED_REGS_OFFSET, TLB_STRIDED_COUNT.
	{&boards.Blackhole, Place{Bar: 0, Address: 0x1fc009d8}, 32 * 4, Place{}},
	// Register that interrupts the ARC: blackhole.c, ARC_MSI_FIFO.
	{&boards.Blackhole, Place{Tile: true, X: 8, Y: 0, Address: 0x800b0000}, 4, Place{}},
	// Configuration registers of the PCIe controller, over the NoC: wormhole.c, PCIE_DBI_ADDR,
	// PCIE_NOC_X and PCIE_NOC_Y; blackhole.c.
	{&boards.Wormhole, Place{Tile: true, X: 0, Y: 3, Address: 0x8_0000_0000}, 0x1000, Place{}},
	{&boards.Blackhole, Place{Tile: true, X: 2, Y: 0, Address: 0xf800_0000_0000_0000}, 0x1000,
		Place{}},
	// Blackhole: NIU_CFG_0 of the PCIe tile. Wormhole: the reset unit, NIU_CFG_0 of the ARC tile,
	// and SMBUS_TELEMETRY_NOC_ADDR.
	{&boards.Blackhole, Place{Tile: true, X: 2, Y: 0, Address: pcieNIU + niuCfg0}, 4, Place{}},
	{&boards.Wormhole, Place{Tile: true, X: 0, Y: 10, Address: 0x8_8003_0000}, 0x1_0000, Place{}},
	{&boards.Wormhole, Place{Tile: true, X: 0, Y: 10, Address: 0x8_8005_0000 + niuCfg0}, 4,
		Place{}},
	{&boards.Wormhole, Place{Tile: true, X: 0, Y: 10, Address: 0x8_2007_8d60}, 50 * 4, Place{}},
	// Ranges of BAR 0 that mirror the memory (CSM) and registers of the ARC tile and, on
	// Blackhole, registers of the PCIe tile.
	{&boards.Wormhole, Place{Bar: 0, Address: 0x1fe8_0000}, 0x8_0000,
		Place{Tile: true, X: 0, Y: 10, Address: 0x8_1000_0000}},
	{&boards.Wormhole, Place{Bar: 0, Address: 0x1ff0_0000}, 0x10_0000,
		Place{Tile: true, X: 0, Y: 10, Address: 0x8_8000_0000}},
	{&boards.Blackhole, Place{Bar: 0, Address: 0x1ff0_0000}, 0x10_0000,
		Place{Tile: true, X: 8, Y: 0, Address: 0x8000_0000}},
	{&boards.Blackhole, Place{Bar: 0, Address: 0x1fd0_4000}, 0x2000,
		Place{Tile: true, X: 2, Y: 0, Address: pcieNIU}},
}

// placeOutsideWindows returns the place that an access to a BAR reaches without a TLB window: a
// register of a tile if the BAR mirrors that register, otherwise the place in the BAR.
func (d *Device) placeOutsideWindows(place Place, at access, value uint64) (Place, hal.Code) {
	if m := d.mirroredPlace(place); m.Tile {
		return d.tilePlace(chips.Tile{X: m.X, Y: m.Y}, m.Address, at, value)
	}
	return place, hal.OK
}

// mirroredPlace returns the place in a tile that a place in a BAR mirrors. tile.Tile is false if
// there is none.
func (d *Device) mirroredPlace(place Place) (tile Place) {
	if r, inside := findRegisters(d.board, place); d.hardware && r != nil && r.shows.Tile {
		tile = r.shows
		tile.Address += inside
	}
	return tile
}

// isDriverRegister returns false unless AsHardware was called.
func (d *Device) isDriverRegister(at Place) bool { return d.hardware && DriverOnly(d.board, at) }

// DriverOnly reports whether a place on a board is a plain register that only kernel drivers
// use.
func DriverOnly(b *boards.Board, at Place) bool {
	r, _ := findRegisters(b, at)
	return r != nil && !r.shows.Tile
}

// findRegisters returns the range in driverOnly that contains a place, or nil, and the place's
// offset in that range.
func findRegisters(b *boards.Board, at Place) (r *registerRange, inside uint64) {
	for i := range driverOnly {
		r, inside, first := &driverOnly[i], at.Address-driverOnly[i].first.Address, at
		first.Address = r.first.Address
		if r.board == b && first == r.first && inside < r.size {
			return r, inside
		}
	}
	return nil, 0
}
