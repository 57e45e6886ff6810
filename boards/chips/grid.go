package chips

import "lightmetal/boards"

// Kind is what a tile is. Its value is the letter that stands for it in Grid.Rows.
type Kind byte

const (
	Router   Kind = '.' // nothing but a router: not a target
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

// Grid describes the tiles of a device, all of them whole: on a card some rows
// or columns are fused off ("harvested") and translated coordinates skip those.
type Grid struct {
	// Rows is a map in NoC 0 coordinates: one string a row, from y = 0 on,
	// one Kind a column, from x = 0 on.
	Rows []string

	// Translated coordinates are a second name for a tile. Coordinates below
	// the size of the grid stand for themselves. Further ones go column by
	// column and row by row, where Columns[i] is what x = First+i stands for
	// and Lines[i] what y = First+i stands for; or pair by pair.
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

// Pair is one translated coordinate and what it stands for.
type Pair struct{ Translated, NoC0 Tile }

// Bank is DRAM that several tiles give access to. Each sees the whole of it.
type Bank []Tile

// Memory is a range of plain memory in every tile of a kind. Accesses of 1, 2,
// 4 and 8 bytes are fine.
type Memory struct {
	Kind        Kind
	First, Last uint64
	Name        string
}

// Register is a run of Count 32-bit registers in every tile of a kind. They
// take aligned 4-byte accesses only.
type Register struct {
	Kind      Kind
	Address   uint64
	Count     uint64
	StoreOnly bool
	Name      string // the manual's
}

// Reset is the register that holds the cores of a Tensix or Ethernet tile in
// reset, and what is known of it beyond what a target uses.
type Reset struct {
	boards.Reset
	Ignored uint32 // bits that may be set and have no effect on the cores
	Initial uint32 // after power-up
	Cores   []Core
}

// Core is a RISC-V core of a Tensix tile. It starts at PC, or at what register
// PCRegister holds where bit OverrideBit of OverrideRegister is set. Registers
// that cannot be reached from the NoC are 0.
type Core struct {
	Name             string
	Bit              uint8 // in the reset register
	PC               uint32
	PCRegister       uint64
	OverrideRegister uint64
	OverrideBit      uint8
}

// NoC0 gives the tile that a coordinate, translated or not, stands for; ok is
// false where that is none.
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

// Reached is the tiles that a window with this target shows: one, or with multicast
// the Tensix tiles of its rectangle. ok is false where that is not known.
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

// Kind is what tile t of the grid is.
func (g *Grid) Kind(t Tile) Kind { return Kind(g.Rows[t.Y][t.X]) }

// Home is the tile itself, or the first tile of its bank if it is DRAM: two
// tiles with one home show the same memory.
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

// Memory is the memory of a kind of tile that holds all of an access of size
// bytes, nil if there is none.
func (g *Grid) Memory(k Kind, address, size uint64) *Memory {
	for i := range g.Memories {
		m := &g.Memories[i]
		if m.Kind == k && address >= m.First && address <= m.Last && size-1 <= m.Last-address {
			return m
		}
	}
	return nil
}

// Register is the register of a kind of tile at an address, nil if none is
// known there. The reset register is not one of them.
func (g *Grid) Register(k Kind, address uint64) *Register {
	for i := range g.Registers {
		r := &g.Registers[i]
		if r.Kind == k && address >= r.Address && address-r.Address < 4*r.Count && address%4 == 0 {
			return r
		}
	}
	return nil
}
