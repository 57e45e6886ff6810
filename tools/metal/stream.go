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

// The windows of every image: one for memory, one for the reset registers, so
// that a launch does not move a single one to and fro.
const (
	memory = iota
	registers

	windowSize = 2 << 20 // both chips have windows of 2 MiB
	width      = 4       // of every access, bulk copies may be wider
)

func windows() []lmb.Window {
	tlb := func(name string) lmb.Window {
		return lmb.Window{Name: name, Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.NoSlot,
			Size: windowSize}}
	}
	return []lmb.Window{tlb("memory"), tlb("registers")}
}

func targets(b *boards.Board) []lmb.Device {
	// Windows of 2 MiB are in BAR 0, and nothing else is used.
	return []lmb.Device{{Board: b.Name, Vendor: b.Vendor, Device: b.Device,
		Bars: [6]uint64{0: b.BarSizes[0]}}}
}

// stream is a run of commands in the making: it points windows when they have
// to move, and knows what it has done to cores.
type stream struct {
	commands []lmb.Command
	windows  [2]struct {
		known   bool
		target  fbs.TileRoute
		address uint64
	}
	held map[CoreCoord]bool // cores known to be in reset
	// traces whose kernels and constants are in place, with their cores
	resident map[TraceID][]CoreCoord
	launched []CoreCoord     // cores that were ever let run
	named    map[string]bool // marks so far
	capture  *capture        // whose main sequence it is, nil: none
}

func newStream() *stream {
	return &stream{held: map[CoreCoord]bool{}, resident: map[TraceID][]CoreCoord{},
		named: map[string]bool{}}
}

// lost forgets where the windows point, as after a Call.
func (s *stream) lost() {
	for i := range s.windows {
		s.windows[i].known = false
	}
}

// at appends a command on an address of a target.
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

// pieces cuts a range of memory where a window ends.
func pieces(address, size uint64, do func(first, n uint64)) {
	for first := uint64(0); first < size; {
		n := min(size-first, windowSize-(address+first)%windowSize)
		do(first, n)
		first += n
	}
}

// copyIn stores constant data.
func (s *stream) copyIn(t fbs.TileRoute, address uint64, data []byte) {
	pieces(address, uint64(len(data)), func(first, n uint64) {
		c := fbs.Command{Opcode: gen.OpcodeCopyIn, Width: width, Mode: uint8(gen.AccessBulk)}
		s.at(memory, t, address+first, lmb.Command{Command: c, Data: data[first : first+n]})
	})
}

// tensor copies the parts of a tensor that make a run in or out.
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

// write stores one word.
func (s *stream) write(window uint16, t fbs.TileRoute, address uint64, value uint32) {
	s.at(window, t, address,
		lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeWrite, Width: width,
			Value: uint64(value)}})
}

// arrive makes the stores so far to a tile arrive there.
func (s *stream) arrive(window uint16, t fbs.TileRoute, address uint64) {
	s.commands = append(s.commands, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
	s.at(window, t, address,
		lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeExpect, Width: width,
			Mode:   uint8(gen.ConditionEqual),
			Option: uint8(gen.PolicyFail)}})
}

// poll waits for a word.
func (s *stream) poll(t fbs.TileRoute, address uint64, value uint32, deadlineUs uint32) {
	s.at(memory, t, address,
		lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeExpect, Width: width,
			Mode:   uint8(gen.ConditionEqual),
			Option: uint8(gen.PolicyFail), Index: 1, Amount: deadlineUs, Value: uint64(value),
			Mask: fbs.WidthMask(width)}})
}

// namesMax keeps the marks of a capture inside what the notes of a file hold.
const namesMax = 60_000

// mark names the call that the commands after it come from. Calls on objects
// beyond the first namesMax are not marked.
func (s *stream) mark(name string) {
	if len(s.named) == namesMax && !s.named[name] {
		return
	}
	s.named[name] = true
	s.commands = append(s.commands,
		lmb.Command{Command: fbs.Command{Opcode: lmb.OpcodeMark, Mode: uint8(gen.MarkKindPoint)},
			Data: []byte(name)})
}

// safe is the sequence that runs when a run fails: all cores go into reset.
func (s *stream) safe(g *grid) []lmb.Sequence {
	if len(s.launched) == 0 {
		return nil
	}
	safe, reset := newStream(), &chips.Of(g.board).Grid.Reset
	for _, r := range rectangles(s.launched) {
		safe.write(registers, g.target(r), reset.Address, reset.Mask)
	}
	return []lmb.Sequence{{Name: "safe", Commands: safe.commands}}
}

// placed is a block and the cores that are to have it.
type placed struct {
	block
	cores []CoreCoord
}

// store stores blocks, each to all its cores at once where they are a rectangle.
func (s *stream) store(g *grid, list []placed) {
	for _, p := range list {
		for _, r := range rectangles(p.cores) {
			s.copyIn(g.target(r), p.address, p.data)
		}
	}
}

// merge finds the cores of each different block. Lists are in the order of cores.
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
