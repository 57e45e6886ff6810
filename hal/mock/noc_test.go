package mock

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// nocChip describes a board for the tests of the network. tools/devices/ttsim compares the effects
// of requests with the vendor's simulator case by case.
type nocChip struct {
	board           *boards.Board
	kernelSuffix    string // suffix of the names of kernels
	cmdCtrl         uint32 // offset of NOC_CMD_CTRL
	dramAlign       int    // alignment of DRAM in bytes
	dram            chips.Tile
	dramOnNoC       [2]uint32 // coordinate of dram on each NoC
	tiles           []chips.Tile
	coordinates     [2][]uint32 // coordinates of tiles on each NoC
	forbiddenTarget uint32      // coordinate of a tile that must not be a target
	clearOffset     uint32      // offset of NOC_CLEAR_OUTSTANDING_REQ_CNT
}

// coordinate returns the encoding of the network's registers.
func coordinate(x, y uint32) uint32 { return y<<6 | x }

var nocChips = []nocChip{
	{board: &boards.Wormhole, kernelSuffix: "_wh", cmdCtrl: 0x28, dramAlign: 32,
		// on each NoC, the coordinate of another tile of the bank of dram
		dram: chips.Tile{X: 5, Y: 2}, dramOnNoC: [2]uint32{coordinate(5, 9), coordinate(4, 1)},
		tiles: []chips.Tile{{X: 1, Y: 1}, {X: 4, Y: 3}, {X: 9, Y: 11}},
		coordinates: [2][]uint32{
			{coordinate(1, 1), coordinate(4, 3), coordinate(25, 27)},
			{coordinate(18, 18), coordinate(5, 8), coordinate(0, 0)},
		},
		forbiddenTarget: coordinate(0, 2), clearOffset: 0x50},
	{board: &boards.Blackhole, kernelSuffix: "_bh", cmdCtrl: 0x40, dramAlign: 64,
		dram:      chips.Tile{X: 9, Y: 2},
		dramOnNoC: [2]uint32{coordinate(17, 15), coordinate(17, 16)},
		tiles:     []chips.Tile{{X: 1, Y: 2}, {X: 7, Y: 5}, {X: 16, Y: 11}},
		coordinates: [2][]uint32{
			{coordinate(1, 2), coordinate(7, 5), coordinate(16, 11)},
			{coordinate(1, 2), coordinate(7, 5), coordinate(16, 11)},
		},
		forbiddenTarget: coordinate(8, 3), clearOffset: 0x60},
}

// TestNoCKernelCopiesDRAM copies ranges of random size and address, in chunks of random size that
// keep the alignment. The bytes around the range must not change.
func TestNoCKernelCopiesDRAM(t *testing.T) {
	const source, target, buffer = 0x1234_0000, 0x2000_0000, 0x20000
	for _, c := range nocChips {
		random := rand.New(rand.NewPCG(1, 2))
		r := newTileSetup(t, c.board).selectTile(c.tiles[1])
		r.write(0, loadKernel(t, "noc_copy"+c.kernelSuffix))
		for run := range 20 {
			noc, size, chunk := run%2, random.IntN(20_000), 64*(1+random.IntN(300))
			from := random.IntN(100)
			into, staging := from+16*random.IntN(10), from+c.dramAlign*random.IntN(10)
			in, before := randomBytes(random, (size+from+3)&^3),
				randomBytes(random, (size+into+19)&^3)
			r.selectTile(c.dram).write(source, in)
			r.write(target, before)
			r.selectTile(c.tiles[1]).runKernel(uint32(noc), uint32(size),
				c.dramOnNoC[noc], uint32(source+from), c.dramOnNoC[noc], uint32(target+into),
				uint32(buffer+staging), uint32(chunk))
			copy(before[into:], in[from:from+size])
			if got := r.selectTile(c.dram).read(target, len(before)); !bytes.Equal(got, before) {
				t.Fatalf("%s, run %d: DRAM differs after a copy of %d bytes", c.board.Name, run,
					size)
			}
			r.selectTile(c.tiles[1])
		}
	}
}

