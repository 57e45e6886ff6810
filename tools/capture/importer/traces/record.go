package traces

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"lightmetal/boards"
	"lightmetal/tools/capture/record"
	"lightmetal/tools/image/english"
)

// recording reads what tools/capture/record writes. Clocks of the simulator count as nanoseconds.
type recording struct {
	o             Source
	to            Sink
	trace         *Trace
	time          int64
	calls         int // accesses of the program to the device
	configuration int // loads
	configured    int // stores
	place         int // line of the first of them
	// of the device, where the recording is of a program; empty: of a simulator
	name   string
	clocks int

	access Access // that is passed on; each is in the same place
}

func readRecord(r io.Reader, o Source, to Sink) (*Trace, error) {
	t := recording{o: o, to: to, time: 1}
	count := &counter{r: r, progress: o.Progress}
	err := record.Each(count, o.Device, t.header, t.record)
	var place *record.Error
	if t.trace != nil && o.Incomplete && record.Incomplete(err) && errors.As(err, &place) {
		t.trace.Warnings = append(t.trace.Warnings, Warning{0, t.missing(place)})
		err = nil
	}
	switch {
	case t.trace != nil && record.Incomplete(err) && errors.As(err, &place):
		return nil, Refuse(place.Line, "%v; --incomplete imports what there is: %s", place.Err,
			english.Count(t.calls, "access"))
	case record.Incomplete(err) && errors.As(err, &place):
		return nil, Refuse(place.Line, "%v; no device was mapped before that: record it again",
			place.Err)
	case errors.As(err, &place) && count.bytes == 0:
		return nil,
			Refuse(0, "the recording is empty: lm record was killed before it wrote, or the "+
				"program did not open the simulator (libttsim_init); record it again")
	case errors.As(err, &place):
		return nil, Refuse(place.Line, "%v", place.Err)
	case err != nil:
		return nil, err
	case t.calls == 0:
		return nil, t.nothing()
	}
	if t.configured > 0 {
		text := fmt.Sprintf("store to PCI configuration space left out, %d in all: a replay "+
			"configures the device itself", t.configured)
		t.trace.Warnings = append(t.trace.Warnings, Warning{t.place, text})
	}
	if t.configuration > 0 {
		t.trace.Ignored = append(t.trace.Ignored,
			Count{"loads of PCI configuration space", t.configuration})
	}
	return t.trace, nil
}

// missing describes what an image of an incomplete recording lacks.
func (t *recording) missing(place *record.Error) string {
	switch {
	case errors.Is(place, record.ErrGap):
		return "the recording is incomplete: the image does less than the program did"
	case !errors.Is(place, record.ErrCut):
		return "the file is cut or damaged after the END line of the recording; nothing is missing"
	}
	text := fmt.Sprintf("the recording is incomplete: it ends before line %d, after %s", place.Line,
		english.Count(t.calls, "access"))
	if t.name != "" {
		text += fmt.Sprintf(" and %v", time.Duration(t.time-1).Round(time.Microsecond))
	}
	return text + ", without its END line; what the program did after that is missing"
}

// nothing says what was recorded instead of accesses, and what to do.
func (t *recording) nothing() error {
	if t.name == "" {
		return Refuse(0,
			"the recording has no access to a BAR: the program only opened the simulator "+
				"(%s of configuration space, %s)",
			english.Count(t.configuration, "load"), english.Count(t.clocks, "clock step"))
	}
	return Refuse(0, "the recording has no access to %s: the program mapped a BAR but did "+
		"not access it (%s and %s of configuration space); `lm record --help` lists the "+
		"mappings that it sees", t.name, english.Count(t.configuration, "load"),
		english.Count(t.configured, "store"))
}

func (t *recording) header(c *record.Capture) error {
	t.name = c.Name
	t.trace = &Trace{Board: t.o.Board, Vendor: c.Vendor, Device: c.Device}
	if t.trace.Board == nil {
		t.trace.Board = boards.FindByID(c.Vendor, c.Device)
	}
	if t.trace.Board == nil {
		return Usage("the recording is of %04x:%04x, which is not a known board; use "+
			"--board; boards: %s, or generic for any", c.Vendor, c.Device, BoardList())
	}
	if b := t.trace.Board; t.o.Device == "" && b.Vendor != 0 && c.Vendor != 0 &&
		(b.Vendor != c.Vendor || b.Device != c.Device) {
		return Usage("the recording is of %04x:%04x, but board %s is %04x:%04x; use "+
			"--device and --board if they are similar", c.Vendor, c.Device,
			b.Name, b.Vendor, b.Device)
	}
	t.to.Start(t.trace.Board)
	return nil
}

func (t *recording) record(rec *record.Record) error {
	t.trace.Lines = max(t.trace.Lines, rec.Line)
	a := &t.access
	*a = Access{Line: rec.Line, Time: t.time, Bar: rec.Bar, Offset: rec.Offset, Width: rec.Width}
	switch rec.Kind {
	case record.BarWrite, record.BarRead:
		t.calls++
		a.Op = OpStore
		if rec.Kind == record.BarRead {
			a.Op = OpLoad
		}
		return t.to.Block(a, rec.Data)
	case record.HostWrite, record.HostRead:
		return t.to.Device(rec.Line, t.time, rec.Kind == record.HostWrite, rec.Offset,
			bytes.Clone(rec.Data))
	case record.Memory:
		return t.to.Memory(rec.Line, rec.Offset, rec.Size)
	case record.Event:
		t.trace.Warnings = append(t.trace.Warnings, Warning{rec.Line, string(rec.Data)})
	case record.Mark:
		a.Op, a.Name = OpMark, string(rec.Data)
		return t.to.Access(a)
	case record.Gap:
		t.trace.Warnings = append(t.trace.Warnings,
			Warning{rec.Line, "not recorded: " + string(rec.Data)})
	case record.ConfigWrite:
		if t.configured++; t.configured == 1 {
			t.place = rec.Line
		}
	case record.ConfigRead:
		t.configuration++
	case record.Clock:
		t.clocks++
		t.time += int64(rec.Clocks)
	}
	return nil
}

func summarizeRecord(r io.Reader, o Source) (*Summary, error) {
	var list tally
	t, err := readRecord(r, o, &list)
	if err != nil {
		return nil, err
	}
	s := &Summary{Lines: t.Lines, Other: t.Ignored, Events: t.Warnings}
	for _, c := range []Count{
		{"bytes of host memory that the device reaches", list.reached},
		{"bytes that the program stored there", list.stored},
		{"bytes that the device wrote there", list.written},
	} {
		if c.N > 0 {
			s.Other = append(s.Other, c)
		}
	}
	for bar := range list.bars {
		if region := &list.bars[bar]; region.Loads+region.Stores > 0 {
			region.Name = fmt.Sprintf("BAR %d", bar)
			s.Regions = append(s.Regions, *region)
		}
	}
	return s, nil
}
