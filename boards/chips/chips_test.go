package chips

import (
	"fmt"
	"testing"

	"lightmetal/boards"
)

func TestAliasesLieInTheirBARs(t *testing.T) {
	for _, b := range All {
		for _, a := range b.Aliases {
			if a.Size != b.BarSizes[a.Bar] || a.RealOffset+a.Size > b.BarSizes[a.RealBar] {
				t.Errorf("%s: BAR %d shows bytes outside BAR %d", b.Name, a.Bar, a.RealBar)
			}
		}
	}
}

func TestStatusRegistersCanBePolled(t *testing.T) {
	registers := 0
	for _, c := range All {
		for _, s := range c.StatusRegisters {
			registers++
			if c.FindRule(s.Bar, s.Offset, 4) == nil || s.Mask == 0 {
				t.Errorf("%s: status register %s cannot be polled", c.Name, s.Name)
			}
		}
	}
	if registers != 4 {
		t.Errorf("%d status registers, want 4", registers)
	}
}

func TestBoardHasANameAndAChip(t *testing.T) {
	for _, b := range boards.All {
		if BoardByName(b.Name) != b {
			t.Errorf("%s: not found by name", b.Name)
		}
		c := ForBoard(b)
		if c.Board != b || c.Title == "" || (c.Grid != nil) != (b.Reset.Mask != 0) {
			t.Errorf("%s: chip %+v lacks its board, title or grid", b.Name, c)
		}
	}
	unknown := ForBoard(&boards.Board{Name: "adder"})
	if unknown.Title != "adder" || unknown.Grid != nil || len(unknown.StatusRegisters) > 0 {
		t.Errorf("unknown board: chip %+v, want only a title", unknown)
	}
	if BoardByName("") != nil || BoardByName("grayskull") != nil {
		t.Error("found a board for an unknown name")
	}
}

// An access through an alias must have the same rule as the same access through the original BAR.
func TestAliasHasTheRulesOfTheOriginal(t *testing.T) {
	for _, b := range All {
		for _, a := range b.Aliases {
			for offset := uint64(0); offset < a.Size; offset += 0x80 {
				r, o := b.FindRule(a.Bar, offset, 4), b.FindRule(a.RealBar, a.RealOffset+offset, 4)
				if (r == nil) != (o == nil) ||
					r != nil && (r.Widths != o.Widths || r.Name != o.Name) {
					t.Fatalf("%s: BAR %d + %#x has the rule %+v, the original range %+v", b.Name,
						a.Bar, offset, r, o)
				}
			}
		}
	}
}

func TestGridIsComplete(t *testing.T) {
	for _, c := range []struct {
		board         *Chip
		width, height int
		tiles         map[TileKind]int
	}{
		{&wormhole, 10, 12, map[TileKind]int{Tensix: 80, DRAM: 18, Ethernet: 16, ARC: 1, PCIe: 1,
			Router: 4}},
		{&blackhole, 17, 12, map[TileKind]int{Tensix: 140, DRAM: 24, Ethernet: 14, ARC: 1, PCIe: 2,
			L2CPU: 4, Security: 1, Router: 18}},
	} {
		t.Run(c.board.Name, func(t *testing.T) {
			g := c.board.Grid
			if len(g.Rows) != c.height {
				t.Fatalf("%s: %d rows, want %d", c.board.Name, len(g.Rows), c.height)
			}
			tiles, names := map[TileKind]int{}, map[string]bool{}
			for y, row := range g.Rows {
				if len(row) != c.width {
					t.Errorf("%s: row %d has %d tiles, want %d", c.board.Name, y, len(row), c.width)
				}
				for x := range row {
					kind := g.Kind(Tile{uint8(x), uint8(y)})
					tiles[kind]++
					names[kind.String()] = true
				}
			}
			if len(names) != len(c.tiles) {
				t.Errorf("%s: two kinds of tiles have the same name: %v", c.board.Name, names)
			}
			for k, n := range c.tiles {
				if tiles[k] != n {
					t.Errorf("%s: want %d tiles %c, got %d", c.board.Name, n, k, tiles[k])
				}
				delete(tiles, k)
			}
			if len(tiles) != 0 {
				t.Errorf("%s: tiles of no kind: %v", c.board.Name, tiles)
			}
		})
	}
}

func TestEveryDRAMTileIsInOneBank(t *testing.T) {
	for _, b := range []*Chip{&wormhole, &blackhole} {
		seen := map[Tile]bool{}
		for _, bank := range b.Grid.Banks {
			for _, tile := range bank {
				if seen[tile] || b.Grid.Kind(tile) != DRAM {
					t.Errorf("%s: bank tile %v is in two banks, or is not DRAM", b.Name, tile)
				}
				seen[tile] = true
				if b.Grid.FirstTileOfBank(tile) != bank[0] {
					t.Errorf("%s: the first tile of the bank of %v is %v, want %v",
						b.Name, tile, b.Grid.FirstTileOfBank(tile), bank[0])
				}
			}
		}
		for y, row := range b.Grid.Rows {
			for x := range row {
				tile := Tile{uint8(x), uint8(y)}
				if b.Grid.Kind(tile) == DRAM && !seen[tile] {
					t.Errorf("%s: the DRAM tile %v is in no bank", b.Name, tile)
				}
				if b.Grid.Kind(tile) != DRAM && b.Grid.FirstTileOfBank(tile) != tile {
					t.Errorf("%s: FirstTileOfBank(%v) = %v, want the same tile: it is in no bank",
						b.Name, tile, b.Grid.FirstTileOfBank(tile))
				}
			}
		}
	}
}

