package report

import (
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

// Kinds of slices.
const (
	kindRun      = "run"
	kindSequence = "sequence"
	kindCall     = "call"
	kindScope    = "scope"    // between Begin and End
	kindPhase    = "phase"    // from a Mark to the next, or to the end of what it is in
	kindCommand  = "command"  // one
	kindCommands = "commands" // neighbours taken together
)

const (
	// slicesMax is about how many slices a timeline has, one level of nesting
	// alone. Perfetto opens ten times as many with ease.
	slicesMax = 100_000

	// depthMax bounds the nesting; scopes further in are in the tables only.
	depthMax = 32

	// looseMax bounds the scopes that do not nest.
	looseMax = 1000
)

// Slice is a stretch of a run. Its children lie inside it, one after the other.
type Slice struct {
	Name     string
	Kind     string
	Start    int64 // nanoseconds from the start of the run
	Ns       int64
	Command  uint32 // index in the image of the first
	Count    uint64 // commands in it, of a leaf
	Bytes    uint64
	Opcode   string // of all commands of a leaf, empty where they differ
	Mostly   string // the opcode that most of the time went to, where they differ
	Window   string
	Offset   string
	Children []Slice

	shares *[gen.OpcodeEnd]int64 // nanoseconds by opcode, of what was put together
}

// End is where the slice ends.
func (s *Slice) End() int64 { return s.Start + s.Ns }

// walk follows the stamps of a run through sequences, calls and scopes.
type walk struct {
	d        *decoder
	commands []uint32
	at       []int64
	build    bool  // make slices; the decoder's tables are filled in any case
	mergeNs  int64 // what is shorter is put together

	stack []frame
	loose map[int]frame // by name: open scopes left by the sequence they began in
	cross []Slice       // scopes that ended, and do not nest
}

// frame is a slice that has not ended.
type frame struct {
	Slice
	index int // of the sequence or of the name
}

// all walks the whole run.
func (w *walk) all() *Slice {
	view, first := w.d.view, w.at[0]
	safe := view.SequenceByName("safe")
	w.stack, w.loose = []frame{{Slice: Slice{Name: "run", Kind: kindRun}}}, map[int]frame{}
	called := -1 // the sequence that the command before calls
	for i, index := range w.commands {
		start, end := w.at[i]-first, w.at[i+1]-first
		switch {
		case called >= 0:
			w.open(Slice{Name: w.d.image.Sequences[called].Name, Kind: kindCall, Start: start, Command: index}, called)
		case i == 0 || safe >= 0 && index == view.Sequences[safe].First:
			// "safe" after a failure ends all that was under way.
			w.unwind(1, start)
			of := w.d.sequenceOf(index)
			w.open(Slice{Name: w.d.image.Sequences[of].Name, Kind: kindSequence, Start: start, Command: index}, of)
		}
		called = -1
		for _, m := range w.d.marks[index] {
			w.mark(m, index, start)
		}
		switch c := &view.Commands[index]; c.Opcode {
		case gen.OpcodeEnd:
			w.leave(end)
		case gen.OpcodeCall:
			called = int(c.Index)
		default:
			w.child(w.leaf(c, index, start, end))
		}
	}
	last := w.at[len(w.commands)] - first
	w.unwind(1, last)
	w.stack[0].Ns = last
	return &w.stack[0].Slice
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
		t, _ := boards.UnpackTarget(c.Mask)
		s.Offset = fmt.Sprintf("tile %d,%d 0x%x", t.X, t.Y, c.Value)
	}
	return s
}

// child puts a slice that has ended into the one under way.
func (w *walk) child(s Slice) {
	if w.build {
		w.append(&w.stack[len(w.stack)-1].Slice, s)
	}
}

// append adds a child, or makes it part of the one before.
func (w *walk) append(parent *Slice, s Slice) {
	n := len(parent.Children)
	if w.mergeNs == 0 || n == 0 || s.End()-parent.Children[n-1].Start > w.mergeNs {
		parent.Children = append(parent.Children, s)
		return
	}
	parent.Children[n-1].join(&s)
}

// join makes one slice of two neighbours.
func (s *Slice) join(next *Slice) {
	shares := s.spent()
	for op, ns := range next.spent() {
		shares[op] += ns
	}
	s.Kind, s.Ns, s.Children, s.shares = kindCommands, next.End()-s.Start, nil, &shares
	s.Count += next.Count
	s.Bytes = sum(s.Bytes, next.Bytes)
	s.Offset = ""
	if s.Window != next.Window {
		s.Window = ""
	}
	if s.Opcode != next.Opcode {
		s.Opcode, s.Name = "", "commands"
	}
	s.Mostly = ""
	if s.Opcode == "" {
		s.Mostly = opcodeNames[slices.Index(shares[:], slices.Max(shares[:]))]
	}
}

