package fbs_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/lmb"
)

// translation is a table with which firmware translates coordinates of a NoC to raw
// coordinates. Raw coordinate (0,0) is the corner from which the NoC counts.
type translation struct {
	x, y   [32]uint8 // raw coordinates, indexed by the coordinates in a window
	plainX [32]bool  // rows in which columns are not translated
}

// chip is a model of a chip from the sources that each function names. It does not use the
// tables of package boards.
type chip struct {
	board         *boards.Board
	columns, rows uint8
	translations  func(r *rand.Rand, noc uint8) translation
	// closedRanges returns the ranges of a tile that images must not access. The coordinates are
	// raw coordinates of NoC 0.
	closedRanges func(x, y uint8) (ranges [][2]uint64)
}

// untranslated returns the translation of a NoC that does not translate.
func untranslated() (t translation) {
	for i := range t.x {
		t.x[i], t.y[i] = uint8(i), uint8(i)
	}
	return t
}

// wormholeTranslation returns a random valid translation of a Wormhole. Source:
// tt-isa-documentation WormholeB0/NoC/Coordinates.md.
func wormholeTranslation(r *rand.Rand, noc uint8) translation {
	t := untranslated()
	if r.IntN(4) == 0 {
		return t
	}
	columns := []uint8{0, 5, 1, 2, 3, 4, 6, 7, 8, 9}
	good := []uint8{1, 2, 3, 4, 5, 7, 8, 9, 10, 11}
	var bad []uint8
	for range r.IntN(3) {
		i := r.IntN(len(good))
		bad = append(bad, good[i])
		good = slices.Delete(good, i, i+1)
	}
	slices.Sort(bad)
	rows := slices.Concat([]uint8{0, 6}, good, bad)
	for i := range uint8(32) {
		if i < 16 {
			t.x[i], t.y[i] = i, i
			continue
		}
		t.x[i], t.y[i] = 0, 0
		if int(i-16) < len(columns) {
			t.x[i] = columns[i-16]
			if noc == 1 {
				t.x[i] = 9 - t.x[i]
			}
		}
		if int(i-16) < len(rows) {
			t.y[i] = rows[i-16]
			if noc == 1 {
				t.y[i] = 11 - t.y[i]
			}
		}
	}
	return t
}

// blackholeTranslation returns a random valid translation of a Blackhole. Source:
// tt-zephyr-platforms lib/tenstorrent/bh_arc/noc_init.c, ComputeNocTranslation and
// CopyNoc0ToNoc1.
func blackholeTranslation(r *rand.Rand, noc uint8) translation {
	t := untranslated()
	if r.IntN(4) == 0 {
		return t
	}
	clear(t.x[17:])
	clear(t.y[12:])
	tensix := []uint8{1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16}
	good, bad := slices.Clone(tensix), []uint8{}
	for range r.IntN(4) {
		i := r.IntN(len(good))
		bad = append(bad, good[i])
		good = slices.Delete(good, i, i+1)
	}
	for i, column := range slices.Concat(good, bad) {
		t.x[tensix[i]] = column
	}
	t.x[17], t.x[18] = 0, 9
	if r.IntN(2) == 0 {
		t.x[17], t.x[18] = 9, 0
	}
	banks := [][]uint8{{0, 1, 11}, {2, 10, 3}, {9, 4, 8}, {5, 7, 6}}
	r.Shuffle(len(banks), func(i, j int) { banks[i], banks[j] = banks[j], banks[i] })
	copy(t.y[12:], slices.Concat(banks...))
	t.x[19], t.y[24] = []uint8{2, 11}[r.IntN(2)], 0
	ethernet := []uint8{1, 16, 2, 15, 3, 14, 4, 13, 5, 12, 6, 11, 7, 10}
	for range 2 {
		i := r.IntN(len(ethernet))
		ethernet = slices.Delete(ethernet, i, i+1)
	}
	copy(t.x[20:], ethernet)
	t.y[25] = 1
	copy(t.y[26:], []uint8{3, 9, 5, 7, 2})
	if noc == 1 {
		for i := range t.x {
			t.x[i], t.y[i] = 16-t.x[i], 11-t.y[i]
		}
	}
	// The source does not say whether the mask refers to translated or raw coordinates.
	// Therefore the model chooses one of them at random.
	for i := range t.plainX {
		switch r.IntN(2) {
		case 0:
			t.plainX[i] = i <= 1
		case 1:
			t.plainX[i] = t.y[i] <= 1
		}
	}
	return t
}

