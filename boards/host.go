package boards

// This file contains functions that only host tools may use. A test in tools/check/house checks
// that no program for a target links them.

// Pack returns the route as one number: the value of Command.Mask in a Point command.
// UnpackTileRoute is the inverse function.
func (t TileRoute) Pack() uint64 {
	packed := uint64(t.X) | uint64(t.Y)<<8 | uint64(t.XStart)<<16 | uint64(t.YStart)<<24 |
		uint64(t.NoC)<<32 | uint64(t.Ordering)<<40 | uint64(t.StaticVCPlusOne)<<48
	if t.Multicast {
		packed |= 1 << 56
	}
	return packed
}
