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

// Programs for one core, linked at 0, as assembled by GNU as.
var (
	// peek loads a word from each address of the list at 0x200, and stores the words at 0x300.
	// Address 0 ends the list.
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
	// poke stores a value to each address of the list at 0x200, which has pairs of address and
	// value. Address 0 ends the list.
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
	// counterLoop adds one to the word at 0x100 in an endless loop.
	counterLoop = []uint32{
		0x10002283, // lw t0,0x100(zero)
		0x00128293, // addi t0,t0,1
		0x10502023, // sw t0,0x100(zero)
		0xff5ff06f, // j 0
	}
)

// runProgram writes a program to address 0 and a list to 0x200, starts BRISC, and lets 10 us pass.
func (r *tileSetup) runProgram(program []uint32, list ...uint32) {
	r.Helper()
	r.writeReset(allInReset)
	r.writeWords(0, program...)
	r.writeWords(0x200, append(slices.Clone(list), 0)...)
	r.writeReset(briscReleased)
	r.Sleep(10_000)
}

// TestCoreAccessesItsTile accesses the first and last word of the core's own RAM, the reset
// register, and the registers with the tile's coordinates on both networks. The expected
// coordinates are those of ttsim v1.10.0, for the first and the last tile of each board.
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
			r := newTileSetup(t, c.board).selectTile(c.tile)
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

// TestCoreReadsTheWallClock checks that the clock counts cycles of 1 ns in two words.
func TestCoreReadsTheWallClock(t *testing.T) {
	r := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 1})
	r.Sleep(7 << 32)
	r.runProgram(peek, wallClock0, wallClock1, wallClock1At)
	high, latched := r.readWord(0x304), r.readWord(0x308)
	if low := r.readWord(0x300); low == 0 || low > 100_000 || high != 7 || latched != 7 {
		t.Errorf("wall clock: low word %d, high word %d, latched high word %d; want 1 to 100000, "+
			"7, 7", low, high, latched)
	}
}

// TestInvalidAccessStopsTheCore checks that an invalid access or instruction stops the core, and
// that the mock reports the reason once: it rejects the host's next access to that tile.
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
			r := newTileSetup(t, c.board).selectTile(here)
			r.runProgram(c.program, c.list...)
			r.selectTile(elsewhere).readWord(0)
			if r.Refusal() != "" {
				t.Errorf("an access to another tile is rejected: %s", r.Refusal())
			}
			offset := r.selectTile(here).pointWindow(0)
			var code hal.Code
			if i%2 == 0 {
				_, code = LoadAt(&r.window, uint32(offset), 4)
			} else {
				code = StoreAt(&r.window, uint32(offset), 4, 0)
			}
			if code != hal.Refused || !strings.Contains(r.Refusal(), c.reason) {
				t.Errorf("program %x, list %x: the next access returned %v, %q; want %v, %q",
					c.program, c.list, code, r.Refusal(), hal.Refused, c.reason)
			}
			r.readWord(0)
			r.runProgram(poke, 0x100, 77)
			if r.readWord(0x100) != 77 {
				t.Error("the core does not run another program after a reset")
			}
		})
	}
}

// TestBlackholeCoreHasFence runs a program with a fence, which stops the cores of Wormhole.
func TestBlackholeCoreHasFence(t *testing.T) {
	r := newTileSetup(t, &boards.Blackhole).selectTile(chips.Tile{X: 1, Y: 2})
	r.runProgram([]uint32{
		0x0330000f, // fence rw,rw
		0x10000293, // li t0,0x100
		0x0052a023, // sw t0,0(t0)
		0x0000006f, // j .
	})
	if r.readWord(0x100) != 0x100 {
		t.Errorf("the program with a fence did not store its word: %s", r.Refusal())
	}
}

// TestFirstStoppedCoreIsReportedToTheHost stops two cores of one tile.
func TestFirstStoppedCoreIsReportedToTheHost(t *testing.T) {
	g := NewTiles(&boards.Wormhole)
	// Start BRISC and TRISC0. Memory has only zeros, which are no instruction.
	g.Store(Place{Tile: true, X: 1, Y: 1, Address: 0xffb121b0}, 4, allInReset&^0x1800)
	g.Advance(100)
	if _, code := g.Load(Place{Tile: true, X: 1, Y: 1}, 4); code != hal.Refused ||
		!strings.Contains(g.Reason(), "BRISC") {
		t.Errorf("load from the tile: %v, %q, want %v and a reason that names BRISC", code,
			g.Reason(), hal.Refused)
	}
}

