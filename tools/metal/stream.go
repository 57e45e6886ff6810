package metal

import (
	"encoding/binary"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// Indices of the windows of every image. Memory and reset registers have a window each, so that a
// launch does not point one window at both alternately.
const (
	memory = iota
	registers

	windowSize = 2 << 20 // bytes; both chips have TLB windows of this size
	width      = 4       // bytes of every access; bulk copies may use wider accesses
)

func windows() []lmb.Window {
	tlb := func(name string) lmb.Window {
		return lmb.Window{Name: name, Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.AnySlot,
			Size: windowSize}}
	}
	return []lmb.Window{tlb("memory"), tlb("registers")}
}

func targets(b *boards.Board) []lmb.Device {
	// The image uses only TLB windows of 2 MiB, which are in BAR 0.
	return []lmb.Device{{Board: b.Name, Vendor: b.Vendor, Device: b.Device,
		Bars: [6]uint64{0: b.BarSizes[0]}}}
}

// stream is a list of commands to which calls append. It points windows only if necessary, and
// tracks the state of the cores.
type stream struct {
	commands []lmb.Command
	windows  [2]struct { // where the windows point
		known   bool // the other fields are valid
		target  fbs.TileRoute
		address uint64
	}
	held map[CoreCoord]bool // cores that are known to be in reset
	// cores of the traces whose kernels and constants are in the memory of the cores
	resident map[TraceID][]CoreCoord
	launched []CoreCoord     // cores on which a program was launched
	named    map[string]bool // names of all marks
	capture  *capture        // capture of which the stream is the sequence main; nil: none
}

func newStream() *stream {
	return &stream{held: map[CoreCoord]bool{}, resident: map[TraceID][]CoreCoord{},
		named: map[string]bool{}}
}

// lost makes the positions of the windows unknown, for example after a Call command.
func (s *stream) lost() {
	for i := range s.windows {
		s.windows[i].known = false
	}
}

// at appends the command c for an address of the tiles t. It appends a Point command before it if
// the window does not show that address.
func (s *stream) at(window uint16, t fbs.TileRoute, address uint64, c lmb.Command) {
	w, base := &s.windows[window], address&^(windowSize-1)
	if !w.known || w.target != t || w.address != base {
		w.known, w.target, w.address = true, t, base
		s.commands = append(s.commands,
			lmb.Command{Command: fbs.Command{Opcode: gen.OpcodePoint, Window: window, Value: base,
				Mask: t.Pack()}})
	}
	c.Window, c.Offset = window, uint32(address-base)
	s.commands = append(s.commands, c)
}

// pieces calls `do` for each part of a range of memory that fits into one position of a window.
// `first` is the offset of the part in the range, and n is its size.
func pieces(address, size uint64, do func(first, n uint64)) {
	for first := uint64(0); first < size; {
		n := min(size-first, windowSize-(address+first)%windowSize)
		do(first, n)
		first += n
	}
}

// copyIn appends commands that store constant data.
func (s *stream) copyIn(t fbs.TileRoute, address uint64, data []byte) {
	pieces(address, uint64(len(data)), func(first, n uint64) {
		c := fbs.Command{Opcode: gen.OpcodeCopyIn, Width: width, Mode: uint8(gen.AccessBulk)}
		s.at(memory, t, address+first, lmb.Command{Command: c, Data: data[first : first+n]})
	})
}

// tensor appends commands that copy the run r from or to a tensor. op is CopyIn or CopyOut, and
// index is the index of the tensor.
func (s *stream) tensor(op gen.Opcode, r run, index uint16) {
	address := r.address
	for _, part := range r.parts {
		size := part.end - part.first
		pieces(address, size, func(first, n uint64) {
			c := fbs.Command{Opcode: op, Width: width, Mode: uint8(gen.AccessBulk),
				Index: 1 + index, Amount: uint32(n), Value: part.first + first}
			s.at(memory, unicast(r.tile), address+first, lmb.Command{Command: c})
		})
		address += size
	}
}

// write appends a command that stores one word.
func (s *stream) write(window uint16, t fbs.TileRoute, address uint64, value uint32) {
	s.at(window, t, address,
		lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeWrite, Width: width,
			Value: uint64(value)}})
}

// arrive appends a fence and a load of any value from the address. The load is complete only after
// all earlier stores to the tiles t have arrived there.
func (s *stream) arrive(window uint16, t fbs.TileRoute, address uint64) {
	s.commands = append(s.commands, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
	s.at(window, t, address,
		lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeExpect, Width: width,
			Mode:   uint8(gen.ConditionEqual),
			Option: uint8(gen.PolicyFail)}})
}

// poll appends a command that waits until the word at an address has a value, for at most
// deadlineUs microseconds.
func (s *stream) poll(t fbs.TileRoute, address uint64, value uint32, deadlineUs uint32) {
	s.at(memory, t, address,
		lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeExpect, Width: width,
			Mode:   uint8(gen.ConditionEqual),
			Option: uint8(gen.PolicyFail), Index: 1, Amount: deadlineUs, Value: uint64(value),
			Mask: fbs.WidthMask(width)}})
}

// namesMax is the largest number of different marks in a stream, so that the notes of a file can
// hold them.
const namesMax = 60_000

// mark appends a mark with the text of the call to which the following commands belong. After
// namesMax different texts, it ignores all new ones.
func (s *stream) mark(name string) {
	if len(s.named) == namesMax && !s.named[name] {
		return
	}
	s.named[name] = true
	s.commands = append(s.commands,
		lmb.Command{Command: fbs.Command{Opcode: lmb.OpcodeMark, Mode: uint8(gen.MarkKindPoint)},
			Data: []byte(name)})
}

// safe returns the sequence safe, which executes after a failed run and puts all launched cores in
// reset. The result is empty if no program was launched.
func (s *stream) safe(g *grid) []lmb.Sequence {
	if len(s.launched) == 0 {
		return nil
	}
	safe, reset := newStream(), &chips.ForBoard(g.board).Grid.TensixReset
	for _, r := range rectangles(s.launched) {
		safe.write(registers, g.target(r), reset.Address, reset.Mask)
	}
	return []lmb.Sequence{{Name: "safe", Commands: safe.commands}}
}

// placed is a block and the cores in whose memory it must be stored.
type placed struct {
	block
	cores []CoreCoord
}

// store appends commands that store blocks. Each command stores a block to a rectangle of cores.
func (s *stream) store(g *grid, list []placed) {
	for _, p := range list {
		for _, r := range rectangles(p.cores) {
			s.copyIn(g.target(r), p.address, p.data)
		}
	}
}

// merge calls `of` for each core, and returns each different block once, with all cores that need
// it, in the order of `cores`.
func merge(cores []CoreCoord, of func(CoreCoord) []block) (list []placed) {
	index := map[string]int{}
	for _, c := range cores {
		for _, b := range of(c) {
			key := string(binary.LittleEndian.AppendUint64(nil, b.address)) + string(b.data)
			at, ok := index[key]
			if !ok {
				at = len(list)
				index[key] = at
				list = append(list, placed{block: b})
			}
			if !slices.Contains(list[at].cores, c) {
				list[at].cores = append(list[at].cores, c)
			}
		}
	}
	return list
}
