package importer

import (
	"lightmetal/boards/chips"
	"lightmetal/fbs"
)

// tileHomes numbers the tiles of a chip. A tile has the same number in NoC 0 and in translated
// coordinates, and all tiles of a DRAM bank have one number.
type tileHomes struct {
	grid    *chips.Grid
	numbers [1 << 16]uint8 // by the coordinates Y<<8|X; 0: no tile
}

// homeSet is a set of numbers of tiles.
type homeSet [4]uint64

func newTileHomes(grid *chips.Grid) *tileHomes {
	h := &tileHomes{grid: grid}
	for i := range h.numbers {
		if tile, ok := grid.TileAt(uint8(i), uint8(i>>8)); ok {
			home := grid.FirstTileOfBank(tile)
			h.numbers[i] = 1 + home.Y*uint8(len(grid.Rows[0])) + home.X
		}
	}
	return h
}

// shown returns the tiles that a window with the route t shows, and none if they are unknown.
func (h *tileHomes) shown(t fbs.TileRoute) (set homeSet) {
	if h == nil {
		return set
	}
	tiles, _ := h.grid.ShownTiles(t)
	for _, tile := range tiles {
		n := h.numbers[int(tile.Y)<<8|int(tile.X)]
		set[n/64] |= 1 << (n % 64)
	}
	return set
}

func (h *tileHomes) contains(set *homeSet, x, y uint8) bool {
	if h == nil {
		return false
	}
	n := h.numbers[int(y)<<8|int(x)]
	return n != 0 && set[n/64]>>(n%64)&1 != 0
}