var chipModels = []chip{
	{&boards.Wormhole, 10, 12, wormholeTranslation, func(x, y uint8) [][2]uint64 {
		switch {
		case x == 0 && y == 3: // tt-kmd wormhole.c, PCIE_NOC_X, PCIE_NOC_Y
			return [][2]uint64{{0, 1<<64 - 1}}
		case x == 0 && y == 10: // WormholeB0/ARCTile/README.md; wormhole.c, open_dbi
			return [][2]uint64{{0x880030078, 0x88003007f}, {0x8a0000000, 0x8dfffffff}}
		}
		return nil
	}},
	{&boards.Blackhole, 17, 12, blackholeTranslation, func(x, y uint8) [][2]uint64 {
		switch {
		case y == 0 && (x == 2 || x == 11): // tt-kmd blackhole.c, blackhole_detect_pcie_noc_x
			return [][2]uint64{{0, 1<<64 - 1}}
		case y == 0 && x == 8: // noc2axi.h: windows of 16 MiB
			return [][2]uint64{{0xc0000000, 0xffffffff}}
		}
		return nil
	}},
}

// rawCoordinates returns the raw coordinates of the tile at the given coordinates of a NoC.
func (t *translation) rawCoordinates(x, y uint8) (rawX, rawY uint8) {
	x, y = x%32, y%32
	if t.plainX[y] {
		return x, t.y[y]
	}
	return t.x[x], t.y[y]
}

// reachesClosedRange reports whether `size` bytes of the tiles t include a byte that images must
// not access. It visits the tiles in the order in which packets traverse the NoC.
func (c *chip) reachesClosedRange(r *rand.Rand, t fbs.TileRoute, address, size uint64) bool {
	table := c.translations(r, t.NoC)
	lastX, lastY := table.rawCoordinates(t.X, t.Y)
	x, y := lastX, lastY
	if t.Multicast {
		x, y = table.rawCoordinates(t.XStart, t.YStart)
	}
	if x >= c.columns || lastX >= c.columns || y >= c.rows || lastY >= c.rows {
		return false
	}
	first := x
	for {
		atX, atY := x, y
		if t.NoC == 1 {
			atX, atY = c.columns-1-x, c.rows-1-y
		}
		for _, closed := range c.closedRanges(atX, atY) {
			if address <= closed[1] && closed[0] <= address+(size-1) {
				return true
			}
		}
		switch {
		case x != lastX:
			x = (x + 1) % c.columns
		case y != lastY:
			x, y = first, (y+1)%c.rows
		default:
			return false
		}
	}
}

// pointImage is an image with one Point command. Tests change the operands in a copy of the file.
type pointImage struct{ file []byte }

// deviceOf returns the device of an image for a board.
func deviceOf(b *boards.Board) lmb.Device {
	return lmb.Device{Board: b.Name, Vendor: b.Vendor, Device: b.Device, Bars: b.BarSizes}
}

func newPointImage(t *testing.T, board *boards.Board) *pointImage {
	target := fbs.TileRoute{X: 1, Y: 2, Ordering: boards.OrderingDefault}
	window := fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.AnySlot, Size: 1 << 20}
	point := command(fbs.Command{Opcode: gen.OpcodePoint, Mask: target.Pack()})
	return &pointImage{encode(t, &lmb.Image{
		Devices:   []lmb.Device{deviceOf(board)},
		Windows:   []lmb.Window{{Name: "w", Window: window}},
		Sequences: []lmb.Sequence{{Name: "main", Commands: []lmb.Command{point}}},
	})}
}

// verifyPoint returns the error of Verify for a Point command with the given operands.
func (p *pointImage) verifyPoint(t *testing.T, target fbs.TileRoute, address, size uint64) error {
	t.Helper()
	file := slices.Clone(p.file)
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	view.Windows[0].Size = size
	view.Commands[0].Value, view.Commands[0].Mask = address, target.Pack()
	lmb.Stamp(file, binary.LittleEndian.Uint64(file[32:]))
	_, err = fbs.Verify(file)
	return err
}

