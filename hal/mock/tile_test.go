package mock

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// Programs for one core, linked at 0, as GNU as translates them.
var (
	// peek copies the words that the addresses from 0x200 on point at to 0x300
	// on. Address 0 ends the list.
	peek = []uint32{
		0x20000293, //    li t0,0x200
		0x30000313, //    li t1,0x300
		0x0002a383, // 1: lw t2,0(t0)
		0x00038c63, //    beqz t2,2f
		0x0003ae03, //    lw t3,0(t2)
		0x01c32023, //    sw t3,0(t1)
		0x00428293, //    addi t0,t0,4
		0x00430313, //    addi t1,t1,4
		0xfe9ff06f, //    j 1b
		0x0000006f, // 2: j 2b
	}
	// poke stores to the pairs of address and value from 0x200 on. Address 0
	// ends the list.
	poke = []uint32{
		0x20000293, //    li t0,0x200
		0x0002a383, // 1: lw t2,0(t0)
		0x00038a63, //    beqz t2,2f
		0x0042ae03, //    lw t3,4(t0)
		0x01c3a023, //    sw t3,0(t2)
		0x00828293, //    addi t0,t0,8
		0xfedff06f, //    j 1b
		0x0000006f, // 2: j 2b
	}
	// count adds one to the word at 0x100 again and again.
	count = []uint32{
		0x10002283, // lw t0,0x100(zero)
		0x00128293, // addi t0,t0,1
		0x10502023, // sw t0,0x100(zero)
		0xff5ff06f, // j 0
	}
)

// runProgram loads words at 0 and a list at 0x200, starts BRISC and lets a
// while pass.
func (r *rig) runProgram(program []uint32, list ...uint32) {
	r.Helper()
	r.reset(allHeld)
	r.writeWords(0, program...)
	r.writeWords(0x200, append(slices.Clone(list), 0)...)
	r.reset(briscReleased)
	r.Sleep(10_000)
}

// TestCoreAccessesItsTile: L1, its own RAM at both ends, the reset register and who
// the tile is on both networks, as ttsim v1.10.0 says it; first and last tile of
// each board.
func TestCoreAccessesItsTile(t *testing.T) {
	const node, logical = 0, 1
	wormholeNIU, blackholeNIU := [2]uint32{0x2c, 0x138}, [2]uint32{0x44, 0x148}
	const wormholeSize, blackholeSize = 10<<12 | 12<<19, 17<<12 | 12<<19
	for _, c := range []struct {
		board    *boards.Board
		tile     chips.Tile
		niu      [2]uint32
		localEnd uint32
		want     [4]uint32 // node id and translated id on NoC 0, then on NoC 1
	}{
		{&boards.Wormhole, chips.Tile{X: 1, Y: 1}, wormholeNIU, 0xffb01000,
			[4]uint32{1<<28 | wormholeSize | 1<<6 | 1, 18<<6 | 18, wormholeSize | 10<<6 | 8,
				18<<6 | 18}},
		{&boards.Wormhole, chips.Tile{X: 9, Y: 11}, wormholeNIU, 0xffb01000,
			[4]uint32{1<<28 | wormholeSize | 11<<6 | 9, 27<<6 | 25, wormholeSize, 27<<6 | 25}},
		{&boards.Blackhole, chips.Tile{X: 1, Y: 2}, blackholeNIU, 0xffb02000,
			[4]uint32{1<<28 | blackholeSize | 2<<6 | 1, 2<<6 | 1, blackholeSize | 9<<6 | 15,
				2<<6 | 1}},
		{&boards.Blackhole, chips.Tile{X: 16, Y: 11}, blackholeNIU, 0xffb02000,
			[4]uint32{1<<28 | blackholeSize | 11<<6 | 16, 11<<6 | 16, blackholeSize, 11<<6 | 16}},
	} {
		t.Run(c.board.Name, func(t *testing.T) {
			r := newRig(t, c.board).at(c.tile)
			r.runProgram(poke, 0xffb00000, 0x1234, c.localEnd-4, 0x5678)
			r.runProgram(peek, 0xffb00000, c.localEnd-4, 0xffb00004, 0xffb121b0,
				0xffb20000+c.niu[node], 0xffb20000+c.niu[logical], 0xffb30000+c.niu[node],
				0xffb30000+c.niu[logical])
			want := append([]uint32{0x1234, 0x5678, 0, briscReleased}, c.want[:]...)
			if got := r.read(0x300, 4*len(want)); !bytes.Equal(got, wordBytes(want...)) {
				t.Errorf("%s %v: %x, want %x (%s)", c.board.Name, c.tile, got, wordBytes(want...),
					r.Refusal())
			}
		})
	}
}

