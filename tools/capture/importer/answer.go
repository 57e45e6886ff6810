package importer

import (
	"cmp"
	"slices"

	"lightmetal/fbs"
)

// memoryWord is what the program last stored to 8 aligned bytes of memory.
type memoryWord struct {
	word  uint64 // address / 8
	data  uint64
	tile  uint32 // in the form of register.tile
	known uint8  // one bit for each byte of data that was stored
}

func (c memoryWord) compare(o memoryWord) int {
	return cmp.Or(cmp.Compare(c.word, o.word), cmp.Compare(c.tile, o.tile))
}

// findWrittenWords finds words of memory that the device writes: a single load returns another
// value than the program stored there. A load next to loads of adjacent words does not count,
// because it reads a result and not a flag.
func (f *pollDetector) findWrittenWords() {
	first := 0 // index of the first store
	for first < f.steps.count && f.steps.at(first).op != stepStore {
		first++
	}
	count := 0
	for i := first; i < f.steps.count; i++ {
		if f.isLoneLoad(i) {
			count++
		}
	}
	cells := make([]memoryWord, 0, count)
	for i := first; i < f.steps.count; i++ {
		if f.isLoneLoad(i) {
			r := f.registerOf(f.steps.at(i))
			cells = append(cells, memoryWord{word: r.address / 8, tile: r.tile})
		}
	}
	slices.SortFunc(cells, memoryWord.compare)
	cells = slices.Compact(cells)
	for i := first; i < f.steps.count && len(cells) > 0; i++ {
		switch s := f.steps.at(i); {
		case s.op == stepStore:
			f.updateWords(cells, s)
		case f.isLoneLoad(i):
			f.markIfChanged(cells, s)
		}
	}
}

// markIfChanged marks a register as volatile if a load returns another value than the program
// stored.
func (f *pollDetector) markIfChanged(cells []memoryWord, s *step) {
	r := f.registerOf(s)
	first := r.address % 8
	mask, data := fbs.WidthMask(s.width)<<(8*first), s.value<<(8*first)
	bytes := uint8(1<<s.width-1) << first
	at, _ := slices.BinarySearchFunc(cells, memoryWord{word: r.address / 8, tile: r.tile},
		memoryWord.compare)
	if c := &cells[at]; c.known&bytes == bytes && c.data&mask != data {
		f.volatile[r] = true
	}
}

// updateWords puts the data of a store into the words that it covers.
func (f *pollDetector) updateWords(cells []memoryWord, s *step) {
	first := f.registerOf(s).address
	at, _ := slices.BinarySearchFunc(cells, memoryWord{word: first / 8}, memoryWord.compare)
	for ; at < len(cells) && cells[at].word <= (first+s.size()-1)/8; at++ {
		c := &cells[at]
		if !f.storesTo(s, c.tile) {
			continue
		}
		for k, moved := uint64(0), f.dataOf(s); k < 8; k++ {
			if from := 8*c.word + k - first; from < uint64(len(moved)) {
				c.data = c.data&^(0xff<<(8*k)) | uint64(moved[from])<<(8*k)
				c.known |= 1 << k
			}
		}
	}
}

// isLoneLoad reports whether a step loads from memory, and the steps before and after it do not
// load the adjacent words.
func (f *pollDetector) isLoneLoad(i int) bool {
	s := f.steps.at(i)
	if s.op != stepLoad || s.tensorIndex() >= 0 || !s.hasFlag(flagMemory) || s.elementCount() > 1 {
		return false
	}
	isAdjacent := func(a, b *step) bool {
		return a.op == stepLoad && b.op == stepLoad && a.window == b.window &&
			a.target == b.target &&
			b.offset == a.offset+uint32(a.size())
	}
	return !(i > 0 && isAdjacent(f.steps.at(i-1), s)) &&
		!(i+1 < f.steps.count && isAdjacent(s, f.steps.at(i+1)))
}

// storesTo reports whether a store goes to a tile or BAR. `tile` has the form of register.tile.
func (f *pollDetector) storesTo(s *step, tile uint32) bool {
	if s.target < 0 {
		return tile == uint32(f.windows[s.window].bar)
	}
	return tile&0x10000 != 0 && f.targets[s.target].containsTile(uint8(tile), uint8(tile>>8))
}
