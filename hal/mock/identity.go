package mock

// This file models the id registers of tiles that have no RISC-V cores in the model, such as
// DRAM tiles. Each network interface of a tile has these registers.

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
)

// Addresses of network interfaces (NIU) in DRAM, ARC and PCIe tiles: ttsim v1.10.0
// data/{wh,bh}/tile_regs.json and src/tile.cpp, tile_rd_bytes. Of their registers, host programs
// read only the id of the tile.
const (
	dramNIUs    = 0x1_0008_0000                // Wormhole, DRAM tile: the first of six
	dramNIUSize = 0x8000                       // bytes of one
	dramLast    = dramNIUs + 6*dramNIUSize - 1 // last byte of the sixth

	arcNIU0 = 0x50000       // ARC tile, NoC 0: offset from arcRegisters
	arcNIU1 = 0x58000       // ARC tile, NoC 1: offset from arcRegisters
	arcNIU  = 0xf_ffb2_0000 // Wormhole, ARC tile, NoC 0: src/tile.cpp, ARC_NOC_NIU0_BASE

	pcieNIU = 0xffff_ffff_ff00_0000 // Blackhole, PCIe tile, NoC 0
)

// arcRegisters is the address of the first register in the ARC tile, by the name of the board.
var arcRegisters = map[string]uint64{boards.Wormhole.Name: 0x8_8000_0000,
	boards.Blackhole.Name: 0x8000_0000}

// idRegister returns the value of the register NOC_NODE_ID or NOC_ID_LOGICAL at a place in a
// tile without cores. `ok` is false if neither register is at that place.
func (g *Tiles) idRegister(at Place) (id uint32, ok bool) {
	c := chips.Tile{X: at.X, Y: at.Y}
	if !at.Tile {
		return 0, false
	}
	noc, offset, ok := g.interfaceAt(g.grid.Kind(c), at.Address)
	traits := g.traits.noc
	switch {
	case !ok:
	case offset == traits.nodeID:
		return nodeID(g.grid, c, noc == 1), true
	case offset == traits.logicalID && g.grid.Kind(c) == chips.Ethernet:
		return coordinateOf(logicalTile(g.grid, c)), true
	}
	return 0, false
}

// interfaceAt returns the number of the NoC of the network interface at an address in a tile of
// kind k, and the offset of the address from the interface's first register. `ok` is false if no
// network interface is there.
func (g *Tiles) interfaceAt(k chips.TileKind, address uint64) (noc int, offset uint64, ok bool) {
	wide := g.traits.noc.wide // Blackhole
	arc := address - arcRegisters[g.board]
	switch {
	case k == chips.Ethernet && address >= niu0 && address < niu1+niuSize:
		return int((address - niu0) / niuSize), (address - niu0) % niuSize, true
	case k == chips.DRAM && !wide && address >= dramNIUs && address <= dramLast:
		return int((address - dramNIUs) / dramNIUSize % 2), address % dramNIUSize, true
	case k == chips.ARC && arc >= arcNIU0 && arc < arcNIU0+0x1000:
		return 0, arc - arcNIU0, true
	case k == chips.ARC && arc >= arcNIU1 && arc < arcNIU1+0x1000:
		return 1, arc - arcNIU1, true
	case k == chips.ARC && !wide && address >= arcNIU && address < arcNIU+niuSize:
		return 0, address - arcNIU, true
	case k == chips.PCIe && wide && address >= pcieNIU:
		return 0, address - pcieNIU, true
	}
	return 0, 0, false
}
