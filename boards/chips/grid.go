package chips

import (
	"slices"

	"lightmetal/boards"
)

// TileKind is the kind of a tile: its letter in Grid.Rows.
type TileKind byte

const (
	Router   TileKind = '.' // only a router of the NoC, without a tile; TLB windows cannot show it
	Tensix   TileKind = 'T' // compute tile: processor cores, a matrix coprocessor, and memory
	DRAM     TileKind = 'D' // memory controller
	Ethernet TileKind = 'E' // link to another chip
	ARC      TileKind = 'A' // management processor of the chip
	PCIe     TileKind = 'P'
	L2CPU    TileKind = 'L' // general-purpose RISC-V cores, which Tensix tiles do not have
	Security TileKind = 'S'
)

var kindNames = map[TileKind]string{
	Router: "router", Tensix: "Tensix tile", DRAM: "DRAM tile", Ethernet: "Ethernet tile",
	ARC: "ARC tile", PCIe: "PCIe tile",
	L2CPU: "L2CPU tile", Security: "Security tile",
}

// String returns the name for reports and messages, that of Router for an unknown letter.
func (k TileKind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return kindNames[Router]
}

// Grid describes all tiles of a chip. Every tile has a NoC 0 coordinate: its column and row in the
// grid, counted from 0. Most tiles also have a translated coordinate. On a card, some rows or
// columns of tiles are disabled ("harvested"). The translated coordinates number only the enabled
// rows and columns.
type Grid struct {
	// Rows[y][x] is the kind of the tile with the NoC 0 column x and the NoC 0 row y.
	Rows []string

	// The next four fields convert translated coordinates to NoC 0 coordinates. The translated
	// column FirstTranslated+i is the NoC 0 column NoC0Columns[i], and the translated row
	// FirstTranslated+i is the NoC 0 row NoC0Rows[i]. A column or row number below the size of the
	// grid is a NoC 0 number already. Pairs lists the coordinates whose column and row cannot be
	// converted separately.
	FirstTranslated       uint8
	NoC0Columns, NoC0Rows []uint8
	Pairs                 []Pair

	Banks []Bank // DRAM banks
	// Interleaving describes how tt-metal distributes the pages of a buffer over DRAM.
	Interleaving Interleaving

	Memories      []Memory
	Registers     []RegisterRange // except the reset registers
	TensixReset   CoreReset
	EthernetReset CoreReset
}

// Tile identifies a tile by its NoC 0 coordinate: column X and row Y.
type Tile struct{ X, Y uint8 }

// Pair has a translated coordinate and the NoC 0 coordinate of the same tile.
type Pair struct{ Translated, NoC0 Tile }

// Bank lists the tiles of one DRAM bank. Each of these tiles provides access to the whole bank.
type Bank []Tile

// Interleaving describes tt-metal's interleaved buffers. tt-metal divides each DRAM bank in
// Grid.Banks into len(Offsets) parts of equal size. It calls each part a bank, and numbers the
// parts: part o of Grid.Banks[b] has the number b*len(Offsets)+o. Page 0 of a buffer is in bank 0,
// page 1 in bank 1, and so on. After the last bank, the next page is in bank 0 again.
//
// Sources: tt-metal, tt_metal/hw/inc/dataflow_api_addrgen.h (namespace interleaved_addr_gen); dram
// and dram_address_offsets in tt_metal/soc_descriptors/wormhole_b0_80_arch.yaml and
// blackhole_140_arch.yaml. A Blackhole with a disabled DRAM bank has fewer banks.
type Interleaving struct {
	Offsets []uint64 // address in the DRAM tile at which each of tt-metal's banks starts
	Align   uint64   // bytes; the distance between two pages in a bank is a multiple of Align
}

// InterleavedBankCount returns the number of banks of tt-metal's interleaved buffers.
func (g *Grid) InterleavedBankCount() int { return len(g.Banks) * len(g.Interleaving.Offsets) }

// InterleavedBank returns the number of tt-metal's bank that contains the byte at this address of a
// tile, and the byte's offset in this bank. `ok` is false if the tile is not a DRAM tile.
func (g *Grid) InterleavedBank(t Tile, address uint64) (bank int, offset uint64, ok bool) {
	offsets := g.Interleaving.Offsets
	for i, tiles := range g.Banks {
		if !slices.Contains(tiles, t) {
			continue
		}
		part := len(offsets) - 1
		for part > 0 && address < offsets[part] {
			part--
		}
		return i*len(offsets) + part, address - offsets[part], part >= 0
	}
	return 0, 0, false
}

// Memory describes memory that every tile of one kind has at the same addresses. The memory has no
// side effects, and accepts accesses of 1, 2, 4 and 8 bytes.
type Memory struct {
	Kind        TileKind
	First, Last uint64 // addresses in the tile
	Name        string
}

// RegisterRange describes Count adjacent 32-bit registers that every tile of one kind has at the
// same addresses. The registers accept only aligned accesses of 4 bytes.
type RegisterRange struct {
	Kind      TileKind
	Address   uint64 // of the first register, in the tile
	Count     uint64
	StoreOnly bool
	Name      string // name in the manufacturer's manual
}

