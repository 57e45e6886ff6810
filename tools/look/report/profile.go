package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb"
)

// Profile shows how one or more runs of a sequence spent their time, in nanoseconds of the first
// device's clock. The times of Opcodes add up to TotalNs, and so do those of Windows.
type Profile struct {
	Image    string `json:"image"`
	Checksum string `json:"image_checksum"` // fbs.View.ID
	Device   string `json:"device"`
	Clock    string `json:"clock"`   // description of the clock
	Virtual  bool   `json:"virtual"` // the clock counts accesses, and does not measure real time
	// time that the measurement adds to each command; the times include it
	OverheadNs int64  `json:"overhead_ns"`
	Sequence   string `json:"sequence"`
	Runs       int    `json:"runs"`
	Commands   uint64 `json:"commands"` // executed in all runs, without Ends
	TotalNs    int64  `json:"total_ns"`
	// shortest completed run; LeastNs and MostNs are 0 if no run was completed
	LeastNs   int64       `json:"least_ns"`
	MostNs    int64       `json:"most_ns"`
	Opcodes   []TimeSpent `json:"opcodes"`
	Scopes    []TimeSpent `json:"scopes"` // between Begin and End, or from one Mark to the next
	Sequences []TimeSpent `json:"sequences"`
	Windows   []TimeSpent `json:"windows"`
	Slowest   []Command   `json:"slowest"`
	// outputs that were compared with golden data after the last run
	Golden []GoldenResult `json:"golden,omitempty"`
	Failed *Failure       `json:"failed,omitempty"`
	// number of the run that Timeline shows, from 1: the run that failed, or the longest run
	ShownRun int `json:"shown"`
	// adjacent commands that together take at most this time share a slice of the timeline; 0: each
	// command has a slice of its own
	MergeNs  int64     `json:"merge_ns"`
	Timeline [][]Slice `json:"-"` // slices by row: rowSequences, rowCalls and so on
}

// Failure describes how the last run failed: a command failed, or an output does not match its
// golden data.
type Failure struct {
	Code    string `json:"code"`
	Reason  string `json:"reason"`
	Command int32  `json:"command"` // index in the image; -1: all commands were executed
	Ns      int64  `json:"ns"`      // time from the start of the run to the failure

	// what the command loaded and wanted; Mask is 0 if it compares nothing
	Got     uint64 `json:"got"`
	Want    uint64 `json:"want"`
	Mask    uint64 `json:"mask"`
	Element uint64 `json:"element"` // index of the first wrong element, if the command is a Compare
	// how the sequence "safe" ended, empty: it did not run
	Safe string `json:"safe,omitempty"`
}

// GoldenResult is the result of comparing an output with its golden data.
type GoldenResult struct {
	Output   string `json:"output"`
	Elements uint64 `json:"elements"`
	// elements that are not equal or, with a tolerance, not within it
	Differ uint64 `json:"differ"`
	// why the output does not match, empty: it matches
	Reason string `json:"reason,omitempty"`
}

// TimeSpent is the time that one opcode, scope, sequence or window took.
type TimeSpent struct {
	Name string `json:"name"`
	// "scope": from a Begin mark to its End mark; "phase": from a mark to the next mark, or to the
	// end of the enclosing scope or sequence
	Kind      string `json:"kind,omitempty"`
	Count     uint64 `json:"count"`
	Bytes     uint64 `json:"bytes,omitempty"`
	TotalNs   int64  `json:"total_ns"`
	LongestNs int64  `json:"longest_ns"`
	// index in the image of the command with which the longest time began
	Command  uint32 `json:"command"`
	Position string `json:"at"` // position of that command: "main, command 3"
}

func (s *TimeSpent) add(command uint32, ns int64, bytes uint64) {
	if s.Count == 0 || ns > s.LongestNs {
		s.LongestNs, s.Command = ns, command
	}
	s.Count++
	s.TotalNs += ns
	s.Bytes += bytes
}

// addEnd adds the time of an End, which does not count as a command.
func (s *TimeSpent) addEnd(command uint32, ns int64) {
	s.TotalNs += ns
	if ns > s.LongestNs {
		s.LongestNs, s.Command = ns, command
	}
}

