package lmb

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Notes is the information in a file for people and host tools. Targets do not read it.
type Notes struct {
	Origin
	Captures []Capture
	Windows  []string // name of each window; empty: none
	Goldens  []Golden // for each tensor
	Marks    []Mark   // sorted by command
}

// Mark is a name before a command.
type Mark struct {
	Command int // index of the next command; at the end of a sequence, its End
	Kind    gen.MarkKind
	Name    string
}

// Fields of table Notes, in the order of their declaration.
const (
	notesTime = iota
	notesTool
	notesSource
	notesGit
	notesText
	notesWindows
	notesMarks
	notesGoldens
	notesCaptures
	notesArguments
	notesVerdict
	notesFields
)

// ReadNotes reads the notes of a file. fbs.Verify does not check them. The
// error is an *fbs.Error.
func ReadNotes(view *fbs.View) (*Notes, error) {
	n := &Notes{Windows: make([]string, len(view.Windows)),
		Goldens: make([]Golden, len(view.Tensors))}
	if len(view.Notes) == 0 {
		return n, nil
	}
	r := notesReader{t: fbs.RootTable(view.Notes, 4, notesFields, "notes"), view: view, notes: n}
	r.read()
	switch {
	case r.t.Err != nil:
		return nil, r.t.Err
	case r.err != nil:
		return nil, r.err
	}
	return n, nil
}

// notesReader reads the notes and records the first error.
type notesReader struct {
	t     *fbs.Table
	text  []byte
	view  *fbs.View
	notes *Notes
	err   error
}

func (r *notesReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &fbs.Error{Place: "notes", Reason: fmt.Sprintf(format, args...)}
	}
}

func (r *notesReader) read() {
	n := r.notes
	n.Time = fbs.StructField[uint64](r.t, notesTime)
	n.Tool, n.Source, n.Git = r.string(notesTool, "tool"), r.string(notesSource, "source"),
		r.string(notesGit, "git")
	n.Arguments = r.string(notesArguments, "arguments")
	n.Verdict = r.string(notesVerdict, "verdict")
	r.text = fbs.VectorField[byte](r.t, notesText, 1, fbs.NotesMax, "text")
	windows := fbs.VectorField[fbs.NameRange](r.t, notesWindows, 4, fbs.WindowsMax, "window names")
	if len(windows) != 0 && len(windows) != len(n.Windows) {
		r.fail("there are %d names of windows, but the image has %d windows", len(windows),
			len(n.Windows))
		return
	}
	for i, name := range windows {
		if name != 0 {
			n.Windows[i] = r.name(name, "window", i)
		}
	}
	for i, m := range fbs.VectorField[gen.MarkT](r.t, notesMarks, 4, fbs.CommandsMax, "marks") {
		switch {
		case m.Kind < gen.MarkKindPoint || m.Kind > gen.MarkKindEnd:
			r.fail("mark %d: the kind %d of the mark is unknown", i, m.Kind)
			return
		case int(m.Command) >= len(r.view.Commands):
			r.fail("mark %d: there is no command %d", i, m.Command)
			return
		case i > 0 && int(m.Command) < n.Marks[i-1].Command:
			r.fail("mark %d: command %d is before command %d of the previous mark", i, m.Command,
				n.Marks[i-1].Command)
			return
		case m.Reserved0 != 0 || m.Reserved1 != 0:
			r.fail("mark %d: a reserved field is not 0", i)
			return
		}
		n.Marks = append(n.Marks, Mark{int(m.Command), m.Kind, r.name(m.Name, "mark", i)})
	}
	r.goldens()
	r.captures()
}

func (r *notesReader) string(id int, what string) string {
	data := fbs.VectorField[byte](r.t, id, 1, fbs.NotesMax, what)
	if !fbs.IsPlainText(data) {
		r.fail("%s has an invisible or control character, or is not UTF-8", what)
	}
	return string(data)
}

func (r *notesReader) name(n fbs.NameRange, what string, index int) string {
	first, size := uint64(n>>8), uint64(n&fbs.NameMax)
	if size == 0 || first+size > uint64(len(r.text)) || !fbs.IsPlainText(r.text[first:][:size]) {
		r.fail("%s %d: the name is not inside the text of the notes, "+
			"is empty, has an invisible or control character, or is not UTF-8", what, index)
		return ""
	}
	return string(r.text[first:][:size])
}

func (r *notesReader) goldens() {
	for i, g := range fbs.VectorField[gen.GoldenT](r.t, notesGoldens, 4, fbs.TensorsMax,
		"goldens") {
		switch {
		case int(g.Tensor) >= len(r.view.Tensors):
			r.fail("golden comparison %d: there is no tensor %d", i, g.Tensor)
			return
		case g.Reserved != 0:
			r.fail("golden comparison %d: the reserved field is not 0", i)
			return
		}
		t := &r.view.Tensors[g.Tensor]
		golden := Golden{g.Kind, g.First, g.Second}
		if reason := golden.reason(); reason != "" {
			r.fail("golden comparison %d: %s", i, reason)
		}
		if t.Role != gen.RoleOutput || t.HasData == 0 || r.notes.Goldens[g.Tensor] != (Golden{}) {
			r.fail("golden comparison %d: tensor %d must be an output with golden data, "+
				"and must have only one golden comparison", i,
				g.Tensor)
		}
		r.notes.Goldens[g.Tensor] = golden
	}
}