// TestCoreRunsOnlyOutOfResetAndWhileTheClockAdvances checks that a core executes one instruction in
// 10 ns, and starts at address 0 each time it leaves reset.
func TestCoreRunsOnlyOutOfResetAndWhileTheClockAdvances(t *testing.T) {
	g := NewTiles(&boards.Wormhole)
	l1 := func(address uint64) Place { return Place{Tile: true, X: 1, Y: 1, Address: address} }
	counted := func() uint64 { v, _ := g.Load(l1(0x100), 4); return v }
	for i, w := range counterLoop {
		g.Store(l1(uint64(4*i)), 4, uint64(w))
	}
	step := func(what string, reset uint64, nanoseconds int64, want uint64) {
		t.Helper()
		g.Store(l1(0xffb121b0), 4, reset)
		g.Advance(nanoseconds)
		if got := counted(); got != want {
			t.Errorf("%s: the program has counted to %d, want %d", what, got, want)
		}
	}
	step("in reset", allInReset, 1000, 0)
	step("released, clock stopped", briscReleased, 0, 0)
	step("three instructions", briscReleased, 39, 1) // the jump needs 1 ns more
	step("the jump and three instructions", briscReleased, 40, 2)
	step("a loop takes 40 ns", briscReleased, 400, 12)
	step("in reset again", allInReset, 1000, 12)
	step("restarted: two instructions, and 9 ns that remained before", briscReleased, 20, 12)
	step("the third instruction", briscReleased, 1, 13)
}

// TestHaltEndsASleepDuringWhichACoreRunsForEver would take days without Halt.
func TestHaltEndsASleepDuringWhichACoreRunsForEver(t *testing.T) {
	r := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 1})
	r.runProgram(counterLoop)
	const day = 24 * 3600 * 1e9
	before := r.Now()
	go r.Halt()
	r.Sleep(day)
	if r.Now()-before < day {
		t.Errorf("the clock advanced by %d ns, want at least %d", r.Now()-before, int64(day))
	}
}

// A store of the same bits to the reset register changes nothing.
func TestReleasedCoreIsNotRestarted(t *testing.T) {
	r := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 1})
	r.runProgram(poke, 0x100, 5)
	r.writeWords(0x204, 6)
	r.writeReset(briscReleased)
	r.writeReset(briscReleased | 1<<31)
	r.Sleep(10_000)
	if v := r.readWord(0x100); v != 5 {
		t.Errorf("the word has %d, want 5: the core must not run the program again", v)
	}
	if v := r.readWord(0xffb121b0); v != briscReleased {
		t.Errorf("SOFT_RESET_0 is %#x, want %#x", v, briscReleased)
	}
}

// TestIdleCoreIsSkippedUntilItsStateChanges runs a core in a jump to itself. The mock skips this
// core, so that a simulated day takes no time. It runs the core again after the host has changed
// the jump.
func TestIdleCoreIsSkippedUntilItsStateChanges(t *testing.T) {
	r := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 1})
	r.runProgram([]uint32{0x0000006f}) // j .
	r.Sleep(24 * 3600 * 1e9)
	r.writeWords(4, 0x06400293, 0x10502023, 0x0000006f) // li t0,100; sw t0,0x100(zero); j .
	r.writeWords(0, 0x00000013)                         // nop
	r.Sleep(1000)
	if v := r.readWord(0x100); v != 100 {
		t.Errorf("the word has %d, want 100: the core must run the new program", v)
	}
}

// TestCoresStartAtTheirStartAddresses starts four cores at their start addresses. Each core stores
// 1 to its word.
func TestCoresStartAtTheirStartAddresses(t *testing.T) {
	// The program stores 1 to the word of the core.
	reportProgram := func(slot uint32) []uint32 {
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
			// TRISC0's start address is set, but not enabled.
			0xffb12228, 0x2000, 0xffb1222c, 0x3000, 0xffb12234, 2,
			0xffb12238, 0x4000, 0xffb1223c, 1,
		}},
	} {
		t.Run(c.board.Name, func(t *testing.T) {
			r := newTileSetup(t, c.board).selectTile(chips.Tile{X: 1, Y: 2})
			for i := 0; i < len(c.before); i += 2 {
				r.writeWords(uint64(c.before[i]), c.before[i+1])
			}
			for slot, start := range c.starts {
				r.writeWords(uint64(start), reportProgram(uint32(slot))...)
			}
			r.runProgram(poke, 0xffb121b0, 0) // BRISC releases the other four
			r.Sleep(1000)
			if got := r.read(0x400, 16); !bytes.Equal(got, wordBytes(1, 1, 1, 1)) {
				t.Errorf("%s: words of the four cores %x, want 1 in each: %s", c.board.Name, got,
					r.Refusal())
			}
		})
	}
}

