package importer

import (
	"cmp"
	"slices"

	"lightmetal/fbs"
)

// cell is what the program stored last to 8 aligned bytes of memory.
type cell struct {
	word  uint64 // address / 8
	data  uint64
	tile  uint32 // as in register
	known uint8  // a bit for each byte of data that was stored
}

func (c cell) compare(o cell) int {
	return cmp.Or(cmp.Compare(c.word, o.word), cmp.Compare(c.tile, o.tile))
}

// findAnswers finds the words of memory that the device stored: those that
// give, in a load of their own, something else than the program stored there.
// A load among others next to it reads a result, not a flag.
func (f *folder) findAnswers() {
	first := 0 // store
	for first < f.steps.n && f.steps.at(first).op != stepStore {
		first++
	}
	count := 0
	for i := first; i < f.steps.n; i++ {
		if f.lone(i) {
			count++
		}
	}
	cells := make([]cell, 0, count)
	for i := first; i < f.steps.n; i++ {
		if f.lone(i) {
			r := f.registerOf(f.steps.at(i))
			cells = append(cells, cell{word: r.address / 8, tile: r.tile})
		}
	}
	slices.SortFunc(cells, cell.compare)
	cells = slices.Compact(cells)
	for i := first; i < f.steps.n && len(cells) > 0; i++ {
		switch s := f.steps.at(i); {
		case s.op == stepStore:
			f.store(cells, s)
		case f.lone(i):
			f.answer(cells, s)
		}
	}
}

// answer looks at what a load gave of a word that the program stored.
func (f *folder) answer(cells []cell, s *step) {
	r := f.registerOf(s)
	first := r.address % 8
	mask, data := fbs.WidthMask(s.width)<<(8*first), s.value<<(8*first)
	bytes := uint8(1<<s.width-1) << first
	at, _ := slices.BinarySearchFunc(cells, cell{word: r.address / 8, tile: r.tile}, cell.compare)
	if c := &cells[at]; c.known&bytes == bytes && c.data&mask != data {
		f.volatile[r] = true
	}
}

// store has the cells that a step stores to know it.
func (f *folder) store(cells []cell, s *step) {
	first := f.registerOf(s).address
	at, _ := slices.BinarySearchFunc(cells, cell{word: first / 8}, cell.compare)
	for ; at < len(cells) && cells[at].word <= (first+s.size()-1)/8; at++ {
		c := &cells[at]
		if !f.reaches(s, c.tile) {
			continue
		}
		for k, moved := uint64(0), f.moved(s); k < 8; k++ {
			if from := 8*c.word + k - first; from < uint64(len(moved)) {
				c.data = c.data&^(0xff<<(8*k)) | uint64(moved[from])<<(8*k)
				c.known |= 1 << k
			}
		}
	}
}

// lone reports whether a step loads from memory, and the steps next to it do not
// load what lies next to it.
func (f *folder) lone(i int) bool {
	s := f.steps.at(i)
	if s.op != stepLoad || s.tensor() >= 0 || !s.is(memoryStep) || s.run() > 1 {
		return false
	}
	beside := func(a, b *step) bool {
		return a.op == stepLoad && b.op == stepLoad && a.window == b.window && a.aim == b.aim &&
			b.offset == a.offset+uint32(a.size())
	}
	return !(i > 0 && beside(f.steps.at(i-1), s)) &&
		!(i+1 < f.steps.n && beside(s, f.steps.at(i+1)))
}

// reaches reports whether a store reaches a tile, or the BAR, of a cell.
func (f *folder) reaches(s *step, tile uint32) bool {
	if s.aim < 0 {
		return tile == uint32(f.windows[s.window].bar)
	}
	return tile&0x10000 != 0 && f.aims[s.aim].has(uint8(tile), uint8(tile>>8))
}
