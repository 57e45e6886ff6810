package importer

// This file makes one input or output of those parts of an interleaved buffer that lie in different
// DRAM banks, in what is proposed as a frame.

import (
	"cmp"
	"slices"

	"lightmetal/boards/chips"
)

// bankPart is an input or output in a DRAM bank, with its bytes in each repetition.
type bankPart struct {
	v      *Varying
	bank   int
	offset uint64 // in the bank
}

// joinBanks makes interleaved inputs and outputs of the parts in DRAM banks.
func (c *columns) joinBanks() {
	if c.chip.Grid == nil || c.chip.Grid.InterleavedBanks() == 0 {
		return
	}
	for _, role := range []string{"input", "output"} {
		parts := c.bankParts(role)
		for i := range parts {
			if parts[i].bank == 0 && parts[i].v.Role == role {
				c.joinFrom(parts, &parts[i])
			}
		}
	}
	c.c.Varies = slices.DeleteFunc(c.c.Varies, func(v Varying) bool { return v.Role == "" })
}

// bankParts returns the inputs or outputs in DRAM banks, in the order of their offsets.
func (c *columns) bankParts(role string) (parts []bankPart) {
	grid := c.chip.Grid
	for i := range c.c.Varies {
		v := &c.c.Varies[i]
		if v.Role != role || v.bad != "" || !v.spec.Tile || v.spec.Line != 0 {
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

// isInterleavedIn reports whether a part that differs is in the banks' ranges of an interleaved
// tensor.
func (c *columns) isInterleavedIn(t *TensorSpec, v *Varying) bool {
	grid := c.chip.Grid
	if grid == nil || !v.spec.Tile {
		return false
	}
	tile, ok := grid.TileAt(v.spec.X, v.spec.Y)
	if !ok || grid.Kind(tile) != chips.DRAM {
		return false
	}
	_, offset, ok := grid.InterleavedBank(tile, v.Address)
	return ok && offset < t.Address+t.rows(grid)*t.stride(grid) && t.Address < offset+v.Size
}

// joinFrom makes an interleaved tensor that begins with a part in the first bank, if all of its
// pages are in parts, and parts have nothing else. The parts lose their role.
func (c *columns) joinFrom(parts []bankPart, first *bankPart) {
	second := slices.IndexFunc(parts, func(p bankPart) bool {
		return p.bank == 1 && p.offset == first.offset && p.v.Role == first.v.Role
	})
	if second < 0 {
		return
	}
	page := first.v.sizeBefore(parts[second].v.firstToken())
	spec := TensorSpec{Page: page, Address: first.offset}
	taken := map[*Varying]uint64{} // bytes
	var values [][]byte
	for number := uint64(0); page > 0; number++ {
		v, from := pageOf(parts, first.v.Role, &spec, c.chip.Grid, number)
		if v == nil {
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
	joined := *first.v
	for v := range taken {
		joined.Line = min(joined.Line, v.Line)
		v.Role = ""
	}
	joined.Place, joined.Address, joined.Size = "interleaved", first.offset, uint64(len(values[0]))
	joined.spec = spec
	joined.setType(values, &piece{memory: true, address: joined.Address})
	*first.v = joined
}

// pageOf returns the part that has a page of an interleaved tensor, and the offset of the page in
// it, or nil.
func pageOf(parts []bankPart, role string, t *TensorSpec, grid *chips.Grid,
	number uint64) (v *Varying, from uint64) {
	banks := uint64(grid.InterleavedBanks())
	at := t.Address + number/banks*t.stride(grid)
	for _, p := range parts {
		if p.bank == int(number%banks) && p.v.Role == role && at >= p.offset &&
			at-p.offset < p.v.Size {
			return p.v, at - p.offset
		}
	}
	return nil, 0
}

// appendEach appends a part of each of several values to each of others.
func appendEach(to, values [][]byte, from, size uint64) [][]byte {
	if to == nil {
		to = make([][]byte, len(values))
	}
	for i := range values {
		to[i] = append(to[i], values[i][from:from+size]...)
	}
	return to
}

// accessed is a part of an input or output that one command accesses.
type accessed struct {
	token int
	size  uint64
}

// firstToken returns the first command that accesses a part.
func (v *Varying) firstToken() int { return v.accesses[0].token }

// sizeBefore returns how many bytes from the start of a part are accessed before a command.
func (v *Varying) sizeBefore(token int) (size uint64) {
	for _, a := range v.accesses {
		if a.token < token {
			size += a.size
		}
	}
	return size
}
