package mock

import (
	"cmp"
	"fmt"
	"math/bits"

	"lightmetal/boards/chips"
)

// request is decoded from the registers of a command buffer.
type request struct {
	*niu
	ctrl   uint32   // NOC_CTRL
	length uint32   // NOC_AT_LEN_BE: number of bytes, byte enables, or kind of the atomic
	id     uint32   // transaction id
	data   uint32   // NOC_AT_DATA
	targ   endpoint // NOC_TARG_ADDR
	ret    endpoint // NOC_RET_ADDR
}

// endpoint is an address in a tile or, for the destination of a multicast, in each tile of a
// rectangle.
type endpoint struct {
	coordinate  uint32
	address     uint64
	first, tile chips.Tile // corners of the rectangle; equal if there is only one tile
}

// executeRequest executes the request in the command buffer whose registers begin at an offset.
func (n *niu) executeRequest(buffer uint64) error {
	q := request{
		niu:    n,
		ctrl:   n.words[buffer+nocCtrl],
		length: n.words[buffer+nocAtLenBE],
		id:     n.words[buffer+nocPacketTag] >> tagID,
		data:   n.words[buffer+n.traits.atData],
		targ:   n.endpointAt(buffer + nocTargAddr),
		ret:    n.endpointAt(buffer + nocRetAddr),
	}
	if err := q.resolveEndpoint(&q.targ, false); err != nil {
		return err
	}
	if err := q.resolveEndpoint(&q.ret, q.ctrl&ctrlMulticast != 0); err != nil {
		return err
	}
	switch kind, answers := q.ctrl&^(ctrlIgnored|ctrlResponse), q.ctrl&ctrlResponse != 0; {
	case kind == 0 && answers:
		return q.executeRead()
	case kind == ctrlWrite:
		return q.executeWrite()
	case kind == ctrlWrite|ctrlInline:
		return q.executeInlineWrite()
	case kind&^ctrlInline == ctrlAtomic:
		return q.executeIncrement()
	case kind&^ctrlSrcInclude == ctrlWrite|ctrlMulticast|ctrlPathReserve:
		return q.executeMulticast()
	}
	switch {
	case q.ctrl&^ctrlIgnored == 0:
		return fmt.Errorf("NOC_CTRL is %#x, but a read must request an answer", q.ctrl)
	case q.ctrl&ctrlMulticast != 0:
		return fmt.Errorf("NOC_CTRL is %#x, but a multicast must be a write from L1 that "+
			"reserves its path", q.ctrl)
	}
	return fmt.Errorf("NOC_CTRL is %#x, a request that the simulator does not implement", q.ctrl)
}

// endpointAt decodes the registers LO, MID and HI at an offset.
func (n *niu) endpointAt(offset uint64) endpoint {
	lo, mid := uint64(n.words[offset]), uint64(n.words[offset+4])
	if n.traits.wide {
		return endpoint{coordinate: n.words[offset+8], address: mid<<32 | lo}
	}
	return endpoint{coordinate: uint32(mid >> 4), address: mid&0xf<<32 | lo}
}

// resolveEndpoint sets the tiles of an endpoint from its coordinate. The coordinate of a multicast
// consists of the coordinates of two corners.
func (q *request) resolveEndpoint(e *endpoint, multicast bool) (err error) {
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
		return fmt.Errorf("(%d,%d) is a %s, which the simulator does not support as a target",
			e.tile.X, e.tile.Y, kind)
	}
	return nil
}

// tileOf returns the tile at a coordinate of this NoC, in NoC 0 coordinates. Physical coordinates
// of NoC 1 count from the opposite corner of the grid. Translated coordinates are the same on both
// NoCs. Wormhole has both kinds, Blackhole only translated coordinates. Like the maker's simulator,
// tileOf rejects some coordinates in the columns of DRAM tiles (ttsim v1.10.0 src/tile.cpp,
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
	t, ok := n.grid().TileAt(tile.X, tile.Y)
	if n.traits.wide {
		ok = ok && (x != 0 || y < 2)
	} else {
		ok = ok && (x < columns || x >= n.grid().FirstTranslated+2)
	}
	if !ok || coordinate>>coordinateBits != 0 {
		return t, fmt.Errorf("coordinate %#x means (%d,%d), where NoC %d has no tile",
			coordinate, x, y, n.number())
	}
	return t, nil
}

