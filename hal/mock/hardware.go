package mock

import "lightmetal/boards"

// registers is a run of registers that keep what is stored to them.
type registers struct {
	board *boards.Board
	first Place
	size  uint64
}

// driverOnly are the registers that Tenstorrent's kernel driver touches and no
// image may: they are there where a kernel sees the device. Source: tt-kmd.
var driverOnly = []registers{
	// Strided windows: blackhole.c, TLB_STRIDED_REGS_OFFSET and TLB_STRIDED_COUNT.
	{&boards.Blackhole, Place{Bar: 0, Address: 0x1fc009d8}, 32 * 4},
	// The ARC's interrupt: blackhole.c, ARC_MSI_FIFO.
	{&boards.Blackhole, Place{Tile: true, X: 8, Y: 0, Address: 0x800b0000}, 4},
	// The PCIe controller's own configuration, seen over the NoC: wormhole.c,
	// PCIE_DBI_ADDR, PCIE_NOC_X and PCIE_NOC_Y.
	{&boards.Wormhole, Place{Tile: true, X: 0, Y: 3, Address: 0x8_0000_0000}, 0x1000},
}

// forDriver tells whether a place holds one of those, and is seen by a kernel.
func (d *Device) forDriver(at Place) bool { return d.hardware && DriverOnly(d.board, at) }

// DriverOnly tells whether a place of a board holds a register that only a
// kernel driver has a use for.
func DriverOnly(b *boards.Board, at Place) bool {
	for i := range driverOnly {
		r := &driverOnly[i]
		inside := at.Address - r.first.Address
		at := at
		at.Address = r.first.Address
		if r.board == b && at == r.first && inside < r.size {
			return true
		}
	}
	return false
}