// TestCoreReadsTheWallClock: cycles of 1 ns, carried over to the high word.
func TestCoreReadsTheWallClock(t *testing.T) {
	r := newRig(t, &boards.Wormhole).at(chips.Tile{X: 1, Y: 1})
	r.Sleep(7 << 32)
	r.runProgram(peek, wallClock0, wallClock1, wallClock1At)
	high, at := r.readWord(0x304), r.readWord(0x308)
	if low := r.readWord(0x300); low == 0 || low > 100_000 || high != 7 || at != 7 {
		t.Errorf("%d, %d, %d", low, high, at)
	}
}

// TestInvalidAccessStopsTheCore, and the host hears of it once: the reason comes
// with the next access to that tile, and no other.
func TestInvalidAccessStopsTheCore(t *testing.T) {
	here, elsewhere := chips.Tile{X: 1, Y: 2}, chips.Tile{X: 2, Y: 2}
	for i, c := range []struct {
		board   *boards.Board
		program []uint32
		list    []uint32
		reason  string
	}{
		{&boards.Wormhole, []uint32{0}, nil,
			"tile (1,2): BRISC stopped at pc 0x00000000: Tensix coprocessor instruction"},
		{&boards.Wormhole, []uint32{0x0330000f}, nil, "BRISC stopped at pc 0x00000000: fence"},
		{&boards.Wormhole, []uint32{0x00000073}, nil, "BRISC stopped at pc 0x00000000: ecall"},
		// lbu of NOC_NODE_ID
		{&boards.Wormhole, []uint32{0xffb20537, 0x02c54583}, nil,
			"pc 0x00000004: load refused, address 0xffb2002c"},
		// sh to SOFT_RESET_0
		{&boards.Wormhole, []uint32{0xffb12537, 0x1ab51823}, nil,
			"pc 0x00000004: store refused, address 0xffb121b0"},
		// beyond its RAM
		{&boards.Wormhole, poke, []uint32{0xffb01fec, 1}, "store refused, address 0xffb01fec"},
		// beyond L1
		{&boards.Wormhole, poke, []uint32{0x16e000, 1}, "store refused, address 0x0016e000"},
		// Blackhole's TRISC0_RESET_PC
		{&boards.Wormhole, poke, []uint32{0xffb12228, 1}, "store refused, address 0xffb12228"},
		{&boards.Wormhole, poke, []uint32{0xffb2002c, 1}, "store refused, address 0xffb2002c"},
		// no core's bit
		{&boards.Wormhole, poke, []uint32{0xffb121b0, 0x100}, "store refused, address 0xffb121b0"},
		{&boards.Wormhole, peek, []uint32{0xffb40008}, "load refused, address 0xffb40008"},
		{&boards.Wormhole, peek, []uint32{0xffb20050}, "load refused, address 0xffb20050"},
		// lui t0,0xffb00; jr t0
		{&boards.Wormhole, []uint32{0xffb002b7, 0x00028067}, nil,
			"pc 0xffb00000: no instruction can be fetched"},
		{&boards.Wormhole, peek, []uint32{0x202}, "misaligned load, address 0x00000202"},
		{&boards.Blackhole, poke, []uint32{0xffb02000, 1}, "store refused, address 0xffb02000"},
		{&boards.Blackhole, peek, []uint32{0x180000}, "load refused, address 0x00180000"},
		// NCRISC_RESET_PC, for stores only
		{&boards.Blackhole, peek, []uint32{0xffb12238}, "load refused, address 0xffb12238"},
	} {
		t.Run(fmt.Sprint(c.board.Name, " ", c.reason), func(t *testing.T) {
			r := newRig(t, c.board).at(here)
			r.runProgram(c.program, c.list...)
			r.at(elsewhere).readWord(0)
			if r.Refusal() != "" {
				t.Errorf("another tile: %s", r.Refusal())
			}
			offset := r.at(here).reach(0)
			var code hal.Code
			if i%2 == 0 {
				_, code = r.window.Load(uint32(offset), 4)
			} else {
				code = r.window.Store(uint32(offset), 4, 0)
			}
			if code != hal.Refused || !strings.Contains(r.Refusal(), c.reason) {
				t.Errorf("%x, %x: %v, %q; want %q", c.program, c.list, code, r.Refusal(), c.reason)
			}
			r.readWord(0)
			r.runProgram(poke, 0x100, 77)
			if r.readWord(0x100) != 77 {
				t.Error("the core does not start again")
			}
		})
	}
}

