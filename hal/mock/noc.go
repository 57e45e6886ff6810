package mock

// This file models the registers of the network interfaces of Tensix tiles.

import (
	"errors"
	"fmt"

	"lightmetal/boards/chips"
)

// Registers of a network interface (NIU) with the same offset on both chips: ttsim v1.10.0
// data/{wh,bh}/tile_regs.json.
const (
	// For each command buffer. A coordinate and address consists of the consecutive registers LO,
	// MID and, on Blackhole, HI.
	nocTargAddr  = 0x00
	nocRetAddr   = 0x0c
	nocPacketTag = 0x18
	nocCtrl      = 0x1c
	nocAtLenBE   = 0x20

	niuCfg0    = 0x100
	routerCfg0 = 0x104
	routerCfg1 = 0x108 // columns that multicasts skip
	routerCfg2 = 0x10c
	routerCfg3 = 0x110 // rows that multicasts skip

	niuMstAtomicRespReceived = 0x200
	niuMstWrAckReceived      = 0x204
	niuMstRdRespReceived     = 0x208
	niuMstPostedAtomicSent   = 0x21c
	niuMstNonpostedWrReqSent = 0x228
	niuMstPostedWrReqSent    = 0x22c

	// For each transaction id. The second is always 0: a request is complete before the core
	// continues.
	niuMstReqsOutstandingID   = 0x240 // 8 bits wide
	niuMstWriteReqsOutgoingID = 0x280
)

const (
	commandBuffers = 4
	transactionIDs = 16
	tagID          = 10 // bit of NOC_PACKET_TAG where the transaction id starts
	coordinateBits = 12
	requestsMax    = 2      // depth of nested requests; without a limit some would never end
	tableEntries   = 8      // coordinates in a translation table
	atIncrement    = 0x107c // NOC_AT_LEN_BE: get and increment, with all 32 bits before it wraps
)

// Bits of NOC_CTRL: ttsim v1.10.0 src/tile.cpp, noc_cmd_ctrl.
const (
	ctrlAtomic      = 1 << 0
	ctrlWrite       = 1 << 1
	ctrlInline      = 1 << 3 // the data is NOC_AT_DATA
	ctrlResponse    = 1 << 4 // not posted
	ctrlMulticast   = 1 << 5
	ctrlPathReserve = 1 << 8
	ctrlSrcInclude  = 1 << 17 // a multicast includes the tile that sends it

	// Linked, static channel and its number do not change the result.
	ctrlIgnored = 1<<6 | 1<<7 | 7<<13
)

// nocTraits describes the differences between the network interfaces of the chips: ttsim
// v1.10.0 data/{wh,bh}/tile_regs.json, src/config.h and src/tile.cpp.
type nocTraits struct {
	stride    uint64 // bytes from the registers of one command buffer to those of the next
	atData    uint64 // NOC_AT_DATA
	cmdCtrl   uint64 // NOC_CMD_CTRL
	exclude   uint64 // NOC_BRCST_EXCLUDE, 0 if there is none
	nodeID    uint64 // NOC_NODE_ID
	clear     uint64 // NOC_CLEAR_OUTSTANDING_REQ_CNT
	tables    uint64 // NOC_X_ID_TRANSLATE_TABLE_0, 0 if there is none
	logicalID uint64 // NOC_ID_LOGICAL

	// wide means that addresses have 64 bits, and that the coordinate is in the separate register
	// NOC_*_ADDR_HI; otherwise it is above 36 bits of address. Wide interfaces also use the same
	// coordinates on both NoCs, and do not write inline data to L1.
	wide      bool
	packetMax uint32 // most bytes of a request
	dramAlign uint64 // alignment in which source and destination of a load from DRAM agree

	registers map[uint64]niuRegister // by offset
}

var (
	wormholeNoC = withRegisters(nocTraits{
		stride: 0x400, atData: 0x24, cmdCtrl: 0x28, nodeID: 0x2c, clear: 0x50, tables: 0x118,
		logicalID: 0x138,
		packetMax: 8192, dramAlign: 32,
	})
	blackholeNoC = withRegisters(nocTraits{
		stride: 0x800, atData: 0x28, cmdCtrl: 0x40, exclude: 0x2c, nodeID: 0x44, clear: 0x60,
		logicalID: 0x148,
		wide:      true, packetMax: 16384, dramAlign: 64,
	})
)

