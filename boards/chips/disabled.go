package chips

// Translated coordinates of the DRAM banks of a Blackhole, as Tenstorrent's driver library tt-umd
// assigns them, also on cards with a disabled ("harvested") bank. Source: tt-umd,
// blackhole_coordinate_manager.cpp, fill_dram_noc0_translated_mapping. The simulator gives the same
// coordinates to the banks in another order. Programs do not notice it, because all banks are
// alike.

import "slices"

// The first translated column and row of Blackhole's DRAM tiles, which form two columns. In each
// column, the tiles of one bank follow those of the previous bank.
const (
	dramFirstColumn = 17
	dramFirstRow    = 12
)

// NoDisabledBank is the argument of WithoutBank for a card on which all banks are enabled.
const NoDisabledBank = -1

// WithoutBank returns a copy of the chip without the DRAM bank number `disabled`. The other banks
// keep their order, and have the translated coordinates that tt-umd assigns. WithoutBank returns
// nil if the chip has no such bank, or its DRAM tiles have no translated coordinates.
func (c *Chip) WithoutBank(disabled int) *Chip {
	if c.Grid == nil || disabled < NoDisabledBank || disabled >= len(c.Grid.Banks) ||
		!slices.ContainsFunc(c.Grid.Pairs, c.Grid.isDRAMPair) {
		return nil
	}
	other, grid := *c, *c.Grid
	if disabled != NoDisabledBank {
		grid.Banks = slices.Delete(slices.Clone(grid.Banks), disabled, disabled+1)
	}
	grid.Pairs = slices.DeleteFunc(slices.Clone(grid.Pairs), c.Grid.isDRAMPair)
	first, second := banksByColumn(disabled, len(c.Grid.Banks))
	for i, column := range [][]int{first, second} {
		row := uint8(dramFirstRow)
		for _, bank := range column {
			for _, tile := range grid.Banks[bank] {
				translated := Tile{dramFirstColumn + uint8(i), row}
				grid.Pairs = append(grid.Pairs, Pair{translated, tile})
				row++
			}
		}
	}
	other.Grid = &grid
	return &other
}

func (g *Grid) isDRAMPair(p Pair) bool { return g.Kind(p.NoC0) == DRAM }

// banksByColumn returns the banks of each of the two columns. The number of a bank is its position
// among the enabled banks, from 0 on. The first column has the banks of the half of the chip that
// has no disabled bank; the last bank in this column is opposite to the disabled bank.
func banksByColumn(disabled, banks int) (first, second []int) {
	half := banks / 2
	if disabled == NoDisabledBank {
		for bank := range half {
			first, second = append(first, bank), append(second, bank+half)
		}
		return first, second
	}
	// The half without a disabled bank has the banks `whole` to whole+half-1.
	whole, opposite := 0, disabled-half
	if disabled < half {
		whole, opposite = half-1, disabled+half-1
	}
	for bank := range banks - 1 {
		switch {
		case bank < whole || bank >= whole+half:
			second = append(second, bank)
		case bank != opposite:
			first = append(first, bank)
		}
	}
	return append(first, opposite), second
}
