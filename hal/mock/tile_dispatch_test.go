package mock

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// The programs of tile_test.go access the registers that tt-metal's firmware uses, and its kernels
// that only move data.

var bothBoards = []*boards.Board{&boards.Wormhole, &boards.Blackhole}

// loadOnBRISC runs a program on BRISC that loads from the addresses, and returns the values.
func (r *tileSetup) loadOnBRISC(addresses ...uint32) (values []uint32) {
	r.Helper()
	r.runProgram(peek, addresses...)
	for i := range addresses {
		values = append(values, r.readWord(0x300+4*uint64(i)))
	}
	return values
}

// refusalAfter runs a program, and returns why the core stopped: the mock rejects the next access
// to the tile. It ignores the reason of an earlier program.
func (r *tileSetup) refusalAfter(program []uint32, list ...uint32) string {
	r.Helper()
	r.refusal = ""
	r.runProgram(program, list...)
	return r.refusalOfNextLoad()
}

// refusalOfNextLoad returns why the mock rejects a load from the selected tile.
func (r *tileSetup) refusalOfNextLoad() string {
	r.Helper()
	offset := r.pointWindow(0)
	if _, code := LoadAt(&r.window, uint32(offset), 4); code != hal.Refused {
		r.Errorf("load: %v, want %v", code, hal.Refused)
	}
	return r.Refusal()
}

func TestFirmwareInitialisesTheCoprocessor(t *testing.T) {
	for _, b := range bothBoards {
		r := newTileSetup(t, b).selectTile(chips.Tile{X: 1, Y: 2})
		r.runProgram(poke,
			0xffb11024, 0x3f, // clock gate of the TDMA
			0xffe40000, 0x10180000, 0xffe40000, 0x8a003010, // ZEROACC, SFPENCC
			0xffe40000, 0x7100bf80, 0xffe40000, 0x910000b0, // SFPLOADI, SFPCONFIG
			0xffe50000, 0xa3100008, 0xffe60000, 0xb2000001, // SEMINIT, SETC16
			0xffef02e4, 0x1f, 0x100, 77)
		if got := r.readWord(0x100); got != 77 {
			t.Fatalf("%s: BRISC has not reached its last store: %d, want 77: %s", b.Name, got,
				r.Refusal())
		}
		if got := r.loadOnBRISC(0xffef02e4); got[0] != 0x1f {
			t.Errorf("%s: the configuration register has %x, want [1f]", b.Name, got)
		}
	}
}

// TestMatrixEngineIsNamedAsMissing has BRISC push UNPACR.
func TestMatrixEngineIsNamedAsMissing(t *testing.T) {
	r := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 2})
	const want = "the mock does not implement instruction 0x42000000 of the Tensix coprocessor; " +
		"use ttsim with --device ttsim:LIBRARY"
	if got := r.refusalAfter(poke, 0xffe40000, 0x42000000); !strings.HasSuffix(got, want) {
		t.Errorf("reason %q, want one that ends with %q", got, want)
	}
}

// A core and the host access the counters.
func TestCircularBuffersCountInStreams(t *testing.T) {
	for _, c := range []struct {
		board                                  *boards.Board
		acked, received, available, update, id uint32
	}{
		{&boards.Wormhole, 0xffb4300c, 0xffb43010, 0xffb43100, 0xffb43088, 0xffb43000},
		{&boards.Blackhole, 0xffb43020, 0xffb43028, 0xffb434a4, 0xffb43438, 0xffb43010},
	} {
		r := newTileSetup(t, c.board).selectTile(chips.Tile{X: 1, Y: 2})
		r.runProgram(poke, c.acked, 0x20001, c.received, 5, c.update, 2<<6, c.id, 0x123456)
		got := r.loadOnBRISC(c.acked, c.received, c.available, c.id)
		if want := []uint32{1, 5, 7, 0x123456}; !slices.Equal(got, want) {
			t.Errorf("%s: registers of the stream %x, want %x; %s", c.board.Name, got, want,
				r.Refusal())
		}
		if got := r.readWord(uint64(c.received)); got != 5 {
			t.Errorf("%s: the host loads %d, want 5", c.board.Name, got)
		}
		if got := r.refusalAfter(poke, c.available, 1); !strings.Contains(got, "store refused") {
			t.Errorf("%s: reason %q, want a rejected store to the register of available space",
				c.board.Name, got)
		}
	}
}

