package report

import (
	"cmp"
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// Kinds of slices.
const (
	kindSequence = "sequence"
	kindCall     = "call"
	kindScope    = "scope"    // between Begin and End
	kindPhase    = "phase"    // from a Mark to the next, or to the end of what it is in
	kindCommand  = "command"  // one
	kindCommands = "commands" // neighbours taken together
)

// Rows of a timeline. Scopes and phases have as many as are open at a time: each is
// in the first that is free, so that none has to lie inside another.
const (
	rowSequences = iota
	rowCalls
	rowCommands
	rowScopes
	rowsOfTimeline = 32 // beyond, scopes are in the tables only
)

// slicesMax is about how many slices a row of a timeline has. Perfetto opens ten
// times as many with ease.
const slicesMax = 100_000

// Slice is a stretch of a run. Those of a row come one after the other.
type Slice struct {
	Name    string
	Kind    string
	Start   int64 // nanoseconds from the start of the run
	Ns      int64
	Command uint32 // index in the image of the first
	Count   uint64 // commands in it
	Bytes   uint64
	Opcode  string // of all commands of a leaf, empty where they differ
	Mostly  string // the opcode that most of the time went to, where they differ
	Window  string
	Offset  string

	shares *[gen.OpcodeEnd]int64 // nanoseconds by opcode, of what was put together
}

// End is where the slice ends.
func (s *Slice) End() int64 { return s.Start + s.Ns }

// tookOf returns the time of the run that a timeline shows, 0 if there is none.
func tookOf(timeline [][]Slice) int64 {
	if len(timeline) == 0 || len(timeline[rowSequences]) == 0 {
		return 0
	}
	sequences := timeline[rowSequences]
	return sequences[len(sequences)-1].End()
}

// walk follows the stamps of a run through sequences, calls and scopes.
type walk struct {
	d        *decoder
	commands []uint32
	at       []int64
	build    bool  // make slices; the decoder's tables are filled in any case
	mergeNs  int64 // shorter commands are merged

	rows  [][]Slice
	taken []bool // rows from rowScopes on
	// a sequence, what it calls, and behind each the scopes that are open in it
	stack []*frame
	open  map[int]*frame // scopes by name, also those that the sequence they began in has left
	count uint64         // commands so far
	bytes uint64
}

// frame is a slice that has not ended. Count and Bytes are those before it.
type frame struct {
	Slice
	index int // of the sequence or of the name
	row   int
	phase *frame // under way in it, nil: none
}

// all walks the whole run.
func (w *walk) all() {
	view, first := w.d.view, w.at[0]
	safe := view.SequenceByName("safe")
	w.open = map[int]*frame{}
	called := -1 // the sequence that the command before calls
	for i, index := range w.commands {
		start, end := w.at[i]-first, w.at[i+1]-first
		switch {
		case called >= 0:
			w.enter(kindCall, called, rowCalls, index, start)
		case i == 0 || safe >= 0 && index == view.Sequences[safe].First:
			// "safe" after a failure ends all that was under way.
			w.leave(0, start)
			w.enter(kindSequence, w.d.sequenceOf(index), rowSequences, index, start)
		}
		called = -1
		for _, m := range w.d.marks[index] {
			w.mark(m, index, start)
		}
		switch c := &view.Commands[index]; c.Opcode {
		case gen.OpcodeEnd:
			w.leave(w.innermost(), end)
		case gen.OpcodeCall:
			called = int(c.Index)
			w.count++
		default:
			s := w.leaf(c, index, start, end)
			w.count++
			w.bytes = sum(w.bytes, s.Bytes)
			w.put(rowCommands, s)
		}
	}
	w.leave(0, w.at[len(w.commands)]-first)
}

func (w *walk) leaf(c *fbs.Command, index uint32, start, end int64) Slice {
	s := Slice{Kind: kindCommand, Start: start, Ns: end - start, Command: index, Count: 1}
	if !w.build {
		return s
	}
	s.Opcode = opcodeNames[c.Opcode]
	s.Name = s.Opcode
	e := lmb.EffectOf(c)
	s.Bytes = e.Moved()
	if e.Size > 0 || c.Opcode == gen.OpcodePoint {
		s.Window = windowLabel(w.d.image, int(c.Window))
		s.Offset = fmt.Sprintf("0x%x", c.Offset)
	}
	if c.Opcode == gen.OpcodePoint {
		t, _ := boards.UnpackTileRoute(c.Mask)
		s.Offset = fmt.Sprintf("tile %d,%d 0x%x", t.X, t.Y, c.Value)
	}
	return s
}

// put appends a slice to a row.
func (w *walk) put(row int, s Slice) {
	if !w.build || row >= rowsOfTimeline {
		return
	}
	for len(w.rows) <= row {
		w.rows = append(w.rows, nil)
	}
	w.rows[row] = joined(w.rows[row], s, w.mergeNs)
}

// joined is a row with one more slice, which becomes part of the one before where
// both together take no longer than mergeNs.
func joined(row []Slice, s Slice, mergeNs int64) []Slice {
	if n := len(row); n > 0 && mergeNs > 0 && s.End()-row[n-1].Start <= mergeNs {
		row[n-1].join(&s)
		return row
	}
	return append(row, s)
}

// join makes one slice of two neighbours.
func (s *Slice) join(next *Slice) {
	shares := s.spent()
	for op, ns := range next.spent() {
		shares[op] += ns
	}
	s.Ns, s.shares = next.End()-s.Start, &shares
	s.Count += next.Count
	s.Bytes = sum(s.Bytes, next.Bytes)
	s.Offset, s.Mostly = "", ""
	if s.Window != next.Window {
		s.Window = ""
	}
	if s.Kind == kindCommand {
		s.Kind = kindCommands
	}
	switch {
	case s.Name == next.Name:
	case s.Kind == kindCommands:
		s.Opcode, s.Name = "", kindCommands
	default:
		s.Name = "several"
	}
	if most := slices.Max(shares[:]); most > 0 && s.Opcode == "" {
		s.Mostly = opcodeNames[slices.Index(shares[:], most)]
	}
}

// spent is a command's time by opcode, or that of several, as far as it is known.
func (s *Slice) spent() (shares [gen.OpcodeEnd]int64) {
	if s.shares != nil {
		return *s.shares
	}
	if op := slices.Index(opcodeNames[:], cmp.Or(s.Opcode, s.Mostly)); op > 0 {
		shares[op] = s.Ns
	}
	return shares
}

// opcodeNames are the opcodes as reports have them, by number; 0 has none.
var opcodeNames = func() (names [gen.OpcodeEnd]string) {
	for op := gen.OpcodeWrite; op < gen.OpcodeEnd; op++ {
		names[op] = lmb.OpcodeName(op)
	}
	return names
}()

// begin opens a slice.
func (w *walk) begin(kind, name string, index, row int, command uint32, start int64) *frame {
	if row == rowScopes {
		free := slices.Index(w.taken, false)
		if free < 0 {
			free = len(w.taken)
			w.taken = append(w.taken, false)
		}
		w.taken[free] = true
		row += free
	}
	return &frame{Slice: Slice{Name: name, Kind: kind, Start: start, Command: command,
		Count: w.count, Bytes: w.bytes}, index: index, row: row}
}

// release ends the phase in a slice that is no longer open, and makes room in its row.
func (w *walk) release(f *frame, end int64) {
	w.close(f.phase, end)
	f.phase = nil
	if f.row >= rowScopes {
		w.taken[f.row-rowScopes] = false
	}
}

// close ends a slice, and adds it to the tables.
func (w *walk) close(f *frame, end int64) {
	if f == nil {
		return
	}
	w.release(f, end)
	f.Ns, f.Count, f.Bytes = end-f.Start, w.count-f.Count, w.bytes-f.Bytes
	list := w.d.sequences
	switch f.Kind {
	case kindScope:
		list = w.d.scopes
	case kindPhase:
		list = w.d.phases
	}
	list[f.index].add(f.Command, f.Ns, 0)
	w.put(f.row, f.Slice)
}

// enter begins a sequence.
func (w *walk) enter(kind string, sequence, row int, command uint32, start int64) {
	w.stack = append(w.stack, w.begin(kind, w.d.image.Sequences[sequence].Name, sequence, row,
		command, start))
}

// innermost returns the position of the current sequence in the stack.
func (w *walk) innermost() int {
	at := len(w.stack) - 1
	for w.stack[at].Kind == kindScope {
		at--
	}
	return at
}

// leave ends the sequences of the stack from at on. Scopes that are still open
// there may end later; the phases in them do not go on.
func (w *walk) leave(at int, end int64) {
	for len(w.stack) > at {
		f := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		if f.Kind == kindScope {
			w.close(f.phase, end)
			f.phase = nil
		} else {
			w.close(f, end)
		}
	}
}

func (w *walk) mark(m mark, index uint32, start int64) {
	name, scope := w.d.names[m.name], w.open[m.name]
	if m.kind != gen.MarkKindPoint && scope != nil {
		delete(w.open, m.name)
		w.stack = slices.DeleteFunc(w.stack, func(f *frame) bool { return f == scope })
	}
	switch m.kind {
	case gen.MarkKindPoint:
		in := w.stack[len(w.stack)-1]
		w.close(in.phase, start)
		in.phase = w.begin(kindPhase, name, m.name, rowScopes, index, start)
	case gen.MarkKindBegin:
		if scope != nil { // a second Begin of a name makes the first forgotten
			w.release(scope, start)
		}
		w.open[m.name] = w.begin(kindScope, name, m.name, rowScopes, index, start)
		w.stack = append(w.stack, w.open[m.name])
	case gen.MarkKindEnd:
		w.close(scope, start)
	}
}