// CoreReset describes the register that keeps the cores of a Tensix or Ethernet tile in reset. It
// adds data for mocks and host tools to boards.ResetRegister.
type CoreReset struct {
	boards.ResetRegister
	Ignored           uint32 // bits that mocks accept in a store, and then ignore
	ValueAfterPowerUp uint32
	Cores             []Core
}

// Core describes a RISC-V core of a tile. After a reset, the core starts at one of these addresses:
//
//   - A core without PCRegister: StartAddress.
//   - A core with PCRegister, but without PCOverrideRegister: the value of PCRegister. If the value
//     is 0, the core does not start.
//   - A core with both registers: the value of PCRegister if bit number PCOverrideBit of
//     PCOverrideRegister is set, and otherwise StartAddress.
//
// PCRegister and PCOverrideRegister are addresses in the tile. They are 0 if the core has no such
// register, or if the register cannot be accessed over the NoC.
type Core struct {
	Name               string
	ResetBit           uint8 // number of the core's bit in the reset register
	StartAddress       uint32
	PCRegister         uint64
	PCOverrideRegister uint64
	PCOverrideBit      uint8
}

// TileAt returns the tile with this coordinate, a NoC 0 coordinate or a translated one. `ok` is
// false if no tile has it.
func (g *Grid) TileAt(x, y uint8) (t Tile, ok bool) {
	for i := range g.Pairs {
		if p := &g.Pairs[i]; p.Translated == (Tile{x, y}) {
			return p.NoC0, true
		}
	}
	x, xOK := toNoC0(x, uint8(len(g.Rows[0])), g.FirstTranslated, g.NoC0Columns)
	y, yOK := toNoC0(y, uint8(len(g.Rows)), g.FirstTranslated, g.NoC0Rows)
	return Tile{x, y}, xOK && yOK
}

// toNoC0 converts the number of a column or a row to a NoC 0 number. The grid has `size` of them. A
// number below `size` is a NoC 0 number already. The translated number firstTranslated+i is the
// NoC 0 number table[i]. `ok` is false for any other number.
func toNoC0(number, size, firstTranslated uint8, table []uint8) (noc0 uint8, ok bool) {
	if number < size {
		return number, true
	}
	if number < firstTranslated || int(number-firstTranslated) >= len(table) {
		return 0, false
	}
	return table[number-firstTranslated], true
}

// ShownTiles returns the tiles that a TLB window with the route t shows: a single tile or, if
// t.Multicast is set, all Tensix tiles in a rectangle. `ok` is false if the grid is nil, t uses
// NoC 1, no tile has a coordinate of t, or the rectangle wraps around the edge of the grid.
func (g *Grid) ShownTiles(t boards.TileRoute) (tiles []Tile, ok bool) {
	if g == nil || t.NoC != 0 {
		return nil, false
	}
	last, ok := g.TileAt(t.X, t.Y)
	if !t.Multicast {
		return []Tile{last}, ok
	}
	first, known := g.TileAt(t.XStart, t.YStart)
	for at := first; known && at.Y <= last.Y; at.X, at.Y = first.X, at.Y+1 {
		for ; at.X <= last.X; at.X++ {
			if g.Kind(at) == Tensix {
				tiles = append(tiles, at)
			}
		}
	}
	return tiles, ok && known && first.X <= last.X && first.Y <= last.Y
}

// ResetOf returns the register that keeps the cores of tiles of kind k in reset, or nil if mocks
// have no cores in such tiles.
func (g *Grid) ResetOf(k TileKind) *CoreReset {
	switch k {
	case Tensix:
		return &g.TensixReset
	case Ethernet:
		return &g.EthernetReset
	}
	return nil
}

// Kind returns the kind of a tile, which must lie in the grid.
func (g *Grid) Kind(t Tile) TileKind { return TileKind(g.Rows[t.Y][t.X]) }

// FirstTileOfBank returns the first tile of t's DRAM bank, or t if it belongs to no bank. Two tiles
// with equal results provide access to the same memory.
func (g *Grid) FirstTileOfBank(t Tile) Tile {
	for _, bank := range g.Banks {
		for _, b := range bank {
			if b == t {
				return bank[0]
			}
		}
	}
	return t
}

// FindMemory returns the memory that contains the `size` bytes from `address` on in tiles of kind
// k, or nil.
func (g *Grid) FindMemory(k TileKind, address, size uint64) *Memory {
	for i := range g.Memories {
		m := &g.Memories[i]
		if m.Kind == k && address >= m.First && address <= m.Last && size-1 <= m.Last-address {
			return m
		}
	}
	return nil
}

// FindRegisterRange returns the element of g.Registers with the register at this address in tiles
// of kind k, or nil, as for the reset register.
func (g *Grid) FindRegisterRange(k TileKind, address uint64) *RegisterRange {
	for i := range g.Registers {
		r := &g.Registers[i]
		if r.Kind == k && address >= r.Address && address-r.Address < 4*r.Count && address%4 == 0 {
			return r
		}
	}
	return nil
}