// checkOwnL1 checks that the bytes at an endpoint are in L1 (the memory) of the tile that makes the
// request.
func (q *request) checkOwnL1(e endpoint, size uint64) error {
	if e.tile != q.tile.at {
		return fmt.Errorf("the endpoint (%d,%d) must be the tile that makes the request", e.tile.X,
			e.tile.Y)
	}
	if !q.tile.l1.containsRange(e.address, size) {
		return fmt.Errorf("the range of %d bytes at %#x must be in L1", size, e.address)
	}
	return nil
}

func (q *request) checkAlignment(align uint64) error {
	if (q.targ.address^q.ret.address)%align != 0 {
		return fmt.Errorf("the addresses %#x and %#x must be equal modulo %d", q.targ.address,
			q.ret.address, align)
	}
	return nil
}

func (q *request) checkLength() error {
	if q.length < 1 || q.length > q.traits.packetMax {
		return fmt.Errorf("the length is %d bytes, but a packet must have 1 to %d bytes", q.length,
			q.traits.packetMax)
	}
	return nil
}

// executeRead copies from any tile to L1 of the tile that makes the request.
func (q *request) executeRead() error {
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
	err := cmp.Or(q.checkLength(), q.checkOwnL1(q.ret, uint64(q.length)), q.checkAlignment(align))
	if err != nil {
		return err
	}
	if isRegister && uint64(q.length) > 4-q.ret.address%4 {
		return fmt.Errorf("the read of %d bytes at %#x crosses the end of a 4-byte register",
			q.length, q.targ.address)
	}
	data := make([]byte, q.length)
	if err := q.tile.tiles.readTile(q.targ.tile, q.targ.address, data); err != nil {
		return err
	}
	q.tile.l1.write(q.ret.address, data)
	q.words[niuMstRdRespReceived]++
	return nil
}

// executeWrite copies from L1 of the tile that makes the request to any tile.
func (q *request) executeWrite() error {
	source := q.checkOwnL1(q.targ, uint64(q.length))
	if err := cmp.Or(q.checkLength(), source, q.checkAlignment(16)); err != nil {
		return err
	}
	if err := q.tile.tiles.writeTile(q.ret.tile, q.ret.address, q.payload()); err != nil {
		return err
	}
	q.countWrite()
	return nil
}

// payload returns a copy of the bytes in L1 that a write or multicast sends.
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

