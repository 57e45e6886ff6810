package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb"
)

// Profile is where the time of one or more runs of a sequence went, in
// nanoseconds of the first device's clock. The times of Opcodes add up to
// TotalNs, and so do those of Windows.
type Profile struct {
	Image   string `json:"image"`
	ID      string `json:"id"` // see ImageID
	Device  string `json:"device"`
	Clock   string `json:"clock"`   // what the clock is
	Virtual bool   `json:"virtual"` // it counts accesses, and times are no machine's
	// what measuring adds to each command; it is in the times
	OverheadNs int64     `json:"overhead_ns"`
	Sequence   string    `json:"sequence"`
	Runs       int       `json:"runs"`
	Commands   uint64    `json:"commands"` // executed in all runs, without Ends
	TotalNs    int64     `json:"total_ns"`
	LeastNs    int64     `json:"least_ns"` // of whole runs; with MostNs 0 where the only one failed
	MostNs     int64     `json:"most_ns"`
	Opcodes    []Spent   `json:"opcodes"`
	Scopes     []Spent   `json:"scopes"` // between Begin and End, or from one Mark to the next
	Sequences  []Spent   `json:"sequences"`
	Windows    []Spent   `json:"windows"`
	Slowest    []Command `json:"slowest"`
	// outputs that were compared with golden data after the last run
	Golden []GoldenResult `json:"golden,omitempty"`
	Failed *Failure       `json:"failed,omitempty"`
	// the run that Timeline shows, counted from 1: the one that failed, or the longest
	Shown int `json:"shown"`
	// neighbours in the timeline that together are shorter are one slice; 0: none are
	MergeNs  int64     `json:"merge_ns"`
	Timeline [][]Slice `json:"-"` // row by row: rowSequences and so on
}

// Failure is how the last run ended, where that was not at its end or it was found wanting.
type Failure struct {
	Code    string `json:"code"`
	Reason  string `json:"reason"`
	Command int32  `json:"command"` // index in the image, -1: all were executed
	Ns      int64  `json:"ns"`      // until then

	// what the command loaded and wanted; Mask is 0 if it compares nothing
	Got     uint64 `json:"got"`
	Want    uint64 `json:"want"`
	Mask    uint64 `json:"mask"`
	Element uint64 `json:"element"` // of a compare
	// how the sequence "safe" ended, empty: it did not run
	Safe string `json:"safe,omitempty"`
}

// GoldenResult is how an output compared with its golden data.
type GoldenResult struct {
	Output   string `json:"output"`
	Elements uint64 `json:"elements"`
	// elements that are not equal or, with a tolerance, not within it
	Differ uint64 `json:"differ"`
	// why the output does not match, empty: it matches
	Reason string `json:"reason,omitempty"`
}

// Spent is the time that went to one thing.
type Spent struct {
	Name string `json:"name"`
	// scope: between Begin and End; phase: from a Mark to the next or the end of what it is in
	Kind      string `json:"kind,omitempty"`
	Count     uint64 `json:"count"`
	Bytes     uint64 `json:"bytes,omitempty"`
	TotalNs   int64  `json:"total_ns"`
	LongestNs int64  `json:"longest_ns"`
	Command   uint32 `json:"command"` // index in the image of the longest
	At        string `json:"at"`      // the same command within its sequence: "main, command 3"
}

func (s *Spent) add(command uint32, ns int64, bytes uint64) {
	if s.Count == 0 || ns > s.LongestNs {
		s.LongestNs, s.Command = ns, command
	}
	s.Count++
	s.TotalNs += ns
	s.Bytes += bytes
}

// addEnd adds the time of the end of a sequence, and counts no command.
func (s *Spent) addEnd(command uint32, ns int64) {
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
	// slowestMax is how many commands a profile names as the slowest.
	slowestMax = 20

	// spentMax is how many scopes, sequences and windows have a row each.
	spentMax = 1000
)

// decoder makes a Profile of the stamps of runs.
type decoder struct {
	view      *fbs.View
	image     *lmb.Image // without commands, for names
	names     []string   // of marks
	marks     map[uint32][]mark
	opcodes   [gen.OpcodeEnd + 1]Spent
	sequences []Spent
	windows   []Spent // one more, for what touches none
	scopes    []Spent
	phases    []Spent
	slowest   []Command
}

// mark is a name in front of a command.
type mark struct {
	kind gen.MarkKind
	name int // index in decoder.names
}

