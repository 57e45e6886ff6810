package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
)

// Limits of a profile that ReadTrace accepts.
const (
	traceBytesMax   = 64 << 20
	traceEventsMax  = 1 << 20
	traceSummaryMax = 8 << 20
	// nanoseconds, 13 days: a float64 in microseconds can still represent each nanosecond
	traceTimeMax = 1 << 50
)

// traceVersion is the version in every profile. ReadTrace rejects other versions.
const traceVersion = 2

// event is an event of the Trace Event Format (Chrome's "JSON Object Format"). Phase "X" is a
// slice, and "M" names a process or a thread.
type event struct {
	Phase    string      `json:"ph"`
	Process  int         `json:"pid"`
	Thread   int         `json:"tid"`
	Time     json.Number `json:"ts,omitempty"`  // microseconds
	Duration json.Number `json:"dur,omitempty"` // microseconds
	Name     string      `json:"name"`
	Category string      `json:"cat,omitempty"`
	Args     arguments   `json:"args"`
}

type arguments struct {
	Command *uint32 `json:"command,omitempty"` // index in the image of the first command
	Count   uint64  `json:"commands,omitempty"`
	Opcode  string  `json:"opcode,omitempty"`
	// the opcode that took most of the time, if they differ
	MainOpcode string `json:"mostly,omitempty"`
	Window     string `json:"window,omitempty"`
	Offset     string `json:"offset,omitempty"`
	Bytes      uint64 `json:"bytes,omitempty"`
	Name       string `json:"name,omitempty"`       // name of a process or thread
	Sort       *int   `json:"sort_index,omitempty"` // position of a thread
}

const (
	traceProcess = 1
	traceThread  = 1 // thread id of the first row
)

// WriteTrace writes the profile as a trace for Perfetto and chrome://tracing. These programs ignore
// the field "lightmetal", which contains the tables of the profile.
func (p *Profile) WriteTrace(w io.Writer) error {
	summary, err := json.Marshal(struct {
		Version int `json:"version"`
		*Profile
	}{traceVersion, p})
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16) // Flush returns the first error
	fmt.Fprintf(out, "{\"displayTimeUnit\":\"ns\",\n\"lightmetal\":%s,\n\"traceEvents\":[", summary)
	for i, e := range p.traceEvents() {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		out.WriteString(map[bool]string{true: "\n", false: ",\n"}[i == 0])
		out.Write(line)
	}
	out.WriteString("\n]}\n")
	return out.Flush()
}

func (p *Profile) traceEvents() []event {
	list := appendName(nil, "process_name", traceThread,
		"lightmetal: "+sanitize(p.Image)+" on "+sanitize(p.Device))
	names := []string{fmt.Sprintf("%s, run %d of %d", sanitize(p.Sequence), p.ShownRun, p.Runs),
		"calls",
		"commands", "scopes"}
	for row, slices := range p.Timeline {
		thread, name := traceThread+row, names[min(row, rowScopes)]
		if row > rowScopes {
			name += fmt.Sprint(" ", row-rowScopes+1)
		}
		if len(slices) > 0 {
			list = appendName(list, "thread_name", thread, name)
		}
		for i := range slices {
			list = append(list, slices[i].traceEvent(thread))
		}
	}
	return list
}

// appendName appends an event that names a process or thread.
func appendName(list []event, what string, thread int, name string) []event {
	list = append(list, event{Phase: "M", Process: traceProcess, Thread: thread, Name: what,
		Args: arguments{Name: name}})
	if what == "thread_name" {
		list = append(list, event{Phase: "M", Process: traceProcess, Thread: thread,
			Name: "thread_sort_index", Args: arguments{Sort: &thread}})
	}
	return list
}

func (s *Slice) traceEvent(thread int) event {
	return event{
		Phase: "X", Process: traceProcess, Thread: thread, Time: microseconds(s.Start),
		Duration: microseconds(s.Ns),
		Name:     sanitize(s.Name), Category: s.Kind,
		Args: arguments{Command: &s.Command, Count: s.Count, Opcode: s.Opcode,
			MainOpcode: s.MainOpcode,
			Window:     sanitize(s.Window), Offset: s.Offset, Bytes: s.Bytes},
	}
}

// microseconds formats a time in microseconds, with three decimal places.
func microseconds(ns int64) json.Number {
	return json.Number(strconv.FormatInt(ns/1000, 10) + fmt.Sprintf(".%03d", ns%1000))
}

// ReadTrace reads a file that WriteTrace wrote. It trusts no part of the file: the error names the
// event or field that is wrong.
func ReadTrace(r io.Reader) (*Profile, error) {
	text, err := io.ReadAll(io.LimitReader(r, traceBytesMax+1))
	if len(text) > traceBytesMax {
		return nil, fmt.Errorf("the profile is larger than %s", lmb.SizeText(traceBytesMax))
	}
	var file struct {
		Summary summaryText `json:"lightmetal"`
		Slices  traceSlices `json:"traceEvents"`
	}
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		err = fmt.Errorf("broken JSON at byte %d; lm replay --profile FILE writes a profile",
			syntax.Offset)
	}
	if err != nil {
		return nil, fmt.Errorf("the file is not a profile of lm replay: %w", err)
	}
	p, err := readSummary(file.Summary)
	if err != nil {
		return nil, fmt.Errorf("the file is not a profile of lm replay: %w", err)
	}
	p.Timeline = file.Slices.rows
	for row, slices := range p.Timeline {
		if n := len(slices); n > 0 && slices[n-1].End() > timelineNs(p.Timeline) {
			return nil, fmt.Errorf("the file is not a profile of lm replay: thread %d continues "+
				"after the end of the run",
				traceThread+row)
		}
	}
	return p, nil
}