// TestBlackholeCoreHasFence that Wormhole's has not.
func TestBlackholeCoreHasFence(t *testing.T) {
	r := newRig(t, &boards.Blackhole).at(chips.Tile{X: 1, Y: 2})
	r.runProgram([]uint32{
		0x0330000f, // fence rw,rw
		0x10000293, // li t0,0x100
		0x0052a023, // sw t0,0(t0)
		0x0000006f, // j .
	})
	if r.readWord(0x100) != 0x100 {
		t.Error(r.Refusal())
	}
}

// TestFirstStoppedCoreIsReportedToTheHost where two do.
func TestFirstStoppedCoreIsReportedToTheHost(t *testing.T) {
	g := NewTiles(&boards.Wormhole)
	// BRISC and TRISC0, into zeros
	g.Store(Place{Tile: true, X: 1, Y: 1, Address: 0xffb121b0}, 4, allHeld&^0x1800)
	g.Advance(100)
	if _, code := g.Load(Place{Tile: true, X: 1, Y: 1}, 4); code != hal.Refused ||
		!strings.Contains(g.Reason(), "BRISC") {
		t.Error(code, g.Reason())
	}
}

// TestCoreRunsOnlyOutOfResetAndWhileTheClockAdvances, one instruction in 10 ns,
// and starts at 0 each time it leaves reset.
func TestCoreRunsOnlyOutOfResetAndWhileTheClockAdvances(t *testing.T) {
	g := NewTiles(&boards.Wormhole)
	l1 := func(address uint64) Place { return Place{Tile: true, X: 1, Y: 1, Address: address} }
	counted := func() uint64 { v, _ := g.Load(l1(0x100), 4); return v }
	for i, w := range count {
		g.Store(l1(uint64(4*i)), 4, uint64(w))
	}
	step := func(what string, reset uint64, nanoseconds int64, want uint64) {
		t.Helper()
		g.Store(l1(0xffb121b0), 4, reset)
		g.Advance(nanoseconds)
		if got := counted(); got != want {
			t.Errorf("%s: counted to %d, want %d", what, got, want)
		}
	}
	step("in reset", allHeld, 1000, 0)
	step("released, clock stopped", briscReleased, 0, 0)
	step("three instructions", briscReleased, 39, 1) // 1 ns short of the jump
	step("its jump, and three more but 1 ns", briscReleased, 40, 2)
	step("a loop takes 40 ns", briscReleased, 400, 12)
	step("in reset again", allHeld, 1000, 12)
	step("restarted: two instructions, 9 ns were left over", briscReleased, 20, 12)
	step("the third", briscReleased, 1, 13)
}