func (d *decoder) init(view *fbs.View) {
	*d = decoder{
		view: view, image: lmb.Header(view), marks: map[uint32][]mark{},
		sequences: make([]Spent, len(view.Sequences)), windows: make([]Spent, len(view.Windows)+1),
	}
	notes, err := lmb.ReadNotes(view)
	if err != nil {
		return // lm has said so
	}
	index := map[string]int{}
	for _, m := range notes.Marks {
		if _, ok := index[m.Name]; !ok {
			index[m.Name] = len(d.names)
			d.names = append(d.names, m.Name)
		}
		d.marks[uint32(m.Command)] = append(d.marks[uint32(m.Command)], mark{m.Kind, index[m.Name]})
	}
	d.scopes, d.phases = make([]Spent, len(d.names)), make([]Spent, len(d.names))
}

// run adds a run: command i began at at[i] and the next one at at[i+1]. whole tells
// that it came to its end. Where a timeline would have too many commands for one
// slice each, neighbours that together are shorter than mergeNs are one.
func (d *decoder) run(p *Profile, commands []uint32, at []int64, whole bool) {
	took := at[len(commands)] - at[0]
	p.Runs++
	for _, index := range commands {
		if d.view.Commands[index].Opcode != gen.OpcodeEnd { // End is not counted
			p.Commands++
		}
	}
	p.TotalNs += took
	w := walk{d: d, commands: commands, at: at, build: !whole || p.Runs == 1 || took > p.MostNs}
	if len(commands) > slicesMax {
		w.mergeNs = max(1, took/(slicesMax/2))
	}
	w.all()
	if w.build {
		p.Shown, p.Timeline, p.MergeNs = p.Runs, w.rows, w.mergeNs
	}
	for i, index := range commands {
		d.command(index, at[i+1]-at[i])
	}
	if whole {
		if p.Runs == 1 || took < p.LeastNs {
			p.LeastNs = took
		}
		p.MostNs = max(p.MostNs, took)
	}
}

func (d *decoder) command(index uint32, ns int64) {
	c := &d.view.Commands[index]
	window := len(d.windows) - 1
	if c.Opcode == gen.OpcodeEnd {
		// No tool counts the end of a sequence as a command, but it takes time.
		d.opcodes[c.Opcode].addEnd(index, ns)
		d.windows[window].TotalNs += ns
		return
	}
	e := lmb.EffectOf(c)
	bytes := e.Moved()
	d.opcodes[c.Opcode].add(index, ns, bytes)
	if e.Size > 0 || c.Opcode == gen.OpcodePoint {
		window = int(c.Window)
	}
	d.windows[window].add(index, ns, bytes)
	if len(d.slowest) < slowestMax || ns > d.slowest[len(d.slowest)-1].Ns {
		d.keepSlow(index, ns)
	}
}

// keepSlow keeps the list of the slowest commands in order, each once.
func (d *decoder) keepSlow(index uint32, ns int64) {
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
			return cmp.Or(cmp.Compare(b.Ns, a.Ns),
				cmp.Compare(a.Command, b.Command))
		})
}

func (d *decoder) finish(p *Profile) {
	p.Opcodes, p.Scopes, p.Sequences, p.Windows = []Spent{}, []Spent{}, []Spent{}, []Spent{}
	p.Slowest = append([]Command{}, d.slowest...)
	for op := range d.opcodes {
		keep(&p.Opcodes, d.opcodes[op], lmb.OpcodeName(gen.Opcode(op)), "")
	}
	for i := range d.sequences {
		keep(&p.Sequences, d.sequences[i], d.image.Sequences[i].Name, "")
	}
	for i := range d.windows {
		keep(&p.Windows, d.windows[i], windowLabel(d.image, i), "")
	}
	for i := range d.scopes {
		keep(&p.Scopes, d.scopes[i], d.names[i], kindScope)
		keep(&p.Scopes, d.phases[i], d.names[i], kindPhase)
	}
	for _, list := range []*[]Spent{&p.Sequences, &p.Windows, &p.Scopes} {
		*list = shorten(*list)
	}
	for _, list := range [...][]Spent{p.Opcodes, p.Sequences, p.Windows, p.Scopes} {
		for i := range list {
			list[i].At = string(runtime.AppendPlace(nil, d.view, int(list[i].Command)))
		}
	}
	p.Slowest = slices.DeleteFunc(p.Slowest, func(s Command) bool { return s.Ns == 0 })
	for i := range p.Slowest {
		s := &p.Slowest[i]
		sequence := d.sequenceOf(s.Command)
		s.Sequence = d.image.Sequences[sequence].Name
		s.Number = s.Command - d.view.Sequences[sequence].First
		s.Text = CommandText(d.view, int(s.Command))
	}
}

func keep(list *[]Spent, s Spent, name, kind string) {
	if s.Count > 0 || s.TotalNs > 0 {
		s.Name, s.Kind = name, kind
		*list = append(*list, s)
	}
}

