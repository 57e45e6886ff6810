package importer

import (
	"lightmetal/boards/chips"
	"lightmetal/tools/capture/importer/traces"
)

func (p *program) hasBanks() bool {
	return p.chip.Grid != nil && p.chip.Grid.InterleavedBankCount() > 0
}

// findBufferStarts sets c.bufferStarts: among the arguments of a kernel are the addresses of its
// buffers.
func (c *repetitionDiff) findBufferStarts() {
	if !c.hasBanks() {
		return
	}
	c.bufferStarts = map[uint64]bool{}
	align := c.chip.Grid.Interleaving.Align
	for i := range c.steps.count {
		s := c.steps.at(i)
		if s.op != stepStore || s.target < 0 || c.targets[s.target].kinds[0] != chips.Tensix {
			continue
		}
		for data := c.dataOf(s); len(data) >= 4; data = data[4:] {
			if word := traces.Little(data[:4]); word != 0 && word%align == 0 {
				c.bufferStarts[word] = true
			}
		}
	}
}

// splitAtBuffers splits a span of a patch where a buffer starts, if the patch is in a DRAM bank:
// data of adjacent buffers differ in one span.
func (c *repetitionDiff) splitAtBuffers(b patch, s span) (parts []span) {
	if !c.hasBanks() || !b[0].place.Tile {
		return []span{s}
	}
	grid := c.chip.Grid
	tile, ok := grid.TileAt(b[0].place.X, b[0].place.Y)
	if !ok || grid.Kind(tile) != chips.DRAM {
		return []span{s}
	}
	align := grid.Interleaving.Align
	for at := s.from + align - (b[0].address+s.from)%align; at < s.to; at += align {
		if _, offset, ok := grid.InterleavedBank(tile, b[0].address+at); ok &&
			c.bufferStarts[offset] {
			parts = append(parts, span{s.from, at})
			s.from = at
		}
	}
	return append(parts, s)
}
