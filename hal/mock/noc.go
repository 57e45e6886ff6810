package mock

// Network interfaces (NIU) of Tensix and Ethernet tiles: registers through which the RISC-V cores
// of a tile make requests to other tiles. A chip has two networks, NoC 0 and NoC 1, and a tile has
// a network interface for each.

import (
	"fmt"

	"lightmetal/boards/chips"
)

// Offsets of registers of a network interface that are the same on both chips: ttsim v1.10.0
// data/{wh,bh}/tile_regs.json.
const (
	// Registers of a command buffer. A core writes a request to a command buffer and then starts
	// the request. The coordinate of a tile and an address in the tile (an endpoint) are in the
	// consecutive registers LO, MID and, on Blackhole, HI.
	nocTargAddr  = 0x00 // endpoint: source of a read or write, target of an atomic or inline write
	nocRetAddr   = 0x0c // endpoint: destination of a read or write, or of the result of an atomic
	nocPacketTag = 0x18 // transaction id
	nocCtrl      = 0x1c // kind of the request
	nocAtLenBE   = 0x20 // number of bytes, byte enables, or kind of the atomic

	niuCfg0    = 0x100
	routerCfg0 = 0x104
	routerCfg1 = 0x108 // mask of the columns that multicasts skip
	routerCfg2 = 0x10c
	routerCfg3 = 0x110 // mask of the rows that multicasts skip

	// Counters of requests and responses.
	niuMstAtomicRespReceived = 0x200
	niuMstWrAckReceived      = 0x204
	niuMstRdRespReceived     = 0x208
	niuMstPostedAtomicSent   = 0x21c
	niuMstNonpostedWrReqSent = 0x228
	niuMstPostedWrReqSent    = 0x22c

	// Counters for each transaction id. niuMstWriteReqsOutgoingID is always 0, because a request
	// is complete before the core executes its next instruction.
	niuMstReqsOutstandingID   = 0x240 // 8 bits wide
	niuMstWriteReqsOutgoingID = 0x280
)

const (
	commandBuffers = 4      // of a network interface
	transactionIDs = 16     // of a network interface
	tagID          = 10     // lowest bit of the transaction id in NOC_PACKET_TAG
	coordinateBits = 12     // bits of a coordinate: 6 for x and 6 for y
	requestsMax    = 2      // a request may start a second request, which must not start a third
	tableEntries   = 8      // coordinates in a translation table
	atIncrement    = 0x107c // value of NOC_AT_LEN_BE: get and increment a 32-bit number
)

// Bits of NOC_CTRL: ttsim v1.10.0 src/tile.cpp, noc_cmd_ctrl.
const (
	ctrlAtomic      = 1 << 0
	ctrlWrite       = 1 << 1
	ctrlInline      = 1 << 3 // the data to write are in NOC_AT_DATA
	ctrlResponse    = 1 << 4 // the target sends a response; without it, the request is posted
	ctrlMulticast   = 1 << 5
	ctrlPathReserve = 1 << 8
	ctrlSrcInclude  = 1 << 17 // a multicast includes the tile that sends it

	// ctrlIgnored is the mask of the bits that do not change the result of a request: linked,
	// static channel, and number of the static channel.
	ctrlIgnored = 1<<6 | 1<<7 | 7<<13
)

// nocTraits describes what differs between the network interfaces of the chips: ttsim v1.10.0
// data/{wh,bh}/tile_regs.json, src/config.h and src/tile.cpp.
type nocTraits struct {
	stride    uint64 // bytes from the registers of one command buffer to those of the next
	atData    uint64 // offset of NOC_AT_DATA in a command buffer
	cmdCtrl   uint64 // offset of NOC_CMD_CTRL in a command buffer
	exclude   uint64 // offset of NOC_BRCST_EXCLUDE in a command buffer; 0 if there is none
	nodeID    uint64 // offset of NOC_NODE_ID
	clear     uint64 // offset of NOC_CLEAR_OUTSTANDING_REQ_CNT
	tables    uint64 // offset of NOC_X_ID_TRANSLATE_TABLE_0; 0 if there is none
	logicalID uint64 // offset of NOC_ID_LOGICAL

	// wide is true for Blackhole. On Blackhole, an address has 64 bits, and the coordinate is in
	// the register NOC_*_ADDR_HI; both NoCs use the same coordinates; and inline data cannot be
	// written to L1. On Wormhole, an address has 36 bits, and the coordinate is in the bits above
	// the address.
	wide      bool
	packetMax uint32 // largest number of bytes of a request
	dramAlign uint64 // for a read from DRAM: both addresses must be equal modulo this number

	registers map[uint64]niuRegister // all registers, by offset
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

// niuRegister is a register of a network interface. A function is nil if the register does not
// support the access.
type niuRegister struct {
	load  func(n *niu, offset uint64) uint32
	store func(n *niu, offset uint64, value uint32) error
}

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

// addBuffer adds the registers of a command buffer to the table, from the offset `first` on.
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
	// A load of NOC_CMD_CTRL always returns 0, which means that the buffer is free.
	c.registers[first+c.cmdCtrl] = niuRegister{(*niu).loadWord, (*niu).startRequest}
}

// niu is a network interface. It executes a request during the store that starts the request.
type niu struct {
	tile   *coreTile
	traits *nocTraits
	second bool              // the network interface belongs to NoC 1, not NoC 0
	words  map[uint64]uint32 // values of the registers, by offset
}