// TestCoresOfATileTakeTurns runs two cores of one tile. If both count in one word, each loads the
// word before the other stores it, so that half of the counts are lost. If one core is idle, the
// other counts at the same speed.
func TestCoresOfATileTakeTurns(t *testing.T) {
	for what, trisc0 := range map[string][]uint32{"count": counterLoop, "idle": {0x0000006f}} {
		t.Run(what, func(t *testing.T) {
			g := NewTiles(&boards.Wormhole)
			store := func(address int, w uint32) {
				g.Store(Place{Tile: true, X: 1, Y: 1, Address: uint64(address)}, 4, uint64(w))
			}
			for i, w := range counterLoop {
				store(4*i, w)
			}
			for i, w := range trisc0 {
				store(0x6000+4*i, w)
			}
			store(0xffb121b0, allInReset&^0x1800) // BRISC and TRISC0
			g.Advance(4000)
			if v, _ := g.Load(Place{Tile: true, X: 1, Y: 1, Address: 0x100}, 4); v != 100 {
				t.Errorf("%s: the word has %d, want 100", what, v)
			}
		})
	}
}

// TestHostAccessesATile checks which widths and addresses the model accepts from the host.
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
					t.Errorf("store of %d bytes at the end of L1: %v", width, code)
				}
				if got, code := g.Load(last, width); code != hal.OK || got != value {
					t.Errorf("load of %d bytes at the end of L1: %#x, %v, want %#x", width, got,
						code, value)
				}
				if code := g.Store(at(c.l1End), width, 0); code != hal.Refused ||
					!strings.Contains(g.Reason(), "tile (2,3)") {
					t.Errorf("store of %d bytes after L1: %v, %q, want %v and the tile", width,
						code, g.Reason(), hal.Refused)
				}
				if _, code := g.Load(at(0xffb121b0), width); (code == hal.OK) != (width == 4) {
					t.Errorf("SOFT_RESET_0, load of %d bytes: %v, want %v only for 4 bytes", width,
						code, hal.OK)
				}
				if code := g.Store(at(0xffb121b0), width, 0); width != 4 && code != hal.Refused {
					t.Errorf("SOFT_RESET_0, store of %d bytes: %v, want %v", width, code,
						hal.Refused)
				}
				g.Store(at(0xffb121b0), 4, allInReset)
			}
			if v, _ := g.Load(at(0xffb121b0), 4); v != allInReset {
				t.Errorf("SOFT_RESET_0 is %#x after stores of other widths, want %#x", v,
					allInReset)
			}
			for address, value := range map[uint64]uint64{0xffb121b0: 0x47801, 0xffb00000: 0,
				0x1_ffb1_21b0: 0x47800, 0xffb20200: 0} {
				if code := g.Store(at(address), 4, value); code != hal.Refused {
					t.Errorf("store of %#x at %#x: %v, want %v", value, address, code, hal.Refused)
				}
			}
			if _, code := g.Load(at(0xffb00000), 4); code != hal.Refused {
				t.Errorf("load from a core's own RAM by the host: %v, want %v", code, hal.Refused)
			}
		})
	}
}

// TestTilesHaveSeparateMemory checks that each tile has its own L1, and that all tiles of a DRAM
// bank have the same memory.
func TestTilesHaveSeparateMemory(t *testing.T) {
	r := newTileSetup(t, &boards.Wormhole)
	r.selectTile(chips.Tile{X: 1, Y: 1}).writeWords(0x1000, 11)
	r.selectTile(chips.Tile{X: 2, Y: 1}).writeWords(0x1000, 22)
	r.selectTile(chips.Tile{X: 0, Y: 0}).writeWords(0x7fff_f000, 33)
	for tile, want := range map[chips.Tile]uint32{{X: 1, Y: 1}: 11, {X: 2, Y: 1}: 22,
		{X: 3, Y: 1}: 0, {X: 18, Y: 18}: 11} {
		if got := r.selectTile(tile).readWord(0x1000); got != want {
			t.Errorf("L1 of %v: %d, want %d", tile, got, want)
		}
	}
	for tile, want := range map[chips.Tile]uint32{{X: 0, Y: 11}: 33, {X: 0, Y: 5}: 0} {
		if got := r.selectTile(tile).readWord(0x7fff_f000); got != want {
			t.Errorf("DRAM %v: %d, want %d", tile, got, want)
		}
	}
}

// TestRunningCoresAllocateNothing runs a core for some time first, so that its pages exist.
func TestRunningCoresAllocateNothing(t *testing.T) {
	r := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 1})
	r.runProgram(counterLoop)
	if n := testing.AllocsPerRun(100, func() { r.Sleep(10_000) }); n != 0 {
		t.Errorf("10 us of a running core: %v allocations, want 0", n)
	}
}
