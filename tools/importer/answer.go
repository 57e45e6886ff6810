package importer

import (
	"slices"

	"lightmetal/fbs"
)

// cell is what the program stored last to 8 aligned bytes of memory.
type cell struct {
	tile        uint32 // as in register
	data, known uint64 // known: ones where data was stored
}

// findAnswers finds the words of memory that the device stored: those that
// give, in a load of their own, something else than the program stored there.
// A load among others beside it reads a result, not a flag.
func (f *folder) findAnswers() {
	cells := map[uint64][]cell{} // by address / 8
	for i := range f.steps.n {
		if !f.lone(i) {
			continue
		}
		r := f.registerOf(f.steps.at(i))
		if !slices.ContainsFunc(cells[r.address/8], func(c cell) bool { return c.tile == r.tile }) {
			cells[r.address/8] = append(cells[r.address/8], cell{tile: r.tile})
		}
	}
	if len(cells) == 0 {
		return
	}
	for i := range f.steps.n {
		switch s := f.steps.at(i); {
		case s.op == stepStore:
			f.store(cells, s)
		case f.lone(i):
			f.answer(cells, s)
		}
	}
}

// answer looks at what a load gave of a word that the program stored.
func (f *folder) answer(cells map[uint64][]cell, s *step) {
	r := f.registerOf(s)
	shift := 8 * (r.address % 8)
	mask, data := fbs.WidthMask(s.width)<<shift, s.value<<shift
	for _, c := range cells[r.address/8] {
		if c.tile == r.tile && c.known&mask == mask && c.data&mask != data {
			f.volatile[r] = true
		}
	}
}

// store has the cells that a step stores to know it.
func (f *folder) store(cells map[uint64][]cell, s *step) {
	r := f.registerOf(s)
	first, last := r.address/8, (r.address+s.size()-1)/8
	if last-first < uint64(len(cells)) {
		for word := first; word <= last; word++ {
			f.storeWord(cells[word], s, r.address, word)
		}
		return
	}
	for word, list := range cells {
		if word >= first && word <= last {
			f.storeWord(list, s, r.address, word)
		}
	}
}

// storeWord has the cells of 8 aligned bytes know what a step, from an address
// on, stores there.
func (f *folder) storeWord(list []cell, s *step, address, word uint64) {
	if len(list) == 0 {
		return
	}
	mask, data, moved := uint64(0), uint64(0), f.moved(s)
	for k := range uint64(8) {
		if at := 8*word + k - address; at < uint64(len(moved)) {
			mask |= 0xff << (8 * k)
			data |= uint64(moved[at]) << (8 * k)
		}
	}
	for j := range list {
		if c := &list[j]; f.reaches(s, c.tile) {
			c.data, c.known = c.data&^mask|data, c.known|mask
		}
	}
}

// lone tells whether a step loads from memory, and the steps beside it do not
// load what lies beside it.
func (f *folder) lone(i int) bool {
	s := f.steps.at(i)
	if s.op != stepLoad || s.tensor() >= 0 || !s.is(memoryStep) || s.run() > 1 {
		return false
	}
	beside := func(a, b *step) bool {
		return a.op == stepLoad && b.op == stepLoad && a.window == b.window && a.aim == b.aim && b.offset == a.offset+uint32(a.size())
	}
	return !(i > 0 && beside(f.steps.at(i-1), s)) && !(i+1 < f.steps.n && beside(s, f.steps.at(i+1)))
}

// reaches tells whether a store reaches a tile, or the BAR, of a cell.
func (f *folder) reaches(s *step, tile uint32) bool {
	if s.aim < 0 {
		return tile == uint32(f.windows[s.window].bar)
	}
	return tile&0x10000 != 0 && f.aims[s.aim].has(uint8(tile), uint8(tile>>8))
}
