package boards

// TileRoute selects the tiles that a TLB window shows, and the route to them: the tile (X, Y), or
// with Multicast the rectangle from (XStart, YStart) to (X, Y).
type TileRoute struct {
	X, Y            uint8 // column, row
	XStart, YStart  uint8 // 0 for a single tile
	NoC             uint8 // 0 or 1
	Ordering        Ordering
	StaticVCPlusOne uint8 // 0: none; 1 + n: static virtual channel n
	Multicast       bool
}

// Ordering of a TLB window's requests, with the values of image.fbs (fbs/layout.go checks this).
type Ordering byte

const (
	OrderingInvalid Ordering = 0
	OrderingDefault Ordering = 1
	OrderingStrict  Ordering = 2
	OrderingPosted  Ordering = 3
)

// UnpackTileRoute converts Command.Mask of a Point: one byte for each field, X the lowest. `ok` is
// false if a value is invalid.
func UnpackTileRoute(mask uint64) (t TileRoute, ok bool) {
	t = TileRoute{
		X: uint8(mask), Y: uint8(mask >> 8), XStart: uint8(mask >> 16), YStart: uint8(mask >> 24),
		NoC: uint8(mask >> 32), Ordering: Ordering(mask >> 40),
		StaticVCPlusOne: uint8(mask >> 48),
		Multicast:       mask>>56 == 1,
	}
	return t, mask>>56 <= 1 && t.StaticVCPlusOne <= 8 && isValidRoute(t)
}