// TestNoCKernelGathersL1 gathers data from L1 of several tiles, including the tile of the kernel.
func TestNoCKernelGathersL1(t *testing.T) {
	const source, target, size = 0x21230, 0x30030, 20_000
	for _, c := range nocChips {
		for noc := range uint32(2) {
			random := rand.New(rand.NewPCG(3, 4))
			r := newTileSetup(t, c.board)
			var want []byte
			for _, tile := range c.tiles {
				data := randomBytes(random, size)
				want = append(want, data...)
				r.selectTile(tile).write(source, data)
			}
			r.selectTile(c.tiles[0]).write(0, loadKernel(t, "noc_gather"+c.kernelSuffix))
			r.runKernel(append([]uint32{noc, size, source, target, uint32(len(c.tiles))},
				c.coordinates[noc]...)...)
			if got := r.read(target, len(want)); !bytes.Equal(got, want) {
				t.Errorf("%s, NoC %d: the gathered bytes differ from those of the tiles",
					c.board.Name, noc)
			}
		}
	}
}

// TestTilesSynchronizeThroughASemaphore runs kernels that wait for each other many times. The host
// accesses no tile meanwhile: all cores must make progress during one long Sleep.
func TestTilesSynchronizeThroughASemaphore(t *testing.T) {
	const semaphore, words, total, n = 0x18000, 0x20000, 0x19000, 48
	for _, c := range nocChips {
		for noc, coordinates := range c.coordinates {
			random, sum := rand.New(rand.NewPCG(5, 6)), uint32(0)
			r := newTileSetup(t, c.board)
			workers := c.tiles[1:]
			for i, tile := range c.tiles {
				args := []uint32{uint32(noc), semaphore, n, words, uint32(len(workers)), total,
					coordinates[1], coordinates[2]}
				if i > 0 {
					data := randomBytes(random, 4*n)
					for k := range n {
						sum += binary.LittleEndian.Uint32(data[4*k:])
					}
					r.selectTile(tile).write(words, data)
					args = []uint32{uint32(noc), semaphore, n, words, 0, coordinates[0],
						words + uint32(i-1)*4*n}
				}
				r.selectTile(tile).write(0, loadKernel(t, "noc_sem"+c.kernelSuffix))
				r.writeWords(argsAddress, args...)
			}
			for _, tile := range c.tiles {
				r.selectTile(tile).writeReset(briscReleased)
			}
			r.Sleep(1_000_000)
			for _, tile := range c.tiles {
				if got := r.selectTile(tile).readWord(flagAddress); got != flagDone {
					t.Errorf("%s, NoC %d: the flag of the kernel of %v is %#x, want %#x",
						c.board.Name, noc, tile, got, uint32(flagDone))
				}
			}
			if got := r.selectTile(c.tiles[0]).readWord(total); got != sum {
				t.Errorf("%s, NoC %d: total %d, want %d", c.board.Name, noc, got, sum)
			}
		}
	}
}

// TestTileStartsOtherTiles starts cores of tiles that the host has never accessed. A kernel sends
// the tiles their program by a multicast, and releases the cores by stores to the reset registers.
func TestTileStartsOtherTiles(t *testing.T) {
	const program = 0x20000
	hello := []uint32{
		0x00100293, // li t0,1
		0x10502023, // sw t0,0x100(zero)
		0x0000006f, // j .
	}
	for _, c := range nocChips {
		for noc, coordinates := range c.coordinates {
			tile := c.tiles[0]
			own, step := coordinates[0], uint32(1)
			if noc == 1 && c.board == &boards.Wormhole {
				own, step = coordinate(8, 10), ^uint32(0)
			}
			right, below := own+step, own+step<<6
			opposite := right + step<<6
			first, last := own, opposite
			if noc == 1 {
				first, last = last, first
			}
			r := newTileSetup(t, c.board).selectTile(tile)
			r.writeWords(program, hello...)
			r.write(0, loadKernel(t, "noc_start"+c.kernelSuffix))
			r.runKernel(uint32(noc), uint32(4*len(hello)), program, first, last, 3, right, below,
				opposite)
			r.Sleep(1000)
			for _, other := range []chips.Tile{{X: tile.X + 1, Y: tile.Y},
				{X: tile.X, Y: tile.Y + 1}, {X: tile.X + 1, Y: tile.Y + 1}} {
				if got := r.selectTile(other).readWord(0x100); got != 1 {
					t.Errorf("%s, NoC %d: the program of %v stored %#x at 0x100, want 1",
						c.board.Name, noc, other, got)
				}
			}
			if r.selectTile(tile).readWord(0) == hello[0] {
				t.Errorf("%s, NoC %d: the multicast reached the tile that sent it", c.board.Name,
					noc)
			}
		}
	}
}

