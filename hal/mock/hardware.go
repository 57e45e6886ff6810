package mock

// This file lists registers that only kernel drivers use.

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// registerRange is a range of registers that keep the stored value, or, if shows is set, a
// range of a BAR that mirrors registers of a tile.
type registerRange struct {
	board *boards.Board
	first Place
	size  uint64
	shows Place
}

// driverOnly lists registers that exist after AsHardware: those that Tenstorrent's drivers
// use and no image may, and ranges of a BAR that mirror registers of a tile. The board's
// rules allow images some of the latter. Sources: tt-kmd; for the ARC's tile and the
// mirrored ranges, tt-umd 0.9.9, {wormhole,blackhole}_implementation.hpp, and ttsim v1.10.0
// src/libttsim.cpp, pci_mem_rd_cur.
var driverOnly = []registerRange{
	// Strided windows: blackhole.c, TLB_STRIDED_REGS_OFFSET and TLB_STRIDED_COUNT.
	{&boards.Blackhole, Place{Bar: 0, Address: 0x1fc009d8}, 32 * 4, Place{}},
	// The ARC's interrupt: blackhole.c, ARC_MSI_FIFO.
	{&boards.Blackhole, Place{Tile: true, X: 8, Y: 0, Address: 0x800b0000}, 4, Place{}},
	// The PCIe controller's configuration, accessed over the NoC: wormhole.c,
	// PCIE_DBI_ADDR, PCIE_NOC_X and PCIE_NOC_Y; blackhole.c.
	{&boards.Wormhole, Place{Tile: true, X: 0, Y: 3, Address: 0x8_0000_0000}, 0x1000, Place{}},
	{&boards.Blackhole, Place{Tile: true, X: 2, Y: 0, Address: 0xf800_0000_0000_0000}, 0x1000,
		Place{}},
	// NIU_CFG_0; the reset unit, and SMBUS_TELEMETRY_NOC_ADDR.
	{&boards.Blackhole, Place{Tile: true, X: 2, Y: 0, Address: pcieNIU + niuCfg0}, 4, Place{}},
	{&boards.Wormhole, Place{Tile: true, X: 0, Y: 10, Address: 0x8_8003_0000}, 0x1_0000, Place{}},
	{&boards.Wormhole, Place{Tile: true, X: 0, Y: 10, Address: 0x8_8005_0000 + niuCfg0}, 4,
		Place{}},
	{&boards.Wormhole, Place{Tile: true, X: 0, Y: 10, Address: 0x8_2007_8d60}, 50 * 4, Place{}},
	// The ARC's memory and registers, and on Blackhole the PCIe tile's.
	{&boards.Wormhole, Place{Bar: 0, Address: 0x1fe8_0000}, 0x8_0000,
		Place{Tile: true, X: 0, Y: 10, Address: 0x8_1000_0000}},
	{&boards.Wormhole, Place{Bar: 0, Address: 0x1ff0_0000}, 0x10_0000,
		Place{Tile: true, X: 0, Y: 10, Address: 0x8_8000_0000}},
	{&boards.Blackhole, Place{Bar: 0, Address: 0x1ff0_0000}, 0x10_0000,
		Place{Tile: true, X: 8, Y: 0, Address: 0x8000_0000}},
	{&boards.Blackhole, Place{Bar: 0, Address: 0x1fd0_4000}, 0x2000,
		Place{Tile: true, X: 2, Y: 0, Address: pcieNIU}},
}

// placeOutsideWindows returns the place of an access that does not use a TLB window.
func (d *Device) placeOutsideWindows(place Place, at access, value uint64) (Place, hal.Code) {
	if m := d.mirroredPlace(place); m.Tile {
		return d.tilePlace(chips.Tile{X: m.X, Y: m.Y}, m.Address, at, value)
	}
	return place, hal.OK
}

// mirroredPlace returns the place in a tile that a place in a BAR mirrors. Tile is false if
// the place mirrors none.
func (d *Device) mirroredPlace(place Place) (tile Place) {
	if r, inside := findRegisters(d.board, place); d.hardware && r != nil && r.shows.Tile {
		tile = r.shows
		tile.Address += inside
	}
	return tile
}

// isDriverRegister reports whether a place holds a register that only drivers use and that
// exists.
func (d *Device) isDriverRegister(at Place) bool { return d.hardware && DriverOnly(d.board, at) }

// DriverOnly reports whether a place of a board holds a register that only drivers use.
func DriverOnly(b *boards.Board, at Place) bool {
	r, _ := findRegisters(b, at)
	return r != nil && !r.shows.Tile
}

// findRegisters returns the range of driverOnly that a place is in, and the offset in it.
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