// niuRegister implements a register. load or store is nil if the register does not support it.
type niuRegister struct {
	load  func(n *niu, offset uint64) uint32
	store func(n *niu, offset uint64, value uint32) error
}

// withRegisters returns c with its table of registers.
func withRegisters(c nocTraits) *nocTraits {
	kept := niuRegister{(*niu).loadWord, (*niu).storeWord}
	c.registers = map[uint64]niuRegister{
		c.nodeID:    {load: (*niu).nodeID},
		c.logicalID: {load: (*niu).logicalID},
		c.clear:     {store: (*niu).clearOutstanding},
		niuCfg0:     kept,
		routerCfg0:  kept,
		routerCfg1:  {(*niu).loadWord, (*niu).setRouter},
		routerCfg2:  kept,
		routerCfg3:  {(*niu).loadWord, (*niu).setRouter},
	}
	for _, counter := range []uint64{niuMstAtomicRespReceived, niuMstWrAckReceived,
		niuMstRdRespReceived,
		niuMstPostedAtomicSent, niuMstNonpostedWrReqSent, niuMstPostedWrReqSent} {
		c.registers[counter] = niuRegister{load: (*niu).loadWord}
	}
	for id := range uint64(transactionIDs) {
		c.registers[niuMstReqsOutstandingID+4*id] = niuRegister{load: (*niu).loadWord}
		c.registers[niuMstWriteReqsOutgoingID+4*id] = niuRegister{load: (*niu).loadWord}
	}
	for i := range uint64(8) {
		if c.tables != 0 {
			c.registers[c.tables+4*i] = niuRegister{load: (*niu).translationTable}
		}
	}
	for buffer := range uint64(commandBuffers) {
		c.addBuffer(buffer * c.stride)
	}
	return &c
}

// addBuffer adds the registers of a command buffer.
func (c *nocTraits) addBuffer(first uint64) {
	kept := niuRegister{(*niu).loadWord, (*niu).storeWord}
	for _, r := range []uint64{nocTargAddr, nocTargAddr + 4, nocRetAddr, nocRetAddr + 4, nocCtrl,
		nocAtLenBE, c.atData} {
		c.registers[first+r] = kept
	}
	if c.wide {
		c.registers[first+nocTargAddr+8] = kept
		c.registers[first+nocRetAddr+8] = kept
	}
	if c.exclude != 0 {
		c.registers[first+c.exclude] = niuRegister{store: (*niu).setExclude}
	}
	c.registers[first+nocPacketTag] = niuRegister{(*niu).loadWord, (*niu).setTag}
	// Always reads 0, which means that the buffer is free.
	c.registers[first+c.cmdCtrl] = niuRegister{(*niu).loadWord, (*niu).startRequest}
}

// niu is one of the two network interfaces of a tile, through which the cores of the tile make
// requests. A request is executed during the store that starts it.
type niu struct {
	tile   *tensix
	traits *nocTraits
	second bool // NoC 1
	words  map[uint64]uint32
}

func newNIU(t *tensix, second bool) niu {
	columns, rows := notTensix(t.tiles.grid)
	return niu{tile: t, traits: t.tiles.traits.noc, second: second,
		words: map[uint64]uint32{routerCfg1: columns, routerCfg3: rows}}
}

// notTensix returns the columns and rows of a grid that have no Tensix tiles, one bit each.
func notTensix(g *chips.Grid) (columns, rows uint32) {
	columns, rows = 1<<len(g.Rows[0])-1, 1<<len(g.Rows)-1
	for y, row := range g.Rows {
		for x := range row {
			if chips.Kind(row[x]) == chips.Tensix {
				columns &^= 1 << x
				rows &^= 1 << y
			}
		}
	}
	return columns, rows
}

// hasRegister reports whether there is a register that can be loaded or stored to.
func (n *niu) hasRegister(offset uint64, op Op) bool {
	r := n.traits.registers[offset]
	return op == Load && r.load != nil || op == Store && r.store != nil
}

func (n *niu) load(offset uint64) (value uint32, ok bool) {
	if r := n.traits.registers[offset]; r.load != nil {
		return r.load(n, offset), true
	}
	return 0, false
}

func (n *niu) store(offset uint64, value uint32) error {
	if r := n.traits.registers[offset]; r.store != nil {
		return r.store(n, offset, value)
	}
	return errors.New("no such register of the network interface, or none to store to")
}

