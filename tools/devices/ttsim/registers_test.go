package ttsim

import (
	"encoding/binary"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// TestTilesReportTheirCoordinates loads NOC_NODE_ID and NOC_ID_LOGICAL. The source of the formulas
// is NoC/MemoryMap.md in tt-isa-documentation: NOC_NODE_ID has x and y in 6 bits each, the size of
// the grid in 7 bits each, and 1 in bit 28 on NoC 0. NoC 1 counts from the other corner.
func TestTilesReportTheirCoordinates(t *testing.T) {
	type registerValue struct {
		tile    chips.Tile
		address uint64
		want    uint32
	}
	gridSize := map[string]uint32{"wormhole": 12<<19 | 10<<12, "blackhole": 12<<19 | 17<<12}
	nodeIDs := map[string][]registerValue{
		"wormhole": {
			{chips.Tile{X: 1, Y: 1}, 0xffb2002c, 1<<28 | 1<<6 | 1},
			{chips.Tile{X: 1, Y: 1}, 0xffb3002c, 10<<6 | 8},
			{chips.Tile{X: 25, Y: 27}, 0xffb2002c, 1<<28 | 11<<6 | 9}, // translated
			{chips.Tile{X: 1, Y: 6}, 0xffb2002c, 1<<28 | 6<<6 | 1},
			{chips.Tile{X: 1, Y: 6}, 0xffb3002c, 5<<6 | 8},
			{chips.Tile{X: 0, Y: 10}, 0x88005002c, 1<<28 | 10<<6},
			{chips.Tile{X: 0, Y: 10}, 0x88005802c, 1<<6 | 9},
			{chips.Tile{X: 5, Y: 2}, 0x10008002c, 1<<28 | 2<<6 | 5},
			{chips.Tile{X: 5, Y: 10}, 0x10008802c, 1<<6 | 4},
		},
		"blackhole": {
			{chips.Tile{X: 1, Y: 2}, 0xffb20044, 1<<28 | 2<<6 | 1},
			{chips.Tile{X: 1, Y: 2}, 0xffb30044, 9<<6 | 15},
			{chips.Tile{X: 16, Y: 11}, 0xffb20044, 1<<28 | 11<<6 | 16},
			{chips.Tile{X: 20, Y: 25}, 0xffb20044, 1<<28 | 1<<6 | 1},
			{chips.Tile{X: 20, Y: 25}, 0xffb30044, 10<<6 | 15},
			{chips.Tile{X: 8, Y: 0}, 0x80050044, 1<<28 | 8},
			{chips.Tile{X: 8, Y: 0}, 0x80058044, 11<<6 | 8},
			{chips.Tile{X: 19, Y: 24}, 0xffffffffff000044, 1<<28 | 2},
		},
	}
	logicalIDs := map[string][]registerValue{ // NOC_ID_LOGICAL: the translated coordinate
		"wormhole": {{chips.Tile{X: 1, Y: 1}, 0xffb20138, 18<<6 | 18},
			{chips.Tile{X: 9, Y: 0}, 0xffb20138, 16<<6 | 25}},
		"blackhole": {{chips.Tile{X: 7, Y: 3}, 0xffb20148, 3<<6 | 7},
			{chips.Tile{X: 16, Y: 1}, 0xffb20148, 25<<6 | 21}},
	}
	runOnEachDevice(t, func(t *testing.T, board string, d hal.Device) {
		if d, ok := d.(*mock.Device); ok {
			d.AsHardware() // otherwise the mock refuses accesses to the ARC and PCIe tiles
		}
		r := newTileWindow(t, d)
		for _, p := range nodeIDs[board] {
			if got := binary.LittleEndian.Uint32(r.read(p.tile, p.address, 4)); got != p.want|
				gridSize[board] {
				t.Errorf("NOC_NODE_ID of tile %+v at %#x: %#x, want %#x", p.tile, p.address, got,
					p.want|gridSize[board])
			}
		}
		for _, p := range logicalIDs[board] {
			if got := binary.LittleEndian.Uint32(r.read(p.tile, p.address, 4)); got != p.want {
				t.Errorf("NOC_ID_LOGICAL of tile %+v at %#x: %#x, want %#x", p.tile, p.address, got,
					p.want)
			}
		}
	})
}

// The instructions of RV32I that the tests need.

// lui loads the upper 20 bits of a value.
func lui(to, value uint32) uint32 { return value&^0xfff | to<<7 | 0x37 }

// addi loads a value of 12 bits: it adds the value to the zero register.
func addi(to, value uint32) uint32 {
	return value<<20 | to<<7 | 0x13
}

// sw stores to base + offset.
func sw(value, base, offset uint32) uint32 {
	return offset>>5<<25 | value<<20 | base<<15 | 2<<12 | offset&31<<7 | 0x23
}

const jumpToItself = 0x6f

// TestBRISCSetsStartAddressesOfOtherCores runs on Wormhole only. There, BRISC stores the start
// addresses of the other cores to configuration registers: TRISC_RESET_PC_SEC1_PC is at 0xffef027c
// and the override bits are at 0xffef0284. The two registers of NCRISC follow.
func TestBRISCSetsStartAddressesOfOtherCores(t *testing.T) {
	runOnDevicesOf(t, "wormhole", func(t *testing.T, board string, d hal.Device) {
		r, tile := newTileWindow(t, d), firstTensix(board)
		r.write(tile, softReset0, words(allInReset))
		// TRISC1
		r.write(tile, 0, words(lui(1, 0xffef0000), lui(2, 0x1000), sw(2, 1, 0x27c), addi(3, 2),
			sw(3, 1, 0x284),
			lui(2, 0x2000), sw(2, 1, 0x288), addi(3, 1), sw(3, 1, 0x28c), jumpToItself)) // NCRISC
		r.write(tile, 0x1000, words(lui(1, nocFlag), addi(2, 0x7d), sw(2, 1, 0), jumpToItself))
		r.write(tile, 0x2000, words(lui(1, nocFlag), addi(2, 0x7e), sw(2, 1, 4), jumpToItself))
		r.write(tile, softReset0, words(briscReleased))
		for range 50 {
			r.read(tile, nocFlag, 4)
		}
		r.write(tile, softReset0, words(briscReleased&^(1<<13|1<<18)))
		for range 50 {
			r.read(tile, nocFlag, 4)
		}
		if first, second := r.read(tile, nocFlag, 4)[0],
			r.read(tile, nocFlag+4, 4)[0]; first != 0x7d || second != 0x7e {
			t.Errorf("flags of TRISC1 and NCRISC %#x and %#x, want 0x7d and 0x7e", first, second)
		}
	})
}

// lw loads from base + offset.
func lw(to, base, offset uint32) uint32 { return offset<<20 | base<<15 | 2<<12 | to<<7 | 0x03 }

// runWhileLoading runs a program on BRISC of a tile while the host makes a number of loads, with
// which the simulator's time passes.
func (d *tileWindow) runWhileLoading(tile chips.Tile, loads int, program ...uint32) {
	d.write(tile, softReset0, words(allInReset))
	d.write(tile, nocFlag, make([]byte, 64))
	d.write(tile, 0, words(append(program, jumpToItself)...))
	d.write(tile, softReset0, words(briscReleased))
	for range loads {
		d.read(tile, nocFlag, 4)
	}
}

// TestFirmwareReadsBackRegistersThatItInitialises runs the stores and loads of a dispatcher's
// firmware: TDMA, coprocessor, the counters of circular buffers, and NCRISC's instruction memory.
func TestFirmwareReadsBackRegistersThatItInitialises(t *testing.T) {
	streams := map[string][3]uint32{"wormhole": {0x00c, 0x010, 0x100},
		"blackhole": {0x020, 0x028, 0x4a4}}
	runOnEachDevice(t, func(t *testing.T, board string, d hal.Device) {
		r, tile, at := newTileWindow(t, d), firstTensix(board), streams[board]
		program := []uint32{
			lui(1, 0xffb11000), addi(2, 0x3f), sw(2, 1, 0x24), // clock gate of the TDMA
			lui(1, 0xffe40000), lui(2, 0x02000000), sw(2, 1, 0), // NOP
			lui(1, 0xffb45000), lui(2, 0x21000), sw(2, 1, at[0]), // bits 0 to 16 count
			addi(2, 9), sw(2, 1, at[1]),
			lui(4, nocFlag), lw(3, 1, at[0]), sw(3, 4, 4), lw(3, 1, at[1]), sw(3, 4, 8),
			lw(3, 1, at[2]), sw(3, 4, 12), addi(3, 1), sw(3, 4, 0),
		}
		r.runWhileLoading(tile, 100, program...)
		for i, want := range []uint32{1, 0x1000, 9, 9} {
			if got := binary.LittleEndian.Uint32(r.read(tile, nocFlag+4*uint64(i),
				4)); got != want {
				t.Errorf("%s: word %d is %#x, want %#x", board, i, got, want)
			}
		}
		if board != "wormhole" {
			return
		}
		const code = 0x4000
		r.write(tile, code, words(lui(1, nocFlag), addi(2, 0x55), sw(2, 1, 0), jumpToItself))
		r.runWhileLoading(tile, 100,
			lui(1, 0xffb11000), addi(2, code>>4), sw(2, 1, 0), lui(2, 0x4000), sw(2, 1, 4),
			addi(2, 1), sw(2, 1, 8), sw(2, 1, 12), addi(2, 0x40), sw(2, 1, 16),
			lui(1, 0xffef0000), lui(2, 0xffc00000), sw(2, 1, 0x288), addi(2, 1), sw(2, 1, 0x28c),
			lui(1, 0xffb12000), lui(2, 0x7000), sw(2, 1, 0x1b0))
		if got := r.read(tile, nocFlag, 4)[0]; got != 0x55 {
			t.Errorf("NCRISC stored %#x, want 0x55", got)
		}
	})
}

// TestEthernetTilesStartWithCoresInReset also requires that their links are down.
func TestEthernetTilesStartWithCoresInReset(t *testing.T) {
	tiles := map[string]chips.Tile{"wormhole": {X: 1, Y: 6}, "blackhole": {X: 20, Y: 25}}
	initial := map[string]map[uint64]uint32{
		"wormhole": {softReset0: 0x800, 0x210: 0x6e000, 0x1104: 3, 0x9020: 0x440},
		"blackhole": {softReset0: 0x1800, 0x7cc00: 0xc0dea000, 0x7cc04: 2, 0x7cfbc: 0x10600,
			0x7cf00: 0x71574, 0xffb14000: 0},
	}
	runOnEachDevice(t, func(t *testing.T, board string, d hal.Device) {
		r := newTileWindow(t, d)
		for address, want := range initial[board] {
			if got := binary.LittleEndian.Uint32(r.read(tiles[board], address, 4)); got != want {
				t.Errorf("%s: %#x has %#x, want %#x", board, address, got, want)
			}
		}
	})
}

// TestEthernetCoreRunsAProgram writes a program to an Ethernet tile, and starts it through the
// tile's reset register.
func TestEthernetCoreRunsAProgram(t *testing.T) {
	tiles := map[string]chips.Tile{"wormhole": {X: 1, Y: 6}, "blackhole": {X: 20, Y: 25}}
	runOnEachDevice(t, func(t *testing.T, board string, d hal.Device) {
		r, tile, start := newTileWindow(t, d), tiles[board], uint64(0)
		released := uint32(0)
		if board == "blackhole" {
			start, released = 0x3000, 0x1000
			r.write(tile, 0xffb14000, words(uint32(start)))
		}
		r.write(tile, start, words(lui(1, nocFlag), addi(2, 0x33), sw(2, 1, 0), jumpToItself))
		r.write(tile, softReset0, words(released))
		for range 50 {
			r.read(tile, nocFlag, 4)
		}
		if got := r.read(tile, nocFlag, 4)[0]; got != 0x33 {
			t.Errorf("%s: the core stored %#x, want 0x33", board, got)
		}
	})
}
