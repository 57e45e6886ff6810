package mock

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/lmb/lmbtest"
)

// The kernels in testdata/kernels run as on a host without a driver: through a TLB window.

const (
	flagAddress = 0x10000
	argsAddress = 0x10010
	flagDone    = 0x600df00d

	// values of the reset register
	allInReset    = 0x47800
	briscReleased = 0x47000
)

// loadKernel reads an ELF file and returns its program, which is linked at 0.
func loadKernel(t testing.TB, name string) []byte {
	return lmbtest.Kernel(t, "../../testdata/kernels/"+name+".elf")
}

// tileSetup is a device, one TLB window, and the tiles at which the next accesses point the window.
type tileSetup struct {
	testing.TB
	*Device
	window hal.Aperture
	target fbs.TileRoute
}

// newTileSetup returns a new device whose tiles have cores, and maps a TLB window of 2 MiB.
func newTileSetup(t testing.TB, b *boards.Board) *tileSetup {
	t.Helper()
	r := &tileSetup{TB: t, Device: NewWith(b, NewTiles(b))}
	var err error
	if r.window, err = r.Map(fbs.Window{Kind: gen.WindowKindTlb, Size: 1 << 21,
		Slot: fbs.AnySlot}); err != nil {
		t.Fatal(err)
	}
	return r
}

// selectTile selects the tile of the following accesses.
func (r *tileSetup) selectTile(tile chips.Tile) *tileSetup {
	r.target = fbs.TileRoute{X: tile.X, Y: tile.Y, Ordering: boards.OrderingDefault}
	return r
}

// selectRectangle selects all Tensix tiles in a rectangle for the following accesses.
func (r *tileSetup) selectRectangle(first, last chips.Tile) *tileSetup {
	r.target = fbs.TileRoute{X: last.X, Y: last.Y, XStart: first.X, YStart: first.Y,
		Multicast: true, Ordering: boards.OrderingDefault}
	return r
}

// pointWindow points the window at an address of the selected tiles, and returns the offset of the
// address in the window.
func (r *tileSetup) pointWindow(address uint64) uint64 {
	r.Helper()
	inside := address % (1 << 21)
	if c := r.ProgramWindow(&r.window, r.target, address-inside); c != hal.OK {
		r.Fatalf("ProgramWindow at %#x: %v: %s", address, c, r.Refusal())
	}
	return inside
}

// write copies data to the selected tiles.
func (r *tileSetup) write(address uint64, data []byte) {
	r.Helper()
	if c := CopyAt(&r.window, gen.OpcodeCopyIn, r.pointWindow(address), 4, gen.AccessExact,
		data); c != hal.OK {
		r.Fatalf("CopyIn at %#x: %v: %s", address, c, r.Refusal())
	}
}

func (r *tileSetup) writeWords(address uint64, words ...uint32) {
	r.Helper()
	r.write(address, wordBytes(words...))
}

// read returns size bytes of the selected tile.
func (r *tileSetup) read(address uint64, size int) []byte {
	r.Helper()
	data := make([]byte, size)
	if c := CopyAt(&r.window, gen.OpcodeCopyOut, r.pointWindow(address), 4, gen.AccessExact,
		data); c != hal.OK {
		r.Fatalf("CopyOut at %#x: %v: %s", address, c, r.Refusal())
	}
	return data
}

func (r *tileSetup) readWord(address uint64) uint32 {
	r.Helper()
	return word(r.read(address, 4))
}

func (r *tileSetup) writeReset(value uint32) {
	r.Helper()
	r.writeWords(chips.ForBoard(r.board).Grid.TensixReset.Address, value)
}

// waitForFlag polls the flag that a kernel sets at its end.
func (r *tileSetup) waitForFlag() {
	r.Helper()
	for range 100_000 {
		if r.readWord(flagAddress) == flagDone {
			return
		}
	}
	r.Fatal("the kernel has not set its flag within 100000 loads")
}

