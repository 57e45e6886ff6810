package boards

// This file protects the PCIe controller of a device from images: it decides which addresses of
// tiles a window of an image may show.

// ClosedRange is a range of tile addresses that no window of an image may show. The range contains
// registers of the PCIe controller, or registers through which an image could access the PCIe
// controller.
//
// A tile has raw coordinates and translated coordinates. The translated coordinates depend on which
// tiles of a chip are disabled. The verifier does not know which chip will replay the image.
// Therefore X and Y contain every coordinate that the closed tile may have on any chip. On some
// chips, one of these coordinates is that of a different tile, which is then closed at that
// coordinate too. An image can access that tile through its other coordinates.
type ClosedRange struct {
	Routes      uint8  // routes on which the range is closed: unicastNoC0 and so on, ORed
	X, Y        uint64 // sets of the tile's columns and rows, one bit for each coordinate
	First, Last uint64 // first and last closed address in the tile
	Name        string // name of the range in messages
}

// Routes to tiles, the bits of ClosedRange.Routes. A unicast accesses a single tile, and a
// multicast accesses a rectangle of tiles, over NoC 0 or over NoC 1.
const (
	unicastNoC0   = 1 << 0
	unicastNoC1   = 1 << 1
	multicastNoC0 = 1 << 2
	multicastNoC1 = 1 << 3
)

// pcieTileName is the name of closed ranges of the PCIe tile, with the remedy for images that
// access host memory.
const pcieTileName = "the PCIe tile (use a host window for host memory)"

// lastTileAddress is the largest address that a tile can have.
const lastTileAddress = 1<<64 - 1

// Sets of coordinates, with one bit for each coordinate from 0 to 63. For example, the set
// coordinatesFrom16 contains all coordinates from 16 on.
const (
	allCoordinates = 1<<64 - 1

	coordinatesFrom16 = 1<<64 - 1<<16
	coordinatesFrom18 = 1<<64 - 1<<18
	coordinatesFrom19 = 1<<64 - 1<<19
	coordinatesFrom26 = 1<<64 - 1<<26
	coordinatesFrom31 = 1<<64 - 1<<31
	coordinatesFrom32 = 1<<64 - 1<<32
)

// FindClosedRange returns the first closed range of which a window would show at least one byte.
// The window has `size` bytes, and shows the tiles `t` from the given address on. If the window
// would show no byte of a closed range, FindClosedRange returns nil, and an image may use the
// window.
func (b *Board) FindClosedRange(t TileRoute, address, size uint64) *ClosedRange {
	route, columns, rows := uint8(unicastNoC0)<<t.NoC, uint64(1)<<t.X, uint64(1)<<t.Y
	if t.Multicast {
		route = multicastNoC0 << t.NoC
		columns = coordinateSet(t.XStart, t.X)
		rows = coordinateSet(t.YStart, t.Y)
	}
	for i := range b.ClosedRanges {
		c := &b.ClosedRanges[i]
		showsTile := c.Routes&route != 0 && c.X&columns != 0 && c.Y&rows != 0
		overlaps := address <= c.Last && address+(size-1) >= c.First
		if showsTile && overlaps {
			return c
		}
	}
	return nil
}

// coordinateSet returns the set of the columns, or of the rows, that a rectangle of tiles may
// include, with one bit for each coordinate. `start` is the first column (or row) of the rectangle,
// and `end` is the last. If `start` is greater than `end`, the rectangle wraps around the edge of
// the grid of tiles. In that case the set contains every coordinate.
func coordinateSet(start, end uint8) uint64 {
	if start > end {
		return allCoordinates
	}
	upToEnd := uint64(allCoordinates) >> (63 - min(end, 63))
	return upToEnd & (allCoordinates << start)
}
