// Package importer makes an image of a trace: Linux's mmiotrace and rwmmio, QEMU's
// memory_region_ops and vfio_region trace events, or what tools/capture/record writes.
//
// Package traces parses the text into accesses. Passes then recover what these accesses meant in
// the recorded program, in this order:
//
//	lift      accesses through TLB windows become accesses of (tile, address)
//	omit      interrupt addresses of the recorded machine are rejected, or left out
//	fix       host memory keeps its addresses if kernels have them compiled in
//	iATU      regions of host memory become host windows; the image has no store to the iATU
//	host      addresses in host memory become relocations
//	tensors   stores to an input and loads from an output become copies
//	carry     stores of what was loaded before become copies through a scratch tensor
//	fold      loops that wait become polls with a deadline
//	looks     waits that only some repetitions of a frame have are left out
//	pauses    long pauses become delays
//	expect    steps become commands; all other loads are compared with the recorded values
//	drop      Point commands are emitted only where they change the window
//	coalesce  accesses of adjacent addresses become copies, fills and compares
//	fence     bulk copies complete before any command that may depend on them
//	fill      the image fills host memory with its recorded contents first
//	mark      text in the trace becomes marks
//	cut       Frame and Stop become sequences of their own
//	safe      if several tiles ran, the sequence safe holds them in reset
//
// If an image cannot express something, or the trace lacks it, the error names the line of the
// trace. Nothing is left out silently: the Report counts it.
package importer

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/tools/capture/again"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// The formats that Import reads.
const (
	FromMmiotrace = traces.FromMmiotrace
	FromRwmmio    = traces.FromRwmmio
	FromQemu      = traces.FromQemu
	FromRecord    = traces.FromRecord
)

// Passes lists the names that Options.Without accepts.
var Passes = []string{"lift", "fold", "expect", "drop", "coalesce", "fence", "mark"}

// Options describe the trace and select what Import makes of it.
type Options struct {
	From string // FromMmiotrace, FromRwmmio, FromQemu or FromRecord
	// Nil: the board with the PCI ids of the trace. A board without ids: any device
	Board *boards.Board
	// Selects the device if a trace has several, or one with ids of no known board. mmiotrace:
	// VVVV:DDDD or BB:DD.F; record: VVVV:DDDD or DDDD:BB:DD.F
	Device string

	// BarSizes of Board are only limits: the image requires as much of each BAR as was accessed
	BarSizesAreLimits bool
	Subsystem         uint32 // for the image's device

	Incomplete bool // record: accept an incomplete recording

	// QEMU: the memory regions that are BARs of the device. rwmmio: their bases in the kernel
	Regions []traces.Region
	Bar     uint8 // BAR of tensors and ranges that name no tile

	Tool   string // program that imports, for Origin.Tool
	Source string // name of the trace, for Origin.Source

	// Deadline of every poll in microseconds. 0: ten times the duration of the recorded loop, at
	// least one second
	DeadlineUs uint32
	Poll       []Range // loads from these ranges always become polls
	// Loads from these ranges become polls, for the bits that the next store clears
	Wait []Range
	// Loads from these ranges are executed, but their values are not compared
	Ignore []Range
	Omit   []Range // accesses of these ranges are left out
	Carry  []Carry
	// Values stored to these ranges are data, also if they look like interrupt addresses
	AsData []Range
	// Loads from these ranges become polls until a counter has reached the value
	CounterRanges  []Range
	DetectCounters bool // the same for all registers that are probably counters
	// Loops become polls even if this changes the order of loads of different registers
	LoadsHaveNoEffect bool

	KeepPauses time.Duration // pauses of at least this length become delays; 0: none

	Inputs, Outputs []TensorSpec

	// Host is the host memory that the device accessed. Each run starts with its Data.
	Host []HostSpec

	// DisabledBank is 1 plus the number of the DRAM bank that is disabled on the card. 0: all banks
	// are enabled.
	DisabledBank int

	// OmitManagement leaves out accesses of the ARC tile and of the PCIe tile, and accesses outside
	// the TLB windows if the board has such windows.
	OmitManagement bool

	// FixedHost keeps the recorded addresses at which tiles reach host memory. They are also kept
	// if tiles reach memory of which the program stores no address.
	FixedHost bool

	// Part is the part of the trace to import; the zero value imports all of it.
	Part Part

	// Rings that FindFrames may find, with their limits
	Rings []RingSpec

	// Frame and Stop cut the image into three sequences: "init" from the start to Frame, "frame"
	// for Frame, "stop" for Stop. Other accesses are left out; inputs and outputs are those of
	// "frame". With the zero values the image has one sequence, "main".
	Frame, Stop Part

	moves []ringUse // what rings change in the frame
	// With rings in host memory: what the frame does there, in place of what its lines show
	hostParts []hostPart
	skipped   []int        // lines of waits that the frame leaves out
	repeated  int          // number of traces of the same work with which this one was compared
	varying   map[int]bool // lines of loads whose values another recording does not have

	Without []string // passes to leave out
	// Called from time to time with the number of bytes of the trace that were read; may be nil
	Progress func(bytes int64)
}

