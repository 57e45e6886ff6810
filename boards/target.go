package boards

// This file defines TileRange, which selects the tiles that a TLB window shows.

import "lightmetal/fbs/gen"

// TileRange selects the tiles that a TLB window shows, and the route of the requests to these
// tiles. Without Multicast, it selects the single tile (X, Y). With Multicast, it selects the
// rectangle of tiles from (XStart, YStart) to (X, Y).
type TileRange struct {
	X, Y           uint8        // column and row of the tile, or of the rectangle's last corner
	XStart, YStart uint8        // column and row of the rectangle's first corner; 0 for one tile
	NoC            uint8        // number of the NoC, 0 or 1
	Ordering       gen.Ordering // ordering of the requests
	StaticVC       uint8        // 0: no static virtual channel; 1 + n: static virtual channel n
	Multicast      bool         // the TLB window shows a rectangle of tiles
}

// UnpackTileRange converts Command.Mask of a Point command to a TileRange. The mask has one
// byte for each field of TileRange, in the order of the fields, starting with X in the lowest
// byte. ok is false if the mask is not a valid tile range.
func UnpackTileRange(mask uint64) (t TileRange, ok bool) {
	t = TileRange{
		X: uint8(mask), Y: uint8(mask >> 8), XStart: uint8(mask >> 16), YStart: uint8(mask >> 24),
		NoC: uint8(mask >> 32), Ordering: gen.Ordering(mask >> 40), StaticVC: uint8(mask >> 48),
		Multicast: mask>>56 == 1,
	}
	return t, mask>>56 <= 1 && t.StaticVC <= 8 && isValid(t)
}