// TestWormholeNCRISCRunsFromItsInstructionMemory makes the TDMA copy a program there.
func TestWormholeNCRISCRunsFromItsInstructionMemory(t *testing.T) {
	const code = 0x8000
	r := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 2})
	r.writeWords(code,
		0x00700293, // li t0,7
		0x10502023, // sw t0,0x100(zero)
		0x0000006f) // j .
	r.runProgram(poke,
		0xffb11000, code>>4, 0xffb11004, 0x4000, 0xffb11008, 1, 0xffb1100c, 1, 0xffb11010, 0x40,
		code, 0, // overwrite the original, which must not change the copy
		0xffef0288, 0xffc00000, 0xffef028c, 1, // NCRISC's start address
		0xffb121b0, 0x7000)
	r.Sleep(1000)
	if got := r.readWord(0x100); got != 7 {
		t.Errorf("the word has %d, want 7 of the program: %s", got, r.Refusal())
	}
	if got := r.loadOnBRISC(0xffb11014); got[0] != 8 {
		t.Errorf("status of the TDMA: %#x, want 8", got[0])
	}
	for _, c := range []struct {
		reason string
		list   []uint32
	}{
		{"only copies from L1 to NCRISC's instruction memory", []uint32{0xffb11004, 0x4001}},
		{"cannot copy 16400 bytes: NCRISC's instruction memory has 16384 bytes",
			[]uint32{0xffb11008, 0x401, 0xffb11010, 0x40}},
		{"the range of 16 bytes at 0x1000000 must be in L1",
			[]uint32{0xffb11000, 0x100000, 0xffb11008, 1, 0xffb11010, 0x40}},
	} {
		if got := r.refusalAfter(poke, c.list...); !strings.Contains(got, c.reason) {
			t.Errorf("stores %x to the TDMA: reason %q, want %q", c.list, got, c.reason)
		}
	}
	blackhole := newTileSetup(t, &boards.Blackhole).selectTile(chips.Tile{X: 1, Y: 2})
	got := blackhole.refusalAfter(poke, 0xffb11000, 1)
	if !strings.Contains(got, "store refused, address 0xffb11000") {
		t.Errorf("Blackhole, which has no TDMA registers: reason %q, want a rejected store", got)
	}
}

// TestMailboxMakesItsReaderWait makes TRISC0 load from the mailbox of BRISC before BRISC stores to
// it.
func TestMailboxMakesItsReaderWait(t *testing.T) {
	for _, b := range bothBoards {
		r := newTileSetup(t, b).selectTile(chips.Tile{X: 1, Y: 2})
		r.writeReset(allInReset)
		r.writeWords(0x6000,
			0xffec02b7, // lui t0,0xffec0
			0x0002a303, // lw t1,0(t0)
			0x40602023, // sw t1,0x400(zero)
			0x0000006f) // j .
		r.writeReset(0x46800) // release only TRISC0
		r.Sleep(1000)
		if got := r.readWord(0x400); got != 0 {
			t.Errorf("%s: TRISC0 has stored %d before BRISC wrote to the mailbox", b.Name, got)
		}
		r.writeWords(0, poke...)
		r.writeWords(0x200, 0xffec1000, 99, 0)
		r.writeReset(0x46000)
		r.Sleep(1000)
		if got := r.readWord(0x400); got != 99 {
			t.Errorf("%s: TRISC0 has stored %d, want 99 of the mailbox; %s", b.Name, got,
				r.Refusal())
		}
	}
}

// TestCoresOfTheCoprocessorHaveRegistersAndSemaphores makes TRISC0 store to a register of its
// thread and increment a semaphore twice, and then load the register, the semaphore, and the
// register that waits for the coprocessor.
func TestCoresOfTheCoprocessorHaveRegistersAndSemaphores(t *testing.T) {
	const register, sync, semaphore, value = 0xffe00004, 0xffe80004, 0xffe80024, 0x12345678
	const unset = 0xa5a5a5a5 // in place of the results, until TRISC0 stores them
	r := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 2})
	runOnTRISC0 := func(program []uint32, list ...uint32) {
		r.writeReset(allInReset)
		r.writeWords(0x6000, program...)
		r.writeWords(0x200, append(list, 0)...)
		r.writeReset(0x46800) // release only TRISC0
		r.Sleep(1000)
	}
	r.writeWords(0x300, unset, unset, unset, unset)
	runOnTRISC0(poke, register, value, semaphore, 0, semaphore, 0)
	runOnTRISC0(peek, register, sync, semaphore)
	if got, want := r.read(0x300, 16), wordBytes(value, 0, 2, unset); !bytes.Equal(got, want) {
		t.Errorf("TRISC0 stored the bytes %x, want %x; %s", got, want, r.Refusal())
	}
	if got := r.refusalAfter(peek, register); !strings.Contains(got, "load refused") {
		t.Errorf("BRISC, which has no such registers: reason %q, want a rejected load", got)
	}
}

