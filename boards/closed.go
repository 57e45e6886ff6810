package boards

// Closed is a range of addresses of tiles that no window of an image may show:
// registers of the PCIe controller, and what leads to them.
//
// The coordinates are those of every name that firmware may have for the tiles,
// whatever is fused off: names cannot be told apart before a device is there. So
// a few names of other tiles are closed, too; those tiles have other names.
type Closed struct {
	Ways        uint8  // of pointing a window that it is closed to, one bit each
	X, Y        uint64 // coordinates, one bit each
	First, Last uint64 // addresses
	Name        string
}

// Closed.Ways.
const (
	overNoC0      = 1 << 0
	overNoC1      = 1 << 1
	multicastNoC0 = 1 << 2
	multicastNoC1 = 1 << 3
)

// Coordinates from a number on, one bit each.
const (
	all    = 1<<64 - 1
	from16 = 1<<64 - 1<<16
	from18 = 1<<64 - 1<<18
	from19 = 1<<64 - 1<<19
	from26 = 1<<64 - 1<<26
	from31 = 1<<64 - 1<<31
	from32 = 1<<64 - 1<<32
)

// ClosedTo returns the first closed range that size bytes, from an address of a
// target on, may overlap; nil if there is none.
func (b *Board) ClosedTo(t TileRange, address, size uint64) *Closed {
	way, x, y := uint8(overNoC0)<<t.NoC, uint64(1)<<t.X, uint64(1)<<t.Y
	if t.Multicast {
		way, x, y = multicastNoC0<<t.NoC, span(t.XStart, t.X), span(t.YStart, t.Y)
	}
	for i := range b.Closed {
		c := &b.Closed[i]
		named := c.Ways&way != 0 && c.X&x != 0 && c.Y&y != 0
		if named && address <= c.Last && address+(size-1) >= c.First {
			return c
		}
	}
	return nil
}

// span returns the coordinates that a side of a rectangle may include, one bit
// each. A side whose end is before its start wraps round the edge of the grid.
func span(start, end uint8) uint64 {
	if start > end {
		return all
	}
	return uint64(all) >> (63 - min(end, 63)) & (all << start)
}
