package mock

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"

	"lightmetal/boards/chips"
)

// Registers of a network interface (NIU) that lie at the same offset on both
// chips: ttsim v1.10.0 data/{wh,bh}/tile_regs.json.
const (
	// Once for each command buffer. A coordinate and address takes LO, MID
	// and, on Blackhole, HI, one behind the other.
	nocTargAddr  = 0x00
	nocRetAddr   = 0x0c
	nocPacketTag = 0x18
	nocCtrl      = 0x1c
	nocAtLenBE   = 0x20

	niuCfg0    = 0x100
	routerCfg0 = 0x104
	routerCfg1 = 0x108 // columns that multicasts leave out
	routerCfg2 = 0x10c
	routerCfg3 = 0x110 // rows that multicasts leave out

	niuMstAtomicRespReceived = 0x200
	niuMstWrAckReceived      = 0x204
	niuMstRdRespReceived     = 0x208
	niuMstPostedAtomicSent   = 0x21c
	niuMstNonpostedWrReqSent = 0x228
	niuMstPostedWrReqSent    = 0x22c

	// Once for each transaction id. The second is always 0: requests end before
	// the core goes on.
	niuMstReqsOutstandingID   = 0x240 // 8 bits wide
	niuMstWriteReqsOutgoingID = 0x280
)

const (
	commandBuffers = 4
	transactionIDs = 16
	tagID          = 10 // bit of NOC_PACKET_TAG where the transaction id starts
	coordinateBits = 12
	requestsMax    = 2      // inside each other: without a limit some would never end
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
	ctrlSrcInclude  = 1 << 17 // multicasts reach the tile they come from too

	// Linked, static channel and its number change the way, not the result.
	ctrlIgnored = 1<<6 | 1<<7 | 7<<13
	ctrlKnown   = ctrlAtomic | ctrlWrite | ctrlInline | ctrlResponse | ctrlMulticast | ctrlPathReserve | ctrlSrcInclude | ctrlIgnored
)

// nocTraits is where the network interfaces of the chips differ: ttsim v1.10.0
// data/{wh,bh}/tile_regs.json, src/config.h and src/tile.cpp.
type nocTraits struct {
	stride    uint64 // bytes from the registers of one command buffer to the next's
	atData    uint64 // NOC_AT_DATA
	cmdCtrl   uint64 // NOC_CMD_CTRL
	exclude   uint64 // NOC_BRCST_EXCLUDE, 0: there is none
	nodeID    uint64 // NOC_NODE_ID
	clear     uint64 // NOC_CLEAR_OUTSTANDING_REQ_CNT
	tables    uint64 // NOC_X_ID_TRANSLATE_TABLE_0, 0: there is none
	logicalID uint64 // NOC_ID_LOGICAL

	// wide: addresses have 64 bits, and the coordinate has a register of its
	// own, NOC_*_ADDR_HI; else it follows 36 bits of address. Wide interfaces
	// also take the same coordinates on both NoCs, and write no inline data to
	// L1.
	wide      bool
	packetMax uint32 // bytes of a request
	dramAlign uint64 // in which source and destination of a load from DRAM agree

	registers map[uint64]niuRegister // by offset
}

var (
	wormholeNoC = withRegisters(nocTraits{
		stride: 0x400, atData: 0x24, cmdCtrl: 0x28, nodeID: 0x2c, clear: 0x50, tables: 0x118, logicalID: 0x138,
		packetMax: 8192, dramAlign: 32,
	})
	blackholeNoC = withRegisters(nocTraits{
		stride: 0x800, atData: 0x28, cmdCtrl: 0x40, exclude: 0x2c, nodeID: 0x44, clear: 0x60, logicalID: 0x148,
		wide: true, packetMax: 16384, dramAlign: 64,
	})
)

// niuRegister is what a register does; nil where it cannot be loaded or stored.
type niuRegister struct {
	load  func(n *niu, offset uint64) uint32
	store func(n *niu, offset uint64, value uint32) error
}

