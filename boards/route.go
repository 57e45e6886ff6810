package boards

// This file defines TileRoute, which selects the tiles that a TLB window shows.

// TileRoute selects the tiles that a TLB window shows, and the route of the requests to these
// tiles. If Multicast is false, it selects the single tile (X, Y). If Multicast is true, it selects
// the rectangle of tiles from (XStart, YStart) to (X, Y).
type TileRoute struct {
	X, Y            uint8    // column and row of the tile, or of the rectangle's last corner
	XStart, YStart  uint8    // column and row of the rectangle's first corner; 0 for a single tile
	NoC             uint8    // number of the NoC, 0 or 1
	Ordering        Ordering // ordering of the requests
	StaticVCPlusOne uint8    // 0: no static virtual channel; 1 + n: static virtual channel n
	Multicast       bool     // the TLB window shows a rectangle of tiles
}

// Ordering is the ordering of the requests that a TLB window sends. The values are those of the
// enum Ordering in image.fbs. Package fbs checks at compile time that the values are equal.
type Ordering byte

const (
	OrderingInvalid Ordering = 0
	OrderingDefault Ordering = 1
	OrderingStrict  Ordering = 2
	OrderingPosted  Ordering = 3
)

// UnpackTileRoute converts Command.Mask of a Point command to a TileRoute. The mask has one byte
// for each field of TileRoute, in the order of the fields: X is the lowest byte. `ok` is false if a
// field has an invalid value.
func UnpackTileRoute(mask uint64) (t TileRoute, ok bool) {
	t = TileRoute{
		X: uint8(mask), Y: uint8(mask >> 8), XStart: uint8(mask >> 16), YStart: uint8(mask >> 24),
		NoC: uint8(mask >> 32), Ordering: Ordering(mask >> 40),
		StaticVCPlusOne: uint8(mask >> 48),
		Multicast:       mask>>56 == 1,
	}
	return t, mask>>56 <= 1 && t.StaticVCPlusOne <= 8 && isValidRoute(t)
}
