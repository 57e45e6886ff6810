package mock

import (
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
)

// The tests of this file have small programs access what tt-metal's firmware and kernels use that
// only move data. Programs and lists are those of tile_test.go.

var bothBoards = []*boards.Board{&boards.Wormhole, &boards.Blackhole}

// peekAt loads from addresses by BRISC, and returns the values.
func (r *rig) peekAt(addresses ...uint32) (values []uint32) {
	r.Helper()
	r.runProgram(peek, addresses...)
	for i := range addresses {
		values = append(values, r.readWord(0x300+4*uint64(i)))
	}
	return values
}

// refusalAfter runs a program, and returns why the core stopped.
func (r *rig) refusalAfter(program []uint32, list ...uint32) string {
	r.Helper()
	r.runProgram(program, list...)
	offset := r.reach(0)
	_, _ = r.window.Load(uint32(offset), 4)
	return r.Refusal()
}

func TestFirmwareInitialisesTheCoprocessor(t *testing.T) {
	for _, b := range bothBoards {
		r := newRig(t, b).at(chips.Tile{X: 1, Y: 2})
		r.runProgram(poke,
			0xffb11024, 0x3f, // clock gate of the TDMA
			0xffe40000, 0x10180000, 0xffe40000, 0x8a003010, // ZEROACC, SFPENCC
			0xffe40000, 0x7100bf80, 0xffe40000, 0x910000b0, // SFPLOADI, SFPCONFIG
			0xffe50000, 0xa3100008, 0xffe60000, 0xb2000001, // SEMINIT, SETC16
			0xffef02e4, 0x1f, 0x100, 77)
		if got := r.readWord(0x100); got != 77 {
			t.Fatalf("%s: BRISC has not reached its end: %d, %s", b.Name, got, r.Refusal())
		}
		if got := r.peekAt(0xffef02e4); got[0] != 0x1f {
			t.Errorf("%s: the configuration has %x", b.Name, got)
		}
	}
}

// TestMatrixEngineIsNamedAsMissing has BRISC push UNPACR.
func TestMatrixEngineIsNamedAsMissing(t *testing.T) {
	r := newRig(t, &boards.Wormhole).at(chips.Tile{X: 1, Y: 2})
	const want = "the mock does not implement instruction 0x42000000 of the Tensix coprocessor; " +
		"use ttsim with --device ttsim:LIBRARY"
	if got := r.refusalAfter(poke, 0xffe40000, 0x42000000); !strings.HasSuffix(got, want) {
		t.Error(got)
	}
}

// TestCircularBuffersCountInStreams that cores, other tiles and the host access.
func TestCircularBuffersCountInStreams(t *testing.T) {
	for _, c := range []struct {
		board                                  *boards.Board
		acked, received, available, update, id uint32
	}{
		{&boards.Wormhole, 0xffb4300c, 0xffb43010, 0xffb43100, 0xffb43088, 0xffb43000},
		{&boards.Blackhole, 0xffb43020, 0xffb43028, 0xffb434a4, 0xffb43438, 0xffb43010},
	} {
		r := newRig(t, c.board).at(chips.Tile{X: 1, Y: 2})
		r.runProgram(poke, c.acked, 0x20001, c.received, 5, c.update, 2<<6, c.id, 0x123456)
		got := r.peekAt(c.acked, c.received, c.available, c.id)
		if want := []uint32{1, 5, 7, 0x123456}; !slices.Equal(got, want) {
			t.Errorf("%s: %x, want %x; %s", c.board.Name, got, want, r.Refusal())
		}
		if got := r.readWord(uint64(c.received)); got != 5 {
			t.Errorf("%s: the host loads %d", c.board.Name, got)
		}
		if got := r.refusalAfter(poke, c.available, 1); !strings.Contains(got, "store refused") {
			t.Errorf("%s: available space: %q", c.board.Name, got)
		}
	}
}

// TestWormholeNCRISCRunsFromItsInstructionMemory, to which the TDMA has copied a program.
func TestWormholeNCRISCRunsFromItsInstructionMemory(t *testing.T) {
	const code = 0x8000
	r := newRig(t, &boards.Wormhole).at(chips.Tile{X: 1, Y: 2})
	r.writeWords(code,
		0x00700293, // li t0,7
		0x10502023, // sw t0,0x100(zero)
		0x0000006f) // j .
	r.runProgram(poke,
		0xffb11000, code>>4, 0xffb11004, 0x4000, 0xffb11008, 1, 0xffb1100c, 1, 0xffb11010, 0x40,
		code, 0, // the copy does not follow the original
		0xffef0288, 0xffc00000, 0xffef028c, 1, // NCRISC's start address
		0xffb121b0, 0x7000)
	r.Sleep(1000)
	if got := r.readWord(0x100); got != 7 {
		t.Errorf("got %d, %s", got, r.Refusal())
	}
	if got := r.peekAt(0xffb11014); got[0] != 8 {
		t.Errorf("status of the TDMA: %#x", got[0])
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
		r.refusal = ""
		if got := r.refusalAfter(poke, c.list...); !strings.Contains(got, c.reason) {
			t.Errorf("%q, want %q", got, c.reason)
		}
	}
	if got := newRig(t, &boards.Blackhole).at(chips.Tile{X: 1, Y: 2}).refusalAfter(poke, 0xffb11000,
		1); !strings.Contains(got, "store refused, address 0xffb11000") {
		t.Errorf("Blackhole has no such memory: %q", got)
	}
}

