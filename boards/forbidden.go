package boards

// This file protects the PCIe controller of a device from images: it defines the tile addresses
// that no window of an image may show.

// ForbiddenRange is a range of tile addresses that no window of an image may show. The range
// contains registers of the PCIe controller, or registers through which an image could access the
// PCIe controller.
//
// A tile has raw coordinates and translated coordinates. The translated coordinates depend on which
// tiles of a chip are disabled. The verifier does not know which chip will replay the image.
// Therefore Columns and Rows contain every coordinate that the forbidden tile has on any chip. On
// some chips, such a coordinate selects a tile that is not forbidden. Images must not use the
// coordinate on these chips either, but can select that tile by its other coordinates.
type ForbiddenRange struct {
	Routes      uint8  // routes on which the range is forbidden: unicastNoC0 and so on, ORed
	Columns     uint64 // column numbers of the tile: a set with one bit for each number
	Rows        uint64 // row numbers of the tile: a set with one bit for each number
	First, Last uint64 // first and last forbidden address in the tile
	Name        string // name of the range in messages
}

// Bits of ForbiddenRange.Routes. A unicast accesses a single tile, and a multicast accesses a
// rectangle of tiles, over NoC 0 or over NoC 1.
const (
	unicastNoC0   = 1 << 0
	unicastNoC1   = 1 << 1
	multicastNoC0 = 1 << 2
	multicastNoC1 = 1 << 3
)

// pcieTileName names the PCIe tile in messages. The name includes the remedy for images that want
// to access host memory.
const pcieTileName = "the PCIe tile (use a host window for host memory)"

// lastTileAddress is the largest address in a tile that a command can contain.
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

// FindForbiddenRange returns the first forbidden range that overlaps a window of an image. The
// window has `size` bytes, and shows the tiles `t` from the given address on. If the window
// overlaps no forbidden range, FindForbiddenRange returns nil, and the image may use the window.
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