// TestReleasedCoreIsNotRestarted by another store of the same bits.
func TestReleasedCoreIsNotRestarted(t *testing.T) {
	r := newRig(t, &boards.Wormhole).at(chips.Tile{X: 1, Y: 1})
	r.runProgram(poke, 0x100, 5)
	r.writeWords(0x204, 6)
	r.reset(briscReleased)
	r.reset(briscReleased | 1<<31)
	r.Sleep(10_000)
	if v := r.readWord(0x100); v != 5 {
		t.Errorf("ran again: %d", v)
	}
	if v := r.readWord(0xffb121b0); v != briscReleased {
		t.Errorf("SOFT_RESET_0 is %#x", v)
	}
}

// TestIdleCoreIsSkippedUntilItsStateChanges: a core that jumps to itself is skipped, a
// day of it takes no time, and yet it goes on where the host changes the jump.
func TestIdleCoreIsSkippedUntilItsStateChanges(t *testing.T) {
	r := newRig(t, &boards.Wormhole).at(chips.Tile{X: 1, Y: 1})
	r.runProgram([]uint32{0x0000006f}) // j .
	r.Sleep(24 * 3600 * 1e9)
	r.writeWords(4, 0x06400293, 0x10502023, 0x0000006f) // li t0,100; sw t0,0x100(zero); j .
	r.writeWords(0, 0x00000013)                         // nop
	r.Sleep(1000)
	if v := r.readWord(0x100); v != 100 {
		t.Errorf("%d", v)
	}
}

// TestStartAddressesOfCores: each releases the next, and says so.
func TestStartAddressesOfCores(t *testing.T) {
	// sw of its reset pc's upper bits to where the host looks
	say := func(slot uint32) []uint32 {
		return []uint32{
			0x00100293,              // li t0,1
			0x40502023 | slot<<2<<7, // sw t0,0x400+4*slot(zero)
			0x0000006f,              // j .
		}
	}
	for _, c := range []struct {
		board  *boards.Board
		starts []uint32 // of TRISC0 to 2 and NCRISC
		before []uint32 // pairs of register and value
	}{
		{&boards.Wormhole, []uint32{0x6000, 0xa000, 0xe000, 0x12000}, nil},
		{&boards.Blackhole, []uint32{0x6000, 0xa000, 0xe000, 0x12000}, nil},
		{&boards.Blackhole, []uint32{0x6000, 0x3000, 0xe000, 0x4000}, []uint32{
			// TRISC0's address is not in force
			0xffb12228, 0x2000, 0xffb1222c, 0x3000, 0xffb12234, 2,
			0xffb12238, 0x4000, 0xffb1223c, 1,
		}},
	} {
		t.Run(c.board.Name, func(t *testing.T) {
			r := newRig(t, c.board).at(chips.Tile{X: 1, Y: 2})
			for i := 0; i < len(c.before); i += 2 {
				r.writeWords(uint64(c.before[i]), c.before[i+1])
			}
			for slot, start := range c.starts {
				r.writeWords(uint64(start), say(uint32(slot))...)
			}
			r.runProgram(poke, 0xffb121b0, 0) // BRISC releases the other four
			r.Sleep(1000)
			if got := r.read(0x400, 16); !bytes.Equal(got, wordBytes(1, 1, 1, 1)) {
				t.Errorf("%s: %x, %s", c.board.Name, got, r.Refusal())
			}
		})
	}
}

// TestCoresOfATileTakeTurns: two cores that count in one word both load it
// before either stores, so that half of their counts are lost. One that idles
// does not keep the other from counting.
func TestCoresOfATileTakeTurns(t *testing.T) {
	for what, trisc0 := range map[string][]uint32{"count": count, "idle": {0x0000006f}} {
		t.Run(what, func(t *testing.T) {
			g := NewTiles(&boards.Wormhole)
			store := func(address int, w uint32) {
				g.Store(Place{Tile: true, X: 1, Y: 1, Address: uint64(address)}, 4, uint64(w))
			}
			for i, w := range count {
				store(4*i, w)
			}
			for i, w := range trisc0 {
				store(0x6000+4*i, w)
			}
			store(0xffb121b0, allHeld&^0x1800) // BRISC and TRISC0
			g.Advance(4000)
			if v, _ := g.Load(Place{Tile: true, X: 1, Y: 1, Address: 0x100}, 4); v != 100 {
				t.Errorf("%s: counted to %d, want 100", what, v)
			}
		})
	}
}

