package boards

// This file holds what only host tools use: no target links it (tools/house checks that).

// Pack returns the value of a Point's Mask that UnpackTileRange turns into t.
func (t TileRange) Pack() uint64 {
	p := uint64(t.X) | uint64(t.Y)<<8 | uint64(t.XStart)<<16 | uint64(t.YStart)<<24 |
		uint64(t.NoC)<<32 | uint64(t.Ordering)<<40 | uint64(t.StaticVC)<<48
	if t.Multicast {
		p |= 1 << 56
	}
	return p
}
