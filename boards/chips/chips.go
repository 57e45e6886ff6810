// Package chips describes what lies behind the windows of a board: tiles, their
// coordinates, memories and registers. A target replays without it; stand-ins
// and tools need it. Every constant names its source, as in package boards,
// whose files list the sources that are named in brackets.
package chips

import "lightmetal/boards"

// Chip is what is known of a board beyond what a target uses.
type Chip struct {
	*boards.Board

	// Aliases lists BARs that show a part of another BAR.
	Aliases []Alias

	// Grid describes the tiles behind the windows; nil where there are none.
	Grid *Grid
}

// Alias says that a BAR shows a part of another one, from its first byte on.
type Alias struct {
	Bar    uint8
	Size   uint64
	Of     uint8  // the other BAR
	Offset uint64 // bytes into it
}

// Unalias gives the place that one shows, where its BAR shows a part of another.
func (c *Chip) Unalias(bar uint8, offset uint64) (uint8, uint64) {
	for _, a := range c.Aliases {
		if a.Bar == bar && offset < a.Size {
			return a.Of, a.Offset + offset
		}
	}
	return bar, offset
}

// All lists the boards of which more is known than boards has.
var All = []*Chip{&wormhole, &blackhole}

// Of is the chip of a board; of one that has no tiles, a Chip without any.
func Of(b *boards.Board) *Chip {
	for _, c := range All {
		if c.Vendor == b.Vendor && c.Device == b.Device {
			return c
		}
	}
	return &Chip{Board: b}
}

// ByName finds a board, nil if there is none of that name.
func ByName(name string) *boards.Board {
	for _, b := range boards.All {
		if b.Name == name {
			return b
		}
	}
	return nil
}
