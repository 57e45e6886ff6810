package importer

// Tensors can be in tt-metal's interleaved and sharded buffers. Page 0 of an interleaved buffer is
// in the first DRAM bank, page 1 in the second, and so on, round-robin. A bank contains every n-th
// page, at constant distances. A sharded buffer has one page in the L1 of each core of a rectangle,
// row by row.

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/tools/capture/importer/traces"
)

const (
	interleavedPrefix = "interleaved:"
	shardedPrefix     = "sharded:"
	// Tilized data consist of tiles of 32x32 elements. A tile consists of four faces of 16x16
	// elements, row by row (tt-metal, tt_metal/api/tt-metalium/constants.hpp).
	tiledWord = "tiled"
	tileSide  = 32
	faceSide  = 16
)

// parseInterleaved reads the value of a tensor that begins with interleavedPrefix:
// ADDRESS,PAGE,DTYPE,SHAPE, and `,tiled` for data in tiles of 32x32 elements.
func parseInterleaved(t *TensorSpec, text string) (reason string) {
	parts := strings.Split(text, ",")
	tiled := len(parts) == 5 && parts[4] == tiledWord
	if len(parts) != 4 && !tiled {
		return "write interleaved:ADDRESS,PAGE,DTYPE,SHAPE, with ,tiled at the end for tiled data"
	}
	if reason := t.parseAddress(parts[0]); reason != "" {
		return reason
	}
	var ok bool
	if t.Page, ok = parseNumber(parts[1]); !ok || t.Page == 0 || t.Page > tensorSizeMax {
		return fmt.Sprintf("page size %q must be a number of bytes, from 1 to 4 GiB", parts[1])
	}
	if reason := t.parseType(parts[2], parts[3]); reason != "" {
		return reason
	}
	if tiled {
		t.Shape, reason = tiledShape(t.Shape)
	}
	return reason
}

// parseSharded reads the value of a tensor that begins with shardedPrefix:
// X,Y,X,Y,ADDRESS,DTYPE,SHAPE, and `,tiled`. The coordinates are those of the first and the last
// core.
func parseSharded(t *TensorSpec, text string) (reason string) {
	parts := strings.Split(text, ",")
	tiled := len(parts) == 8 && parts[7] == tiledWord
	if len(parts) != 7 && !tiled {
		return "write sharded:X,Y,X,Y,ADDRESS,DTYPE,SHAPE, with the first and the last core, " +
			"and with ,tiled at the end for tiled data"
	}
	var numbers [4]uint8
	for i := range numbers {
		n, ok := parseNumber(parts[i])
		if !ok || n > 255 {
			return fmt.Sprintf("coordinate %q of a core must be a number from 0 to 255", parts[i])
		}
		numbers[i] = uint8(n)
	}
	t.Cores = [2]chips.Tile{{X: numbers[0], Y: numbers[1]}, {X: numbers[2], Y: numbers[3]}}
	if reason := t.parseAddress(parts[4]); reason != "" {
		return reason
	}
	if reason = t.parseType(parts[5], parts[6]); reason == "" && tiled {
		t.Shape, reason = tiledShape(t.Shape)
	}
	return reason
}

// tiledShape returns the shape of the same elements in the order of memory: rows and columns of
// tiles, rows and columns of faces, rows and columns of elements.
func tiledShape(shape []uint32) (inMemory []uint32, reason string) {
	if len(shape) != 2 || shape[0]%tileSide != 0 || shape[1]%tileSide != 0 {
		return nil, "with tiled, the shape must be two multiples of 32, such as 64x32"
	}
	const faces = tileSide / faceSide
	return []uint32{shape[0] / tileSide, shape[1] / tileSide, faces, faces, faceSide, faceSide}, ""
}

// checkInterleaved returns an error if the board has no interleaved buffers, or if the tensor does
// not fit into its banks.
func (p *program) checkInterleaved(t *tensor) error {
	grid := p.chip.Grid
	if !p.hasBanks() {
		return traces.UsageError("%s %s is interleaved, but board %s has no DRAM banks",
			t.kind(), t.Name, p.board.Name)
	}
	if !p.isPassEnabled("lift") {
		return traces.UsageError("%s %s is interleaved, which needs the pass lift; "+
			"remove --without lift", t.kind(), t.Name)
	}
	t.extent = t.pagesPerBank(grid) * t.pageStride(grid)
	if t.Address > fbs.DataSizeMax || t.extent > fbs.DataSizeMax {
		return traces.UsageError("%s %s: the pages need more memory than a DRAM bank has", t.kind(),
			t.Name)
	}
	return nil
}