func newNIU(t *coreTile, second bool) niu {
	columns, rows := masksWithoutTensix(t.tiles.grid)
	return niu{tile: t, traits: t.tiles.traits.noc, second: second,
		words: map[uint64]uint32{routerCfg1: columns, routerCfg3: rows}}
}

// masksWithoutTensix returns the masks of the columns and of the rows that contain no Tensix tile.
func masksWithoutTensix(g *chips.Grid) (columns, rows uint32) {
	columns, rows = 1<<len(g.Rows[0])-1, 1<<len(g.Rows)-1
	for y, row := range g.Rows {
		for x := range row {
			if chips.TileKind(row[x]) == chips.Tensix {
				columns &^= 1 << x
				rows &^= 1 << y
			}
		}
	}
	return columns, rows
}

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
	return fmt.Errorf("the network interface has no writable register at offset %#x", offset)
}

// loadWord implements a load from a register that returns the stored value.
func (n *niu) loadWord(offset uint64) uint32 { return n.words[offset] }

func (n *niu) storeWord(offset uint64, value uint32) error {
	n.words[offset] = value
	return nil
}

func (n *niu) nodeID(uint64) uint32 { return nodeID(n.grid(), n.tile.at, n.second) }

// nodeID returns the value of NOC_NODE_ID: the coordinate of the tile (6 bits each for x and y),
// the size of the grid (7 bits each), and a bit that is set on NoC 0, where packets travel to the
// right and down. On NoC 1, coordinates count from the opposite corner of the grid.
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

// coordinateOf returns coordinates as registers contain them.
func coordinateOf(t chips.Tile) uint32 { return uint32(t.Y)<<6 | uint32(t.X) }

// translationTable implements a load from one of the eight registers with translation tables, first
// four for columns, then four for rows. A register has eight entries of 4 bits. An entry is the
// physical coordinate on this NoC of a translated coordinate.
func (n *niu) translationTable(offset uint64) (value uint32) {
	g, table := n.grid(), (offset-n.traits.tables)/4
	columns, rows := n.size()
	last, further := columns-1, g.NoC0Columns
	if table >= 4 {
		last, further = rows-1, g.NoC0Rows
	}
	for i := range uint8(tableEntries) {
		v := uint8(table)%4*tableEntries + i
		if v >= g.FirstTranslated && int(v-g.FirstTranslated) < len(further) {
			v = further[v-g.FirstTranslated]
			if n.second {
				v = last - v
			}
		} else if v >= g.FirstTranslated {
			v = 0
		}
		value |= uint32(v) << (4 * i)
	}
	return value
}

// clearOutstanding implements a store to NOC_CLEAR_OUTSTANDING_REQ_CNT. It accepts only the mask of
// all transaction ids, like the maker's simulator.
func (n *niu) clearOutstanding(_ uint64, ids uint32) error {
	if ids != 1<<transactionIDs-1 {
		return fmt.Errorf("NOC_CLEAR_OUTSTANDING_REQ_CNT is %#x, but the simulator supports only "+
			"0xffff (all transaction ids)", ids)
	}
	for id := range uint64(transactionIDs) {
		n.words[niuMstReqsOutstandingID+4*id] = 0
	}
	return nil
}

// setRouter implements a store to ROUTER_CFG_1 or ROUTER_CFG_3. It rejects a value with which
// multicasts would not skip all columns or rows without Tensix tiles.
func (n *niu) setRouter(offset uint64, leftOut uint32) error {
	columns, rows := masksWithoutTensix(n.grid())
	register, lines, needed := 1, "columns", columns
	if offset == routerCfg3 {
		register, lines, needed = 3, "rows", rows
	}
	if needed&^leftOut != 0 {
		return fmt.Errorf("ROUTER_CFG_%d is %#x, but must have all bits of %#x, "+
			"so that multicasts skip the %s without Tensix tiles", register, leftOut, needed, lines)
	}
	return n.storeWord(offset, leftOut)
}

// setExclude implements a store to NOC_BRCST_EXCLUDE. It accepts only 0, like the maker's
// simulator.
func (n *niu) setExclude(_ uint64, value uint32) error {
	if value != 0 {
		return fmt.Errorf("NOC_BRCST_EXCLUDE is %#x, but the simulator supports only 0 "+
			"(multicasts to whole rectangles)", value)
	}
	return nil
}

// setTag implements a store to NOC_PACKET_TAG. It accepts only a transaction id.
func (n *niu) setTag(offset uint64, value uint32) error {
	if value&^((transactionIDs-1)<<tagID) != 0 {
		return fmt.Errorf("NOC_PACKET_TAG is %#x, but only bits 10 to 13, the transaction id, "+
			"may be set",
			value)
	}
	return n.storeWord(offset, value)
}

var errChainTooLong = fmt.Errorf("NoC requests may start each other in chains of at most %d "+
	"requests", requestsMax)

// startRequest implements a store to NOC_CMD_CTRL: it executes the request in the command buffer. A
// request that writes to a register of a network interface may start another request. The length of
// such chains is limited, because some would never end.
func (n *niu) startRequest(offset uint64, value uint32) error {
	if value != 1 {
		return fmt.Errorf("NOC_CMD_CTRL must be 1, not %#x", value)
	}
	buffer, chip := offset/n.traits.stride, n.tile.tiles
	err := errChainTooLong
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
