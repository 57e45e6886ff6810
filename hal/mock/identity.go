package mock

// This file models the node id registers of tiles without modelled cores.

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
)

// Addresses of the network interfaces' registers in tiles without modelled cores: ttsim
// v1.10.0 data/{wh,bh}/tile_regs.json and src/tile.cpp, tile_rd_bytes. Host programs read
// only the tile's node id.
const (
	dramNIUs = 0x1_0008_0000 // Wormhole: three ports of two interfaces
	dramNIU  = 0x8000        // bytes of one
	dramLast = dramNIUs + 6*dramNIU - 1

	arcNIU0 = 0x50000 // from arcRegisters on
	arcNIU1 = 0x58000
	arcNIU  = 0xf_ffb2_0000 // Wormhole, NoC 0: src/tile.cpp, ARC_NOC_NIU0_BASE

	pcieNIU = 0xffff_ffff_ff00_0000 // Blackhole, NoC 0
)

// arcRegisters maps the name of a board to the address of the ARC tile's first register.
var arcRegisters = map[string]uint64{boards.Wormhole.Name: 0x8_8000_0000,
	boards.Blackhole.Name: 0x8000_0000}

// identity returns the value of NOC_NODE_ID or NOC_ID_LOGICAL of a tile that is not a Tensix
// tile; ok is false if neither register is at this place.
func (g *Tiles) identity(at Place) (id uint32, ok bool) {
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

// interfaceAt returns the network interface that has a register at an address in a kind of
// tile, and the register's offset.
func (g *Tiles) interfaceAt(k chips.Kind, address uint64) (noc int, offset uint64, ok bool) {
	wide := g.traits.noc.wide // Blackhole
	arc := address - arcRegisters[g.board]
	switch {
	case k == chips.Ethernet && address >= niu0 && address < niu1+niuSize:
		return int((address - niu0) / niuSize), (address - niu0) % niuSize, true
	case k == chips.DRAM && !wide && address >= dramNIUs && address <= dramLast:
		return int((address - dramNIUs) / dramNIU % 2), address % dramNIU, true
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
