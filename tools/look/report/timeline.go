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

const (
	kindSequence = "sequence"
	kindCall     = "call"
	kindScope    = "scope" // from a Begin mark to its End mark
	// from a mark to the next one, or to the end of the enclosing scope or sequence
	kindPhase    = "phase"
	kindCommand  = "command"  // one command
	kindCommands = "commands" // adjacent commands that share a slice
)

// Rows of a timeline. From rowScopes on, there are as many rows as scopes and phases are open at
// the same time. Each scope or phase is in the first row that is free, so that scopes may overlap.
const (
	rowSequences = iota
	rowCalls
	rowCommands
	rowScopes
	timelineRowsMax = 32 // scopes that would need further rows are only in the tables
)

// slicesMax is the approximate number of slices that a row of a timeline has at most. Perfetto
// opens ten times as many without problems.
const slicesMax = 100_000

// Slice is a part of a run. The slices of a row do not overlap.
type Slice struct {
	Name       string
	Kind       string
	Start      int64 // nanoseconds from the start of the run
	Ns         int64
	Command    uint32 // index in the image of the first command
	Count      uint64 // number of commands in the slice
	Bytes      uint64
	Opcode     string // opcode of all commands of the slice; empty: the opcodes differ
	MainOpcode string // the opcode that took most of the time, if the opcodes differ
	Window     string
	Offset     string

	opcodeNs *[opcodesCount]int64 // nanoseconds by opcodeIndex, of merged slices; nil: not merged
}

// End returns the time at which the slice ends.
func (s *Slice) End() int64 { return s.Start + s.Ns }

// timelineNs returns the duration of the run that a timeline shows, 0 if there is none.
func timelineNs(timeline [][]Slice) int64 {
	if len(timeline) == 0 || len(timeline[rowSequences]) == 0 {
		return 0
	}
	sequences := timeline[rowSequences]
	return sequences[len(sequences)-1].End()
}

// timelineBuilder makes the slices of a run from its time stamps. It follows the run through
// sequences, calls and scopes.
type timelineBuilder struct {
	profile    *profileBuilder
	commands   []uint32
	startTimes []int64
	makeSlices bool  // make slices; the tables of the profile are filled in any case
	mergeNs    int64 // adjacent commands that together take at most this time are merged

	rows    [][]Slice
	rowUsed []bool // for each row from rowScopes on: an open slice uses it
	// the running sequence, and the sequence that it calls, each followed by its open scopes
	stack []*openSlice
	// open scopes by name; also those that began in a sequence that has ended
	openScopes map[int]*openSlice
	count      uint64 // commands so far
	bytes      uint64
}

// openSlice is a slice that has not ended. Until then, Count and Bytes are the numbers of commands
// and bytes before it.
type openSlice struct {
	Slice
	index int // index of the sequence, or of the name of the scope or phase
	row   int
	phase *openSlice // current phase in this sequence or scope; nil: none
}

// addRun processes all commands of the run.
func (w *timelineBuilder) addRun() {
	view, first := w.profile.view, w.startTimes[0]
	safe := view.SequenceByName("safe")
	w.openScopes = map[int]*openSlice{}
	called := -1 // the sequence that the previous command calls; -1: none
	for i, index := range w.commands {
		start, end := w.startTimes[i]-first, w.startTimes[i+1]-first
		switch {
		case called >= 0:
			w.enterSequence(kindCall, called, rowCalls, index, start)
		case i == 0 || safe >= 0 && index == view.Sequences[safe].First:
			// If "safe" runs after a failure, it ends all open sequences and scopes.
			w.leaveSequences(0, start)
			sequence, _ := lmb.SequenceOf(view, int(index))
			w.enterSequence(kindSequence, sequence, rowSequences, index, start)
		}
		called = -1
		for _, m := range w.profile.marks[index] {
			w.applyMark(m, index, start)
		}
		switch c := &view.Commands[index]; c.Opcode {
		case gen.OpcodeEnd:
			w.leaveSequences(w.currentSequence(), end)
		case gen.OpcodeCall:
			called = int(c.Index)
			w.count++
		default:
			s := w.commandSlice(c, index, start, end)
			w.count++
			w.bytes = cappedSum(w.bytes, s.Bytes)
			w.appendSlice(rowCommands, s)
		}
	}
	w.leaveSequences(0, w.startTimes[len(w.commands)]-first)
}

func (w *timelineBuilder) commandSlice(c *fbs.Command, index uint32, start, end int64) Slice {
	s := Slice{Kind: kindCommand, Start: start, Ns: end - start, Command: index, Count: 1}
	if !w.makeSlices {
		return s
	}
	s.Opcode = opcodeNames[opcodeIndex(c)]
	s.Name = s.Opcode
	e := lmb.EffectOf(c)
	s.Bytes = e.Moved()
	if e.UsesWindow {
		s.Window = windowLabel(w.profile.image, int(c.Window))
		s.Offset = fmt.Sprintf("0x%x", c.Offset)
	}
	if c.Opcode == gen.OpcodePoint {
		t, _ := boards.UnpackTileRoute(c.Mask)
		s.Offset = fmt.Sprintf("tile %d,%d 0x%x", t.X, t.Y, c.Value)
	}
	return s
}

func (w *timelineBuilder) appendSlice(row int, s Slice) {
	if !w.makeSlices || row >= timelineRowsMax {
		return
	}
	for len(w.rows) <= row {
		w.rows = append(w.rows, nil)
	}
	w.rows[row] = appendMerged(w.rows[row], s, w.mergeNs)
}