// TestMailboxMakesItsReaderWait has TRISC0 load from the mailbox of BRISC before that stores there.
func TestMailboxMakesItsReaderWait(t *testing.T) {
	for _, b := range bothBoards {
		r := newRig(t, b).at(chips.Tile{X: 1, Y: 2})
		r.reset(allHeld)
		r.writeWords(0x6000,
			0xffec02b7, // lui t0,0xffec0
			0x0002a303, // lw t1,0(t0)
			0x40602023, // sw t1,0x400(zero)
			0x0000006f) // j .
		r.reset(0x46800) // TRISC0 alone
		r.Sleep(1000)
		if got := r.readWord(0x400); got != 0 {
			t.Errorf("%s: TRISC0 has not waited: %d", b.Name, got)
		}
		r.writeWords(0, poke...)
		r.writeWords(0x200, 0xffec1000, 99, 0)
		r.reset(0x46000)
		r.Sleep(1000)
		if got := r.readWord(0x400); got != 99 {
			t.Errorf("%s: TRISC0 got %d; %s", b.Name, got, r.Refusal())
		}
	}
}

// TestCoresOfTheCoprocessorHaveRegistersAndSemaphores runs a program on TRISC0.
func TestCoresOfTheCoprocessorHaveRegistersAndSemaphores(t *testing.T) {
	r := newRig(t, &boards.Wormhole).at(chips.Tile{X: 1, Y: 2})
	r.reset(allHeld)
	r.writeWords(0x6000, peek...)
	r.writeWords(0x200, 0xffe00004, 0xffe80004, 0xffe80024, 0)
	r.reset(0x46800)
	r.Sleep(1000)
	if got := r.read(0x300, 12); word(got) != 0 || r.Refusal() != "" {
		t.Errorf("%x, %s", got, r.Refusal())
	}
	if got := r.refusalAfter(peek, 0xffe00004); !strings.Contains(got, "load refused") {
		t.Errorf("BRISC has no such registers: %q", got)
	}
}

// TestSemaphoreRejectsStores that would leave its range, and values other than 0 and 1.
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
		r := newRig(t, &boards.Wormhole).at(chips.Tile{X: 1, Y: 2})
		r.reset(allHeld)
		r.writeWords(0x6000, poke...)
		r.writeWords(0x200, append(c.list, 0)...)
		r.reset(0x46800)
		r.Sleep(1000)
		_, _ = r.window.Load(uint32(r.reach(0)), 4)
		if got := r.Refusal(); !strings.Contains(got, c.reason) {
			t.Errorf("%q, want %q", got, c.reason)
		}
	}
}

// TestEthernetTilesHaveCores that their own reset register starts.
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
		r := newRig(t, c.board).at(c.tile)
		reset := chips.ForBoard(c.board).Grid.EthernetReset.Address
		if got := r.readWord(reset); got != c.initial {
			t.Errorf("%s: reset register %#x", c.board.Name, got)
		}
		for address, want := range c.firmware {
			if got := r.readWord(address); got != want {
				t.Errorf("%s: %#x has %#x, not %#x", c.board.Name, address, got, want)
			}
		}
		r.writeWords(reset, 0x80047800)
		r.writeWords(0, poke...)
		r.writeWords(0x200, c.stream, 3, 0x100, 5, 0)
		r.writeWords(reset, c.start)
		r.Sleep(1000)
		if c.board == &boards.Blackhole { // without a start address its core does not start
			if got := r.readWord(0x100); got != 0 {
				t.Errorf("%s: started at 0", c.board.Name)
			}
			r.writeWords(reset, c.initial)
			r.writeWords(0x4000, poke...)
			r.writeWords(0xffb14000, 0x4000)
			r.writeWords(reset, c.start)
			r.Sleep(1000)
		}
		if got := r.readWord(0x100); got != 5 {
			t.Errorf("%s: the core stored %d; %s", c.board.Name, got, r.Refusal())
		}
	}
}

// TestBlackholeFirmwareAnswersTheHost before a program of the host runs on the tile.
func TestBlackholeFirmwareAnswersTheHost(t *testing.T) {
	r := newRig(t, &boards.Blackhole).at(chips.Tile{X: 1, Y: 1})
	if a, b := r.readWord(0x7cc70), r.readWord(0x7cc70); b != a+1 {
		t.Errorf("heartbeat %d, then %d", a, b)
	}
	r.writeWords(0x590, 0x40123456)
	if got := r.readWord(0x590); got != 0x123456 {
		t.Errorf("message %#x", got)
	}
}

// TestBlackholeCoresConfigureTheirCaches by csrrs and csrrc of register 0x7c0.
func TestBlackholeCoresConfigureTheirCaches(t *testing.T) {
	program := []uint32{
		0x00800313, // li t1,8
		0x7c032073, // csrrs zero,0x7c0,t1
		0x7c0333f3, // csrrc t2,0x7c0,t1
		0x10702023, // sw t2,0x100(zero)
		0x0000006f, // j .
	}
	r := newRig(t, &boards.Blackhole).at(chips.Tile{X: 1, Y: 2})
	r.runProgram(program)
	if got := r.readWord(0x100); got != 8 {
		t.Errorf("got %d; %s", got, r.Refusal())
	}
	program[0] = 0x00400313 // li t1,4: a bit that the register does not have
	if got := r.refusalAfter(program); !strings.Contains(got, "illegal instruction") {
		t.Error(got)
	}
	wormhole := newRig(t, &boards.Wormhole).at(chips.Tile{X: 1, Y: 2})
	if got := wormhole.refusalAfter(program); !strings.Contains(got, "illegal instruction") {
		t.Error(got)
	}
}
