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

// chip is what the tests of the network need to know of a board. What requests
// do is compared with the vendor's simulator case by case in tools/devices/ttsim.
type chip struct {
	board       *boards.Board
	suffix      string // of kernels
	stride      uint32 // of command buffers
	cmdCtrl     uint32
	dramAlign   int
	packet      int
	dram        chips.Tile
	dramAt      [2]uint32 // coordinate of dram on each NoC
	tiles       []chips.Tile
	coordinates [2][]uint32 // of tiles on each NoC
	nowhere     uint32      // coordinate of what is no target
	clear       uint32      // offset of NOC_CLEAR_OUTSTANDING_REQ_CNT
}

func at(x, y uint32) uint32 { return y<<6 | x }

var allChips = []chip{
	{board: &boards.Wormhole, suffix: "_wh", stride: 0x400, cmdCtrl: 0x28, dramAlign: 32,
		packet: 8192,
		// by two other tiles of the bank
		dram: chips.Tile{X: 5, Y: 2}, dramAt: [2]uint32{at(5, 9), at(4, 1)},
		tiles: []chips.Tile{{X: 1, Y: 1}, {X: 4, Y: 3}, {X: 9, Y: 11}},
		coordinates: [2][]uint32{
			{at(1, 1), at(4, 3), at(25, 27)},
			{at(18, 18), at(5, 8), at(0, 0)},
		},
		nowhere: at(0, 2), clear: 0x50},
	{board: &boards.Blackhole, suffix: "_bh", stride: 0x800, cmdCtrl: 0x40, dramAlign: 64,
		packet: 16384,
		dram:   chips.Tile{X: 9, Y: 2}, dramAt: [2]uint32{at(17, 15), at(17, 16)},
		tiles: []chips.Tile{{X: 1, Y: 2}, {X: 7, Y: 5}, {X: 16, Y: 11}},
		coordinates: [2][]uint32{
			{at(1, 2), at(7, 5), at(16, 11)},
			{at(1, 2), at(7, 5), at(16, 11)},
		},
		nowhere: at(8, 3), clear: 0x60},
}

// TestNoCKernelCopiesDRAM: any size and place, in pieces of any size that keeps
// the alignment, and nothing around it.
func TestNoCKernelCopiesDRAM(t *testing.T) {
	const source, target, buffer = 0x1234_0000, 0x2000_0000, 0x20000
	for _, c := range allChips {
		random := rand.New(rand.NewPCG(1, 2))
		r := newRig(t, c.board).at(c.tiles[1])
		r.write(0, kernel(t, "noc_copy"+c.suffix))
		for run := range 20 {
			noc, size, piece := run%2, random.IntN(20_000), 64*(1+random.IntN(300))
			from := random.IntN(100)
			into, way := from+16*random.IntN(10), from+c.dramAlign*random.IntN(10)
			in, before := randomBytes(random, (size+from+3)&^3),
				randomBytes(random, (size+into+19)&^3)
			r.at(c.dram).write(source, in)
			r.write(target, before)
			r.at(c.tiles[1]).run(uint32(noc), uint32(size), c.dramAt[noc], uint32(source+from),
				c.dramAt[noc], uint32(target+into),
				uint32(buffer+way), uint32(piece))
			copy(before[into:], in[from:from+size])
			if got := r.at(c.dram).read(target, len(before)); !bytes.Equal(got, before) {
				t.Fatalf("%s, run %d: wrong copy of %d bytes", c.board.Name, run, size)
			}
			r.at(c.tiles[1])
		}
	}
}

// TestNoCKernelGathersL1 of all tiles, its own among them.
func TestNoCKernelGathersL1(t *testing.T) {
	const source, target, size = 0x21230, 0x30030, 20_000
	for _, c := range allChips {
		for noc := range uint32(2) {
			random := rand.New(rand.NewPCG(3, 4))
			r := newRig(t, c.board)
			var want []byte
			for _, tile := range c.tiles {
				data := randomBytes(random, size)
				want = append(want, data...)
				r.at(tile).write(source, data)
			}
			r.at(c.tiles[0]).write(0, kernel(t, "noc_gather"+c.suffix))
			r.run(append([]uint32{noc, size, source, target, uint32(len(c.tiles))},
				c.coordinates[noc]...)...)
			if got := r.read(target, len(want)); !bytes.Equal(got, want) {
				t.Errorf("%s, NoC %d: wrong bytes", c.board.Name, noc)
			}
		}
	}
}