func readSummary(text []byte) (*Profile, error) {
	switch {
	case text == nil:
		return nil, errors.New(`the field "lightmetal" is missing`)
	case len(text) > traceSummaryMax:
		return nil, fmt.Errorf(`the field "lightmetal" is too large, %d bytes`, len(text))
	}
	var summary struct {
		Version int `json:"version"`
		Profile
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&summary); err != nil {
		return nil, fmt.Errorf("lightmetal: %w", err)
	}
	if summary.Version != traceVersion {
		return nil, fmt.Errorf("the profile has version %d, "+
			"but this lm reads version %d; write it again with lm replay --profile",
			summary.Version, traceVersion)
	}
	if err := summary.Profile.checkNumbers(); err != nil {
		return nil, fmt.Errorf("lightmetal: %w", err)
	}
	return &summary.Profile, nil
}

// summaryText is the JSON of the field "lightmetal", which may occur only once in a file.
type summaryText []byte

func (s *summaryText) UnmarshalJSON(text []byte) error {
	if *s != nil {
		return errors.New(`the field "lightmetal" occurs twice`)
	}
	*s = bytes.Clone(text)
	return nil
}

// namedNumber is the value of a field of a profile, with the name that the field has in JSON.
type namedNumber struct {
	field string
	value int64
}

// checkNumbers checks that no table is too long, and that no time or number is negative.
func (p *Profile) checkNumbers() error {
	numbers := []namedNumber{{"overhead_ns", p.OverheadNs}, {"total_ns", p.TotalNs},
		{"least_ns", p.LeastNs}, {"most_ns", p.MostNs}, {"merge_ns", p.MergeNs},
		{"runs", int64(p.Runs)}, {"shown", int64(p.ShownRun)}}
	for _, table := range [...]struct {
		name string
		rows []TimeSpent
	}{{"opcodes", p.Opcodes}, {"scopes", p.Scopes}, {"sequences", p.Sequences},
		{"windows", p.Windows}} {
		if n := len(table.rows); n > timeSpentMax+1 {
			return fmt.Errorf("table %q has %d rows, but the limit is %d", table.name, n,
				timeSpentMax+1)
		}
		for i := range table.rows {
			numbers = append(numbers,
				namedNumber{table.name + ".total_ns", table.rows[i].TotalNs},
				namedNumber{table.name + ".longest_ns", table.rows[i].LongestNs})
		}
	}
	if len(p.Golden) > fbs.TensorsMax {
		return fmt.Errorf("the profile has %d outputs, but the limit is %d", len(p.Golden),
			fbs.TensorsMax)
	}
	if len(p.Slowest) > slowestMax {
		return fmt.Errorf("the profile lists %d slowest commands, but the limit is %d",
			len(p.Slowest),
			slowestMax)
	}
	for i := range p.Slowest {
		numbers = append(numbers, namedNumber{"slowest.ns", p.Slowest[i].Ns})
	}
	if p.Failed != nil {
		numbers = append(numbers, namedNumber{"failed.ns", p.Failed.Ns})
	}
	for _, n := range numbers {
		if n.value < 0 {
			return fmt.Errorf("the field %q must not be negative, but is %d", n.field, n.value)
		}
	}
	return nil
}

type traceSlices struct {
	rows   [][]Slice
	events int // number of events in all lists of the file
}

// UnmarshalJSON decodes one event after the other, because all of them at once could need too much
// memory.
func (t *traceSlices) UnmarshalJSON(list []byte) error {
	d := json.NewDecoder(bytes.NewReader(list))
	if first, _ := d.Token(); first != json.Delim('[') {
		return errors.New("the field \"traceEvents\" must be a list")
	}
	for ; d.More(); t.events++ {
		if t.events >= traceEventsMax {
			return fmt.Errorf("the profile has more than %d events", traceEventsMax)
		}
		var e event
		err := d.Decode(&e)
		if err == nil {
			err = t.addEvent(&e)
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", t.events, err)
		}
	}
	return nil
}

func (t *traceSlices) addEvent(e *event) error {
	switch {
	case e.Phase == "M":
		return nil
	case e.Phase != "X":
		return fmt.Errorf("phase %q is unknown", sanitize(e.Phase))
	case e.Process != traceProcess || e.Thread < traceThread ||
		e.Thread >= traceThread+timelineRowsMax:
		return fmt.Errorf("thread %d of process %d is unknown", e.Thread, e.Process)
	}
	start, err := nanoseconds(e.Time)
	if err != nil {
		return err
	}
	took, err := nanoseconds(e.Duration)
	if err != nil {
		return err
	}
	s := Slice{
		Name: sanitize(e.Name), Kind: sanitize(e.Category), Start: start, Ns: took,
		Count:  e.Args.Count,
		Bytes:  e.Args.Bytes,
		Opcode: sanitize(e.Args.Opcode), MainOpcode: sanitize(e.Args.MainOpcode),
		Window: sanitize(e.Args.Window),
		Offset: sanitize(e.Args.Offset),
	}
	if e.Args.Command != nil {
		s.Command = *e.Args.Command
	}
	row := e.Thread - traceThread
	for len(t.rows) <= row {
		t.rows = append(t.rows, nil)
	}
	if n := len(t.rows[row]); n > 0 && s.Start < t.rows[row][n-1].End() {
		return errors.New("the event begins before the end of the previous event")
	}
	t.rows[row] = append(t.rows[row], s)
	return nil
}

// nanoseconds parses a time in microseconds, in any form of a JSON number.
func nanoseconds(text json.Number) (int64, error) {
	us, err := text.Float64()
	if ns := math.Round(us * 1000); err == nil && ns >= 0 && ns < traceTimeMax {
		return int64(ns), nil
	}
	return 0, fmt.Errorf("%q must be a time in microseconds", sanitize(text.String()))
}