func wordBytes(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// runKernel runs the kernel in the selected tile to its end.
func (r *tileSetup) runKernel(args ...uint32) {
	r.Helper()
	r.writeWords(argsAddress, args...)
	r.writeWords(flagAddress, 0)
	r.writeReset(briscReleased)
	r.waitForFlag()
	r.writeReset(allInReset)
}

// testTiles are a Tensix tile in the middle of each board, and the last Tensix tile.
var testTiles = []struct {
	board *boards.Board
	tile  chips.Tile
}{
	{&boards.Wormhole, chips.Tile{X: 6, Y: 7}},
	{&boards.Wormhole, chips.Tile{X: 25, Y: 27}}, // translated coordinates of (9,11)
	{&boards.Blackhole, chips.Tile{X: 10, Y: 5}},
	{&boards.Blackhole, chips.Tile{X: 16, Y: 11}},
}

// TestKernelsAreTheRecordedPrograms compares the ELF files with the programs that the recordings
// store at address 0.
func TestKernelsAreTheRecordedPrograms(t *testing.T) {
	for name, recordings := range map[string][]capture{"twoop": captures[:2], "mlp": captures[2:]} {
		t.Run(name, func(t *testing.T) {
			program := loadKernel(t, name)
			for _, c := range recordings {
				if got := storedBytes(readMmiotrace(t, c.name), c.l1,
					(len(program)+7)&^7); !bytes.Equal(got[:len(program)], program) {
					t.Errorf("%s.elf differs from the program in %s", name, c.name)
				}
			}
		})
	}
}

// TestKernelResultsMatchGo runs each kernel with random arguments and data on all testTiles, and
// compares the result with the same computation in Go.
func TestKernelResultsMatchGo(t *testing.T) {
	const a, b, c = 0x20000, 0x28000, 0x30000
	for _, k := range []struct {
		name string
		run  func(r *tileSetup, random *rand.Rand) (got, want []byte)
	}{
		{"sum", func(r *tileSetup, random *rand.Rand) (got, want []byte) {
			in := randomBytes(random, 4*random.IntN(300))
			r.write(a, in)
			r.runKernel(uint32(len(in)/4), a, c)
			sum := uint32(0)
			for i := 0; i < len(in); i += 4 {
				sum += word(in[i:])
			}
			return r.read(c, 4), wordBytes(sum)
		}},
		{"copy", func(r *tileSetup, random *rand.Rand) (got, want []byte) {
			in, before := randomBytes(random, 1024), randomBytes(random, 1040)
			size, from, to := random.IntN(1000), random.IntN(20), random.IntN(20)
			r.write(a, in)
			r.write(b, before)
			r.runKernel(uint32(size), uint32(a+from), uint32(b+to))
			copy(before[to:], in[from:from+size])
			return r.read(b, len(before)), before
		}},
		{"matmul", func(r *tileSetup, random *rand.Rand) (got, want []byte) {
			x, y := randomBytes(random, 256), randomBytes(random, 256)
			r.write(a, x)
			r.write(b, y)
			r.runKernel(a, b, c)
			for i := range 64 {
				sum := uint32(0)
				for k := range 8 {
					sum += word(x[4*(i/8*8+k):]) * word(y[4*(8*k+i%8):])
				}
				want = append(want, wordBytes(sum)...)
			}
			return r.read(c, 256), want
		}},
		{"saxpy", func(r *tileSetup, random *rand.Rand) (got, want []byte) {
			x, y, alpha := randomBytes(random, 400), randomBytes(random, 400),
				word(randomBytes(random, 4))
			r.write(a, x)
			r.write(b, y)
			r.runKernel(100, alpha, a, b)
			for i := 0; i < 400; i += 4 {
				product := int64(int32(alpha)) * int64(int32(word(x[i:])))
				want = append(want, wordBytes(word(y[i:])+uint32(product>>16))...)
			}
			return r.read(b, 400), want
		}},
		{"mcast", func(r *tileSetup, random *rand.Rand) (got, want []byte) {
			w, x := randomBytes(random, 400), randomBytes(random, 400)
			r.write(a, w)
			r.write(b, x)
			r.runKernel(100, a, b, c)
			return r.read(c, 400), multiplyWords(w, x)
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			for _, p := range testTiles {
				random := rand.New(rand.NewPCG(3, 4))
				r := newTileSetup(t, p.board).selectTile(p.tile)
				r.write(0, loadKernel(t, k.name))
				for run := range 20 {
					if got, want := k.run(r, random); !bytes.Equal(got, want) {
						t.Fatalf("%s on %s %v, run %d:\n%x, want\n%x", k.name, p.board.Name, p.tile,
							run, got, want)
					}
				}
			}
		})
	}
}

// multiplyWords returns the products of the words of w and x, modulo 2^32.
func multiplyWords(w, x []byte) (y []byte) {
	for i := 0; i < len(x); i += 4 {
		y = append(y, wordBytes(word(w[i:])*word(x[i:]))...)
	}
	return y
}

// TestMulticastKernelRunsOnFourTiles multicasts program, arguments, weights and the release from
// reset to four tiles. Each tile has its own input. The rectangle of tiles crosses the column of
// DRAM in the middle of the board.
func TestMulticastKernelRunsOnFourTiles(t *testing.T) {
	const w, x, y = 0x20000, 0x21000, 0x22000
	for _, p := range []struct {
		board       *boards.Board
		first, last chips.Tile
		tiles       []chips.Tile
	}{
		{&boards.Wormhole, chips.Tile{X: 4, Y: 5}, chips.Tile{X: 6, Y: 7},
			[]chips.Tile{{X: 4, Y: 5}, {X: 6, Y: 5}, {X: 4, Y: 7}, {X: 6, Y: 7}}},
		{&boards.Blackhole, chips.Tile{X: 7, Y: 2}, chips.Tile{X: 10, Y: 3},
			[]chips.Tile{{X: 7, Y: 2}, {X: 10, Y: 2}, {X: 7, Y: 3}, {X: 10, Y: 3}}},
	} {
		t.Run(p.board.Name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(5, 6))
			r := newTileSetup(t, p.board)
			weights := randomBytes(random, 400)
			r.selectRectangle(p.first, p.last)
			r.write(0, loadKernel(t, "mcast"))
			r.writeWords(argsAddress, 100, w, x, y)
			r.writeWords(flagAddress, 0)
			r.write(w, weights)
			var inputs [][]byte
			for _, tile := range p.tiles {
				in := randomBytes(random, 400)
				inputs = append(inputs, in)
				r.selectTile(tile).write(x, in)
			}
			r.selectRectangle(p.first, p.last).writeReset(briscReleased)
			for i, tile := range p.tiles {
				r.selectTile(tile).waitForFlag()
				got, want := r.read(y, 400), multiplyWords(weights, inputs[i])
				if !bytes.Equal(got, want) {
					t.Errorf("%s %v:\n%x, want\n%x", p.board.Name, tile, got, want)
				}
			}
		})
	}
}