// Pass describes the work of one pass.
type Pass struct {
	Name    string `json:"name"`
	Summary string `json:"did"` // one line of text
}

// Report describes what Import made of a trace.
type Report struct {
	Board    string           `json:"board"`
	Passes   []Pass           `json:"passes"` // in the order they ran, "read" first
	Warnings []traces.Warning `json:"warnings"`
	// What the image compares and waits for, and what the trace shows of these registers
	Verdict string `json:"verdict,omitempty"`
	// Result of the search for frames, if there was one
	Frames *Frames `json:"frames,omitempty"`
	// How the traces of --again differ
	Again []*again.Comparison `json:"again,omitempty"`
}

// String returns the report as text, with one line for each pass and each warning, and the
// verdict.
func (r *Report) String() string {
	var b strings.Builder
	if r.Frames != nil {
		b.WriteString(r.Frames.String())
	}
	for _, c := range r.Again {
		b.WriteString(c.String())
	}
	for _, p := range r.Passes {
		fmt.Fprintf(&b, "%-9s %s\n", p.Name, p.Summary)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "warning   %s\n", w)
	}
	if r.Verdict != "" {
		fmt.Fprintf(&b, "verdict   %s\n", r.Verdict)
	}
	return b.String()
}

// Import makes an image of a trace. The image has the sequence "main", or those of Options.Frame,
// and "safe" if the program started several tiles. The error is an *Error.
func Import(r io.Reader, o Options) (*lmb.Image, *Report, error) {
	image, report, err := ImportPacked(r, o)
	if err == nil {
		image.Unpack()
	}
	return image, report, err
}

// ImportPacked is like Import, but saves memory for traces of millions of accesses: the sequences
// of the image decode their commands each time they are read.
func ImportPacked(r io.Reader, o Options) (*lmb.Image, *Report, error) {
	l, t, err := readSteps(r, o, false)
	if err != nil {
		return nil, nil, err
	}
	return l.runPasses(t)
}

func (l *lifter) runPasses(t *traces.Trace) (*lmb.Image, *Report, error) {
	if l.part.outsideCount > 0 {
		t.Ignored = append(t.Ignored, traces.Count{Name: "accesses outside the part",
			N: l.part.outsideCount})
	}
	report := &Report{Board: l.board.Name, Warnings: []traces.Warning{}}
	report.addPass("read", l.reportRead(t))
	builder := &commandBuilder{program: l.program, commands: &lmb.Packed{},
		programPoints: l.pointCount}
	for _, pass := range l.allPasses(builder) {
		out, err := pass.run()
		if err != nil {
			return nil, nil, err
		}
		report.addPass(pass.name, out)
	}
	if l.isPassEnabled("fold") {
		report.addPass("", l.warnUnmatched("--poll", "load", l.options.Poll))
		report.addPass("", l.warnUnmatched("--wait", "load", l.options.Wait))
		report.addPass("", l.warnUnmatched("--reached", "load", l.options.CounterRanges))
	}
	report.addPass("", l.warnUnmatched("--ignore", "load", l.options.Ignore))
	report.addPass("", l.warnUnmatched("--omit", "access", l.options.Omit))
	report.addPass("", l.warnUnmatched("--as-data", "store", l.options.AsData))
	report.addPass("", l.warnUnwritten())
	report.Verdict = builder.verdictText()
	image, err := l.buildImage(t, builder.sequences)
	if err == nil && len(l.options.moves) > 0 {
		err = l.addRings(image, report)
	}
	if err == nil {
		image.Origin.Verdict = report.Verdict
	}
	return image, report, err
}