// Command is one command of the image and its longest time.
type Command struct {
	Command  uint32 `json:"command"` // index in the image
	Sequence string `json:"sequence"`
	Number   uint32 `json:"number"` // within the sequence
	Text     string `json:"text"`
	Ns       int64  `json:"ns"`
}

const (
	// slowestMax is the largest number of commands in the list of the slowest commands.
	slowestMax = 20

	// timeSpentMax is the largest number of scopes, sequences and windows with a row each. All
	// others share a row.
	timeSpentMax = 1000
)

// profileBuilder computes a Profile from the time stamps of runs.
type profileBuilder struct {
	view      *fbs.View
	image     *lmb.Image // without commands, for names
	names     []string   // names of marks
	marks     map[uint32][]mark
	opcodes   [opcodesCount]TimeSpent // by opcodeIndex; the last one is for End
	sequences []TimeSpent
	windows   []TimeSpent // by window; the last one is for commands without a window
	scopes    []TimeSpent
	phases    []TimeSpent
	slowest   []Command
}

// mark is a mark that precedes a command.
type mark struct {
	kind gen.MarkKind
	name int // index in profileBuilder.names
}

func (d *profileBuilder) init(view *fbs.View) {
	*d = profileBuilder{
		view: view, image: lmb.Header(view), marks: map[uint32][]mark{},
		sequences: make([]TimeSpent, len(view.Sequences)),
		windows:   make([]TimeSpent, len(view.Windows)+1),
	}
	notes, err := lmb.ReadNotes(view)
	if err != nil {
		return // lm has printed a warning
	}
	index := map[string]int{}
	for _, m := range notes.Marks {
		if _, ok := index[m.Name]; !ok {
			index[m.Name] = len(d.names)
			d.names = append(d.names, m.Name)
		}
		d.marks[uint32(m.Command)] = append(d.marks[uint32(m.Command)], mark{m.Kind, index[m.Name]})
	}
	d.scopes, d.phases = make([]TimeSpent, len(d.names)), make([]TimeSpent, len(d.names))
}

// addRun adds a run: command i began at startTimes[i], and the next one at startTimes[i+1].
// completed reports whether the run reached its end. If there are too many commands for a slice
// each in the timeline, adjacent commands that together take at most mergeNs share a slice.
func (d *profileBuilder) addRun(p *Profile, commands []uint32, startTimes []int64, completed bool) {
	took := startTimes[len(commands)] - startTimes[0]
	p.Runs++
	for _, index := range commands {
		if d.view.Commands[index].Opcode != gen.OpcodeEnd { // End is not counted
			p.Commands++
		}
	}
	p.TotalNs += took
	w := timelineBuilder{profile: d, commands: commands, startTimes: startTimes,
		makeSlices: !completed || p.Runs == 1 || took > p.MostNs}
	if len(commands) > slicesMax {
		w.mergeNs = max(1, took/(slicesMax/2))
	}
	w.addRun()
	if w.makeSlices {
		p.ShownRun, p.Timeline, p.MergeNs = p.Runs, w.rows, w.mergeNs
	}
	for i, index := range commands {
		d.addCommand(index, startTimes[i+1]-startTimes[i])
	}
	if completed {
		if p.Runs == 1 || took < p.LeastNs {
			p.LeastNs = took
		}
		p.MostNs = max(p.MostNs, took)
	}
}

func (d *profileBuilder) addCommand(index uint32, ns int64) {
	c := &d.view.Commands[index]
	window := len(d.windows) - 1
	if c.Opcode == gen.OpcodeEnd {
		// No tool counts the end of a sequence as a command, but it takes time.
		d.opcodes[opcodeIndex(c)].addEnd(index, ns)
		d.windows[window].TotalNs += ns
		return
	}
	e := lmb.EffectOf(c)
	bytes := e.Moved()
	d.opcodes[opcodeIndex(c)].add(index, ns, bytes)
	if e.UsesWindow {
		window = int(c.Window)
	}
	d.windows[window].add(index, ns, bytes)
	if len(d.slowest) < slowestMax || ns > d.slowest[len(d.slowest)-1].Ns {
		d.updateSlowest(index, ns)
	}
}

