package chips

// This file describes which DRAM banks have which of tt-umd's translated coordinates, also on
// cards with a disabled ("harvested") bank. Source: tt-umd, blackhole_coordinate_manager.cpp,
// fill_dram_noc0_translated_mapping. The simulator has other tiles at these coordinates, which no
// program can notice.

import "slices"

// Translated coordinates of Blackhole's DRAM tiles: two columns, in which the tiles of the banks
// follow each other.
const (
	dramFirstColumn = 17
	dramFirstRow    = 12
)

// NoBank is the argument of WithoutBank for a card on which all banks are enabled.
const NoBank = -1

// WithoutBank returns the chip of a card on which a DRAM bank is disabled, with the translated
// coordinates of tt-umd. The other banks keep their order. It returns nil if the chip has no such
// bank, or if its DRAM tiles have no translated coordinates.
func (c *Chip) WithoutBank(disabled int) *Chip {
	if c.Grid == nil || disabled < NoBank || disabled >= len(c.Grid.Banks) ||
		!slices.ContainsFunc(c.Grid.Pairs, c.Grid.isDRAMPair) {
		return nil
	}
	other, grid := *c, *c.Grid
	if disabled != NoBank {
		grid.Banks = slices.Delete(slices.Clone(grid.Banks), disabled, disabled+1)
	}
	grid.Pairs = slices.DeleteFunc(slices.Clone(grid.Pairs), c.Grid.isDRAMPair)
	first, second := columnsWithoutBank(disabled, len(c.Grid.Banks))
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

// columnsWithoutBank returns the banks of the two columns, as numbers of banks that are not
// disabled. The first column has the half of the chip without the disabled bank; its last bank is
// the one opposite to the disabled bank.
func columnsWithoutBank(disabled, banks int) (first, second []int) {
	half := banks / 2
	if disabled == NoBank {
		for bank := range half {
			first, second = append(first, bank), append(second, bank+half)
		}
		return first, second
	}
	whole, opposite := 0, disabled-half // the half without the disabled bank
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
