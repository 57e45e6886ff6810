package chips

// This file describes the tiles of a chip and their coordinates.

import "lightmetal/boards"

// Kind is the kind of a tile: the letter that stands for the tile in Grid.Rows.
type Kind byte

const (
	Router   Kind = '.' // a router without a tile: no TLB window can show it
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

// Grid describes all tiles of a chip. On a card, some rows or columns of tiles are disabled
// ("harvested"). Translated coordinates number only the other rows and columns.
type Grid struct {
	// Rows has the kind of the tile at every NoC 0 coordinate. Rows[y][x] is the Kind of the
	// tile in column x and row y.
	Rows []string

	// A translated coordinate is a second name of a tile. Numbers below the size of the grid
	// are not translated. Column First+i is NoC 0 column Columns[i], and row First+i is NoC 0
	// row Lines[i]. Pairs lists the coordinates whose column and row depend on each other.
	First          uint8
	Columns, Lines []uint8
	Pairs          []Pair

	Banks     []Bank
	Memories  []Memory
	Registers []Register
	Reset     Reset
}

// Tile is the NoC 0 coordinate of a tile: column X and row Y.
type Tile struct{ X, Y uint8 }

// Pair is a translated coordinate, and the NoC 0 coordinate of the same tile.
type Pair struct{ Translated, NoC0 Tile }

// Bank lists the tiles of one DRAM bank. Each of these tiles provides access to the whole bank.
type Bank []Tile

// Memory is a range of addresses that is memory without side effects in every tile of a
// kind. The memory accepts accesses of 1, 2, 4 and 8 bytes.
type Memory struct {
	Kind        Kind
	First, Last uint64
	Name        string
}

// Register describes Count adjacent 32-bit registers in every tile of a kind. The registers
// accept only aligned accesses of 4 bytes.
type Register struct {
	Kind      Kind
	Address   uint64
	Count     uint64
	StoreOnly bool
	Name      string // name in the manufacturer's manual
}

// Reset describes the register that keeps the cores of a Tensix or Ethernet tile in reset, with
// the details that a target does not use.
type Reset struct {
	boards.Reset
	Ignored uint32 // bits that may be set and have no effect on the cores
	Initial uint32 // value of the register after power-up
	Cores   []Core
}

// Core is a RISC-V core of a Tensix tile. The core starts at the address PC. If bit
// OverrideBit of OverrideRegister is set, the core starts at the value of PCRegister instead.
// PCRegister and OverrideRegister are 0 if they cannot be accessed over the NoC.
type Core struct {
	Name             string
	Bit              uint8 // number of the core's bit in the reset register
	PC               uint32
	PCRegister       uint64
	OverrideRegister uint64
	OverrideBit      uint8
}

// NoC0 returns the tile at a NoC 0 coordinate or translated coordinate. ok is false if no tile
// has the coordinate.
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

// Reached returns the tiles that a TLB window shows: a single tile, or the Tensix tiles in a
// rectangle if t.Multicast is set. ok is false if the tiles are unknown: the grid is nil, t uses
// NoC 1, no tile has a coordinate of t, or the rectangle wraps around the edge of the grid.
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

// Home returns the first tile of the DRAM bank that tile t belongs to, or t if t belongs to no
// bank. Two tiles provide access to the same memory if Home returns the same tile for both.
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

// Memory returns the memory of tiles of kind k that contains all size bytes from the given
// address on, or nil if no memory contains them.
func (g *Grid) Memory(k Kind, address, size uint64) *Memory {
	for i := range g.Memories {
		m := &g.Memories[i]
		if m.Kind == k && address >= m.First && address <= m.Last && size-1 <= m.Last-address {
			return m
		}
	}
	return nil
}

// Register returns the registers of tiles of kind k that include the given address, or nil if
// no known register does. Grid.Registers does not list the reset register.
func (g *Grid) Register(k Kind, address uint64) *Register {
	for i := range g.Registers {
		r := &g.Registers[i]
		if r.Kind == k && address >= r.Address && address-r.Address < 4*r.Count && address%4 == 0 {
			return r
		}
	}
	return nil
}