// updateSlowest adds a time of a command to the list of the slowest commands, which contains each
// command once, in the order of time.
func (d *profileBuilder) updateSlowest(index uint32, ns int64) {
	at := slices.IndexFunc(d.slowest, func(s Command) bool { return s.Command == index })
	switch {
	case at >= 0:
		d.slowest[at].Ns = max(d.slowest[at].Ns, ns)
	case len(d.slowest) < slowestMax:
		d.slowest = append(d.slowest, Command{Command: index, Ns: ns})
	default:
		d.slowest[slowestMax-1] = Command{Command: index, Ns: ns}
	}
	slices.SortStableFunc(d.slowest,
		func(a, b Command) int {
			return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Command, b.Command))
		})
}

func (d *profileBuilder) finishProfile(p *Profile) {
	p.Opcodes, p.Scopes = []TimeSpent{}, []TimeSpent{}
	p.Sequences, p.Windows = []TimeSpent{}, []TimeSpent{}
	p.Slowest = append([]Command{}, d.slowest...)
	for op := range d.opcodes {
		appendTimeSpent(&p.Opcodes, d.opcodes[op], opcodeNames[op], "")
	}
	for i := range d.sequences {
		appendTimeSpent(&p.Sequences, d.sequences[i], d.image.Sequences[i].Name, "")
	}
	for i := range d.windows {
		appendTimeSpent(&p.Windows, d.windows[i], windowLabel(d.image, i), "")
	}
	for i := range d.scopes {
		appendTimeSpent(&p.Scopes, d.scopes[i], d.names[i], kindScope)
		appendTimeSpent(&p.Scopes, d.phases[i], d.names[i], kindPhase)
	}
	for _, list := range []*[]TimeSpent{&p.Sequences, &p.Windows, &p.Scopes} {
		*list = mergeShortest(*list)
	}
	for _, list := range [...][]TimeSpent{p.Opcodes, p.Sequences, p.Windows, p.Scopes} {
		for i := range list {
			position := runtime.AppendCommandPosition(nil, d.view, int(list[i].Command))
			list[i].Position = string(position)
		}
	}
	p.Slowest = slices.DeleteFunc(p.Slowest, func(s Command) bool { return s.Ns == 0 })
	for i := range p.Slowest {
		s := &p.Slowest[i]
		sequence, number := lmb.SequenceOf(d.view, int(s.Command))
		s.Sequence, s.Number = d.image.Sequences[sequence].Name, uint32(number)
		s.Text = CommandText(d.view, int(s.Command))
	}
}

func appendTimeSpent(list *[]TimeSpent, s TimeSpent, name, kind string) {
	if s.Count > 0 || s.TotalNs > 0 {
		s.Name, s.Kind = name, kind
		*list = append(*list, s)
	}
}

// mergeShortest returns the timeSpentMax longest elements of a list, and one element for all
// others.
func mergeShortest(list []TimeSpent) []TimeSpent {
	if len(list) <= timeSpentMax {
		return list
	}
	slices.SortStableFunc(list,
		func(a, b TimeSpent) int { return cmp.Compare(b.TotalNs, a.TotalNs) })
	rest := TimeSpent{Name: fmt.Sprintf("%d others", len(list)-timeSpentMax)}
	for i := range list[timeSpentMax:] {
		s := &list[timeSpentMax+i]
		rest.Count += s.Count
		rest.TotalNs += s.TotalNs
		rest.Bytes = cappedSum(rest.Bytes, s.Bytes)
		if s.LongestNs >= rest.LongestNs {
			rest.LongestNs, rest.Command = s.LongestNs, s.Command
		}
	}
	return append(slices.Clone(list[:timeSpentMax]), rest)
}

func windowLabel(image *lmb.Image, index int) string {
	if index >= len(image.Windows) {
		return "no window"
	}
	if name := image.Windows[index].Name; name != "" {
		return name
	}
	return fmt.Sprintf("w%d", index)
}

