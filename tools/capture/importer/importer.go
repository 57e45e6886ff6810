// Package importer makes an image of a trace: Linux's mmiotrace, QEMU's
// memory_region_ops and vfio_region trace events, or what tools/capture/record writes.
//
// A reader of package traces turns the text into accesses. Passes then give them back the meaning
// they had in the program that was recorded, in this order:
//
//	lift      BAR offsets behind movable windows become (tile, address)
//	fix       host memory at addresses that kernels have compiled in keeps them
//	iATU      regions of host memory become host windows; nothing stores to the iATU
//	host      addresses in host memory become relocations
//	tensors   stores to an input and loads from an output become copies
//	fold      loops that wait become polls with a deadline
//	expect    commands are made; all other loads are compared with the recorded values
//	drop      windows are pointed only where that changes something
//	coalesce  neighbouring accesses are copies, fills and compares
//	fence     bulk copies are complete before anything that may depend on them
//	fill      host memory gets its contents first
//	mark      text in the trace becomes marks
//	cut       Frame and Stop become sequences of their own
//	safe      where several tiles ran, a sequence holds them in reset
//
// Whatever an image cannot express, or a trace does not hold, is refused with
// the line it stands in. Nothing is left out silently: the Report counts it.
package importer

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// The formats that Import reads.
const FromMmiotrace, FromQemu, FromRecord = traces.FromMmiotrace, traces.FromQemu, traces.FromRecord

// Passes are the names that Options.Without takes.
var Passes = []string{"lift", "fold", "expect", "drop", "coalesce", "fence", "mark"}

// Options say what a trace is of and what is wanted from it.
type Options struct {
	From  string        // FromMmiotrace, FromQemu or FromRecord
	Board *boards.Board // nil: by the PCI ids in the trace; one without ids is of any device
	// mmiotrace: VVVV:DDDD or BB:DD.F, record: VVVV:DDDD or DDDD:BB:DD.F, where a trace has several
	// devices, or one that no board has the ids of
	Device string

	// the sizes of Board's BARs are limits: the image asks for as much as was accessed
	Generic   bool
	Subsystem uint32 // for the image's target

	Incomplete bool // record: take one that is not whole

	Regions []traces.Region // of QEMU's, that are the device
	Bar     uint8           // where tensors and ranges lie that name no tile

	Tool   string // who imports, for Origin.Tool
	Source string // what is imported, for Origin.Source

	DeadlineUs uint32  // of every poll; 0: ten times what the recorded loop took, at least a second
	Poll       []Range // loads from here are always polls
	Ignore     []Range // loads from here are executed, whatever they give
	Reached    []Range // loads from here are polls until a counter has reached their value
	Rising     bool    // so are polls of all registers that are probably counters

	Inputs, Outputs []TensorSpec

	// Host is what the device reached of host memory. A run begins with the data in it.
	Host []HostSpec

	// DisabledBank is 1 and the number of the DRAM bank that is disabled on the card. 0: all are
	// enabled.
	DisabledBank int

	// OmitManagement leaves out accesses of the ARC tile, of the PCIe tile, and outside of TLB
	// windows, of a board that has such windows.
	OmitManagement bool

	// FixedHost keeps the recorded addresses at which tiles reach host memory. It is so anyway if
	// the program stores no such address.
	FixedHost bool

	// Part is what to import of the trace; the zero value is all of it.
	Part Part

	// Frame and Stop cut the image into sequences: "init" is what comes before
	// Frame, "frame" is that, "stop" is Stop. What lies in none is left out, and
	// inputs and outputs are those of the frame. The zero values: one, "main".
	Frame, Stop Part

	Without  []string          // passes to leave out
	Progress func(bytes int64) // told now and then how much of the trace is read; may be nil
}

// Pass is what one pass did.
type Pass struct {
	Name string `json:"name"`
	Did  string `json:"did"` // one line
}

// Report says what became of a trace.
type Report struct {
	Board    string           `json:"board"`
	Passes   []Pass           `json:"passes"` // in the order they ran, "read" first
	Warnings []traces.Warning `json:"warnings"`
	Frames   *Frames          `json:"frames,omitempty"` // where they were looked for
}

// String returns what was found, one line a pass and one line a warning.
func (r *Report) String() string {
	var b strings.Builder
	if r.Frames != nil {
		b.WriteString(r.Frames.String())
	}
	for _, p := range r.Passes {
		fmt.Fprintf(&b, "%-9s %s\n", p.Name, p.Did)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "warning   %s\n", w)
	}
	return b.String()
}

// Import makes an image of a trace: the sequence "main", and "safe" where the
// program let several tiles run. The error is an *Error.
func Import(r io.Reader, o Options) (*lmb.Image, *Report, error) {
	image, report, err := ImportPacked(r, o)
	if err == nil {
		image.Unpack()
	}
	return image, report, err
}