// TestNoPointReachesThePCIeController points windows at random tiles and rectangles, over both NoCs
// and by all coordinates of a tile. A window must be rejected if it may contain a byte of the PCIe
// controller, or of a range through which the controller is accessible.
func TestNoPointReachesThePCIeController(t *testing.T) {
	rounds := effort.Cases(1_000, 40_000, 400_000)
	for i := range chipModels {
		c := &chipModels[i]
		t.Run(c.board.Name, func(t *testing.T) {
			r, p := rand.New(rand.NewPCG(3, 5)), newPointImage(t, c.board)
			reached, accepted := 0, 0
			for range rounds {
				target, address, size := randomPoint(r, c)
				err := p.verifyPoint(t, target, address, size)
				for range 4 { // chips with different random translations
					if c.reachesClosedRange(r, target, address, size) {
						if reached++; err == nil {
							t.Fatalf("%+v, %#x bytes at %#x: accepted, but the model reaches a "+
								"closed range", target, size, address)
						}
					}
				}
				if err == nil {
					accepted++
				} else if !strings.Contains(err.Error(), "images must not access") {
					t.Fatalf("%+v, %#x bytes at %#x: rejected for another reason: %v", target,
						size, address, err)
				}
			}
			if reached < rounds/50 || accepted < rounds/50 {
				t.Errorf("%d closed ranges reached and %d windows accepted in %d rounds: want at "+
					"least %d of each", reached, accepted, rounds, rounds/50)
			}
		})
	}
}

// randomPoint returns operands of a Point command. Most are near coordinates and addresses that
// images must not access.
func randomPoint(r *rand.Rand, c *chip) (t fbs.TileRoute, address, size uint64) {
	coordinate := func(likely ...uint8) uint8 {
		if r.IntN(2) == 0 {
			return likely[r.IntN(len(likely))]
		}
		return uint8(r.IntN(64))
	}
	t = fbs.TileRoute{
		X:   coordinate(0, 1, 2, 5, 8, 9, 11, 14, 16, 17, 18, 19, 25),
		Y:   coordinate(0, 1, 3, 8, 10, 11, 18, 20, 24, 25, 31),
		NoC: uint8(r.IntN(2)), Ordering: boards.OrderingDefault,
	}
	if t.Multicast = r.IntN(3) == 0; t.Multicast {
		t.XStart, t.YStart = coordinate(0, 1, 9, 16, 17, 18), coordinate(0, 1, 2, 11, 18)
	}
	size = 1 << r.IntN(33)
	boundaries := []uint64{
		0, 0x8_0000_0000, 0x8_8003_0078, 0x8_8003_0080, 0x8_9000_0000, 0x8_a000_0000,
		0x9000_0000, 0xc000_0000, 0xce00_0000, 0x1_0000_0000,
		0xf800_0000_0000_0000, 0xffff_ffff_ff00_0000, 1<<64 - 1,
	}
	address = boundaries[r.IntN(len(boundaries))] + uint64(r.IntN(3)-1)*size
	return t, address &^ (size - 1), size
}

// TestTilesThatProgramsUseAreAccepted points windows at tiles as programs do.
func TestTilesThatProgramsUseAreAccepted(t *testing.T) {
	for i := range chipModels {
		c := &chipModels[i]
		p, grid := newPointImage(t, c.board), chips.ForBoard(c.board).Grid
		accept := func(what string, target fbs.TileRoute, address, size uint64) {
			target.Ordering = boards.OrderingDefault
			if err := p.verifyPoint(t, target, address, size); err != nil {
				t.Errorf("%s, %s: Verify: %v", c.board.Name, what, err)
			}
		}
		for y, row := range grid.Rows {
			for x := range row {
				at := chips.Tile{X: uint8(x), Y: uint8(y)}
				switch kind := grid.Kind(at); kind {
				case chips.Tensix, chips.DRAM, chips.Ethernet:
					accept(fmt.Sprint(kind, at), fbs.TileRoute{X: at.X, Y: at.Y}, 0, 1<<32)
					if c.board == &boards.Wormhole {
						mirrored := fbs.TileRoute{X: 9 - at.X, Y: 11 - at.Y, NoC: 1}
						accept(fmt.Sprint("NoC 1 ", kind, at), mirrored, 0, 1<<32)
					}
				case chips.ARC:
					for _, m := range grid.Memories {
						if m.Kind == chips.ARC {
							accept(m.Name, fbs.TileRoute{X: at.X, Y: at.Y}, m.First, 1<<19)
						}
					}
				}
			}
		}
		for _, pair := range grid.Pairs {
			if kind := grid.Kind(pair.NoC0); kind != chips.PCIe {
				translated := fbs.TileRoute{X: pair.Translated.X, Y: pair.Translated.Y}
				accept(fmt.Sprint(kind, pair), translated, 0, 1<<32)
			}
		}
	}
	rectangle := func(noc, x1, y1, x2, y2 uint8) fbs.TileRoute {
		return fbs.TileRoute{X: x2, Y: y2, XStart: x1, YStart: y1, NoC: noc, Multicast: true}
	}
	for _, c := range []struct {
		what          string
		board         *boards.Board
		target        fbs.TileRoute
		address, size uint64
	}{
		{"all Tensix tiles", &boards.Wormhole, rectangle(0, 1, 1, 9, 11), 0, 1 << 24},
		{"the same, translated", &boards.Wormhole, rectangle(0, 18, 18, 25, 27), 0, 1 << 24},
		{"Tensix tiles over NoC 1", &boards.Wormhole, rectangle(1, 5, 6, 8, 10), 0, 1 << 24},
		{"a translated tile over NoC 1", &boards.Wormhole, fbs.TileRoute{X: 18, Y: 18, NoC: 1}, 0,
			1 << 24},
		{"SCRATCH 0 to 3", &boards.Wormhole, fbs.TileRoute{Y: 10}, 0x8_8003_0060, 16},
		{"all Tensix tiles", &boards.Blackhole, rectangle(0, 1, 2, 16, 11), 0, 1 << 21},
		{"registers of the ARC", &boards.Blackhole, fbs.TileRoute{X: 8}, 0x8000_0000, 1 << 21},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.target.Ordering = boards.OrderingDefault
			p := newPointImage(t, c.board)
			if err := p.verifyPoint(t, c.target, c.address, c.size); err != nil {
				t.Errorf("%s, %s: Verify: %v", c.board.Name, c.what, err)
			}
		})
	}
}

