package importer

// The parts of an interleaved buffer are in different DRAM banks. joinBanks joins them to one input
// or output of a proposed frame.

import (
	"cmp"
	"slices"

	"lightmetal/boards/chips"
)

// bankPart is an input or output in one DRAM bank.
type bankPart struct {
	varying *Varying
	bank    int
	offset  uint64 // in the bank
}

func (c *repetitionDiff) joinBanks() {
	if !c.hasBanks() {
		return
	}
	for _, role := range []string{"input", "output"} {
		parts := c.bankParts(role)
		for i := range parts {
			if parts[i].bank == 0 && parts[i].varying.Role == role {
				c.joinFrom(parts, &parts[i])
			}
		}
	}
	c.candidate.Varies = slices.DeleteFunc(c.candidate.Varies,
		func(v Varying) bool { return v.Role == "" })
}

// bankParts returns the inputs or outputs in DRAM banks, in the order of their offsets.
func (c *repetitionDiff) bankParts(role string) (parts []bankPart) {
	grid := c.chip.Grid
	for i := range c.candidate.Varies {
		v := &c.candidate.Varies[i]
		if v.Role != role || v.rejection != "" || !v.spec.Tile || v.spec.Line != 0 {
			continue
		}
		tile, ok := grid.TileAt(v.spec.X, v.spec.Y)
		if !ok || grid.Kind(tile) != chips.DRAM {
			continue
		}
		if bank, offset, ok := grid.InterleavedBank(tile, v.Address); ok {
			parts = append(parts, bankPart{v, bank, offset})
		}
	}
	slices.SortStableFunc(parts, func(a, b bankPart) int {
		return cmp.Compare(a.offset, b.offset)
	})
	return parts
}

// isInterleavedIn reports whether v is in a DRAM bank, and overlaps the addresses that an
// interleaved tensor uses in each bank.
func (c *repetitionDiff) isInterleavedIn(t *TensorSpec, v *Varying) bool {
	grid := c.chip.Grid
	if grid == nil || !v.spec.Tile {
		return false
	}
	tile, ok := grid.TileAt(v.spec.X, v.spec.Y)
	if !ok || grid.Kind(tile) != chips.DRAM {
		return false
	}
	_, offset, ok := grid.InterleavedBank(tile, v.Address)
	return ok && offset < t.Address+t.pagesPerBank(grid)*t.pageStride(grid) &&
		t.Address < offset+v.Size
}

// isShardedIn reports whether v overlaps a page of a sharded tensor.
func (c *repetitionDiff) isShardedIn(t *TensorSpec, v *Varying) bool {
	cores, ok := c.coresOf(t)
	if !ok || !v.spec.Tile {
		return false
	}
	tile, ok := c.chip.Grid.TileAt(v.spec.X, v.spec.Y)
	page := t.Size() / uint64(len(cores))
	return ok && slices.Contains(cores, tile) && v.Address < t.Address+page &&
		t.Address < v.Address+v.Size
}

// joinFrom makes an interleaved tensor that starts with `first`, a part in the first bank, if its
// pages consist of complete parts. The joined parts lose their role.
func (c *repetitionDiff) joinFrom(parts []bankPart, first *bankPart) {
	second := slices.IndexFunc(parts, func(p bankPart) bool {
		return p.bank == 1 && p.offset == first.offset && p.varying.Role == first.varying.Role
	})
	if second < 0 {
		return
	}
	page := first.varying.sizeBefore(parts[second].varying.firstToken())
	spec := TensorSpec{Page: page, Address: first.offset}
	taken := map[*Varying]uint64{} // bytes of each part that belong to the tensor
	var values [][]byte
	for number := uint64(0); page > 0; number++ {
		v, from := pageOf(parts, first.varying.Role, &spec, c.chip.Grid, number)
		row := number / uint64(c.chip.Grid.InterleavedBankCount())
		if v == nil || row > 0 && c.bufferStarts[spec.Address+row*spec.pageStride(c.chip.Grid)] {
			break
		}
		size := min(page, v.Size-from)
		values = appendEach(values, v.values, from, size)
		if taken[v] += size; size < page {
			break
		}
	}
	for v, bytes := range taken {
		if bytes != v.Size {
			return
		}
	}
	if len(taken) < 2 {
		return
	}
	joined := *first.varying
	for v := range taken {
		joined.Line = min(joined.Line, v.Line)
		v.Role = ""
	}
	joined.Place, joined.Address, joined.Size = "interleaved", first.offset, uint64(len(values[0]))
	joined.spec = spec
	joined.setType(values, &piece{memory: true, address: joined.Address})
	*first.varying = joined
	first.bank = -1 // no part of a bank any more
}

// pageOf returns the part that contains a page of an interleaved tensor, and the offset of the page
// in it, or nil.
func pageOf(parts []bankPart, role string, t *TensorSpec, grid *chips.Grid,
	number uint64) (v *Varying, from uint64) {
	banks := uint64(grid.InterleavedBankCount())
	at := t.Address + number/banks*t.pageStride(grid)
	for _, p := range parts {
		if p.bank == int(number%banks) && p.varying.Role == role && at >= p.offset &&
			at-p.offset < p.varying.Size {
			return p.varying, at - p.offset
		}
	}
	return nil, 0
}

// appendEach appends the same range of each of the values to the corresponding element of `to`.
func appendEach(to, values [][]byte, from, size uint64) [][]byte {
	if to == nil {
		to = make([][]byte, len(values))
	}
	for i := range values {
		to[i] = append(to[i], values[i][from:from+size]...)
	}
	return to
}

// accessed is the number of bytes of an input or output that one command accesses.
type accessed struct {
	token int
	size  uint64
}

// firstToken returns the first command that accesses an input or output.
func (v *Varying) firstToken() int { return v.accesses[0].token }

// sizeBefore returns the number of bytes of an input or output that are accessed before a command.
func (v *Varying) sizeBefore(token int) (size uint64) {
	for _, a := range v.accesses {
		if a.token < token {
			size += a.size
		}
	}
	return size
}