// executeMulticast copies from L1 of the tile that makes the request to all tiles of a rectangle,
// except those for which isExcluded returns true.
func (q *request) executeMulticast() error {
	source := q.checkOwnL1(q.targ, uint64(q.length))
	if err := cmp.Or(q.checkLength(), source, q.checkAlignment(16)); err != nil {
		return err
	}
	if q.ret.address >= q.tile.l1.size && (q.length != 4 || q.ret.address%4 != 0) {
		return fmt.Errorf("a multicast to an address outside L1 must be an aligned 4-byte write, "+
			"not %d bytes to %#x", q.length, q.ret.address)
	}
	first, last, err := q.multicastCorners()
	if err != nil {
		return err
	}
	reached := uint32(0)
	data := q.payload()
	for y := first.Y; y <= last.Y; y++ {
		for x := first.X; x <= last.X; x++ {
			t := chips.Tile{X: x, Y: y}
			if q.isExcluded(t) {
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

// multicastCorners returns the corners of the rectangle of a multicast in NoC 0 coordinates, with
// the smaller coordinates first. In a request on NoC 1, the corners are in the opposite order,
// because packets travel in the opposite direction. multicastCorners rejects rectangles that wrap
// around the edge of the grid, because the maker's simulator does not implement them.
func (q *request) multicastCorners() (first, last chips.Tile, err error) {
	first, last = q.ret.first, q.ret.tile
	if q.second {
		first, last = last, first
	}
	if first.X > last.X || first.Y > last.Y {
		err = fmt.Errorf("the multicast from (%d,%d) to (%d,%d) is against the direction of NoC "+
			"%d, "+
			"which the simulator does not implement",
			q.ret.first.X, q.ret.first.Y, q.ret.tile.X, q.ret.tile.Y, q.number())
	}
	return first, last, err
}

// isExcluded reports whether a multicast skips the tile t: t is in a column or row that the router
// skips, or t sends a request that does not include its sender.
func (q *request) isExcluded(t chips.Tile) bool {
	return q.words[routerCfg1]>>t.X&1 != 0 || q.words[routerCfg3]>>t.Y&1 != 0 ||
		t == q.tile.at && q.ctrl&ctrlSrcInclude == 0
}

// countMulticast counts one request and, unless it is posted, one response from each reached tile.
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

// executeIncrement adds NOC_AT_DATA to a word in a tile. Even for a posted request, it writes the
// previous value of the word to L1 of the tile that makes the request.
func (q *request) executeIncrement() error {
	switch kind := q.grid().Kind(q.targ.tile); {
	case q.length != atIncrement:
		return fmt.Errorf("NOC_AT_LEN_BE is %#x, but the simulator implements only the atomic "+
			"%#x (get and increment)", q.length, atIncrement)
	case q.targ.address%16 != 0 || q.ret.address%4 != 0:
		return fmt.Errorf("the address of the atomic, %#x, must be a multiple of 16, and the "+
			"address of the "+
			"answer, %#x, a multiple of 4", q.targ.address, q.ret.address)
	case kind != chips.Tensix && kind != chips.Ethernet:
		return fmt.Errorf("the target of an atomic must be a Tensix or Ethernet tile, not a %s",
			kind)
	}
	if err := q.checkOwnL1(q.ret, 4); err != nil {
		return err
	}
	var before, after [4]byte
	if err := q.tile.tiles.readTile(q.targ.tile, q.targ.address, before[:]); err != nil {
		return err
	}
	storeLittleEndian(after[:], 4, loadLittleEndian(before[:], 4)+uint64(q.data))
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

// executeInlineWrite stores NOC_AT_DATA to a register of a tile or, on Wormhole, to L1 of a tile.
// For L1, the byte enables in NOC_AT_LEN_BE must select exactly one word. For a register they have
// no effect.
func (q *request) executeInlineWrite() error {
	kind, address := q.grid().Kind(q.targ.tile), q.targ.address
	switch {
	case kind != chips.Tensix && kind != chips.Ethernet:
		return fmt.Errorf("the target of an inline write must be a Tensix or Ethernet tile, not "+
			"a %s", kind)
	case q.ret.tile != q.tile.at:
		return q.checkOwnL1(q.ret, 0)
	case address >= localRAM:
	case q.traits.wide:
		return fmt.Errorf("the inline write to %#x is unsafe; on Blackhole, inline writes must "+
			"be to registers", address)
	case !enablesWord(q.length, address):
		return fmt.Errorf("the inline write to %#x has the byte enables %#x, but the simulator "+
			"writes only "+
			"whole words", address, q.length)
	}
	if address%4 != 0 {
		return fmt.Errorf("the address of the inline write, %#x, must be a multiple of 4", address)
	}
	var data [4]byte
	storeLittleEndian(data[:], 4, uint64(q.data))
	if err := q.tile.tiles.writeTile(q.targ.tile, address, data[:]); err != nil {
		return err
	}
	q.countWrite()
	return nil
}

// enablesWord reports whether byte enables select exactly the 4-byte word at an address. Bit n
// stands for byte n of the aligned block of 16 or 32 bytes that contains the address.
func enablesWord(enables uint32, address uint64) bool {
	shift := bits.TrailingZeros32(enables)
	return enables != 0 && enables>>shift == 0xf && uint64(shift%16) == address%16
}