// requestStores returns a list for the program poke: stores that make command buffer 0 of NoC 0
// send a request.
func (c *nocChip) requestStores(ctrl, length, targ, targAddress, ret, retAddress uint32) []uint32 {
	const niu = niu0
	list := []uint32{niu + 0x00, targAddress, niu + 0x0c, retAddress, niu + 0x1c, ctrl, niu + 0x20,
		length}
	if c.board == &boards.Wormhole {
		list = append(list, niu+0x04, targ<<4, niu+0x10, ret<<4)
	} else {
		list = append(list, niu+0x08, targ, niu+0x14, ret)
	}
	return append(list, niu+c.cmdCtrl, 1)
}

// TestRejectedRequestStopsTheCore checks that an invalid request stops the core at the store that
// starts the request, and that the mock reports the reason.
func TestRejectedRequestStopsTheCore(t *testing.T) {
	for i := range nocChips {
		c := &nocChips[i]
		near, far, dram := c.coordinates[0][0], c.coordinates[0][1], c.dramOnNoC[0]
		for _, rejected := range []struct {
			list   []uint32
			reason string
		}{
			{c.requestStores(0x10, 64, dram, 16, near, 0x1000),
				"NoC 0, command buffer 0: the addresses 0x10 and 0x1000 must be equal modulo "},
			{c.requestStores(0x10, 0, dram, 0, near, 0x1000),
				"the length is 0 bytes, but a packet must have 1 to "},
			{c.requestStores(0x10, 64, c.forbiddenTarget, 0, near, 0x1000),
				"which the simulator does not support as a target"},
			{c.requestStores(0x10, 64, coordinate(40, 1), 0, near, 0x1000),
				"means (40,1), where NoC 0 has no tile"},
			{c.requestStores(0x12, 64, far, 0, dram, 0), "must be the tile that makes the request"},
			{c.requestStores(0x12, 64, near, 0x17fff0, dram, 0x30),
				"the range of 64 bytes at 0x17fff0 must be in L1"},
			{c.requestStores(0x14, 64, dram, 0, near, 0x1000),
				"NOC_CTRL is 0x14, a request that the simulator does not implement"},
			{c.requestStores(0, 64, dram, 0, near, 0x1000),
				"NOC_CTRL is 0x0, but a read must request an answer"},
			{c.requestStores(0x22, 16, near, 0, near|far<<12, 0),
				"NOC_CTRL is 0x22, but a multicast must be a write from L1 that reserves its path"},
			{c.requestStores(0x12, 4, near, 0x200, far, 0xffb121b0),
				"register 0xffb121b0 of the Tensix tile"},
			{c.requestStores(0x12, 4, near, 0x40+c.cmdCtrl%16, near, niu0+c.cmdCtrl),
				"NoC requests may start each other in chains of at most 2 requests"},
			{c.requestStores(0x12, 64, near, 0, dram, 0xffff_fff0), "the DRAM tile"},
			{c.requestStores(0x11, 0x107c, far, 0x1008, near, 0x2000),
				"the address of the atomic, 0x1008, must be a multiple of 16"},
			{c.requestStores(0x132, 16, near, 0, near|far<<12, 0),
				"is against the direction of NoC 0"},
			{[]uint32{niu0 + c.cmdCtrl, 3}, "NOC_CMD_CTRL must be 1, not 0x3"},
			{[]uint32{niu0 + 0x18, 1}, "NOC_PACKET_TAG is 0x1"},
			{[]uint32{niu0 + c.clearOffset, 1}, "the simulator supports only 0xffff"},
			{[]uint32{niu0 + 0x208, 1},
				"the network interface has no writable register at offset 0x208"},
		} {
			r := newTileSetup(t, c.board).selectTile(c.tiles[0])
			r.writeWords(0x40, 1, 1, 1, 1)
			if got := r.refusalAfter(poke, rejected.list...); !strings.Contains(got,
				"BRISC stopped at pc 0x00000010: store refused") ||
				!strings.Contains(got, rejected.reason) {
				t.Errorf("%s: load after the request: %q, want %q", c.board.Name, got,
					rejected.reason)
			}
			r.refusalAfter(peek, 0x180000) // another invalid access, which has another reason
			if reason := r.model.(*Tiles).Reason(); strings.Contains(reason, rejected.reason) {
				t.Errorf("%s: a later invalid access has the reason of the earlier one: %q",
					c.board.Name, reason)
			}
		}
	}
}