func TestTranslatedCoordinatesMeanTheirTiles(t *testing.T) {
	for _, c := range []struct {
		board *Chip
		x, y  uint8
		want  Tile
		ok    bool
	}{
		{&wormhole, 1, 1, Tile{1, 1}, true},
		{&wormhole, 9, 11, Tile{9, 11}, true},
		{&wormhole, 18, 18, Tile{1, 1}, true},
		{&wormhole, 25, 27, Tile{9, 11}, true},
		{&wormhole, 22, 17, Tile{6, 6}, true},
		{&wormhole, 18, 16, Tile{1, 0}, true},
		{&wormhole, 17, 16, Tile{5, 0}, true},
		{&wormhole, 18, 1, Tile{1, 1}, true}, // translated column, NoC 0 row
		{&wormhole, 10, 1, Tile{}, false},
		{&wormhole, 1, 12, Tile{}, false},
		{&wormhole, 26, 18, Tile{}, false},
		{&wormhole, 18, 28, Tile{}, false},
		{&blackhole, 16, 11, Tile{16, 11}, true},
		{&blackhole, 17, 12, Tile{9, 0}, true},
		{&blackhole, 18, 23, Tile{0, 8}, true},
		{&blackhole, 31, 25, Tile{11, 1}, true},
		{&blackhole, 19, 24, Tile{2, 0}, true},
		{&blackhole, 17, 1, Tile{}, false},
		{&blackhole, 1, 12, Tile{}, false},
		{&blackhole, 63, 63, Tile{}, false},
	} {
		t.Run(fmt.Sprint(c.board.Name, " ", c.x, " ", c.y), func(t *testing.T) {
			got, ok := c.board.Grid.TileAt(c.x, c.y)
			if ok != c.ok || ok && got != c.want {
				t.Errorf("%s (%d,%d): want %v %v, got %v %v", c.board.Name, c.x, c.y,
					c.want, c.ok, got, ok)
			}
		})
	}
}

// If two translated coordinates belonged to the same tile, host tools would treat it as two tiles.
func TestTranslatedCoordinatesAreUnique(t *testing.T) {
	for _, b := range []*Chip{&wormhole, &blackhole} {
		g := b.Grid
		seen := map[Tile]bool{}
		for y := uint8(len(g.Rows)); y < 64; y++ {
			for x := uint8(len(g.Rows[0])); x < 64; x++ {
				tile, ok := g.TileAt(x, y)
				if !ok {
					continue
				}
				if seen[tile] {
					t.Errorf("%s: (%d,%d) and other translated coordinates mean tile %v", b.Name, x,
						y, tile)
				}
				seen[tile] = true
			}
		}
	}
}

func TestTilesHaveTheirMemoriesAndRegisters(t *testing.T) {
	wh, bh := wormhole.Grid, blackhole.Grid
	for _, c := range []struct {
		name string
		got  bool
		want bool
	}{
		{"first word of Wormhole L1", wh.FindMemory(Tensix, 0, 4) != nil, true},
		{"last word of Wormhole L1", wh.FindMemory(Tensix, 0x16dffc, 4) != nil, true},
		{"word over the end of Wormhole L1", wh.FindMemory(Tensix, 0x16dffc, 8) != nil, false},
		{"last word of Blackhole L1", bh.FindMemory(Tensix, 0x17fff8, 8) != nil, true},
		{"past Blackhole L1", bh.FindMemory(Tensix, 0x180000, 1) != nil, false},
		{"last byte of Wormhole DRAM", wh.FindMemory(DRAM, 1<<31-1, 1) != nil, true},
		{"past Wormhole DRAM", wh.FindMemory(DRAM, 1<<31, 1) != nil, false},
		{"past the end of the address space", wh.FindMemory(DRAM, ^uint64(0), 4) != nil, false},
		{"a router has no memory", wh.FindMemory(Router, 0, 4) != nil, false},
		{"last PC register of a TRISC", bh.FindRegisterRange(Tensix, 0xffb12230) != nil, true},
		{"between registers", bh.FindRegisterRange(Tensix, 0xffb12232) != nil, false},
		{"before the first register", bh.FindRegisterRange(Tensix, 0xffb12224) != nil, false},
		{"PC register on Wormhole", wh.FindRegisterRange(Tensix, 0xffb12228) != nil, false},
		{"last scratch register", wh.FindRegisterRange(ARC, 0x88003007c) != nil, true},
		{"past the last scratch register", wh.FindRegisterRange(ARC, 0x880030080) != nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("%s: found %v, want %v", c.name, c.got, c.want)
			}
		})
	}
}

func TestCoresAreTheBitsOfTheResetMask(t *testing.T) {
	for _, b := range []*Chip{&wormhole, &blackhole} {
		r := &b.Grid.TensixReset
		mask := uint32(0)
		for _, c := range r.Cores {
			mask |= 1 << c.ResetBit
			if c.PCRegister != 0 && (b.Grid.FindRegisterRange(Tensix, c.PCRegister) == nil ||
				b.Grid.FindRegisterRange(Tensix, c.PCOverrideRegister) == nil) {
				t.Errorf("%s %s: the register of its start address is no register of a Tensix tile",
					b.Name, c.Name)
			}
		}
		if mask != r.Mask || r.Mask&r.Ignored != 0 || r.ValueAfterPowerUp&^r.Mask != 0 ||
			len(r.Cores) != 5 {
			t.Errorf("%s: reset mask %#x, bits of the %d cores %#x; want the same bits, 5 cores, "+
				"and no other bits after power-up", b.Name, r.Mask, len(r.Cores), mask)
		}
	}
}