// ImportPacked is Import for traces of millions of accesses: the sequences of its image stream
// their commands.
func ImportPacked(r io.Reader, o Options) (*lmb.Image, *Report, error) {
	l, t, err := lifted(r, o, false)
	if err != nil {
		return nil, nil, err
	}
	return l.finish(t)
}

// finish makes the image of the steps.
func (l *lifter) finish(t *traces.Trace) (*lmb.Image, *Report, error) {
	if l.part.left > 0 {
		t.Ignored = append(t.Ignored, traces.Count{Name: "accesses outside the part",
			N: l.part.left})
	}
	report := &Report{Board: l.board.Name, Warnings: []traces.Warning{}}
	report.add("read", l.read(t))
	makes := &maker{program: l.program, commands: &lmb.Packed{}, pointed: l.points}
	for _, pass := range l.passes(makes) {
		out, err := pass.run()
		if err != nil {
			return nil, nil, err
		}
		report.add(pass.name, out)
	}
	if l.with("fold") {
		report.add("", l.unmatched("--poll", l.o.Poll))
		report.add("", l.unmatched("--reached", l.o.Reached))
	}
	report.add("", l.unmatched("--ignore", l.o.Ignore))
	report.add("", l.unanswered())
	image, err := l.image(t, makes.sequences)
	return image, report, err
}

// lifted reads a trace.
func lifted(r io.Reader, o Options, exactTimes bool) (*lifter, *traces.Trace, error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	l := &lifter{program: &program{o: o, matched: map[Range]bool{}}, slots: map[int]*slot{},
		aimOf: map[aimKey]int32{}, exactTimes: exactTimes}
	t, err := traces.Scan(r, o.source(), l)
	if err != nil {
		return nil, nil, err
	}
	if l.board == nil {
		l.Start(t.Board)
	}
	if o.DisabledBank > 0 && chips.Of(l.board).WithoutBank(o.DisabledBank-1) == nil {
		return nil, nil, traces.Usage("board %s has no DRAM bank %d that may be disabled",
			l.board.Name, o.DisabledBank-1)
	}
	err = l.part.check("part", t.Lines)
	if err == nil {
		err = l.cut.check(t.Lines)
	}
	l.settle(0)
	return l, t, err
}

// outcome is what a pass did, in one line, and what of it a user should look at.
type outcome struct {
	did      string
	warnings []traces.Warning
}

func (o *outcome) warn(line int, format string, a ...any) {
	o.warnings = append(o.warnings, traces.Warning{Line: line, Text: fmt.Sprintf(format, a...)})
}

// clauses are the parts of a line about n things that a pass did.
type clauses []string

// add appends one, if there is any such thing.
func (c *clauses) add(n int, format string, a ...any) {
	if n > 0 {
		*c = append(*c, fmt.Sprintf(format, a...))
	}
}

func (r *Report) add(pass string, o outcome) {
	if o.did != "" {
		r.Passes = append(r.Passes, Pass{pass, o.did})
	}
	r.Warnings = append(r.Warnings, o.warnings...)
}

// pass is one of the passes over a program.
type pass struct {
	name string
	run  func() (outcome, error)
}

// meaning are the passes that find out what the steps of a program are.
func (l *lifter) meaning() []pass {
	p := l.program
	return []pass{
		{"lift", l.lift},
		{"fix", (&hostFixer{program: p}).run},
		{"iATU", l.iatu},
		{"host", (&relocator{program: p, halves: l.halves}).run},
		{"tensors", (&assigner{program: p}).run},
		{"fold", (&folder{program: p}).run},
	}
}

func (l *lifter) passes(m *maker) []pass {
	p := l.program
	return append(l.meaning(),
		pass{"pauses", p.pauses},
		pass{"expect", m.make},
		pass{"drop", m.drop},
		pass{"coalesce", m.coalesce},
		pass{"fence", m.fenced},
		pass{"fill", m.hostFilled},
		pass{"mark", l.mark},
		pass{"cut", m.cutPass},
		pass{"safe", p.safe})
}

// source is what a reader has to know.
func (o *Options) source() traces.Source {
	return traces.Source{From: o.From, Board: o.Board, Device: o.Device, Incomplete: o.Incomplete,
		Regions: o.Regions, Progress: o.Progress}
}

func (o *Options) check() error {
	for _, name := range o.Without {
		if !slices.Contains(Passes, name) {
			return traces.Usage("no pass %q; passes: %s", name, strings.Join(Passes, ", "))
		}
	}
	for _, r := range slices.Concat(o.Poll, o.Ignore, o.Reached) {
		if r.Last < r.First {
			return traces.Usage("range 0x%x-0x%x ends before its start", r.First, r.Last)
		}
	}
	if o.Bar > 5 {
		return traces.Usage("BAR %d: a BAR is 0 to 5", o.Bar)
	}
	if (o.Frame == Part{}) && (o.Stop != Part{}) {
		return traces.Usage("--stop needs --frame")
	}
	return o.checkHost()
}

// with reports whether a pass is to run.
func (p *program) with(pass string) bool { return !slices.Contains(p.o.Without, pass) }
