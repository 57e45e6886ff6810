package importer

import (
	"encoding/binary"
	"fmt"
	"io"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal/mock"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

const (
	blockBytesLeast = 32      // fewer are probably registers
	blockBytesKept  = 1 << 16 // the type is guessed from these
	blocksMost      = 100
)

// Blocks returns the blocks of data that a trace stores and loads, in the order of the trace, at
// most 100. It returns none if the trace cannot be read as one of a known board.
func Blocks(r io.Reader, o Options) []traces.Block {
	var f blockFinder
	if _, err := traces.Scan(r, o.traceSource(), &f); err != nil {
		return nil
	}
	f.endBlock()
	return f.blocks
}

// blockFinder is a sink that joins accesses to blocks. The mock of the board translates addresses
// in TLB windows to tiles.
type blockFinder struct {
	board      *boards.Board
	translator *mock.Translator
	line       int // of the access that is being translated

	op        mock.Op
	first     mock.Place
	size      uint64
	firstLine int
	data      []byte // the first bytes, at most blockBytesKept

	blocks        []traces.Block
	known         map[string]int // index in blocks, by operation, place and size
	stored, loads int
}

func (f *blockFinder) Start(b *boards.Board) {
	f.board, f.known = b, map[string]int{}
	f.translator = mock.NewTranslator(b, f.addAccess)
}

// Access omits what a mock rejects.
func (f *blockFinder) Access(a *traces.Access) error {
	op := mock.Load
	switch a.Op {
	case traces.OpStore:
		op = mock.Store
	case traces.OpLoad:
	default:
		return nil
	}
	f.line = a.Line
	_ = f.translator.Add(mock.Access{Op: op,
		Place: mock.Place{Bar: a.Bar, Address: a.Offset}, Width: a.Width, Value: a.Value})
	return nil
}

func (f *blockFinder) Block(a *traces.Access, data []byte) error {
	return traces.EachAccess(a, data, f.Access)
}

func (f *blockFinder) Device(int, int64, bool, uint64, []byte) error { return nil }

func (f *blockFinder) Both(int, int64, uint64, []byte) error { return nil }

func (f *blockFinder) Memory(int, uint64, uint64) error { return nil }

// addAccess extends the block, or ends it and begins the next block.
func (f *blockFinder) addAccess(a mock.Access) {
	next := f.first
	next.Address += f.size
	if a.Op != f.op || a.Place != next || f.size == 0 {
		f.endBlock()
		f.op, f.first, f.firstLine, f.size, f.data = a.Op, a.Place, f.line, 0, f.data[:0]
	}
	f.size += uint64(a.Width)
	if len(f.data) < blockBytesKept {
		f.data = append(f.data, traces.Bytes(a.Value, a.Width)...)
	}
}

func (f *blockFinder) endBlock() {
	if f.size < blockBytesLeast {
		return
	}
	place := fmt.Sprintf("bar%d+0x%x", f.first.Bar, f.first.Address)
	if f.first.Tile {
		place = fmt.Sprintf("%d,%d,0x%x", f.first.X, f.first.Y, f.first.Address)
	}
	key := fmt.Sprint(f.op, place, f.size)
	if i, ok := f.known[key]; ok {
		f.blocks[i].Times++
		return
	}
	if len(f.blocks) == blocksMost {
		return
	}
	flag, prefix, number := "--output", "out", &f.loads
	if f.op == mock.Store {
		flag, prefix, number = "--input", "in", &f.stored
	}
	*number++
	f.known[key] = len(f.blocks)
	b := traces.Block{Stored: f.op == mock.Store, Place: place, Bytes: int(f.size),
		Line: f.firstLine, Times: 1}
	data := f.data[:min(len(f.data), int(f.size))]
	dtype, why := guessType([][]byte{data}, &piece{address: f.first.Address, memory: true})
	if f.size%uint64(fbs.DTypeSize(dtype)) != 0 {
		dtype, why = gen.DTypeUint8, "bytes"
	}
	word, elements := lmb.DTypes[dtype], f.size/uint64(fbs.DTypeSize(dtype))
	b.Guess = fmt.Sprintf("%s[%d], %s", word, elements, why)
	if dtype == gen.DTypeUint8 && isProgram(data) {
		b.Guess = "a program for RISC-V"
	}
	b.Flag = fmt.Sprintf("%s %s%d=%s,%s,%d", flag, prefix, *number, place, word, elements)
	f.blocks = append(f.blocks, b)
}

// isProgram reports whether almost all words end with two 1 bits, as uncompressed instructions of
// RISC-V do.
func isProgram(data []byte) bool {
	words, code := 0, 0
	for at := 0; at+4 <= len(data); at += 4 {
		if w := binary.LittleEndian.Uint32(data[at:]); w != 0 {
			words++
			if w&3 == 3 {
				code++
			}
		}
	}
	return words > 0 && 10*code >= 9*words
}
