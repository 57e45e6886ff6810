package boards

// This file protects the PCIe controller from images: it decides which tile addresses a
// window may show.

// Closed is a range of tile addresses that no window of an image may show: registers of
// the PCIe controller, and registers through which an image could reach them.
//
// A tile has several names: raw coordinates, and translated coordinates, which depend on
// the tiles that are disabled on a chip. Before a device is present, it is unknown which
// names apply. Therefore a range lists every name that its tiles may have on any chip.
// Some of these names mean another tile on some chips; that tile has further names.
type Closed struct {
	Ways        uint8  // how the window is pointed, one bit for each way in which it is rejected
	X, Y        uint64 // columns and rows, one bit for each coordinate
	First, Last uint64 // addresses within the tile
	Name        string
}

// Bits of Closed.Ways: a single tile or a rectangle of tiles, over either NoC.
const (
	overNoC0      = 1 << 0
	overNoC1      = 1 << 1
	multicastNoC0 = 1 << 2
	multicastNoC1 = 1 << 3
)

// Sets of coordinates, one bit each: all, and those from a number on.
const (
	all    = 1<<64 - 1
	from16 = 1<<64 - 1<<16
	from18 = 1<<64 - 1<<18
	from19 = 1<<64 - 1<<19
	from26 = 1<<64 - 1<<26
	from31 = 1<<64 - 1<<31
	from32 = 1<<64 - 1<<32
)

// ClosedTo returns the first closed range that a window of size bytes shows a part of,
// if it points at an address of the tiles t. It returns nil if the window may do so.
func (b *Board) ClosedTo(t TileRange, address, size uint64) *Closed {
	way, x, y := uint8(overNoC0)<<t.NoC, uint64(1)<<t.X, uint64(1)<<t.Y
	if t.Multicast {
		way = multicastNoC0 << t.NoC
		x, y = sideOfRectangle(t.XStart, t.X), sideOfRectangle(t.YStart, t.Y)
	}
	for i := range b.Closed {
		c := &b.Closed[i]
		sameTile := c.Ways&way != 0 && c.X&x != 0 && c.Y&y != 0
		overlaps := address <= c.Last && address+(size-1) >= c.First
		if sameTile && overlaps {
			return c
		}
	}
	return nil
}

// sideOfRectangle returns the coordinates that one side of a rectangle may include, one
// bit each. If the end is before the start, the side wraps around the edge of the grid
// and may include all.
func sideOfRectangle(start, end uint8) uint64 {
	if start > end {
		return all
	}
	return uint64(all) >> (63 - min(end, 63)) & (all << start)
}