// TestSemaphoreRejectsStores makes stores that would leave the range of a semaphore, and stores of
// values other than 0 and 1.
func TestSemaphoreRejectsStores(t *testing.T) {
	const semaphore = 0xffe80024
	for _, c := range []struct {
		reason string
		list   []uint32
	}{
		{"semaphore 1 must not be decremented below 0", []uint32{semaphore, 1}},
		{"semaphore 1 must not be incremented above 15",
			slices.Repeat([]uint32{semaphore, 0}, semaphoreMax+1)},
		{"semaphore 1 accepts only 0 (increment) and 1 (decrement), not 0x2",
			[]uint32{semaphore, 0, semaphore, 1, semaphore, 2}},
	} {
		r := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 2})
		r.writeReset(allInReset)
		r.writeWords(0x6000, poke...)
		r.writeWords(0x200, append(c.list, 0)...)
		r.writeReset(0x46800)
		r.Sleep(1000)
		if got := r.refusalOfNextLoad(); !strings.Contains(got, c.reason) {
			t.Errorf("reason %q, want %q", got, c.reason)
		}
	}
}

// TestEthernetTilesHaveCores starts a core of an Ethernet tile through the tile's reset register.
func TestEthernetTilesHaveCores(t *testing.T) {
	for _, c := range []struct {
		board          *boards.Board
		tile           chips.Tile
		initial, start uint32 // values of the reset register
		stream         uint32 // address of a counter
		firmware       map[uint64]uint32
	}{
		{&boards.Wormhole, chips.Tile{X: 1, Y: 0}, 0x800, 0, 0xffb4300c,
			map[uint64]uint32{0x210: 0x6e000, 0x1104: 3}},
		{&boards.Blackhole, chips.Tile{X: 1, Y: 1}, 0x1800, 0x1000, 0xffb43020,
			map[uint64]uint32{0x7cc00: 0xc0dea000, 0x7cc04: 2, 0x7cfbc: 0x10600}},
	} {
		r := newTileSetup(t, c.board).selectTile(c.tile)
		reset := chips.ForBoard(c.board).Grid.EthernetReset.Address
		if got := r.readWord(reset); got != c.initial {
			t.Errorf("%s: reset register %#x, want %#x", c.board.Name, got, c.initial)
		}
		for address, want := range c.firmware {
			if got := r.readWord(address); got != want {
				t.Errorf("%s: address %#x has %#x, want %#x of the firmware", c.board.Name, address,
					got, want)
			}
		}
		r.writeWords(reset, 0x80047800)
		r.writeWords(0, poke...)
		r.writeWords(0x200, c.stream, 3, 0x100, 5, 0)
		r.writeWords(reset, c.start)
		r.Sleep(1000)
		if c.board == &boards.Blackhole { // its core does not start without a start address
			if got := r.readWord(0x100); got != 0 {
				t.Errorf("%s: the core has started at address 0", c.board.Name)
			}
			r.writeWords(reset, c.initial)
			r.writeWords(0x4000, poke...)
			r.writeWords(0xffb14000, 0x4000)
			r.writeWords(reset, c.start)
			r.Sleep(1000)
		}
		if got := r.readWord(0x100); got != 5 {
			t.Errorf("%s: the core has stored %d, want 5; %s", c.board.Name, got, r.Refusal())
		}
	}
}

// TestBlackholeFirmwareAnswersTheHost checks the firmware of an Ethernet tile, which runs before a
// program of the host does.
func TestBlackholeFirmwareAnswersTheHost(t *testing.T) {
	r := newTileSetup(t, &boards.Blackhole).selectTile(chips.Tile{X: 1, Y: 1})
	if a, b := r.readWord(0x7cc70), r.readWord(0x7cc70); b != a+1 {
		t.Errorf("heartbeat %d, then %d, want it to rise by 1", a, b)
	}
	r.writeWords(0x590, 0x40123456)
	if got := r.readWord(0x590); got != 0x123456 {
		t.Errorf("message register %#x, want 0x123456", got)
	}
}

// TestBlackholeCoresConfigureTheirCaches accesses register 0x7c0 with csrrs and csrrc.
func TestBlackholeCoresConfigureTheirCaches(t *testing.T) {
	program := []uint32{
		0x00800313, // li t1,8
		0x7c032073, // csrrs zero,0x7c0,t1
		0x7c0333f3, // csrrc t2,0x7c0,t1
		0x10702023, // sw t2,0x100(zero)
		0x0000006f, // j .
	}
	r := newTileSetup(t, &boards.Blackhole).selectTile(chips.Tile{X: 1, Y: 2})
	r.runProgram(program)
	if got := r.readWord(0x100); got != 8 {
		t.Errorf("the register had %d, want 8; %s", got, r.Refusal())
	}
	wormhole := newTileSetup(t, &boards.Wormhole).selectTile(chips.Tile{X: 1, Y: 2})
	if got := wormhole.refusalAfter(program); !strings.Contains(got, "illegal instruction") {
		t.Errorf("Wormhole, which has no such register: reason %q, want an illegal instruction",
			got)
	}
	program[0] = 0x00400313 // li t1,4: a bit that the register does not have
	if got := r.refusalAfter(program); !strings.Contains(got, "illegal instruction") {
		t.Errorf("a bit that the register does not have: reason %q, want an illegal instruction",
			got)
	}
}