// TestHostAccessesATile: which widths and places the host can reach, straight at
// the model.
func TestHostAccessesATile(t *testing.T) {
	for _, c := range []struct {
		board *boards.Board
		l1End uint64
	}{{&boards.Wormhole, 1464 << 10}, {&boards.Blackhole, 1536 << 10}} {
		t.Run(c.board.Name, func(t *testing.T) {
			g := NewTiles(c.board)
			at := func(address uint64) Place {
				return Place{Tile: true, X: 2, Y: 3, Address: address}
			}
			for _, width := range []uint8{1, 2, 4, 8} {
				last := at(c.l1End - uint64(width))
				value := uint64(0x8877665544332211) >> (64 - 8*width)
				if code := g.Store(last, width, value); code != hal.OK {
					t.Errorf("store of %d bytes: %v", width, code)
				}
				if got, code := g.Load(last, width); code != hal.OK || got != value {
					t.Errorf("load of %d bytes: %#x, %v", width, got, code)
				}
				if code := g.Store(at(c.l1End), width, 0); code != hal.Refused ||
					!strings.Contains(g.Reason(), "tile (2,3)") {
					t.Errorf("store of %d bytes beyond L1: %v, %q", width, code, g.Reason())
				}
				if _, code := g.Load(at(0xffb121b0), width); (code == hal.OK) != (width == 4) {
					t.Errorf("SOFT_RESET_0, load of %d bytes: %v", width, code)
				}
				if code := g.Store(at(0xffb121b0), width, 0); width != 4 && code != hal.Refused {
					t.Errorf("SOFT_RESET_0, store of %d bytes: %v", width, code)
				}
				g.Store(at(0xffb121b0), 4, allHeld)
			}
			if v, _ := g.Load(at(0xffb121b0), 4); v != allHeld {
				t.Errorf("SOFT_RESET_0 is %#x after power-up", v)
			}
			for address, value := range map[uint64]uint64{0xffb121b0: 0x47801, 0xffb00000: 0,
				0x1_ffb1_21b0: 0x47800, 0xffb20200: 0} {
				if code := g.Store(at(address), 4, value); code != hal.Refused {
					t.Errorf("store of %#x at %#x: %v", value, address, code)
				}
			}
			if _, code := g.Load(at(0xffb00000), 4); code != hal.Refused {
				t.Errorf("the host reaches a core's own RAM: %v", code)
			}
		})
	}
}

// TestTilesHaveSeparateMemory: L1 of one tile is not another's; DRAM of a bank is the
// same through each of its tiles.
func TestTilesHaveSeparateMemory(t *testing.T) {
	r := newRig(t, &boards.Wormhole)
	r.at(chips.Tile{X: 1, Y: 1}).writeWords(0x1000, 11)
	r.at(chips.Tile{X: 2, Y: 1}).writeWords(0x1000, 22)
	r.at(chips.Tile{X: 0, Y: 0}).writeWords(0x7fff_f000, 33)
	for tile, want := range map[chips.Tile]uint32{{X: 1, Y: 1}: 11, {X: 2, Y: 1}: 22,
		{X: 3, Y: 1}: 0, {X: 18, Y: 18}: 11} {
		if got := r.at(tile).readWord(0x1000); got != want {
			t.Errorf("%v: %d, want %d", tile, got, want)
		}
	}
	for tile, want := range map[chips.Tile]uint32{{X: 0, Y: 11}: 33, {X: 0, Y: 5}: 0} {
		if got := r.at(tile).readWord(0x7fff_f000); got != want {
			t.Errorf("DRAM %v: %d, want %d", tile, got, want)
		}
	}
}

// TestRunningCoresAllocateNothing once their pages are there.
func TestRunningCoresAllocateNothing(t *testing.T) {
	r := newRig(t, &boards.Wormhole).at(chips.Tile{X: 1, Y: 1})
	r.runProgram(count)
	if n := testing.AllocsPerRun(100, func() { r.Sleep(10_000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
