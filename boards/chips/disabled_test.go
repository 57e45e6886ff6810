package chips

import (
	"slices"
	"testing"
)

// The expected columns were computed by hand from the rule of tt-umd, for two disabled banks of
// Blackhole: the half without a disabled bank is in column 17, and the bank opposite the disabled
// one is the last of that half.
func TestColumnsOfBanksIfOneIsDisabled(t *testing.T) {
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
			t.Errorf("disabled bank %d: columns %v and %v, want %v and %v", c.disabled, first,
				second, c.first, c.second)
		}
	}
	chip := blackhole.WithoutBank(1)
	if n := chip.Grid.InterleavedBankCount(); n != 7 || len(blackhole.Grid.Banks) != 8 {
		t.Errorf("%d interleaved banks without bank 1, want 7; %d banks with it, want 8", n,
			len(blackhole.Grid.Banks))
	}
	if tile, ok := chip.Grid.TileAt(17, 12); !ok || tile != (Tile{9, 0}) {
		t.Errorf("without bank 1, (17,12) is %v, %v, want (9,0)", tile, ok)
	}
	if tile, ok := chip.Grid.TileAt(18, 15); !ok || tile != (Tile{0, 9}) {
		t.Errorf("without bank 1, (18,15) is %v, %v, want (0,9)", tile, ok)
	}
	if _, ok := chip.Grid.TileAt(18, 21); ok {
		t.Error("without bank 1, (18,21) is a tile")
	}
	for bank, chip := range map[int]*Chip{8: &blackhole, 0: &wormhole, 1: &edu} {
		if chip.WithoutBank(bank) != nil {
			t.Errorf("%s: WithoutBank(%d) returns a chip, but the bank cannot be disabled",
				chip.Name, bank)
		}
	}
}