// Write prints the profile for a terminal.
func (p *Profile) Write(w io.Writer) error {
	out := bufio.NewWriter(w) // Flush returns the first error
	fmt.Fprintf(out, "\n%s\n", strings.Join(p.headLines(), "\n"))
	for _, table := range omitEmpty(p.tables()) {
		table.write(out)
	}
	return out.Flush()
}

func (p *Profile) summary() string {
	text := fmt.Sprintf("profile of %s on %s: %s in %s commands", sanitize(p.Sequence),
		sanitize(p.Device), lmb.TimeText(p.TotalNs), countText(p.Commands))
	if whole := p.completedRuns(); whole > 1 || whole > 0 && p.Failed != nil {
		text += fmt.Sprintf(", %s runs that took %s to %s each", countText(uint64(whole)),
			lmb.TimeText(p.LeastNs),
			lmb.TimeText(p.MostNs))
	}
	return text
}

// completedRuns returns the number of runs that reached their end.
func (p *Profile) completedRuns() int {
	if p.Failed != nil && p.Failed.Command >= 0 {
		return p.Runs - 1
	}
	return p.Runs
}

// text returns a line that describes the failure.
func (f *Failure) text() string {
	return "FAILED after " + lmb.TimeText(f.Ns) + ": " + sanitize(f.Reason)
}

func (p *Profile) headLines() []string {
	lines := []string{p.summary(), p.clockText()}
	if p.Failed != nil {
		lines = append([]string{p.Failed.text()}, lines...)
	}
	return lines
}

// clockText returns a text about the clock and the accuracy of the times.
func (p *Profile) clockText() string {
	return fmt.Sprintf("clock: %s; each command's time includes %s for the measurement",
		sanitize(p.Clock), lmb.TimeText(p.OverheadNs))
}

func (p *Profile) tables() []Table {
	return []Table{
		p.timeTable("Time by opcode", "opcode", p.Opcodes),
		p.timeTable("Time by scope", "scope", p.Scopes),
		p.timeTable("Time by sequence", "sequence", p.Sequences),
		p.timeTable("Time by window", "window", p.Windows), p.slowestTable(),
	}
}

// timeTable returns a table of times, with the longest first.
func (p *Profile) timeTable(title, what string, list []TimeSpent) Table {
	t := Table{Title: title, commandColumn: "longest at", Columns: []string{what, "kind", ">times",
		">total", ">share", ">mean", ">longest", "longest at", ">bytes"}}
	order := slices.Clone(list)
	slices.SortStableFunc(order,
		func(a, b TimeSpent) int { return cmp.Compare(b.TotalNs, a.TotalNs) })
	for i := range order[:limitRows(len(order))] {
		s := &order[i]
		mean := int64(float64(s.TotalNs)/float64(max(s.Count, 1)) + 0.5)
		t.addCommandRow(s.Command, sanitize(s.Name), sanitize(s.Kind), countText(s.Count),
			lmb.TimeText(s.TotalNs), shareText(float64(s.TotalNs), float64(p.TotalNs)),
			lmb.TimeText(mean), lmb.TimeText(s.LongestNs), sanitize(s.Position),
			emptyIfZero(s.Bytes, lmb.SizeText))
	}
	if len(order) > rowsMax {
		t.Note = fmt.Sprintf("the %d longest of %d rows", rowsMax, len(order))
	}
	return t
}

func (p *Profile) slowestTable() Table {
	t := Table{Title: "Slowest commands", commandColumn: ">command", Columns: []string{">command",
		"sequence", ">time", ">share", "text"}}
	for i := range p.Slowest {
		s := &p.Slowest[i]
		share := ""
		if p.Runs == 1 {
			share = shareText(float64(s.Ns), float64(p.TotalNs))
		}
		t.addCommandRow(s.Command, fmt.Sprint(s.Number), sanitize(s.Sequence), lmb.TimeText(s.Ns),
			share, sanitize(s.Text))
	}
	return t
}