// TestTilesSynchronizeThroughASemaphore while the host looks away: they take turns in one
// long Sleep, however often they wait for each other.
func TestTilesSynchronizeThroughASemaphore(t *testing.T) {
	const semaphore, words, total, n = 0x18000, 0x20000, 0x19000, 48
	for _, c := range allChips {
		for noc, coordinates := range c.coordinates {
			random, sum := rand.New(rand.NewPCG(5, 6)), uint32(0)
			r := newRig(t, c.board)
			workers := c.tiles[1:]
			for i, tile := range c.tiles {
				args := []uint32{uint32(noc), semaphore, n, words, uint32(len(workers)), total,
					coordinates[1], coordinates[2]}
				if i > 0 {
					data := randomBytes(random, 4*n)
					for k := range n {
						sum += binary.LittleEndian.Uint32(data[4*k:])
					}
					r.at(tile).write(words, data)
					args = []uint32{uint32(noc), semaphore, n, words, 0, coordinates[0],
						words + uint32(i-1)*4*n}
				}
				r.at(tile).write(0, kernel(t, "noc_sem"+c.suffix))
				r.writeWords(argsAddress, args...)
			}
			for _, tile := range c.tiles {
				r.at(tile).reset(briscReleased)
			}
			r.Sleep(1_000_000)
			for _, tile := range c.tiles {
				if r.at(tile).readWord(flagAddress) != flagDone {
					t.Errorf("%s, NoC %d: %v still waits", c.board.Name, noc, tile)
				}
			}
			if got := r.at(c.tiles[0]).readWord(total); got != sum {
				t.Errorf("%s, NoC %d: total %d, want %d", c.board.Name, noc, got, sum)
			}
		}
	}
}

// TestTileStartsOthers that the host has never touched: program and flag come
// by a multicast, the release by a store to a register.
func TestTileStartsOthers(t *testing.T) {
	const program = 0x20000
	hello := []uint32{
		0x00100293, // li t0,1
		0x10502023, // sw t0,0x100(zero)
		0x0000006f, // j .
	}
	for _, c := range allChips {
		for noc, coordinates := range c.coordinates {
			tile := c.tiles[0]
			own, step := coordinates[0], uint32(1)
			if noc == 1 && c.board == &boards.Wormhole {
				own, step = at(8, 10), ^uint32(0)
			}
			right, below := own+step, own+step<<6
			opposite := right + step<<6
			first, last := own, opposite
			if noc == 1 {
				first, last = last, first
			}
			r := newRig(t, c.board).at(tile)
			r.writeWords(program, hello...)
			r.write(0, kernel(t, "noc_start"+c.suffix))
			r.run(uint32(noc), uint32(4*len(hello)), program, first, last, 3, right, below,
				opposite)
			r.Sleep(1000)
			for _, other := range []chips.Tile{{X: tile.X + 1, Y: tile.Y},
				{X: tile.X, Y: tile.Y + 1}, {X: tile.X + 1, Y: tile.Y + 1}} {
				if r.at(other).readWord(0x100) != 1 {
					t.Errorf("%s, NoC %d: %v did not run", c.board.Name, noc, other)
				}
			}
			if r.at(tile).readWord(0) == hello[0] {
				t.Errorf("%s, NoC %d: the multicast reached the tile it came from", c.board.Name,
					noc)
			}
		}
	}
}

