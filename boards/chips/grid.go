package chips

// This file describes the tiles of a chip and their coordinates.

import "lightmetal/boards"

// Kind is the kind of a tile. Its value is its letter in Grid.Rows.
type Kind byte

const (
	Router   Kind = '.' // only a router: windows cannot point to it
	Tensix   Kind = 'T'
	DRAM     Kind = 'D'
	Ethernet Kind = 'E'
	ARC      Kind = 'A'
	PCIe     Kind = 'P'
	L2CPU    Kind = 'L'
	Security Kind = 'S'
)

var kindNames = map[Kind]string{
	Router: "router", Tensix: "Tensix tile", DRAM: "DRAM tile", Ethernet: "Ethernet tile",
	ARC: "ARC tile", PCIe: "PCIe tile",
	L2CPU: "L2CPU tile", Security: "Security tile",
}

func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return kindNames[Router]
}

// Grid describes all tiles of a chip. On a card some rows or columns are disabled ("harvested"),
// and translated coordinates skip them.
type Grid struct {
	// Rows is a map in NoC 0 coordinates: one string a row, from y = 0 on,
	// one Kind a column, from x = 0 on.
	Rows []string

	// Translated coordinates are second names of tiles. Coordinates below the size of the grid
	// are not translated. Others are translated separately for columns and rows, x = First+i to
	// Columns[i] and y = First+i to Lines[i], or as pairs of both.
	First          uint8
	Columns, Lines []uint8
	Pairs          []Pair

	Banks     []Bank
	Memories  []Memory
	Registers []Register
	Reset     Reset
}

// Tile is a place in NoC 0 coordinates.
type Tile struct{ X, Y uint8 }

// Pair is a translated coordinate and the tile that it means.
type Pair struct{ Translated, NoC0 Tile }

// Bank is DRAM that several tiles provide access to. Each provides access to all of it.
type Bank []Tile

// Memory is a range of plain memory in every tile of a kind. It accepts accesses of 1, 2, 4 and
// 8 bytes.
type Memory struct {
	Kind        Kind
	First, Last uint64
	Name        string
}

// Register is a range of Count 32-bit registers in every tile of a kind. They accept only
// aligned accesses of 4 bytes.
type Register struct {
	Kind      Kind
	Address   uint64
	Count     uint64
	StoreOnly bool
	Name      string // as in the manual
}

// Reset describes the register that keeps the cores of a Tensix or Ethernet tile in reset, with
// the details that a target does not use.
type Reset struct {
	boards.Reset
	Ignored uint32 // bits that may be set and have no effect on the cores
	Initial uint32 // after power-up
	Cores   []Core
}

// Core is a RISC-V core of a Tensix tile. It starts at PC or, if bit OverrideBit of
// OverrideRegister is set, at the value of PCRegister. The address of a register that cannot be
// reached over the NoC is 0.
type Core struct {
	Name             string
	Bit              uint8 // in the reset register
	PC               uint32
	PCRegister       uint64
	OverrideRegister uint64
	OverrideBit      uint8
}

// NoC0 returns the tile at a coordinate, which may be translated; ok is false if there is none.
func (g *Grid) NoC0(x, y uint8) (t Tile, ok bool) {
	for i := range g.Pairs {
		if p := &g.Pairs[i]; p.Translated == (Tile{x, y}) {
			return p.NoC0, true
		}
	}
	x, xOK := translate(x, uint8(len(g.Rows[0])), g.First, g.Columns)
	y, yOK := translate(y, uint8(len(g.Rows)), g.First, g.Lines)
	return Tile{x, y}, xOK && yOK
}

func translate(v, size, first uint8, table []uint8) (uint8, bool) {
	if v < size {
		return v, true
	}
	if v < first || int(v-first) >= len(table) {
		return 0, false
	}
	return table[v-first], true
}

// Reached returns the tiles that a window shows: one tile, or for a multicast the Tensix tiles of
// its rectangle. ok is false if they are unknown.
func (g *Grid) Reached(t boards.TileRange) (tiles []Tile, ok bool) {
	if g == nil || t.NoC != 0 {
		return nil, false
	}
	last, ok := g.NoC0(t.X, t.Y)
	if !t.Multicast {
		return []Tile{last}, ok
	}
	first, known := g.NoC0(t.XStart, t.YStart)
	for at := first; known && at.Y <= last.Y; at.X, at.Y = first.X, at.Y+1 {
		for ; at.X <= last.X; at.X++ {
			if g.Kind(at) == Tensix {
				tiles = append(tiles, at)
			}
		}
	}
	return tiles, ok && known && first.X <= last.X && first.Y <= last.Y
}

// Kind returns the kind of a tile.
func (g *Grid) Kind(t Tile) Kind { return Kind(g.Rows[t.Y][t.X]) }

// Home returns the first tile of the bank that t belongs to, or t if it is not DRAM. Tiles with
// the same home provide access to the same memory.
func (g *Grid) Home(t Tile) Tile {
	for _, bank := range g.Banks {
		for _, b := range bank {
			if b == t {
				return bank[0]
			}
		}
	}
	return t
}

// Memory returns the memory of a kind of tile that contains all size bytes of an access, nil if
// there is none.
func (g *Grid) Memory(k Kind, address, size uint64) *Memory {
	for i := range g.Memories {
		m := &g.Memories[i]
		if m.Kind == k && address >= m.First && address <= m.Last && size-1 <= m.Last-address {
			return m
		}
	}
	return nil
}

// Register returns the registers of a kind of tile that include an address, nil if none are
// known. The reset register is not among them.
func (g *Grid) Register(k Kind, address uint64) *Register {
	for i := range g.Registers {
		r := &g.Registers[i]
		if r.Kind == k && address >= r.Address && address-r.Address < 4*r.Count && address%4 == 0 {
			return r
		}
	}
	return nil
}