// coresOf returns the cores of a sharded tensor, row by row. ok is false if they are no rectangle.
func (p *program) coresOf(t *TensorSpec) (cores []chips.Tile, ok bool) {
	cores, ok = p.chip.Grid.ShownTiles(fbs.TileRoute{Multicast: true,
		XStart: t.Cores[0].X, YStart: t.Cores[0].Y, X: t.Cores[1].X, Y: t.Cores[1].Y})
	return cores, ok && len(cores) > 0
}

// checkSharded finds the cores of a sharded tensor and the size of its pages.
func (p *program) checkSharded(t *tensor) error {
	tiles, ok := p.coresOf(&t.TensorSpec)
	count := uint64(len(tiles))
	switch {
	case !ok:
		return traces.UsageError("%s %s: %d,%d to %d,%d is no rectangle of cores on board %s",
			t.kind(), t.Name, t.Cores[0].X, t.Cores[0].Y, t.Cores[1].X, t.Cores[1].Y, p.board.Name)
	case !p.isPassEnabled("lift"):
		return traces.UsageError("%s %s is sharded, which needs the pass lift; "+
			"remove --without lift", t.kind(), t.Name)
	case t.size%count != 0:
		return traces.UsageError("%s %s: %d bytes cannot be spread equally over %d cores",
			t.kind(), t.Name, t.size, count)
	}
	t.cores, t.Page = tiles, t.size/count
	t.extent = t.Page
	return nil
}

// pageStride returns the distance between two pages of a tensor in a bank.
func (t *TensorSpec) pageStride(grid *chips.Grid) uint64 {
	return fbs.RoundUp(t.Page, grid.Interleaving.Align)
}

// pagesPerBank returns the number of pages of a tensor in the first bank.
func (t *TensorSpec) pagesPerBank(grid *chips.Grid) uint64 {
	row := t.Page * uint64(grid.InterleavedBankCount())
	return (t.Size() + row - 1) / row
}

// tensorAddress returns the first byte of the tensor that a step accesses, as t.Address plus the
// offset in the tensor. `inside` reports whether all bytes of the step are consecutive bytes of the
// tensor. `ok` is false if no byte is in the tensor.
func (p *program) tensorAddress(s *step, t *tensor) (address uint64, inside, ok bool) {
	if t.Page != 0 {
		return p.pagedAddress(s, t)
	}
	address, ok = p.addressIn(s, t.Place)
	last := address + s.size() - 1
	ok = ok && address <= t.last() && last >= t.Address
	return address, address >= t.Address && last <= t.last(), ok
}

// bankOf returns the number of the bank or core that a step accesses, and the address in it. ok is
// false if no page of the tensor can be there.
func (p *program) bankOf(s *step, t *tensor) (bank int, address uint64, ok bool) {
	if s.target < 0 {
		return 0, 0, false
	}
	at := &p.targets[s.target]
	tile, ok := p.singleTile(at)
	address = at.address + uint64(s.offset)
	if t.cores != nil {
		bank = slices.Index(t.cores, tile)
		return bank, address, ok && bank >= 0
	}
	if !ok {
		return 0, 0, false
	}
	return p.chip.Grid.InterleavedBank(tile, address)
}

// pagedAddress is like tensorAddress, for a tensor in pages. If only a part of the step is in a
// page, it returns the address 0, and the caller splits the step.
func (p *program) pagedAddress(s *step, t *tensor) (address uint64, inside, ok bool) {
	bank, first, known := p.bankOf(s, t)
	if !known {
		return 0, false, false
	}
	stride, banks := t.Page, uint64(len(t.cores))
	if t.cores == nil {
		stride, banks = t.pageStride(p.chip.Grid), uint64(p.chip.Grid.InterleavedBankCount())
	}
	end := t.Address + t.extent // of all pages in a bank
	if first >= end || first+s.size() <= t.Address {
		return 0, false, false
	}
	if first < t.Address {
		return 0, false, true
	}
	row, inPage := (first-t.Address)/stride, (first-t.Address)%stride
	offset := (row*banks+uint64(bank))*t.Page + inPage
	inside = inPage+s.size() <= t.Page && offset+s.size() <= t.size
	switch {
	case inside:
		return t.Address + offset, true, true
	case inPage+s.size() <= stride && (inPage >= t.Page || offset >= t.size):
		return 0, false, false // between two pages, or after the last page
	}
	return 0, false, true
}

// singleTile returns the tile that a window points to. ok is false for several tiles. The pass lift
// has converted coordinates of NoC 1 before.
func (p *program) singleTile(at *windowTarget) (t chips.Tile, ok bool) {
	if at.route.Multicast {
		return t, false
	}
	return p.chip.Grid.TileAt(at.x0, at.y0)
}
