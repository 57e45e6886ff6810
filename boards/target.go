package boards

// This file declares which tiles a TLB window shows.

import "lightmetal/fbs/gen"

// TileRange describes where a TLB window points: to one tile, or, if Multicast is set, to
// the rectangle of tiles from (XStart, YStart) to (X, Y). The address within the tile is
// not part of it.
type TileRange struct {
	X, Y           uint8 // the tile, or the far corner
	XStart, YStart uint8 // zero unless Multicast
	NoC            uint8 // 0 or 1
	Ordering       gen.Ordering
	StaticVC       uint8 // 0: none; 1 + n: virtual channel n
	Multicast      bool
}

// UnpackTileRange returns the tile range in Command.Mask of a Point: one byte for each
// field in the order of the declaration, X in the lowest byte. ok is false if p does not
// describe any tile range.
func UnpackTileRange(p uint64) (t TileRange, ok bool) {
	t = TileRange{
		X: uint8(p), Y: uint8(p >> 8), XStart: uint8(p >> 16), YStart: uint8(p >> 24),
		NoC: uint8(p >> 32), Ordering: gen.Ordering(p >> 40), StaticVC: uint8(p >> 48),
		Multicast: p>>56 == 1,
	}
	return t, p>>56 <= 1 && t.StaticVC <= 8 && isValid(t)
}
