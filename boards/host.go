package boards

// This file contains functions for host tools. No program for a target may link them. A test in
// tools/check/house checks that.

// Pack returns the tile range as one number, for Command.Mask of a Point command.
// UnpackTileRange is the inverse function.
func (t TileRange) Pack() uint64 {
	packed := uint64(t.X) | uint64(t.Y)<<8 | uint64(t.XStart)<<16 | uint64(t.YStart)<<24 |
		uint64(t.NoC)<<32 | uint64(t.Ordering)<<40 | uint64(t.StaticVC)<<48
	if t.Multicast {
		packed |= 1 << 56
	}
	return packed
}