func (n *niu) loadWord(offset uint64) uint32 { return n.words[offset] }

func (n *niu) storeWord(offset uint64, value uint32) error {
	n.words[offset] = value
	return nil
}

// nodeID returns the tile's coordinate with 6 bits each for x and y, the size of the grid with
// 7 bits each, and a bit that is set if packets travel right and down. NoC 1 counts from the
// opposite corner.
func (n *niu) nodeID(uint64) uint32 { return nodeID(n.grid(), n.tile.at, n.second) }

func nodeID(g *chips.Grid, at chips.Tile, second bool) uint32 {
	columns, rows, forward := uint8(len(g.Rows[0])), uint8(len(g.Rows)), uint32(1)
	if second {
		at, forward = chips.Tile{X: columns - 1 - at.X, Y: rows - 1 - at.Y}, 0
	}
	return forward<<28 | uint32(rows)<<19 | uint32(columns)<<12 | coordinateOf(at)
}

func (n *niu) logicalID(uint64) uint32 { return coordinateOf(logicalTile(n.grid(), n.tile.at)) }

func (n *niu) grid() *chips.Grid { return n.tile.tiles.grid }

func (n *niu) size() (columns, rows uint8) {
	g := n.grid()
	return uint8(len(g.Rows[0])), uint8(len(g.Rows))
}

func coordinateOf(t chips.Tile) uint32 { return uint32(t.Y)<<6 | uint32(t.X) }

// translationTable returns one of eight tables, four for columns and four for rows. Each has
// eight entries of 4 bits: the physical coordinates on this NoC.
func (n *niu) translationTable(offset uint64) (value uint32) {
	g, table := n.grid(), (offset-n.traits.tables)/4
	columns, rows := n.size()
	last, further := columns-1, g.NoC0Columns
	if table >= 4 {
		last, further = rows-1, g.NoC0Rows
	}
	for i := range uint8(tableEntries) {
		v := uint8(table)%4*tableEntries + i
		if v >= g.First && int(v-g.First) < len(further) {
			v = further[v-g.First]
			if n.second {
				v = last - v
			}
		} else if v >= g.First {
			v = 0
		}
		value |= uint32(v) << (4 * i)
	}
	return value
}

func (n *niu) clearOutstanding(_ uint64, ids uint32) error {
	if ids != 1<<transactionIDs-1 {
		return fmt.Errorf("outstanding requests of the transaction ids %#x: the simulator takes "+
			"0xffff only", ids)
	}
	for id := range uint64(transactionIDs) {
		n.words[niuMstReqsOutstandingID+4*id] = 0
	}
	return nil
}

func (n *niu) setRouter(offset uint64, leftOut uint32) error {
	columns, rows := notTensix(n.grid())
	if offset == routerCfg1 && columns&^leftOut != 0 || offset == routerCfg3 && rows&^leftOut != 0 {
		return fmt.Errorf("ROUTER_CFG would have multicasts reach columns or rows without Tensix "+
			"tiles: %#x", leftOut)
	}
	return n.storeWord(offset, leftOut)
}

func (n *niu) setExclude(_ uint64, value uint32) error {
	if value != 0 {
		return fmt.Errorf("NOC_BRCST_EXCLUDE is %#x; the simulator has multicasts of whole "+
			"rectangles only", value)
	}
	return nil
}

func (n *niu) setTag(offset uint64, value uint32) error {
	if value&^((transactionIDs-1)<<tagID) != 0 {
		return fmt.Errorf("NOC_PACKET_TAG is %#x, with more than a transaction id in bits 10 to 13",
			value)
	}
	return n.storeWord(offset, value)
}

// startRequest executes the request in a command buffer. A request that stores to a register may
// start another one.
func (n *niu) startRequest(offset uint64, value uint32) error {
	if value != 1 {
		return fmt.Errorf("NOC_CMD_CTRL takes 1 only, not %#x", value)
	}
	buffer, chip := offset/n.traits.stride, n.tile.tiles
	err := errors.New("a request that another one started starts a third")
	if chip.requests < requestsMax {
		chip.requests++
		err = n.executeRequest(buffer * n.traits.stride)
		chip.requests--
	}
	if err != nil {
		return fmt.Errorf("NoC %d, command buffer %d: %w", n.number(), buffer, err)
	}
	return nil
}

func (n *niu) number() int {
	if n.second {
		return 1
	}
	return 0
}