// commandOf is the stores, as poke takes them, that have command buffer 0 of
// NoC 0 make a request.
func (c *chip) commandOf(ctrl, length, targ, targAddress, ret, retAddress uint32) []uint32 {
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

// TestRejectedRequestStopsTheCore at the store that starts it, with the reason.
func TestRejectedRequestStopsTheCore(t *testing.T) {
	for i := range allChips {
		c := &allChips[i]
		near, far, dram := c.coordinates[0][0], c.coordinates[0][1], c.dramAt[0]
		for _, refused := range []struct {
			list   []uint32
			reason string
		}{
			{c.commandOf(0x10, 64, dram, 16, near, 0x1000),
				"NoC 0, command buffer 0: the addresses 0x10 and 0x1000 must be equal modulo "},
			{c.commandOf(0x10, 0, dram, 0, near, 0x1000), "the length is 0 bytes, but a packet " +
				"must have 1 to "},
			{c.commandOf(0x10, 64, c.nowhere, 0, near, 0x1000),
				"which the simulator does not support as a target"},
			{c.commandOf(0x10, 64, at(40, 1), 0, near, 0x1000),
				"means (40,1), where NoC 0 has no tile"},
			{c.commandOf(0x12, 64, far, 0, dram, 0), "must be the tile that makes the request"},
			{c.commandOf(0x12, 64, near, 0x17fff0, dram, 0x30),
				"the range of 64 bytes at 0x17fff0 must be in L1"},
			{c.commandOf(0x14, 64, dram, 0, near, 0x1000),
				"NOC_CTRL is 0x14, a request that the simulator does not implement"},
			{c.commandOf(0, 64, dram, 0, near, 0x1000),
				"NOC_CTRL is 0x0, but a read must request an answer"},
			{c.commandOf(0x22, 16, near, 0, near|far<<12, 0),
				"NOC_CTRL is 0x22, but a multicast must be a write from L1 that reserves its path"},
			{c.commandOf(0x12, 4, near, 0x200, far, 0xffb121b0),
				"register 0xffb121b0 of the Tensix tile"},
			{c.commandOf(0x12, 4, near, 0x40+c.cmdCtrl%16, near, niu0+c.cmdCtrl),
				"NoC requests may start each other in chains of at most 2 requests"},
			{c.commandOf(0x12, 64, near, 0, dram, 0xffff_fff0), "the DRAM tile"},
			{c.commandOf(0x11, 0x107c, far, 0x1008, near, 0x2000), "the address of the atomic, " +
				"0x1008, must be a multiple of 16"},
			{c.commandOf(0x132, 16, near, 0, near|far<<12, 0),
				"is against the direction of NoC 0"},
			{[]uint32{niu0 + c.cmdCtrl, 3}, "NOC_CMD_CTRL must be 1, not 0x3"},
			{[]uint32{niu0 + 0x18, 1}, "NOC_PACKET_TAG is 0x1"},
			{[]uint32{niu0 + c.clear, 1}, "the simulator supports only 0xffff"},
			{[]uint32{niu0 + 0x208, 1},
				"the network interface has no writable register at offset 0x208"},
		} {
			r := newRig(t, c.board).at(c.tiles[0])
			r.writeWords(0x40, 1, 1, 1, 1)
			r.runProgram(poke, refused.list...)
			_, code := r.window.Load(uint32(r.reach(0)), 4)
			if code != hal.Refused || !strings.Contains(r.Refusal(),
				"BRISC stopped at pc 0x00000010: store refused") ||
				!strings.Contains(r.Refusal(), refused.reason) {
				t.Errorf("%s: %v, %q, want %q", c.board.Name, code, r.Refusal(), refused.reason)
			}
			r.runProgram(peek, 0x180000) // refused, and not for the reason of before
			if r.window.Load(uint32(r.reach(0)), 4); strings.Contains(r.model.(*Tiles).Reason(),
				refused.reason) {
				t.Errorf("%s: %q again", c.board.Name, r.model.(*Tiles).Reason())
			}
		}
	}
}

// TestTilesReachHostMemory through the PCIe tile, in the windows of the image
// and nowhere else, and while the device masters the bus.
func TestTilesReachHostMemory(t *testing.T) {
	pcie := map[*boards.Board]uint32{&boards.Wormhole: at(0, 3), &boards.Blackhole: at(19, 24)}
	for i := range allChips {
		c := &allChips[i]
		r := newRig(t, c.board).at(c.tiles[0])
		first := mapped(t, r.Device, fbs.Window{Kind: gen.WindowKindHost, Size: 0x1000})
		second := mapped(t, r.Device, fbs.Window{Kind: gen.WindowKindHost, Size: 100})
		if noc := c.board.Outbound.NoCBase; first.BusAddress != noc ||
			second.BusAddress != noc+0x2000 {
			t.Fatalf("%s: windows at %#x and %#x", c.board.Name, first.BusAddress,
				second.BusAddress)
		}
		// hosted is a request one end of which is at an address of the host.
		hosted := func(ctrl, size uint32, address uint64, local uint32, write bool) []uint32 {
			list := c.commandOf(ctrl, size, pcie[c.board], uint32(address), c.coordinates[0][0],
				local)
			mid, other := uint32(niu0+0x04), uint32(niu0+0x10)
			if write {
				list = c.commandOf(ctrl, size, c.coordinates[0][0], local, pcie[c.board],
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
		if code := second.Copy(gen.OpcodeCopyIn, 4, 4, gen.AccessExact, data); code != hal.OK {
			t.Fatal(code)
		}
		r.runProgram(poke, hosted(0x10, 96, second.BusAddress+4, 0x1000, false)...)
		r.runProgram(poke, hosted(0x12, 64, first.BusAddress+0xfc0, 0x1000, true)...)
		got := make([]byte, 64)
		if code := first.Copy(gen.OpcodeCopyOut, 0xfc0, 4, gen.AccessExact, got); code != hal.OK ||
			!bytes.Equal(got, data[:64]) || !bytes.Equal(r.read(0x1000, 96), data) {
			t.Errorf("%s: %v, % x in host memory, % x in L1, want % x; %s", c.board.Name, code, got,
				r.read(0x1000, 96), data, r.Refusal())
		}
		for _, wrong := range [][]uint32{
			hosted(0x10, 64, second.BusAddress+64, 0x1000, false), // over the end
			hosted(0x12, 64, first.BusAddress+0x1000, 0x1000, true),
			hosted(0x10, 4, 0, 0x1000, false),
		} {
			s := newRig(t, c.board).at(c.tiles[0])
			mapped(t, s.Device, fbs.Window{Kind: gen.WindowKindHost, Size: 0x1000})
			mapped(t, s.Device, fbs.Window{Kind: gen.WindowKindHost, Size: 100})
			s.runProgram(poke, wrong...)
			if _, code := s.window.Load(uint32(s.reach(0)), 4); code != hal.Refused ||
				!strings.Contains(s.Refusal(), "the PCIe tile") {
				t.Errorf("%s: %v, %q", c.board.Name, code, s.Refusal())
			}
		}
		config := mapped(t, r.Device, fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
		store(t, r.Device, &config, 4, 2, 2)
		r.runProgram(poke, hosted(0x10, 4, first.BusAddress, 0x1000, false)...)
		if _, code := r.window.Load(uint32(r.reach(0)), 4); code != hal.Refused {
			t.Errorf("%s, bus mastering off: %v", c.board.Name, code)
		}
	}
}

// TestMulticastExclusionIsRejected: only Blackhole has it, and 0 excludes nothing.
func TestMulticastExclusionIsRejected(t *testing.T) {
	r := newRig(t, &boards.Blackhole).at(chips.Tile{X: 1, Y: 2})
	r.runProgram(poke, niu0+0x82c, 0, niu0+0x82c, 1)
	if _, code := r.window.Load(uint32(r.reach(0)), 4); code != hal.Refused ||
		!strings.Contains(r.Refusal(), "NOC_BRCST_EXCLUDE is 0x1") {
		t.Errorf("%v, %q", code, r.Refusal())
	}
}

// TestRequestsThatStartEachOtherEnd although they would go to and fro for ever.
func TestRequestsThatStartEachOtherEnd(t *testing.T) {
	for i := range allChips {
		c := &allChips[i]
		there := c.commandOf(0x1a, 0xf, c.coordinates[0][1], niu0+c.cmdCtrl, c.coordinates[0][0], 0)
		back := c.commandOf(0x1a, 0xf, c.coordinates[0][0], niu0+c.cmdCtrl, c.coordinates[0][1], 0)
		data := []uint32{niu0 + map[bool]uint32{true: 0x24, false: 0x28}[i == 0], 1} // NOC_AT_DATA
		r := newRig(t, c.board).at(c.tiles[1])
		r.runProgram(poke, append(data, back[:len(back)-2]...)...) // prepared, not started
		r.at(c.tiles[0]).runProgram(poke, append(data, there...)...)
		if _, code := r.window.Load(uint32(r.reach(0)), 4); code != hal.Refused ||
			!strings.Contains(r.Refusal(), "in chains of at most 2 requests") {
			t.Errorf("%s: %v, %q", c.board.Name, code, r.Refusal())
		}
	}
}

// TestCountersCountAnswers of each kind of request, on its NoC only.
func TestCountersCountAnswers(t *testing.T) {
	for i := range allChips {
		c := &allChips[i]
		near, far := c.coordinates[0][0], c.coordinates[0][1]
		var list []uint32
		for _, command := range [][]uint32{
			c.commandOf(0x10, 16, far, 0x1000, near, 0x1000),
			c.commandOf(0x12, 16, near, 0x1000, far, 0x1000),
			c.commandOf(0x12, 16, near, 0x1000, far, 0x1000),
			c.commandOf(0x02, 16, near, 0x1000, far, 0x1000),
			c.commandOf(0x11, 0x107c, far, 0x1000, near, 0x1000),
			c.commandOf(0x01, 0x107c, far, 0x1000, near, 0x1000),
			c.commandOf(0x132, 16, near, 0x1000, near+1+1<<6|near<<12, 0x1000), // to three tiles
		} {
			list = append(list, command...)
		}
		r := newRig(t, c.board).at(c.tiles[0])
		r.runProgram(poke, list...)
		counters := []uint32{0x200, 0x204, 0x208, 0x21c, 0x228, 0x22c, 0x240}
		// of the multicast: one request, three answers, in 8 bits
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
		r.runProgram(poke, niu0+c.clear, 0xffff)
		r.runProgram(peek, niu0+0x204, niu0+0x240)
		if got := r.read(0x300, 8); !bytes.Equal(got, wordBytes(5, 0)) {
			t.Errorf("%s: %x after clearing what is outstanding", c.board.Name, got)
		}
	}
}

// TestTranslationTables: ttsim v1.10.0 src/tile.cpp, NOC_X_ID_TRANSLATE_TABLE_0
// and on.
func TestTranslationTables(t *testing.T) {
	r := newRig(t, &boards.Wormhole).at(chips.Tile{X: 1, Y: 1})
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
