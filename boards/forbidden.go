package boards

// ForbiddenRange is a range of tile addresses that images must not access: registers of the PCIe
// controller, or a way to them.
//
// Besides raw coordinates, a tile has translated ones, which depend on the chip's disabled tiles.
// Columns and Rows are sets of bits: every coordinate that the tile has on any chip. On some chips,
// one of these belongs to another tile, which images can still select by its other coordinates.
type ForbiddenRange struct {
	Routes      uint8 // unicastNoC0 and so on, ORed
	Columns     uint64
	Rows        uint64
	First, Last uint64 // addresses in the tile
	Name        string // in messages
}

// Bits of ForbiddenRange.Routes. A multicast accesses a rectangle of tiles.
const (
	unicastNoC0   = 1 << 0
	unicastNoC1   = 1 << 1
	multicastNoC0 = 1 << 2
	multicastNoC1 = 1 << 3
)

const pcieTileName = "the PCIe tile (use a host window for host memory)"

const lastTileAddress = 1<<64 - 1

// Sets of coordinates from 0 to 63.
const (
	allCoordinates = 1<<64 - 1

	coordinatesFrom16 = 1<<64 - 1<<16
	coordinatesFrom18 = 1<<64 - 1<<18
	coordinatesFrom19 = 1<<64 - 1<<19
	coordinatesFrom26 = 1<<64 - 1<<26
	coordinatesFrom31 = 1<<64 - 1<<31
	coordinatesFrom32 = 1<<64 - 1<<32
)

// FindForbiddenRange returns the first forbidden range that overlaps the `size` bytes from
// `address` on in the tiles t, or nil.
func (b *Board) FindForbiddenRange(t TileRoute, address, size uint64) *ForbiddenRange {
	route, columns, rows := uint8(unicastNoC0)<<t.NoC, uint64(1)<<t.X, uint64(1)<<t.Y
	if t.Multicast {
		route = multicastNoC0 << t.NoC
		columns = coordinateSet(t.XStart, t.X)
		rows = coordinateSet(t.YStart, t.Y)
	}
	for i := range b.ForbiddenRanges {
		f := &b.ForbiddenRanges[i]
		showsTile := f.Routes&route != 0 && f.Columns&columns != 0 && f.Rows&rows != 0
		overlaps := address <= f.Last && address+(size-1) >= f.First
		if showsTile && overlaps {
			return f
		}
	}
	return nil
}

// coordinateSet returns the columns, or rows, that a rectangle may include: all if it wraps around
// (start > end).
func coordinateSet(start, end uint8) uint64 {
	if start > end {
		return allCoordinates
	}
	upToEnd := uint64(allCoordinates) >> (63 - min(end, 63))
	return upToEnd & (allCoordinates << start)
}