// readSteps reads a trace and turns it into steps. With exactTimes, stores with different times
// stay different steps.
func readSteps(r io.Reader, o Options, exactTimes bool) (*lifter, *traces.Trace, error) {
	if err := o.validate(); err != nil {
		return nil, nil, err
	}
	l := &lifter{program: &program{options: o, matchedRanges: map[Range]bool{},
		outsideLoads: map[int][]carriedAccess{}},
		tlbStates:     map[int]*tlbState{},
		targetIndexes: map[targetKey]int32{}, exactTimes: exactTimes}
	t, err := traces.Scan(r, o.traceSource(), l)
	if err != nil {
		return nil, nil, err
	}
	if l.board == nil {
		l.Start(t.Board)
	}
	if o.DisabledBank > 0 && chips.ForBoard(l.board).WithoutBank(o.DisabledBank-1) == nil {
		return nil, nil, traces.UsageError("board %s has no DRAM bank %d that may be disabled",
			l.board.Name, o.DisabledBank-1)
	}
	err = l.part.validate("part", t.Lines)
	if err == nil {
		err = l.cut.checkParts(t.Lines)
	}
	if err == nil && !exactTimes {
		err = l.checkUndecided()
	}
	if l.isInHostFrame() {
		l.addHostParts(0, 0)
	}
	l.flushDeviceWrites(0)
	l.showRings()
	l.msix, l.hasVectors = t.MSIX, t.Vectors.Count > 0
	return l, t, err
}

// passResult is the result of a pass: a line of text, and warnings for the user.
type passResult struct {
	summary  string
	warnings []traces.Warning
}

func (o *passResult) addWarning(line int, format string, a ...any) {
	o.warnings = append(o.warnings, traces.Warning{Line: line, Text: fmt.Sprintf(format, a...)})
}

// clauses are the parts of a line of text that counts what a pass did.
type clauses []string

// addIfAny appends a clause, unless n is 0.
func (c *clauses) addIfAny(n int, format string, a ...any) {
	if n > 0 {
		*c = append(*c, fmt.Sprintf(format, a...))
	}
}

func (r *Report) addPass(pass string, o passResult) {
	if o.summary != "" {
		r.Passes = append(r.Passes, Pass{pass, o.summary})
	}
	r.Warnings = append(r.Warnings, o.warnings...)
}

type pass struct {
	name string
	run  func() (passResult, error)
}

// analysisPasses returns the passes that recover what the steps of a program meant.
func (l *lifter) analysisPasses() []pass {
	p := l.program
	return []pass{
		{"lift", l.reportLift},
		{"omit", (&interruptFinder{program: p}).run},
		{"fix", (&hostFixer{program: p}).run},
		{"iATU", l.reportIATU},
		{"host", (&relocator{program: p, joinedCount: l.joinedAddresses}).run},
		{"tensors", (&tensorAssigner{program: p}).run},
		{"carry", (&carrier{program: p}).run},
		{"fold", (&pollDetector{program: p}).run},
		{"looks", p.leaveOutSkipped},
	}
}

func (l *lifter) allPasses(m *commandBuilder) []pass {
	p := l.program
	return append(l.analysisPasses(),
		pass{"pauses", p.keepPauses},
		pass{"expect", m.buildCommands},
		pass{"drop", m.reportPoints},
		pass{"coalesce", m.reportCommands},
		pass{"fence", m.reportFences},
		pass{"fill", m.reportHostFill},
		pass{"mark", l.reportMarks},
		pass{"cut", m.finishCut},
		pass{"safe", p.reportSafe})
}

// traceSource returns the options that the reader of the trace needs.
func (o *Options) traceSource() traces.Source {
	return traces.Source{From: o.From, Board: o.Board, Device: o.Device, Incomplete: o.Incomplete,
		Regions: o.Regions, BarSizesAreLimits: o.BarSizesAreLimits, Progress: o.Progress}
}

func (o *Options) validate() error {
	for _, name := range o.Without {
		if !slices.Contains(Passes, name) {
			return traces.UsageError("pass %q is unknown; passes: %s", name,
				strings.Join(Passes, ", "))
		}
	}
	for _, r := range slices.Concat(o.Poll, o.Wait, o.Ignore, o.CounterRanges, o.Omit, o.AsData) {
		if r.Last < r.First {
			return traces.UsageError("range 0x%x-0x%x ends before its start", r.First, r.Last)
		}
	}
	if o.Bar > 5 {
		return traces.UsageError("--bar must be 0 to 5, not %d", o.Bar)
	}
	if (o.Frame == Part{}) && (o.Stop != Part{}) {
		return traces.UsageError("--stop needs --frame")
	}
	return o.checkHost()
}

func (p *program) isPassEnabled(pass string) bool {
	return !slices.Contains(p.options.Without, pass)
}