// appendMerged appends a slice to a row, or merges it with the previous slice if both together take
// at most mergeNs.
func appendMerged(row []Slice, s Slice, mergeNs int64) []Slice {
	if n := len(row); n > 0 && mergeNs > 0 && s.End()-row[n-1].Start <= mergeNs {
		row[n-1].merge(&s)
		return row
	}
	return append(row, s)
}

func (s *Slice) merge(next *Slice) {
	shares := s.nsByOpcode()
	for op, ns := range next.nsByOpcode() {
		shares[op] += ns
	}
	s.Ns, s.opcodeNs = next.End()-s.Start, &shares
	s.Count += next.Count
	s.Bytes = cappedSum(s.Bytes, next.Bytes)
	s.Offset, s.MainOpcode = "", ""
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
		s.MainOpcode = opcodeNames[slices.Index(shares[:], most)]
	}
}

// nsByOpcode returns the time of a slice by opcode, as far as the opcodes are known.
func (s *Slice) nsByOpcode() (shares [opcodesCount]int64) {
	if s.opcodeNs != nil {
		return *s.opcodeNs
	}
	if op := slices.Index(opcodeNames[:], cmp.Or(s.Opcode, s.MainOpcode)); op >= 0 {
		shares[op] = s.Ns
	}
	return shares
}

// opcodesCount is the number of kinds of commands, with polls and ends.
const opcodesCount = int(gen.OpcodeWith) + 1

// opcodeNames contains the names of lmb.CommandKinds, and last that of End.
var opcodeNames = func() (names [opcodesCount]string) {
	for i, kind := range lmb.CommandKinds {
		names[i] = lmb.OpcodeName(kind)
	}
	names[opcodesCount-1] = lmb.OpcodeName(gen.OpcodeEnd)
	return names
}()

// opcodeIndex returns the index of a command's name in opcodeNames.
func opcodeIndex(c *fbs.Command) int {
	if i := slices.Index(lmb.CommandKinds, lmb.CommandKind(c)); i >= 0 {
		return i
	}
	return opcodesCount - 1
}

// beginSlice returns a new open slice. A scope or phase gets the first free row.
func (w *timelineBuilder) beginSlice(kind, name string, index, row int, command uint32,
	start int64) *openSlice {
	if row == rowScopes {
		free := slices.Index(w.rowUsed, false)
		if free < 0 {
			free = len(w.rowUsed)
			w.rowUsed = append(w.rowUsed, false)
		}
		w.rowUsed[free] = true
		row += free
	}
	return &openSlice{Slice: Slice{Name: name, Kind: kind, Start: start, Command: command,
		Count: w.count, Bytes: w.bytes}, index: index, row: row}
}

// releaseRow ends the phase in a slice that ends, and marks the row of the slice as free.
func (w *timelineBuilder) releaseRow(f *openSlice, end int64) {
	w.endSlice(f.phase, end)
	f.phase = nil
	if f.row >= rowScopes {
		w.rowUsed[f.row-rowScopes] = false
	}
}

// endSlice ends a slice, and adds it to the tables and to its row.
func (w *timelineBuilder) endSlice(f *openSlice, end int64) {
	if f == nil {
		return
	}
	w.releaseRow(f, end)
	f.Ns, f.Count, f.Bytes = end-f.Start, w.count-f.Count, w.bytes-f.Bytes
	list := w.profile.sequences
	switch f.Kind {
	case kindScope:
		list = w.profile.scopes
	case kindPhase:
		list = w.profile.phases
	}
	list[f.index].add(f.Command, f.Ns, 0)
	w.appendSlice(f.row, f.Slice)
}

func (w *timelineBuilder) enterSequence(kind string, sequence, row int, command uint32,
	start int64) {
	name := w.profile.image.Sequences[sequence].Name
	w.stack = append(w.stack, w.beginSlice(kind, name, sequence, row, command, start))
}

// currentSequence returns the position of the current sequence in the stack.
func (w *timelineBuilder) currentSequence() int {
	at := len(w.stack) - 1
	for w.stack[at].Kind == kindScope {
		at--
	}
	return at
}

// leaveSequences ends the sequences of the stack from position at on. Scopes that are open in them
// may end later, but the phases in these scopes end now.
func (w *timelineBuilder) leaveSequences(at int, end int64) {
	for len(w.stack) > at {
		f := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		if f.Kind == kindScope {
			w.endSlice(f.phase, end)
			f.phase = nil
		} else {
			w.endSlice(f, end)
		}
	}
}

func (w *timelineBuilder) applyMark(m mark, index uint32, start int64) {
	name, scope := w.profile.names[m.name], w.openScopes[m.name]
	if m.kind != gen.MarkKindPoint && scope != nil {
		delete(w.openScopes, m.name)
		w.stack = slices.DeleteFunc(w.stack, func(f *openSlice) bool { return f == scope })
	}
	switch m.kind {
	case gen.MarkKindPoint:
		in := w.stack[len(w.stack)-1]
		w.endSlice(in.phase, start)
		in.phase = w.beginSlice(kindPhase, name, m.name, rowScopes, index, start)
	case gen.MarkKindBegin:
		if scope != nil { // a second Begin with the same name replaces the first one
			w.releaseRow(scope, start)
		}
		w.openScopes[m.name] = w.beginSlice(kindScope, name, m.name, rowScopes, index, start)
		w.stack = append(w.stack, w.openScopes[m.name])
	case gen.MarkKindEnd:
		w.endSlice(scope, start)
	}
}