// spent is the slice's time by opcode.
func (s *Slice) spent() (shares [gen.OpcodeEnd]int64) {
	if s.shares != nil {
		return *s.shares
	}
	if op := slices.Index(opcodeNames[:], s.Opcode); op > 0 {
		shares[op] = s.Ns
	}
	for i := range s.Children {
		for op, ns := range s.Children[i].spent() {
			shares[op] += ns
		}
	}
	return shares
}

// opcodeNames are the opcodes as reports have them, by number; 0 has none.
var opcodeNames = func() (names [gen.OpcodeEnd]string) {
	for op := gen.OpcodeWrite; op < gen.OpcodeEnd; op++ {
		names[op] = lower(gen.EnumNamesOpcode[op])
	}
	return names
}()

func (w *walk) open(s Slice, index int) { w.stack = append(w.stack, frame{s, index}) }

// close ends the slice on top of the stack.
func (w *walk) close(end int64) {
	top := &w.stack[len(w.stack)-1]
	top.Ns = end - top.Start
	w.spent(top)
	s := top.Slice
	for i := range s.Children {
		s.Count += s.Children[i].Count
		s.Bytes = sum(s.Bytes, s.Children[i].Bytes)
	}
	w.stack = w.stack[:len(w.stack)-1]
	w.child(s)
}

// spent adds a slice that has ended to the tables.
func (w *walk) spent(f *frame) {
	switch f.Kind {
	case kindScope:
		w.d.scopes[f.index].add(f.Command, f.Ns, 0)
	case kindPhase:
		w.d.phases[f.index].add(f.Command, f.Ns, 0)
	default:
		w.d.sequences[f.index].add(f.Command, f.Ns, 0)
	}
}

// leave ends a sequence.
func (w *walk) leave(end int64) {
	at := len(w.stack) - 1
	for w.stack[at].Kind != kindSequence && w.stack[at].Kind != kindCall {
		at--
	}
	w.unwind(at, end)
}

// unwind ends all slices of the stack from at on. Scopes that are still open
// there do not end with them: they may later, and then do not nest.
func (w *walk) unwind(at int, end int64) {
	for len(w.stack) > at {
		if top := len(w.stack) - 1; w.stack[top].Kind == kindScope {
			f := w.take(top)
			w.loose[f.index] = f
		} else {
			w.close(end)
		}
	}
}

// take removes a slice from the stack; what was in it is in the one below.
func (w *walk) take(at int) frame {
	f := w.stack[at]
	for i := range f.Children {
		w.append(&w.stack[at-1].Slice, f.Children[i])
	}
	f.Children = nil
	w.stack = slices.Delete(w.stack, at, at+1)
	return f
}

func (w *walk) mark(m mark, index uint32, start int64) {
	name := m.name
	switch m.kind {
	case gen.MarkKindPoint:
		w.endPhase(start)
		if len(w.stack) < depthMax {
			w.open(Slice{Name: w.d.names[name], Kind: kindPhase, Start: start, Command: index}, name)
		}
	case gen.MarkKindBegin:
		// A second Begin of a name makes the first forgotten.
		w.find(name)
		scope := Slice{Name: w.d.names[name], Kind: kindScope, Start: start, Command: index}
		if len(w.stack) < depthMax {
			w.open(scope, name)
		} else {
			w.loose[name] = frame{scope, name}
		}
	case gen.MarkKindEnd:
		w.endScope(name, start)
	}
}

func (w *walk) endPhase(end int64) {
	if w.stack[len(w.stack)-1].Kind == kindPhase {
		w.close(end)
	}
}

// endScope ends a scope. One that is not the innermost slice, phases left
// out, does not nest, and gets a track of its own.
func (w *walk) endScope(name int, end int64) {
	top := len(w.stack) - 1
	if w.stack[top].Kind == kindPhase && w.stack[top-1].Kind == kindScope && w.stack[top-1].index == name {
		w.close(end)
		top--
	}
	if w.stack[top].Kind == kindScope && w.stack[top].index == name {
		w.close(end)
		return
	}
	if f := w.find(name); f != nil {
		f.Ns = end - f.Start
		w.spent(f)
		if w.build && len(w.cross) < looseMax {
			w.cross = append(w.cross, f.Slice)
		}
	}
}

// find takes an open scope from wherever it is, nil if there is none.
func (w *walk) find(name int) *frame {
	for i := range w.stack {
		if w.stack[i].Kind == kindScope && w.stack[i].index == name {
			f := w.take(i)
			return &f
		}
	}
	f, ok := w.loose[name]
	if !ok {
		return nil
	}
	delete(w.loose, name)
	return &f
}