func withRegisters(c nocTraits) *nocTraits {
	kept := niuRegister{(*niu).kept, (*niu).keep}
	c.registers = map[uint64]niuRegister{
		c.nodeID:    {load: (*niu).nodeID},
		c.logicalID: {load: (*niu).logicalID},
		c.clear:     {store: (*niu).clearOutstanding},
		niuCfg0:     kept,
		routerCfg0:  kept,
		routerCfg1:  {(*niu).kept, (*niu).setRouter},
		routerCfg2:  kept,
		routerCfg3:  {(*niu).kept, (*niu).setRouter},
	}
	for _, counter := range []uint64{niuMstAtomicRespReceived, niuMstWrAckReceived, niuMstRdRespReceived,
		niuMstPostedAtomicSent, niuMstNonpostedWrReqSent, niuMstPostedWrReqSent} {
		c.registers[counter] = niuRegister{load: (*niu).kept}
	}
	for id := range uint64(transactionIDs) {
		c.registers[niuMstReqsOutstandingID+4*id] = niuRegister{load: (*niu).kept}
		c.registers[niuMstWriteReqsOutgoingID+4*id] = niuRegister{load: (*niu).kept}
	}
	for i := range uint64(8) {
		if c.tables != 0 {
			c.registers[c.tables+4*i] = niuRegister{load: (*niu).translations}
		}
	}
	for buffer := range uint64(commandBuffers) {
		c.addBuffer(buffer * c.stride)
	}
	return &c
}

// addBuffer adds the registers of a command buffer.
func (c *nocTraits) addBuffer(first uint64) {
	kept := niuRegister{(*niu).kept, (*niu).keep}
	for _, r := range []uint64{nocTargAddr, nocTargAddr + 4, nocRetAddr, nocRetAddr + 4, nocCtrl, nocAtLenBE, c.atData} {
		c.registers[first+r] = kept
	}
	if c.wide {
		c.registers[first+nocTargAddr+8] = kept
		c.registers[first+nocRetAddr+8] = kept
	}
	if c.exclude != 0 {
		c.registers[first+c.exclude] = niuRegister{store: (*niu).setExclude}
	}
	c.registers[first+nocPacketTag] = niuRegister{(*niu).kept, (*niu).setTag}
	c.registers[first+c.cmdCtrl] = niuRegister{(*niu).kept, (*niu).command} // 0: free
}

// niu is one of the two network interfaces of a tile, as far as its own cores
// make requests by it. A request is carried out at once, before the store that
// starts it ends.
type niu struct {
	tile   *tensix
	traits *nocTraits
	second bool // NoC 1
	words  map[uint64]uint32
}

func newNIU(t *tensix, second bool) niu {
	columns, rows := notTensix(t.tiles.grid)
	return niu{tile: t, traits: t.tiles.traits.noc, second: second, words: map[uint64]uint32{routerCfg1: columns, routerCfg3: rows}}
}

// notTensix gives the columns and rows of a grid that have no Tensix tiles, one
// bit each.
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

