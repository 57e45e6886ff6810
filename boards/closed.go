package boards

// This file protects the PCIe controller from images: it decides which tile addresses a
// window of an image may show.

// Closed is a range of tile addresses that no window of an image may show. The range
// contains registers of the PCIe controller, or registers through which an image could
// access the PCIe controller.
//
// A tile has raw coordinates and translated coordinates. The translated coordinates depend
// on the tiles that are disabled on a chip, and are unknown until a device is present.
// Therefore X and Y list all coordinates that the closed tile may have on any chip. On some
// chips such coordinates belong to another tile; images can use the other coordinates of
// that tile.
type Closed struct {
	Ways        uint8  // routes on which the range is closed, ORed: unicastNoC0 and so on
	X, Y        uint64 // columns and rows of the tile, one bit for each coordinate
	First, Last uint64 // first and last closed address in the tile
	Name        string // name of the range in messages
}

// Routes to tiles: a single tile or a rectangle of tiles, over NoC 0 or NoC 1. They are the
// bits of Closed.Ways.
const (
	unicastNoC0   = 1 << 0
	unicastNoC1   = 1 << 1
	multicastNoC0 = 1 << 2
	multicastNoC1 = 1 << 3
)

// lastAddress is the last address of a tile.
const lastAddress = 1<<64 - 1

// Sets of coordinates, with one bit for each coordinate. from16 contains all coordinates
// from 16 on.
const (
	allCoordinates = 1<<64 - 1

	from16 = 1<<64 - 1<<16
	from18 = 1<<64 - 1<<18
	from19 = 1<<64 - 1<<19
	from26 = 1<<64 - 1<<26
	from31 = 1<<64 - 1<<31
	from32 = 1<<64 - 1<<32
)

// ClosedTo returns the first closed range of which a window would show at least one byte. The
// window has size bytes, and shows the tiles t from the given address on. ClosedTo returns
// nil if the window shows no closed range; an image may then use the window.
func (b *Board) ClosedTo(t TileRange, address, size uint64) *Closed {
	route, columns, rows := uint8(unicastNoC0)<<t.NoC, uint64(1)<<t.X, uint64(1)<<t.Y
	if t.Multicast {
		route = multicastNoC0 << t.NoC
		columns = sideOfRectangle(t.XStart, t.X)
		rows = sideOfRectangle(t.YStart, t.Y)
	}
	for i := range b.Closed {
		c := &b.Closed[i]
		showsTile := c.Ways&route != 0 && c.X&columns != 0 && c.Y&rows != 0
		overlaps := address <= c.Last && address+(size-1) >= c.First
		if showsTile && overlaps {
			return c
		}
	}
	return nil
}

// sideOfRectangle returns the set of coordinates that one side of a rectangle may include,
// with one bit for each coordinate. If end is less than start, the side wraps around the
// edge of the grid. Then the set contains every coordinate.
func sideOfRectangle(start, end uint8) uint64 {
	if start > end {
		return allCoordinates
	}
	upToEnd := uint64(allCoordinates) >> (63 - min(end, 63))
	return upToEnd & (allCoordinates << start)
}
