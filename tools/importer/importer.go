// Package importer makes an image of a trace: Linux's mmiotrace, QEMU's
// memory_region_ops and vfio_region trace events, or what tools/record writes.
//
// A reader turns the text into accesses. Passes then give them back the meaning
// they had in the program that was recorded, in this order:
//
//	lift      BAR offsets behind movable windows become (tile, address)
//	host      addresses in host memory that the user gave become relocations
//	tensors   stores to an input and loads from an output become copies
//	fold      loops that wait become polls with a deadline
//	expect    all other loads are held against what they gave when recorded
//	drop      windows are pointed only where that changes something
//	coalesce  neighbouring accesses become copies, fills and compares
//	fence     bulk copies are complete before anything that may depend on them
//	fill      host memory that the user gave gets its contents first
//	mark      text in the trace becomes marks
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
	"lightmetal/tools/lmb"
)

// The formats that Import reads.
const (
	FromMmiotrace = "mmiotrace"
	FromQemu      = "qemu"
	FromRecord    = "record"
)

// Passes are the names that Options.Without takes.
var Passes = []string{"lift", "fold", "expect", "drop", "coalesce", "fence", "mark"}

// Options say what a trace is of and what is wanted from it.
type Options struct {
	From   string        // FromMmiotrace, FromQemu or FromRecord
	Board  *boards.Board // nil: by the PCI ids in the trace
	Device string        // mmiotrace: VVVV:DDDD or BB:DD.F, where a trace has several devices, or one that no board has the ids of

	// The region of QEMU's that is the device, as in type Region, and more of
	// them where the device has several. Bar is also where tensors and ranges
	// lie that name no tile, whatever the format.
	Region string
	Base   uint64
	Bar    uint8
	Also   []Region

	Tool   string // who imports, for Origin.Tool
	Source string // what is imported, for Origin.Source

	DeadlineUs uint32  // of every poll; 0: ten times what the recorded loop took, at least a second
	Poll       []Range // loads from here are always polls
	Ignore     []Range // loads from here are carried out, whatever they give

	Inputs, Outputs []TensorSpec

	// Host is what the device reached of host memory. A run begins with the
	// data in it.
	Host []HostSpec

	Without  []string          // passes to leave out
	Progress func(bytes int64) // told now and then how much of the trace is read; may be nil
}

// Warning is something in a trace that a user should look at.
type Warning struct {
	Line int    `json:"line"` // 0: in no single line
	Text string `json:"text"`
}

func (w Warning) String() string {
	if w.Line == 0 {
		return w.Text
	}
	return fmt.Sprintf("line %d: %s", w.Line, w.Text)
}

// Pass is what one pass did.
type Pass struct {
	Name string `json:"name"`
	Did  string `json:"did"` // one line
}

// Report says what became of a trace.
type Report struct {
	Board    string    `json:"board"`
	Passes   []Pass    `json:"passes"` // in the order they ran, "read" first
	Warnings []Warning `json:"warnings"`
}

// String gives one line a pass and one line a warning.
func (r *Report) String() string {
	var b strings.Builder
	for _, p := range r.Passes {
		fmt.Fprintf(&b, "%-9s %s\n", p.Name, p.Did)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "warning   %s\n", w)
	}
	return b.String()
}

// Trace is what a reader finds in a file.
type Trace struct {
	Board          *boards.Board
	Vendor, Device uint16   // PCI ids in the trace, 0: the board's
	Accesses       []Access // to the device, and marks, in order
	Lines          int
	Ignored        []Count // lines that hold no access to the device
	Warnings       []Warning
}

// Count is how often something was seen.
type Count struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

// Read gives the accesses to the device that the options choose, without any
// pass. The error is an *Error.
func Read(r io.Reader, o Options) (*Trace, error) {
	switch o.From {
	case FromMmiotrace:
		return readMmiotrace(r, o)
	case FromQemu:
		return readQemu(r, o)
	case FromRecord:
		return readRecord(r, o)
	}
	return nil, usage("unknown format %q: %s, %s or %s", o.From, FromMmiotrace, FromQemu, FromRecord)
}

// Import makes an image of a trace: one sequence, "main". The error is an
// *Error.
func Import(r io.Reader, o Options) (*lmb.Image, *Report, error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	t, err := Read(r, o)
	if err != nil {
		return nil, nil, err
	}
	return ImportTrace(t, o)
}

// ImportTrace is Import for accesses that were read by other means. It takes
// the board from the trace and leaves the trace empty. The error is an *Error.
func ImportTrace(t *Trace, o Options) (*lmb.Image, *Report, error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	if err := t.check(); err != nil {
		return nil, nil, err
	}
	p := newPlan(t, o)
	p.halves = p.joinHalves()
	for _, pass := range []struct {
		name string
		run  func(*plan) (did string, err error)
	}{
		{"lift", (*plan).lift},
		{"host", (*plan).host},
		{"tensors", (*plan).tensorPass},
		{"fold", (*plan).fold},
		{"expect", (*plan).expect},
		{"pauses", (*plan).pauses},
		{"drop", (*plan).drop},
		{"coalesce", (*plan).coalesce},
		{"fence", (*plan).fence},
		{"fill", (*plan).fill},
		{"mark", (*plan).mark},
	} {
		did, err := pass.run(p)
		if err != nil {
			return nil, nil, err
		}
		p.did(pass.name, did)
	}
	image, err := p.image()
	if err != nil {
		return nil, nil, err
	}
	return image, &p.report, nil
}

func (o *Options) check() error {
	for _, name := range o.Without {
		if !slices.Contains(Passes, name) {
			return usage("no pass %q; passes: %s", name, strings.Join(Passes, ", "))
		}
	}
	for _, r := range slices.Concat(o.Poll, o.Ignore) {
		if r.Last < r.First {
			return usage("range 0x%x-0x%x ends before it starts", r.First, r.Last)
		}
	}
	return o.checkHost()
}

// check holds a trace that was read by other means against what the readers
// of this package give.
func (t *Trace) check() error {
	if t.Board == nil {
		return usage("the trace has no board; boards: %s", boardList())
	}
	for i := range t.Accesses {
		a := &t.Accesses[i]
		if a.Op == OpMark {
			continue
		}
		if a.Op != OpLoad && a.Op != OpStore || int(a.Bar) >= len(t.Board.Bars) {
			return refuse(a.Line, "no load or store of a BAR")
		}
		if reason := checkAccess(uint64(a.Width), a.Offset, a.Value); reason != "" {
			return refuse(a.Line, "%s", reason)
		}
	}
	return nil
}

// with tells whether a pass is to run.
func (p *plan) with(pass string) bool { return !slices.Contains(p.o.Without, pass) }

func (p *plan) did(pass, text string) {
	if text != "" {
		p.report.Passes = append(p.report.Passes, Pass{pass, text})
	}
}

func (p *plan) warn(line int, format string, a ...any) {
	p.report.Warnings = append(p.report.Warnings, Warning{line, fmt.Sprintf(format, a...)})
}