// has tells whether a register can be loaded, or stored to.
func (n *niu) has(offset uint64, op Op) bool {
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

func (n *niu) kept(offset uint64) uint32 { return n.words[offset] }

func (n *niu) keep(offset uint64, value uint32) error {
	n.words[offset] = value
	return nil
}

// nodeID tells who the tile is in the network: x and y, 6 bits each, the size
// of the grid, 7 bits each, and whether packets travel right and down. NoC 1
// counts from the opposite corner.
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

// translations gives one of eight tables, four of columns and four of rows, of
// eight coordinates each, 4 bits a coordinate: what they stand for on this NoC.
func (n *niu) translations(offset uint64) (value uint32) {
	g, table := n.grid(), (offset-n.traits.tables)/4
	columns, rows := n.size()
	last, further := columns-1, g.Columns
	if table >= 4 {
		last, further = rows-1, g.Lines
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
		return fmt.Errorf("outstanding requests of the transaction ids %#x: the simulator takes 0xffff only", ids)
	}
	for id := range uint64(transactionIDs) {
		n.words[niuMstReqsOutstandingID+4*id] = 0
	}
	return nil
}

func (n *niu) setRouter(offset uint64, leftOut uint32) error {
	columns, rows := notTensix(n.grid())
	if offset == routerCfg1 && columns&^leftOut != 0 || offset == routerCfg3 && rows&^leftOut != 0 {
		return fmt.Errorf("ROUTER_CFG would have multicasts reach columns or rows without Tensix tiles: %#x", leftOut)
	}
	return n.keep(offset, leftOut)
}

func (n *niu) setExclude(_ uint64, value uint32) error {
	if value != 0 {
		return fmt.Errorf("NOC_BRCST_EXCLUDE is %#x; the simulator has multicasts of whole rectangles only", value)
	}
	return nil
}

func (n *niu) setTag(offset uint64, value uint32) error {
	if value&^((transactionIDs-1)<<tagID) != 0 {
		return fmt.Errorf("NOC_PACKET_TAG is %#x, with more than a transaction id in bits 10 to 13", value)
	}
	return n.keep(offset, value)
}

// command carries out the request in a command buffer, which by storing to a
// register may start another.
func (n *niu) command(offset uint64, value uint32) error {
	if value != 1 {
		return fmt.Errorf("NOC_CMD_CTRL takes 1 only, not %#x", value)
	}
	buffer, chip := offset/n.traits.stride, n.tile.tiles
	err := errors.New("a request that another one started starts a third")
	if chip.requests < requestsMax {
		chip.requests++
		err = n.carryOut(buffer * n.traits.stride)
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

// request is what a command buffer says.
type request struct {
	*niu
	ctrl, length uint32 // length is bytes, or which of them
	id           uint32 // of the transaction
	data         uint32 // NOC_AT_DATA
	targ, ret    end
}

// end is a place that a request goes to or comes from; of a multicast, a
// rectangle.
type end struct {
	coordinate  uint32
	address     uint64
	first, tile chips.Tile // the same unless it is a multicast
}

func (n *niu) carryOut(buffer uint64) error {
	q := request{
		niu:    n,
		ctrl:   n.words[buffer+nocCtrl],
		length: n.words[buffer+nocAtLenBE],
		id:     n.words[buffer+nocPacketTag] >> tagID,
		data:   n.words[buffer+n.traits.atData],
		targ:   n.end(buffer + nocTargAddr),
		ret:    n.end(buffer + nocRetAddr),
	}
	if err := checkCtrl(q.ctrl); err != nil {
		return err
	}
	if err := q.find(&q.targ, false); err != nil {
		return err
	}
	if err := q.find(&q.ret, q.ctrl&ctrlMulticast != 0); err != nil {
		return err
	}
	switch {
	case q.ctrl&ctrlMulticast != 0:
		return q.multicast()
	case q.ctrl&ctrlAtomic != 0:
		return q.increment()
	case q.ctrl&ctrlInline != 0:
		return q.writeInline()
	case q.ctrl&ctrlWrite != 0:
		return q.write()
	}
	return q.read()
}

// end takes apart the address registers at an offset.
func (n *niu) end(offset uint64) end {
	lo, mid := uint64(n.words[offset]), uint64(n.words[offset+4])
	if n.traits.wide {
		return end{coordinate: n.words[offset+8], address: mid<<32 | lo}
	}
	return end{coordinate: uint32(mid >> 4), address: mid&0xf<<32 | lo}
}

// checkCtrl refuses what the simulator does not have, which is in part what the
// hardware has not either.
func checkCtrl(ctrl uint32) error {
	var not string
	atomic, write, inline := ctrl&ctrlAtomic != 0, ctrl&ctrlWrite != 0, ctrl&ctrlInline != 0
	switch multicast := ctrl&ctrlMulticast != 0; {
	case ctrl&^ctrlKnown != 0:
		not = fmt.Sprintf("bits %#x of it", ctrl&^ctrlKnown)
	case multicast && (atomic || inline || !write):
		not = "multicasts of other than plain writes"
	case multicast && ctrl&ctrlPathReserve == 0:
		not = "multicasts without path reservation"
	case multicast:
	case ctrl&(ctrlPathReserve|ctrlSrcInclude) != 0:
		not = "path reservation or inclusion of the source in a unicast"
	case atomic && write:
		not = "an atomic that is a write"
	case !atomic && !write && inline:
		not = "inline data of a read"
	case !atomic && !write && ctrl&ctrlResponse == 0:
		not = "a posted read"
	}
	if not != "" {
		return fmt.Errorf("NOC_CTRL is %#x, and the simulator does not have %s", ctrl, not)
	}
	return nil
}

// find tells which tiles an end means.
func (q *request) find(e *end, multicast bool) (err error) {
	first := e.coordinate
	if multicast {
		first, e.coordinate = e.coordinate>>coordinateBits, e.coordinate&(1<<coordinateBits-1)
	}
	if e.first, err = q.tileOf(first); err != nil {
		return err
	}
	if e.tile, err = q.tileOf(e.coordinate); err != nil {
		return err
	}
	switch kind := q.grid().Kind(e.tile); kind {
	case chips.Router, chips.L2CPU, chips.Security:
		return fmt.Errorf("(%d,%d) is a %s, which the simulator does not have as a target", e.tile.X, e.tile.Y, kind)
	}
	return nil
}

// tileOf gives the tile that a coordinate means on this NoC. NoC 1 of
// Wormhole counts from the opposite corner; translated coordinates mean the
// same on both, and Blackhole's are all translated. The simulator does not know
// every name of a tile in the columns of DRAM (ttsim v1.10.0 src/tile.cpp,
// remap_virtual_coordinate).
func (n *niu) tileOf(coordinate uint32) (t chips.Tile, err error) {
	x, y := uint8(coordinate&63), uint8(coordinate>>6&63)
	columns, rows := n.size()
	tile := chips.Tile{X: x, Y: y}
	if n.second && !n.traits.wide {
		if x < columns {
			tile.X = columns - 1 - x
		}
		if y < rows {
			tile.Y = rows - 1 - y
		}
	}
	t, ok := n.grid().NoC0(tile.X, tile.Y)
	if n.traits.wide {
		ok = ok && (x != 0 || y < 2)
	} else {
		ok = ok && (x < columns || x >= n.grid().First+2)
	}
	if !ok || coordinate>>coordinateBits != 0 {
		return t, fmt.Errorf("coordinate %#x, which is (%d,%d), means no tile on NoC %d", coordinate, x, y, n.number())
	}
	return t, nil
}

// own checks that an end is in the L1 of the tile that makes the request.
func (q *request) own(e end, size uint64) error {
	if e.tile != q.tile.at {
		return fmt.Errorf("the end at (%d,%d) is not the tile that makes the request", e.tile.X, e.tile.Y)
	}
	if !q.tile.l1.holds(e.address, size) {
		return fmt.Errorf("%d bytes at %#x are not in L1", size, e.address)
	}
	return nil
}

// aligned checks that both ends are equally far past a multiple of align.
func (q *request) aligned(align uint64) error {
	if (q.targ.address^q.ret.address)%align != 0 {
		return fmt.Errorf("the addresses %#x and %#x differ modulo %d", q.targ.address, q.ret.address, align)
	}
	return nil
}

func (q *request) checkLength() error {
	if q.length < 1 || q.length > q.traits.packetMax {
		return fmt.Errorf("%d bytes; a packet has 1 to %d", q.length, q.traits.packetMax)
	}
	return nil
}

// read is from another tile, which may be the same, to L1.
func (q *request) read() error {
	align, kind := uint64(16), q.grid().Kind(q.targ.tile)
	isRegister := kind != chips.DRAM && kind != chips.PCIe && q.targ.address >= localRAM
	switch {
	case kind == chips.PCIe:
		align = 1
	case kind == chips.DRAM:
		align = q.traits.dramAlign
	case isRegister:
		align = 4
	}
	err := cmp.Or(q.checkLength(), q.own(q.ret, uint64(q.length)), q.aligned(align))
	if err != nil {
		return err
	}
	if isRegister && uint64(q.length) > 4-q.ret.address%4 {
		return fmt.Errorf("%d bytes from %#x, where there are registers", q.length, q.targ.address)
	}
	data := make([]byte, q.length)
	if err := q.tile.tiles.readTile(q.targ.tile, q.targ.address, data); err != nil {
		return err
	}
	q.tile.l1.write(q.ret.address, data)
	q.words[niuMstRdRespReceived]++
	return nil
}

// write is from L1 to another tile, which may be the same.
func (q *request) write() error {
	if err := cmp.Or(q.checkLength(), q.own(q.targ, uint64(q.length)), q.aligned(16)); err != nil {
		return err
	}
	if err := q.tile.tiles.writeTile(q.ret.tile, q.ret.address, q.payload()); err != nil {
		return err
	}
	q.countWrite()
	return nil
}

// payload is what a write takes from L1.
func (q *request) payload() []byte {
	data := make([]byte, q.length)
	q.tile.l1.read(q.targ.address, data)
	return data
}

func (q *request) countWrite() {
	if q.ctrl&ctrlResponse == 0 {
		q.words[niuMstPostedWrReqSent]++
		return
	}
	q.words[niuMstNonpostedWrReqSent]++
	q.words[niuMstWrAckReceived]++
}

// multicast is a write to all Tensix tiles of a rectangle but those in columns
// and rows that the router leaves out, and the own one unless it is asked for.
func (q *request) multicast() error {
	if err := cmp.Or(q.checkLength(), q.own(q.targ, uint64(q.length)), q.aligned(16)); err != nil {
		return err
	}
	if q.ret.address >= q.tile.l1.size && (q.length != 4 || q.ret.address%4 != 0) {
		return fmt.Errorf("%d bytes to %#x, where there is at most a register", q.length, q.ret.address)
	}
	first, last, err := q.corners()
	if err != nil {
		return err
	}
	reached := uint32(0)
	data := q.payload()
	for y := first.Y; y <= last.Y; y++ {
		for x := first.X; x <= last.X; x++ {
			t := chips.Tile{X: x, Y: y}
			if q.leavesOut(t) {
				continue
			}
			if err := q.tile.tiles.writeTile(t, q.ret.address, data); err != nil {
				return err
			}
			reached++
		}
	}
	q.countMulticast(reached)
	return nil
}

// corners of a multicast in NoC 0 coordinates. NoC 1 goes through them the other
// way; the simulator does not have those that wrap round.
func (q *request) corners() (first, last chips.Tile, err error) {
	first, last = q.ret.first, q.ret.tile
	if q.second {
		first, last = last, first
	}
	if first.X > last.X || first.Y > last.Y {
		err = fmt.Errorf("a multicast to (%d,%d)-(%d,%d), which NoC %d does not go through in this direction",
			q.ret.first.X, q.ret.first.Y, q.ret.tile.X, q.ret.tile.Y, q.number())
	}
	return first, last, err
}

func (q *request) leavesOut(t chips.Tile) bool {
	return q.words[routerCfg1]>>t.X&1 != 0 || q.words[routerCfg3]>>t.Y&1 != 0 ||
		t == q.tile.at && q.ctrl&ctrlSrcInclude == 0
}

// countMulticast: there is one request, and an answer from each tile.
func (q *request) countMulticast(reached uint32) {
	if q.ctrl&ctrlResponse == 0 {
		q.words[niuMstPostedWrReqSent]++
		return
	}
	q.words[niuMstNonpostedWrReqSent]++
	q.words[niuMstWrAckReceived] += reached
	outstanding := niuMstReqsOutstandingID + 4*uint64(q.id)
	q.words[outstanding] = uint32(uint8(q.words[outstanding] + 1 - reached))
}

// increment adds to a word of another tile. What was there before goes to L1,
// of posted requests too.
func (q *request) increment() error {
	switch kind := q.grid().Kind(q.targ.tile); {
	case q.length != atIncrement:
		return fmt.Errorf("NOC_AT_LEN_BE is %#x; of atomics the simulator has %#x only, get and increment", q.length, atIncrement)
	case q.targ.address%16 != 0 || q.ret.address%4 != 0:
		return fmt.Errorf("an atomic at %#x, not a multiple of 16, or its answer to %#x, not one of 4", q.targ.address, q.ret.address)
	case kind != chips.Tensix && kind != chips.Ethernet:
		return fmt.Errorf("an atomic in a %s", kind)
	}
	if err := q.own(q.ret, 4); err != nil {
		return err
	}
	var before, after [4]byte
	if err := q.tile.tiles.readTile(q.targ.tile, q.targ.address, before[:]); err != nil {
		return err
	}
	put(after[:], 4, get(before[:], 4)+uint64(q.data))
	if err := q.tile.tiles.writeTile(q.targ.tile, q.targ.address, after[:]); err != nil {
		return err
	}
	q.tile.l1.write(q.ret.address, before[:])
	if q.ctrl&ctrlResponse != 0 {
		q.words[niuMstAtomicRespReceived]++
	} else {
		q.words[niuMstPostedAtomicSent]++
	}
	return nil
}

// writeInline stores NOC_AT_DATA to a register of a tile or, on Wormhole, to
// L1. NOC_AT_LEN_BE says which bytes there; registers are stored whole.
func (q *request) writeInline() error {
	kind, address := q.grid().Kind(q.targ.tile), q.targ.address
	switch {
	case kind != chips.Tensix && kind != chips.Ethernet:
		return fmt.Errorf("inline data to a %s", kind)
	case q.ret.tile != q.tile.at:
		return q.own(q.ret, 0)
	case address >= localRAM:
	case q.traits.wide:
		return fmt.Errorf("inline data to %#x: unsafe but to registers on Blackhole", address)
	case !enablesWord(q.length, address):
		return fmt.Errorf("inline data to %#x with the byte enables %#x; the simulator writes whole words", address, q.length)
	}
	if address%4 != 0 {
		return fmt.Errorf("inline data to %#x, not a multiple of 4", address)
	}
	var data [4]byte
	put(data[:], 4, uint64(q.data))
	if err := q.tile.tiles.writeTile(q.targ.tile, address, data[:]); err != nil {
		return err
	}
	q.countWrite()
	return nil
}

// enablesWord tells whether byte enables are those of the word at an address,
// counted from a multiple of 16 or 32.
func enablesWord(enables uint32, address uint64) bool {
	shift := bits.TrailingZeros32(enables)
	return enables != 0 && enables>>shift == 0xf && uint64(shift%16) == address%16
}

// readTile reads memory of a tile, host memory behind the PCIe tile, or one
// register of a Tensix tile. Registers of others are not modelled.
func (g *Tiles) readTile(at chips.Tile, address uint64, data []byte) error {
	kind := g.grid.Kind(at)
	if kind == chips.Tensix {
		t := g.tile(at)
		if t.l1.holds(address, uint64(len(data))) {
			t.l1.read(address, data)
			return nil
		}
		if value, ok := t.loadRegister(address); ok && len(data) == 4 {
			put(data, 4, uint64(value))
			return nil
		}
	} else if g.hostPages(kind, address, len(data), func(page []byte, i int) { copy(data[i:], page) }) {
		return nil
	} else if g.grid.Memory(kind, address, uint64(len(data))) != nil {
		g.eachPage(at, address, len(data), func(page []byte, i int) { copy(data[i:], page) })
		return nil
	}
	return fmt.Errorf("the %s (%d,%d) cannot be read %d bytes at %#x", kind, at.X, at.Y, len(data), address)
}

// writeTile is as readTile.
func (g *Tiles) writeTile(at chips.Tile, address uint64, data []byte) error {
	kind := g.grid.Kind(at)
	if kind == chips.Tensix {
		t := g.tile(at)
		if t.l1.holds(address, uint64(len(data))) {
			t.l1.write(address, data)
			return nil
		}
		if len(data) == 4 {
			if err := t.storeRegister(address, uint32(get(data, 4))); err != nil {
				return fmt.Errorf("register %#x of the %s (%d,%d): %w", address, kind, at.X, at.Y, err)
			}
			return nil
		}
	} else if g.hostPages(kind, address, len(data), func(page []byte, i int) { copy(page, data[i:]) }) {
		return nil
	} else if g.grid.Memory(kind, address, uint64(len(data))) != nil {
		g.eachPage(at, address, len(data), func(page []byte, i int) { copy(page, data[i:]) })
		return nil
	}
	return fmt.Errorf("the %s (%d,%d) cannot be written %d bytes at %#x", kind, at.X, at.Y, len(data), address)
}

// hostPages goes through size bytes of the host memory that a kind of tile shows
// at an address; i is how many came before a page. It tells whether they are all
// there, and does nothing where one is not.
func (g *Tiles) hostPages(k chips.Kind, address uint64, size int, do func(page []byte, i int)) bool {
	if k != chips.PCIe || g.host == nil {
		return false
	}
	var pages [][]byte
	for done := 0; done < size; {
		at := address + uint64(done)
		page := g.host.Bytes(at, min(uint64(size-done), pageSize-at%pageSize))
		if page == nil {
			return false
		}
		pages = append(pages, page)
		done += len(page)
	}
	i := 0
	for _, page := range pages {
		do(page, i)
		i += len(page)
	}
	return true
}

// eachPage goes through size bytes of a tile's memory; i is how many came
// before a page.
func (g *Tiles) eachPage(at chips.Tile, address uint64, size int, do func(page []byte, i int)) {
	home := g.grid.Home(at)
	for i := 0; i < size; {
		page := g.bytes(Place{Tile: true, X: home.X, Y: home.Y, Address: address + uint64(i)})
		page = page[:min(len(page), size-i)]
		do(page, i)
		i += len(page)
	}
}
