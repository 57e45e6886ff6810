package boards

// No program for a target links this file (tools/check/house).

// Pack returns Command.Mask of a Point: the inverse of UnpackTileRoute.
func (t TileRoute) Pack() uint64 {
	packed := uint64(t.X) | uint64(t.Y)<<8 | uint64(t.XStart)<<16 | uint64(t.YStart)<<24 |
		uint64(t.NoC)<<32 | uint64(t.Ordering)<<40 | uint64(t.StaticVCPlusOne)<<48
	if t.Multicast {
		packed |= 1 << 56
	}
	return packed
}