// TestTilesReachHostMemory accesses host memory through the PCIe tile: only inside the Host windows
// of the image, and only while bus mastering is on.
func TestTilesReachHostMemory(t *testing.T) {
	pcie := map[*boards.Board]uint32{&boards.Wormhole: coordinate(0, 3),
		&boards.Blackhole: coordinate(19, 24)}
	for i := range nocChips {
		c := &nocChips[i]
		r := newTileSetup(t, c.board).selectTile(c.tiles[0])
		first := mustMap(t, r.Device, fbs.Window{Kind: gen.WindowKindHost, Size: 0x1000})
		second := mustMap(t, r.Device, fbs.Window{Kind: gen.WindowKindHost, Size: 100})
		if noc := c.board.Outbound.NoCBase; first.BusAddress != noc ||
			second.BusAddress != noc+0x2000 {
			t.Fatalf("%s: host windows at %#x and %#x, want %#x and %#x", c.board.Name,
				first.BusAddress, second.BusAddress, noc, noc+0x2000)
		}
		// A request between L1 and host memory.
		hostRequest := func(ctrl, size uint32, address uint64, local uint32, write bool) []uint32 {
			list := c.requestStores(ctrl, size, pcie[c.board], uint32(address), c.coordinates[0][0],
				local)
			mid, other := uint32(niu0+0x04), uint32(niu0+0x10)
			if write {
				list = c.requestStores(ctrl, size, c.coordinates[0][0], local, pcie[c.board],
					uint32(address))
				mid, other = other, mid
			}
			start := slices.Clone(list[len(list)-2:])
			list = list[:len(list)-2]
			if c.board == &boards.Wormhole {
				return append(append(list, mid, pcie[c.board]<<4|uint32(address>>32)), start...)
			}
			return append(append(list, mid, uint32(address>>32), other, 0), start...)
		}
		data := randomBytes(rand.New(rand.NewPCG(1, 2)), 96)
		if code := CopyAt(&second, gen.OpcodeCopyIn, 4, 4, gen.AccessExact, data); code != hal.OK {
			t.Fatal(code)
		}
		r.runProgram(poke, hostRequest(0x10, 96, second.BusAddress+4, 0x1000, false)...)
		r.runProgram(poke, hostRequest(0x12, 64, first.BusAddress+0xfc0, 0x1000, true)...)
		got := make([]byte, 64)
		code := CopyAt(&first, gen.OpcodeCopyOut, 0xfc0, 4, gen.AccessExact, got)
		if code != hal.OK ||
			!bytes.Equal(got, data[:64]) || !bytes.Equal(r.read(0x1000, 96), data) {
			t.Errorf("%s: %v, % x in host memory, % x in L1, want % x; %s", c.board.Name, code, got,
				r.read(0x1000, 96), data, r.Refusal())
		}
		for _, outside := range [][]uint32{
			hostRequest(0x10, 64, second.BusAddress+64, 0x1000, false), // over the end
			hostRequest(0x12, 64, first.BusAddress+0x1000, 0x1000, true),
			hostRequest(0x10, 4, 0, 0x1000, false),
		} {
			s := newTileSetup(t, c.board).selectTile(c.tiles[0])
			mustMap(t, s.Device, fbs.Window{Kind: gen.WindowKindHost, Size: 0x1000})
			mustMap(t, s.Device, fbs.Window{Kind: gen.WindowKindHost, Size: 100})
			if got := s.refusalAfter(poke, outside...); !strings.Contains(got, "the PCIe tile") {
				t.Errorf("%s: request outside the host windows: %q, want a reason that names the "+
					"PCIe tile", c.board.Name, got)
			}
		}
		config := mustMap(t, r.Device, fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
		store(t, r.Device, &config, 4, 2, 2)
		r.refusalAfter(poke, hostRequest(0x10, 4, first.BusAddress, 0x1000, false)...)
	}
}

// TestMulticastExclusionIsRejected stores to NOC_BRCST_EXCLUDE, which only Blackhole has. The mock
// accepts 0, which excludes no tile.
func TestMulticastExclusionIsRejected(t *testing.T) {
	r := newTileSetup(t, &boards.Blackhole).selectTile(chips.Tile{X: 1, Y: 2})
	if got := r.refusalAfter(poke, niu0+0x82c, 0, niu0+0x82c, 1); !strings.Contains(got,
		"NOC_BRCST_EXCLUDE is 0x1") {
		t.Errorf("store of 1: %q, want a reason with the value", got)
	}
}

// TestChainOfRequestsIsLimited prepares two requests that start each other, which would never end.
func TestChainOfRequestsIsLimited(t *testing.T) {
	for i := range nocChips {
		c := &nocChips[i]
		first, second := c.coordinates[0][0], c.coordinates[0][1]
		there := c.requestStores(0x1a, 0xf, second, niu0+c.cmdCtrl, first, 0)
		back := c.requestStores(0x1a, 0xf, first, niu0+c.cmdCtrl, second, 0)
		data := []uint32{niu0 + map[bool]uint32{true: 0x24, false: 0x28}[i == 0], 1} // NOC_AT_DATA
		r := newTileSetup(t, c.board).selectTile(c.tiles[1])
		r.runProgram(poke, append(data, back[:len(back)-2]...)...) // prepared, not started
		got := r.selectTile(c.tiles[0]).refusalAfter(poke, append(data, there...)...)
		if !strings.Contains(got, "in chains of at most 2 requests") {
			t.Errorf("%s: two requests that start each other: %q, want the limit", c.board.Name,
				got)
		}
	}
}

// TestCountersCountAnswers checks that the counters count requests and answers of each kind, on the
// NoC of the request only.
func TestCountersCountAnswers(t *testing.T) {
	for i := range nocChips {
		c := &nocChips[i]
		near, far := c.coordinates[0][0], c.coordinates[0][1]
		var list []uint32
		for _, command := range [][]uint32{
			c.requestStores(0x10, 16, far, 0x1000, near, 0x1000),
			c.requestStores(0x12, 16, near, 0x1000, far, 0x1000),
			c.requestStores(0x12, 16, near, 0x1000, far, 0x1000),
			c.requestStores(0x02, 16, near, 0x1000, far, 0x1000),
			c.requestStores(0x11, 0x107c, far, 0x1000, near, 0x1000),
			c.requestStores(0x01, 0x107c, far, 0x1000, near, 0x1000),
			// a multicast to three tiles
			c.requestStores(0x132, 16, near, 0x1000, near+1+1<<6|near<<12, 0x1000),
		} {
			list = append(list, command...)
		}
		r := newTileSetup(t, c.board).selectTile(c.tiles[0])
		r.runProgram(poke, list...)
		counters := []uint32{0x200, 0x204, 0x208, 0x21c, 0x228, 0x22c, 0x240}
		// The multicast is one request with three answers. The counter has 8 bits.
		outstanding := uint32(uint8(1 - 3 + 256))
		for noc, want := range [][]uint32{{1, 5, 1, 1, 3, 1, outstanding}, {0, 0, 0, 0, 0, 0, 0}} {
			var addresses []uint32
			for _, counter := range counters {
				addresses = append(addresses, niu0+uint32(noc)<<16+counter)
			}
			r.runProgram(peek, addresses...)
			if got := r.read(0x300, 4*len(counters)); !bytes.Equal(got, wordBytes(want...)) {
				t.Errorf("%s, NoC %d: %x, want %x; %s", c.board.Name, noc, got, wordBytes(want...),
					r.Refusal())
			}
		}
		r.runProgram(poke, niu0+c.clearOffset, 0xffff)
		r.runProgram(peek, niu0+0x204, niu0+0x240)
		if got := r.read(0x300, 8); !bytes.Equal(got, wordBytes(5, 0)) {
			t.Errorf("%s: counters %x after clearing the outstanding requests, want 5 and 0",
				c.board.Name, got)
		}
	}
}

// The expected tables are those of ttsim v1.10.0, src/tile.cpp: NOC_X_ID_TRANSLATE_TABLE_0 and the
// registers after it.
func TestTranslationTablesMatchTtsim(t *testing.T) {
	r := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 1})
	for noc, want := range [][]uint32{
		{0x76543210, 0xfedcba98, 0x76432150, 0x98, 0x76543210, 0xfedcba98, 0x75432160, 0xba98},
		{0x76543210, 0xfedcba98, 0x23567849, 0x01, 0x76543210, 0xfedcba98, 0x46789a5b, 0x0123},
	} {
		var addresses []uint32
		for i := range uint32(8) {
			addresses = append(addresses, niu0+uint32(noc)<<16+0x118+4*i)
		}
		r.runProgram(peek, addresses...)
		if got := r.read(0x300, 32); !bytes.Equal(got, wordBytes(want...)) {
			t.Errorf("NoC %d: %x, want %x", noc, got, wordBytes(want...))
		}
	}
}