// shorten keeps the longest of a list and one row for all the others.
func shorten(list []Spent) []Spent {
	if len(list) <= spentMax {
		return list
	}
	slices.SortStableFunc(list, func(a, b Spent) int { return cmp.Compare(b.TotalNs, a.TotalNs) })
	rest := Spent{Name: fmt.Sprintf("%d others", len(list)-spentMax)}
	for i := range list[spentMax:] {
		s := &list[spentMax+i]
		rest.Count += s.Count
		rest.TotalNs += s.TotalNs
		rest.Bytes = sum(rest.Bytes, s.Bytes)
		if s.LongestNs >= rest.LongestNs {
			rest.LongestNs, rest.Command = s.LongestNs, s.Command
		}
	}
	return append(slices.Clone(list[:spentMax]), rest)
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

// sequenceOf is the sequence that a command belongs to.
func (d *decoder) sequenceOf(command uint32) int {
	return sort.Search(len(d.view.Sequences),
		func(i int) bool { return d.view.Sequences[i].First > command }) - 1
}

// Write prints the profile for a terminal.
func (p *Profile) Write(w io.Writer) error {
	out := bufio.NewWriter(w) // keeps its first error
	fmt.Fprintf(out, "\n%s\n", strings.Join(p.lines(), "\n"))
	for _, table := range filled(p.tables()) {
		table.write(out)
	}
	return out.Flush()
}

func (p *Profile) summary() string {
	text := fmt.Sprintf("profile of %s on %s: %s in %s commands", plain(p.Sequence),
		plain(p.Device), lmb.TimeText(p.TotalNs), countText(p.Commands))
	if whole := p.whole(); whole > 1 || whole > 0 && p.Failed != nil {
		text += fmt.Sprintf(", %s runs of %s to %s", countText(uint64(whole)),
			lmb.TimeText(p.LeastNs),
			lmb.TimeText(p.MostNs))
	}
	return text
}

// whole is how many runs came to their end.
func (p *Profile) whole() int {
	if p.Failed != nil && p.Failed.Command >= 0 {
		return p.Runs - 1
	}
	return p.Runs
}

// text says how the last run failed.
func (f *Failure) text() string {
	return "FAILED after " + lmb.TimeText(f.Ns) + ": " + plain(f.Reason)
}

// lines returns the text above the tables.
func (p *Profile) lines() []string {
	lines := []string{p.summary(), p.clockText()}
	if p.Failed != nil {
		lines = append([]string{p.Failed.text()}, lines...)
	}
	return lines
}

// clockText says how far the times can be trusted.
func (p *Profile) clockText() string {
	return fmt.Sprintf("clock: %s; each command's time includes %s for the measurement",
		plain(p.Clock), lmb.TimeText(p.OverheadNs))
}

func (p *Profile) tables() []Table {
	return []Table{
		p.table("Time by opcode", "opcode", p.Opcodes), p.table("Time by scope", "scope", p.Scopes),
		p.table("Time by sequence", "sequence", p.Sequences),
		p.table("Time by window", "window", p.Windows), p.slowTable(),
	}
}

// table has the longest first.
func (p *Profile) table(title, what string, list []Spent) Table {
	t := Table{Title: title, commandColumn: "longest at", Columns: []string{what, "kind", ">times",
		">total", ">share", ">mean", ">longest", "longest at", ">bytes"}}
	order := slices.Clone(list)
	slices.SortStableFunc(order, func(a, b Spent) int { return cmp.Compare(b.TotalNs, a.TotalNs) })
	for i := range order[:limitRows(len(order))] {
		s := &order[i]
		mean := int64(float64(s.TotalNs)/float64(max(s.Count, 1)) + 0.5)
		t.addCommandRow(s.Command, plain(s.Name), plain(s.Kind), countText(s.Count),
			lmb.TimeText(s.TotalNs), shareText(float64(s.TotalNs), float64(p.TotalNs)),
			lmb.TimeText(mean), lmb.TimeText(s.LongestNs), plain(s.At),
			emptyIfZero(s.Bytes, lmb.SizeText))
	}
	if len(order) > rowsMax {
		t.Note = fmt.Sprintf("the longest %d of %d", rowsMax, len(order))
	}
	return t
}

func (p *Profile) slowTable() Table {
	t := Table{Title: "Slowest commands", commandColumn: ">command", Columns: []string{">command",
		"sequence", ">time", ">share", "text"}}
	for i := range p.Slowest {
		s := &p.Slowest[i]
		share := ""
		if p.Runs == 1 {
			share = shareText(float64(s.Ns), float64(p.TotalNs))
		}
		t.addCommandRow(s.Command, fmt.Sprint(s.Number), plain(s.Sequence), lmb.TimeText(s.Ns),
			share, plain(s.Text))
	}
	return t
}
