package importer

import (
	"lightmetal/boards/chips"
	"lightmetal/fbs"
)

// aimAt works out which tiles a target reaches.
func (l *lifter) aimAt(t fbs.Target, address uint64) aim {
	a := aim{target: t, address: address, x0: t.X, y0: t.Y, x1: t.X, y1: t.Y}
	if t.Multicast {
		a.x0, a.y0 = t.XStart, t.YStart
	}
	// NoC 1 counts from the other corner; translated coordinates, which lie
	// outside the grid, are the same on both.
	if g := l.chip.Grid; g != nil && t.NoC == 1 {
		width, height := uint8(len(g.Rows[0])), uint8(len(g.Rows))
		a.x0, a.x1 = mirror(a.x0, width), mirror(a.x1, width)
		a.y0, a.y1 = mirror(a.y0, height), mirror(a.y1, height)
	}
	a.x0, a.x1 = min(a.x0, a.x1), max(a.x0, a.x1)
	a.y0, a.y1 = min(a.y0, a.y1), max(a.y0, a.y1)
	a.kinds = [2]chips.Kind{l.kind(a.x0, a.y0), l.kind(a.x1, a.y1)}
	return a
}

func (l *lifter) kind(x, y uint8) chips.Kind {
	if l.chip.Grid == nil {
		return 0
	}
	tile, ok := l.chip.Grid.NoC0(x, y)
	if !ok {
		return 0
	}
	return l.chip.Grid.Kind(tile)
}

func mirror(v, size uint8) uint8 {
	if v < size {
		return size - 1 - v
	}
	return v
}

// tileMemory tells whether a range is memory in every tile that a window
// reaches.
func (l *lifter) tileMemory(a *aim, address, size uint64) bool {
	for _, k := range a.kinds {
		if k == 0 || l.chip.Grid.Memory(k, address, size) == nil {
			return false
		}
	}
	return true
}

// aim is where a window points.
type aim struct {
	target  fbs.Target
	address uint64
	// The rectangle of tiles, in the coordinates of NoC 0 or translated ones.
	x0, y0, x1, y1 uint8
	kinds          [2]chips.Kind // of the corners, 0: unknown
}

func (a *aim) has(x, y uint8) bool {
	return x >= a.x0 && x <= a.x1 && y >= a.y0 && y <= a.y1
}
