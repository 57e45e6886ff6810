package ttsim

import (
	"bytes"
	"debug/elf"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// What the network interfaces of Tensix tiles do, on hal/mock and on the
// vendor's simulator alike.

const (
	nocFlag, nocArgs = 0x10000, 0x10010 // testdata/kernels/README.md
	nocDone          = 0x600df00d
	nocHeld          = 0x47800
	nocReleased      = 0x47000 // BRISC
)

// tiles is a device and a window onto its tiles.
type tiles struct {
	*testing.T
	hal.Device
	window hal.Aperture
}

// named is what both kinds of device say beyond hal.Device.
type refuser interface{ Refusal() string }

func newTiles(t *testing.T, d hal.Device) *tiles {
	t.Helper()
	window, err := d.Map(tlbWindow(2<<20, fbs.NoSlot))
	if err != nil {
		t.Fatal(err)
	}
	return &tiles{t, d, window}
}

// eachDevice runs a test on the mock and, if the environment names it, on the
// simulator of each board.
func eachDevice(t *testing.T, test func(t *testing.T, board string, d hal.Device)) {
	for _, board := range []string{"wormhole", "blackhole"} {
		t.Run(board+"/mock", func(t *testing.T) { test(t, board, mock.New(boards.ByName(board))) })
		t.Run(board+"/ttsim", func(t *testing.T) { test(t, board, opened(t, vendors(t, board), imagesChoice)) })
	}
}

func (d *tiles) must(what string, code hal.Code) {
	d.Helper()
	if code != hal.OK {
		d.Fatalf("%s: %v: %s", what, code, d.Device.(refuser).Refusal())
	}
}

// reach points the window at an address and gives its offset there.
func (d *tiles) reach(tile boards.Tile, address uint64) uint64 {
	d.Helper()
	inside := address % (2 << 20)
	d.must("point", d.Point(&d.window, unicast(tile.X, tile.Y), address-inside))
	return inside
}

func (d *tiles) write(tile boards.Tile, address uint64, data []byte) {
	d.Helper()
	d.must("write", d.window.CopyIn(d.reach(tile, address), 4, gen.AccessExact, data))
}

func (d *tiles) read(tile boards.Tile, address uint64, size int) []byte {
	d.Helper()
	data := make([]byte, size)
	d.must("read", d.window.CopyOut(d.reach(tile, address), 4, gen.AccessExact, data))
	return data
}

// nocKernel gives a kernel as it is built for a board.
func nocKernel(t *testing.T, name, board string) []byte {
	t.Helper()
	f, err := elf.Open("../../testdata/kernels/" + name + map[string]string{"wormhole": "_wh", "blackhole": "_bh"}[board] + ".elf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			program, err := io.ReadAll(p.Open())
			if err != nil {
				t.Fatal(err)
			}
			return program
		}
	}
	t.Fatalf("%s has nothing to load", name)
	return nil
}

// start loads a kernel with its arguments and lets it run.
func (d *tiles) start(tile boards.Tile, program []byte, args ...uint32) {
	d.Helper()
	d.write(tile, softReset0, words(nocHeld))
	d.write(tile, 0, program)
	d.write(tile, nocArgs, words(args...))
	d.write(tile, nocFlag, words(0))
	d.write(tile, softReset0, words(nocReleased))
}

// wait polls the flag of a kernel.
func (d *tiles) wait(tile boards.Tile) {
	d.Helper()
	at := d.reach(tile, nocFlag)
	for range 10_000 {
		v, code := d.window.Load(at, 4)
		d.must("poll", code)
		if v == nocDone {
			return
		}
	}
	d.Fatalf("the kernel on %v does not end", tile)
}

// coordinate of a tile as a command buffer takes it.
func coordinate(x, y uint32) uint32 { return x | y<<6 }

// nocPlaces are coordinates of one DRAM and two Tensix tiles on each NoC.
var nocPlaces = map[string][2]struct{ dram, first, last uint32 }{
	"wormhole": {
		{coordinate(5, 2), coordinate(1, 1), coordinate(9, 11)},
		{coordinate(4, 9), coordinate(8, 10), coordinate(0, 0)}, // from the other corner
	},
	"blackhole": {
		{coordinate(17, 15), coordinate(1, 2), coordinate(16, 11)},
		{coordinate(17, 15), coordinate(1, 2), coordinate(16, 11)},
	},
}

func firstTensix(board string) boards.Tile {
	if board == "wormhole" {
		return boards.Tile{X: 1, Y: 1}
	}
	return boards.Tile{X: 1, Y: 2}
}

func filled(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

// TestKernelCopiesDRAM: more than a packet, not a multiple of one, by either
// NoC, on to another place of the same bank.
func TestKernelCopiesDRAM(t *testing.T) {
	eachDevice(t, func(t *testing.T, board string, d hal.Device) {
		dram := map[string]boards.Tile{"wormhole": {X: 5, Y: 2}, "blackhole": {X: 9, Y: 2}}[board]
		for noc, at := range nocPlaces[board] {
			const source, target, size = 0x4000_0040, 0x30_0000, 40_004
			r := newTiles(t, d)
			data := filled(uint64(noc), size)
			r.write(dram, source, data)
			r.start(firstTensix(board), nocKernel(t, "noc_copy", board), uint32(noc), size, at.dram, source, at.dram, target, 0x20040, 20_032)
			r.wait(firstTensix(board))
			if got := r.read(dram, target, size); !bytes.Equal(got, data) {
				t.Errorf("NoC %d: wrong copy", noc)
			}
		}
	})
}

var _ = strings.Contains
