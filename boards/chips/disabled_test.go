package chips

import (
	"slices"
	"testing"
)

// TestBanksWithoutADisabledOne has the columns of tt-umd for two disabled banks of Blackhole, by
// hand: the half without a disabled bank is in column 17, and the opposite bank is its last.
func TestBanksWithoutADisabledOne(t *testing.T) {
	for _, c := range []struct {
		disabled      int
		first, second []int
	}{
		{NoDisabledBank, []int{0, 1, 2, 3}, []int{4, 5, 6, 7}},
		{1, []int{3, 5, 6, 4}, []int{0, 1, 2}},
		{6, []int{0, 1, 3, 2}, []int{4, 5, 6}},
	} {
		first, second := banksByColumn(c.disabled, 8)
		if !slices.Equal(first, c.first) || !slices.Equal(second, c.second) {
			t.Errorf("bank %d: %v and %v", c.disabled, first, second)
		}
	}
	chip := blackhole.WithoutBank(1)
	if n := chip.Grid.InterleavedBankCount(); n != 7 || len(blackhole.Grid.Banks) != 8 {
		t.Errorf("%d banks", n)
	}
	if tile, ok := chip.Grid.TileAt(17, 12); !ok || tile != (Tile{9, 0}) {
		t.Errorf("(17,12) is %v", tile)
	}
	if tile, ok := chip.Grid.TileAt(18, 15); !ok || tile != (Tile{0, 9}) {
		t.Errorf("(18,15) is %v", tile)
	}
	if _, ok := chip.Grid.TileAt(18, 21); ok {
		t.Error("(18,21) is a tile")
	}
	for bank, chip := range map[int]*Chip{8: &blackhole, 0: &wormhole, 1: &edu} {
		if chip.WithoutBank(bank) != nil {
			t.Errorf("%s has no such bank", chip.Name)
		}
	}
}