func (r *notesReader) captures() {
	for i, c := range fbs.VectorField[gen.CaptureT](r.t, notesCaptures, 8, capturesMax,
		"captures") {
		if c.Reserved != 0 {
			r.fail("capture %d: the reserved field is not 0", i)
		}
		capture := Capture{Name: r.name(c.Name, "capture", i), Size: c.Size}
		for at, word := range []uint64{c.Sha0, c.Sha1, c.Sha2, c.Sha3} {
			binary.LittleEndian.PutUint64(capture.SHA256[8*at:], word)
		}
		r.notes.Captures = append(r.notes.Captures, capture)
	}
}

const capturesMax = 1 << 10

// reason returns the reason why a judgement is invalid, or "".
func (g *Golden) reason() string {
	low, high := math.Float32frombits(g.First), math.Float32frombits(g.Second)
	switch g.Kind {
	case gen.JudgementTolerance:
		if !(low >= 0 && low <= math.MaxFloat32 && high >= 0 && high <= math.MaxFloat32) {
			return "a tolerance must be finite and not negative"
		}
	case gen.JudgementCorrelation:
		if !(low >= -1 && low <= 1) || g.Second != 0 {
			return "the required correlation must be between -1 and 1"
		}
	default:
		return fmt.Sprintf("the kind %d of the comparison is unknown", g.Kind)
	}
	return ""
}

// notesOf returns the notes of an image without its marks. The encoder adds them when it numbers
// the commands.
func notesOf(image *Image) *Notes {
	n := &Notes{Origin: image.Origin, Captures: image.Captures}
	n.Tool, n.Source, n.Git = printable(n.Tool), printable(n.Source), printable(n.Git)
	n.Arguments, n.Verdict = printable(n.Arguments), printable(n.Verdict)
	for i := range image.Windows {
		n.Windows = append(n.Windows, image.Windows[i].Name)
	}
	for i := range image.Tensors {
		n.Goldens = append(n.Goldens, image.Tensors[i].Golden)
	}
	return n
}

// printable replaces characters that texts of an image must not contain, because names of files and
// programs may have any bytes.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if fbs.IsHidden(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// build returns the FlatBuffer of the notes.
func (n *Notes) build() ([]byte, error) {
	text := text{names: map[string]fbs.NameRange{}}
	windows := make([]fbs.NameRange, len(n.Windows))
	marks := make([]gen.MarkT, len(n.Marks))
	var goldens []gen.GoldenT
	var err error
	for i, name := range n.Windows {
		if name == "" {
			continue
		}
		if windows[i], err = text.addName(name); err != nil {
			return nil, fmt.Errorf("window %d: %w", i, err)
		}
	}
	for i, m := range n.Marks {
		marks[i] = gen.MarkT{Command: uint32(m.Command), Kind: m.Kind}
		if marks[i].Name, err = text.addName(m.Name); err != nil {
			return nil, fmt.Errorf("mark before command %d: %w", m.Command, err)
		}
	}
	for i, g := range n.Goldens {
		if g != (Golden{}) {
			goldens = append(goldens, gen.GoldenT{Tensor: uint16(i), Kind: g.Kind, First: g.First,
				Second: g.Second})
		}
	}
	captures, err := n.buildCaptures(&text)
	if err != nil {
		return nil, err
	}
	b := flatbuffers.NewBuilder(1024)
	vectors := [notesFields]flatbuffers.UOffsetT{
		notesTool: bytesVector(b, []byte(n.Tool)), notesSource: bytesVector(b, []byte(n.Source)),
		notesGit:  bytesVector(b, []byte(n.Git)),
		notesText: bytesVector(b, text.bytes),
		notesWindows: vector(b, gen.NotesStartWindowsVector, windows,
			func(name fbs.NameRange) { b.PrependUint32(name) }),
		notesGoldens: vector(b, gen.NotesStartGoldensVector, goldens, func(g gen.GoldenT) {
			gen.CreateGolden(b, g.Tensor, g.Kind, g.Reserved, g.First, g.Second)
		}),
		notesMarks: vector(b, gen.NotesStartMarksVector, marks, func(m gen.MarkT) {
			gen.CreateMark(b, m.Command, m.Name, m.Kind, m.Reserved0, m.Reserved1)
		}),
		notesArguments: bytesVector(b, []byte(n.Arguments)),
		notesVerdict:   bytesVector(b, []byte(n.Verdict)),
	}
	if len(captures) > 0 {
		vectors[notesCaptures] = vector(b, gen.NotesStartCapturesVector, captures,
			func(c gen.CaptureT) {
				gen.CreateCapture(b, c.Size, c.Sha0, c.Sha1, c.Sha2, c.Sha3, c.Name, 0)
			})
	}
	gen.NotesStart(b)
	gen.NotesAddTime(b, n.Time)
	for id := notesTool; id < notesFields; id++ {
		b.PrependUOffsetTSlot(id, vectors[id], 0)
	}
	b.Finish(gen.NotesEnd(b))
	return b.FinishedBytes(), nil
}

func (n *Notes) buildCaptures(text *text) (list []gen.CaptureT, err error) {
	for i, c := range n.Captures {
		word := func(n int) uint64 { return binary.LittleEndian.Uint64(c.SHA256[8*n:]) }
		capture := gen.CaptureT{Size: c.Size, Sha0: word(0), Sha1: word(1), Sha2: word(2),
			Sha3: word(3)}
		if capture.Name, err = text.addName(printable(c.Name)); err != nil {
			return nil, fmt.Errorf("capture %d: %w", i, err)
		}
		list = append(list, capture)
	}
	return list, nil
}

func bytesVector(b *flatbuffers.Builder, data []byte) flatbuffers.UOffsetT {
	if len(data) == 0 {
		return 0
	}
	return b.CreateByteVector(data)
}
