package mock

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// registers is a run of registers that keep what is stored to them, or a part of a BAR that shows
// those of a tile.
type registers struct {
	board *boards.Board
	first Place
	size  uint64
	shows Place
}

// driverOnly is there where a kernel sees the device: registers that Tenstorrent's
// drivers touch and no image may, and parts of a BAR that show those of a tile, some
// of which a board's rules give to images too. Source: tt-kmd; of the ARC's tile, and of what
// shows in a BAR, tt-umd 0.9.9, {wormhole,blackhole}_implementation.hpp, and ttsim
// v1.10.0 src/libttsim.cpp, pci_mem_rd_cur.
var driverOnly = []registers{
	// Strided windows: blackhole.c, TLB_STRIDED_REGS_OFFSET and TLB_STRIDED_COUNT.
	{&boards.Blackhole, Place{Bar: 0, Address: 0x1fc009d8}, 32 * 4, Place{}},
	// The ARC's interrupt: blackhole.c, ARC_MSI_FIFO.
	{&boards.Blackhole, Place{Tile: true, X: 8, Y: 0, Address: 0x800b0000}, 4, Place{}},
	// The PCIe controller's own configuration, seen over the NoC: wormhole.c,
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

// direct is where an access goes that is to no window.
func (d *Device) direct(place Place, at access, value uint64) (Place, hal.Code) {
	if m := d.mirrored(place); m.Tile {
		return d.tilePlace(chips.Tile{X: m.X, Y: m.Y}, m.Address, at, value)
	}
	return place, hal.OK
}

// mirrored gives the place in a tile that shows at one in a BAR of a device that a kernel sees;
// elsewhere Tile is false.
func (d *Device) mirrored(place Place) (tile Place) {
	if r, inside := find(d.board, place); d.hardware && r != nil && r.shows.Tile {
		tile = r.shows
		tile.Address += inside
	}
	return tile
}

// forDriver tells whether a place holds one of those, and is seen by a kernel.
func (d *Device) forDriver(at Place) bool { return d.hardware && DriverOnly(d.board, at) }

// DriverOnly tells whether a place of a board holds a register that only a driver has a use for.
func DriverOnly(b *boards.Board, at Place) bool {
	r, _ := find(b, at)
	return r != nil && !r.shows.Tile
}

// find gives the run that a place is in, and how far from its first.
func find(b *boards.Board, at Place) (r *registers, inside uint64) {
	for i := range driverOnly {
		r, inside, first := &driverOnly[i], at.Address-driverOnly[i].first.Address, at
		first.Address = r.first.Address
		if r.board == b && first == r.first && inside < r.size {
			return r, inside
		}
	}
	return nil, 0
}
