package lmb

import (
	"cmp"
	"slices"
	"sort"
	"unsafe"
)

// blocks are the ranges of memory that contain pieces of data. Overlapping pieces are in the same
// block. All pieces of a decoded image are in its file, so the blocks together are never larger
// than the file's payload, no matter how often a piece is used.
type blocks struct {
	data  [][]byte // sorted by address
	first []int32  // index of the first piece in each block
	count []int32  // number of pieces in each block
}

// addressOf returns the address of data. The address is constant, because neither objects on Go's
// heap nor mapped files move.
func addressOf(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// blocksOf returns the blocks of pieces. Pieces without bytes are in no block.
func blocksOf(pieces [][]byte) (b blocks) {
	order := make([]int32, 0, len(pieces))
	for i, data := range pieces {
		if len(data) > 0 {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(addressOf(pieces[x]), addressOf(pieces[y])), cmp.Compare(x, y))
	})
	var start, end uintptr // of the last block
	for _, i := range order {
		at := addressOf(pieces[i])
		past := at + uintptr(len(pieces[i]))
		last := len(b.data) - 1
		if last < 0 || at >= end {
			b.data, b.first, b.count = append(b.data, pieces[i]), append(b.first, i),
				append(b.count, 1)
			start, end = at, past
			continue
		}
		b.first[last] = min(b.first[last], i)
		b.count[last]++
		if past > end {
			// Both pieces are in one allocation, otherwise they could not overlap.
			end = past
			b.data[last] = unsafe.Slice(unsafe.SliceData(b.data[last]), end-start)
		}
	}
	return b
}

// find returns the index of the block that contains a piece, and the offset of the piece in it. The
// piece must be in a block.
func (b *blocks) find(piece []byte) (block int, offset uint64) {
	at := addressOf(piece)
	block = sort.Search(len(b.data), func(i int) bool { return addressOf(b.data[i]) > at }) - 1
	return block, uint64(at - addressOf(b.data[block]))
}

// byFirst returns the indexes of the blocks in the order of their first pieces.
func (b *blocks) byFirst() []int {
	order := make([]int, len(b.data))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(b.first[x], b.first[y]) })
	return order
}

// pieces returns all data of an image in the order in which Encode lays them out: data of tensors,
// then data of commands.
func (i *Image) pieces() (list [][]byte) {
	for t := range i.Tensors {
		list = append(list, i.Tensors[t].Data)
	}
	for _, s := range i.Sequences {
		for c := range s.All() {
			if HasPayload(&c.Command) {
				list = append(list, c.Data)
			}
		}
	}
	return list
}

// assignOffsets assigns the positions of all pieces and returns the payload offset of each.
func (p *payload) assignOffsets(pieces [][]byte) (offsets []uint64) {
	b := blocksOf(pieces)
	starts := make([]uint64, len(b.data))
	for _, i := range b.byFirst() {
		starts[i] = p.addPiece(b.data[i])
	}
	offsets = make([]uint64, len(pieces))
	for i, data := range pieces {
		if len(data) > 0 {
			block, offset := b.find(data)
			offsets[i] = starts[block] + offset
		}
	}
	return offsets
}

// SharedData is the data that several tensors and commands of an image use, completely or in part.
type SharedData struct {
	Blocks [][]byte // in the order of their first use
	blocks blocks   // the same blocks, sorted by address
	number []int    // for each element of blocks, its index in Blocks
}

// Shared returns the data that tensors and commands of an image share.
func (i *Image) Shared() *SharedData {
	all := blocksOf(i.pieces())
	s := &SharedData{}
	for at, count := range all.count {
		if count > 1 {
			s.blocks.data = append(s.blocks.data, all.data[at])
			s.blocks.first = append(s.blocks.first, all.first[at])
		}
	}
	s.number = make([]int, len(s.blocks.data))
	for number, at := range s.blocks.byFirst() {
		s.Blocks = append(s.Blocks, s.blocks.data[at])
		s.number[at] = number
	}
	return s
}

// Find returns the index in Blocks of the block that contains a piece of the image's data, and the
// offset of the piece in it. ok is false if the piece is not shared.
func (s *SharedData) Find(piece []byte) (block int, offset uint64, ok bool) {
	if len(piece) == 0 || len(s.Blocks) == 0 || addressOf(piece) < addressOf(s.blocks.data[0]) {
		return 0, 0, false
	}
	at, offset := s.blocks.find(piece)
	if offset >= uint64(len(s.blocks.data[at])) {
		return 0, 0, false
	}
	return s.number[at], offset, true
}
