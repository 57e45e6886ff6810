package boards

import "lightmetal/fbs/gen"

// Target is where a TLB window points: a tile, or a rectangle of tiles from
// (XStart, YStart) to (X, Y) when Multicast is set. The address inside the
// tile is not part of it.
type TileRange struct {
	X, Y           uint8 // the tile, or the far corner
	XStart, YStart uint8 // zero unless Multicast
	NoC            uint8 // 0 or 1
	Ordering       gen.Ordering
	StaticVC       uint8 // 0: none; 1 + n: virtual channel n
	Multicast      bool
}

// UnpackTarget gives the target that Command.Mask of a Point command holds: one
// byte a field in the order of Target's declaration, X in the lowest. ok is false
// where p is not the packing of any target.
func UnpackTileRange(p uint64) (t TileRange, ok bool) {
	t = TileRange{
		X: uint8(p), Y: uint8(p >> 8), XStart: uint8(p >> 16), YStart: uint8(p >> 24),
		NoC: uint8(p >> 32), Ordering: gen.Ordering(p >> 40), StaticVC: uint8(p >> 48),
		Multicast: p>>56 == 1,
	}
	return t, p>>56 <= 1 && t.StaticVC <= 8 && isValid(t)
}
