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

// What a profile that is read back may have at most.
const (
	traceBytesMax   = 64 << 20
	traceEventsMax  = 1 << 20
	traceSummaryMax = 8 << 20
	timeMax         = 1 << 50 // nanoseconds, 13 days: a float64 of microseconds still holds each
)

// traceVersion is in every profile; a reader refuses others.
const traceVersion = 2

// event is one of the Trace Event Format (Chrome's "JSON Object Format"). X is
// a slice, M names a process or a thread.
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
	Command *uint32 `json:"command,omitempty"` // index in the image, of the first
	Count   uint64  `json:"commands,omitempty"`
	Opcode  string  `json:"opcode,omitempty"`
	Mostly  string  `json:"mostly,omitempty"` // the opcode that took the longest, where they differ
	Window  string  `json:"window,omitempty"`
	Offset  string  `json:"offset,omitempty"`
	Bytes   uint64  `json:"bytes,omitempty"`
	Name    string  `json:"name,omitempty"`       // of a process or thread
	Sort    *int    `json:"sort_index,omitempty"` // of a thread
}

const (
	traceProcess = 1
	traceThread  = 1 // of the first row
)

// WriteTrace writes the profile as a trace that Perfetto and chrome://tracing
// open. What they pass over is under "lightmetal".
func (p *Profile) WriteTrace(w io.Writer) error {
	summary, err := json.Marshal(struct {
		Version int `json:"version"`
		*Profile
	}{traceVersion, p})
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16) // keeps its first error
	fmt.Fprintf(out, "{\"displayTimeUnit\":\"ns\",\n\"lightmetal\":%s,\n\"traceEvents\":[", summary)
	for i, e := range p.events() {
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

func (p *Profile) events() []event {
	list := named(nil, "process_name", traceThread,
		"lightmetal: "+plain(p.Image)+" on "+plain(p.Device))
	names := []string{fmt.Sprintf("%s, run %d of %d", plain(p.Sequence), p.Shown, p.Runs), "calls",
		"commands", "scopes"}
	for row, slices := range p.Timeline {
		thread, name := traceThread+row, names[min(row, rowScopes)]
		if row > rowScopes {
			name += fmt.Sprint(" ", row-rowScopes+1)
		}
		if len(slices) > 0 {
			list = named(list, "thread_name", thread, name)
		}
		for i := range slices {
			list = append(list, slices[i].event(thread))
		}
	}
	return list
}

// named appends the name of a process or thread.
func named(list []event, what string, thread int, name string) []event {
	list = append(list, event{Phase: "M", Process: traceProcess, Thread: thread, Name: what,
		Args: arguments{Name: name}})
	if what == "thread_name" {
		list = append(list, event{Phase: "M", Process: traceProcess, Thread: thread,
			Name: "thread_sort_index", Args: arguments{Sort: &thread}})
	}
	return list
}

func (s *Slice) event(thread int) event {
	return event{
		Phase: "X", Process: traceProcess, Thread: thread, Time: microseconds(s.Start),
		Duration: microseconds(s.Ns),
		Name:     plain(s.Name), Category: s.Kind,
		Args: arguments{Command: &s.Command, Count: s.Count, Opcode: s.Opcode, Mostly: s.Mostly,
			Window: plain(s.Window), Offset: s.Offset, Bytes: s.Bytes},
	}
}

// microseconds keeps every nanosecond.
func microseconds(ns int64) json.Number {
	return json.Number(strconv.FormatInt(ns/1000, 10) + fmt.Sprintf(".%03d", ns%1000))
}

// ReadTrace reads what WriteTrace wrote, and believes none of it: the error
// says which event or field is wrong.
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
		return nil, fmt.Errorf("not a profile of lm replay: %w", err)
	}
	p, err := readSummary(file.Summary)
	if err != nil {
		return nil, fmt.Errorf("not a profile of lm replay: %w", err)
	}
	p.Timeline = file.Slices.rows
	for row, slices := range p.Timeline {
		if n := len(slices); n > 0 && slices[n-1].End() > tookOf(p.Timeline) {
			return nil, fmt.Errorf("not a profile of lm replay: thread %d continues after the run",
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
		return nil, fmt.Errorf("its version is %d, but this lm reads version "+
			"%d", summary.Version, traceVersion)
	}
	if err := summary.Profile.check(); err != nil {
		return nil, fmt.Errorf("lightmetal: %w", err)
	}
	return &summary.Profile, nil
}

// summaryText is JSON that occurs once in a file.
type summaryText []byte

func (s *summaryText) UnmarshalJSON(text []byte) error {
	if *s != nil {
		return errors.New(`the field "lightmetal" occurs twice`)
	}
	*s = bytes.Clone(text)
	return nil
}

// check refuses numbers that cannot be.
func (p *Profile) check() error {
	numbers := []int64{p.OverheadNs, p.TotalNs, p.LeastNs, p.MostNs, p.MergeNs, int64(p.Runs),
		int64(p.Shown)}
	for _, list := range [][]Spent{p.Opcodes, p.Scopes, p.Sequences, p.Windows} {
		if len(list) > spentMax+1 {
			return fmt.Errorf("a table has %d rows, more than %d", len(list), spentMax+1)
		}
		for i := range list {
			numbers = append(numbers, list[i].TotalNs, list[i].LongestNs)
		}
	}
	if len(p.Golden) > fbs.TensorsMax {
		return fmt.Errorf("it has %d outputs, more than %d", len(p.Golden), fbs.TensorsMax)
	}
	if len(p.Slowest) > slowestMax {
		return fmt.Errorf("it lists %d slowest commands, more than %d", len(p.Slowest), slowestMax)
	}
	for i := range p.Slowest {
		numbers = append(numbers, p.Slowest[i].Ns)
	}
	if p.Failed != nil {
		numbers = append(numbers, p.Failed.Ns)
	}
	for _, n := range numbers {
		if n < 0 {
			return fmt.Errorf("the number %d is negative", n)
		}
	}
	return nil
}

// traceSlices are the rows of a trace.
type traceSlices struct {
	rows   [][]Slice
	events int // of all lists in the file
}

// UnmarshalJSON takes one event after the other: all of them at once could take more
// memory than there is.
func (t *traceSlices) UnmarshalJSON(list []byte) error {
	d := json.NewDecoder(bytes.NewReader(list))
	if first, _ := d.Token(); first != json.Delim('[') {
		return errors.New("traceEvents is not a list")
	}
	for ; d.More(); t.events++ {
		if t.events >= traceEventsMax {
			return fmt.Errorf("there are more than %d events", traceEventsMax)
		}
		var e event
		err := d.Decode(&e)
		if err == nil {
			err = t.event(&e)
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", t.events, err)
		}
	}
	return nil
}

func (t *traceSlices) event(e *event) error {
	switch {
	case e.Phase == "M":
		return nil
	case e.Phase != "X":
		return fmt.Errorf("its phase %q is unknown", plain(e.Phase))
	case e.Process != traceProcess || e.Thread < traceThread ||
		e.Thread >= traceThread+rowsOfTimeline:
		return fmt.Errorf("process %d, thread %d is unknown", e.Process, e.Thread)
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
		Name: plain(e.Name), Kind: plain(e.Category), Start: start, Ns: took, Count: e.Args.Count,
		Bytes:  e.Args.Bytes,
		Opcode: plain(e.Args.Opcode), Mostly: plain(e.Args.Mostly), Window: plain(e.Args.Window),
		Offset: plain(e.Args.Offset),
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

// nanoseconds is the inverse of microseconds, for numbers of any form.
func nanoseconds(text json.Number) (int64, error) {
	us, err := text.Float64()
	if ns := math.Round(us * 1000); err == nil && ns >= 0 && ns < timeMax {
		return int64(ns), nil
	}
	return 0, fmt.Errorf("%q is not a time in microseconds", plain(text.String()))
}