// pageAcceptsStores looks at each byte of the 4 KiB page that has the byte at offset.
func pageAcceptsStores(board *boards.Board, bar uint8, offset uint64) bool {
	first := offset / 4096 * 4096
	for at := first; at < first+4096; at++ {
		if r := board.FindRule(bar, at, 1); r == nil || r.LoadOnly {
			return false
		}
	}
	return true
}

// TestLoadOnlyRulesAcceptNoStores checks the first bytes of each rule of a board. Stores are
// rejected if the rule accepts only loads, and relocations if one byte of the page accepts no
// stores. Loads are always accepted.
func TestLoadOnlyRulesAcceptNoStores(t *testing.T) {
	for _, board := range []*boards.Board{&boards.Wormhole, &boards.Blackhole, &boards.Nvme,
		&boards.Ivshmem} {
		for _, rule := range board.Rules {
			registers := fbs.Window{Kind: gen.WindowKindBar, Bar: rule.Bar, Slot: fbs.AnySlot,
				Offset: rule.First, Size: 8}
			dma := fbs.Window{Kind: gen.WindowKindBar, Device: 1, Slot: fbs.AnySlot, Size: 1 << 20}
			image := &lmb.Image{
				Devices: []lmb.Device{deviceOf(board), deviceOf(&boards.Edu)},
				Windows: []lmb.Window{{Name: "registers", Window: registers},
					{Name: "dma", Window: dma}},
				Sequences: []lmb.Sequence{{Name: "main", Commands: make([]lmb.Command, 1)}},
			}
			for _, test := range []struct {
				c        fbs.Command
				rejected bool
				want     string
			}{
				{fbs.Command{Opcode: gen.OpcodeWrite, Width: 4}, rule.LoadOnly,
					"images must not store to "},
				{fbs.Command{Opcode: gen.OpcodeRelocate, Width: 8, Window: 1, Offset: 0x80},
					!pageAcceptsStores(board, rule.Bar, rule.First) ||
						board.BarSizes[rule.Bar] < 4096,
					" accepts no stores, but shares a page of 0x1000 bytes with window 0; " +
						"relocate"},
				{fbs.Command{Opcode: gen.OpcodeExpect, Width: 4, Mode: equal, Option: fail}, false,
					""},
			} {
				t.Run(fmt.Sprint("opcode ", test.c.Opcode), func(t *testing.T) {
					image.Sequences[0].Commands[0] = command(test.c)
					_, err := lmb.Encode(image)
					if test.rejected != (err != nil) ||
						err != nil && !strings.Contains(err.Error(), test.want) {
						t.Errorf("%s, rule %s, %v: error %v, want it rejected: %v", board.Name,
							rule.Name, test.c.Opcode, err, test.rejected)
					}
				})
			}
		}
	}
}
