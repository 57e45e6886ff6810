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

// recording reads the format of tools/capture/record. A clock step of the simulator counts as a
// nanosecond.
type recording struct {
	source          Source
	sink            Sink
	trace           *Trace
	time            int64
	barAccesses     int // accesses of the program to BARs
	configLoads     int // loads of configuration space
	configStores    int // stores to configuration space
	configStoreLine int // line of the first store to configuration space
	// Name of the recorded device; empty: the recording is of a simulator
	name   string
	clocks int
	config configSpace

	access Access // reused for each access, to avoid allocations
}

func readRecord(r io.Reader, o Source, to Sink) (*Trace, error) {
	t := recording{source: o, sink: to, time: 1}
	count := &progressReader{r: r, progress: o.Progress}
	err := record.EachRecord(count, o.Device, t.readHeader, t.addRecord)
	var place *record.Error
	if t.trace != nil && o.Incomplete && record.Incomplete(err) && errors.As(err, &place) {
		t.trace.Warnings = append(t.trace.Warnings, Warning{0, t.missingText(place)})
		err = nil
	}
	switch {
	case t.trace != nil && record.Incomplete(err) && errors.As(err, &place):
		return nil, TraceError(place.Line, "%v; --incomplete imports what was recorded: %s",
			place.Err,
			english.Count(t.barAccesses, "access"))
	case record.Incomplete(err) && errors.As(err, &place):
		return nil, TraceError(place.Line,
			"%v; the recording has no mapping of a device: record again",
			place.Err)
	case errors.As(err, &place) && count.bytes == 0:
		return nil,
			TraceError(0, "the recording is empty: lm record was killed before it wrote, "+
				"or the program did not open the simulator (libttsim_init); record again")
	case errors.As(err, &place):
		return nil, TraceError(place.Line, "%v", place.Err)
	case err != nil:
		return nil, err
	case t.barAccesses == 0:
		return nil, t.noAccessError()
	}
	t.trace.MSIX, t.trace.Vectors = t.config.msix(), t.config.vectors
	if t.configStores > 0 {
		text := fmt.Sprintf("this store to PCI configuration space is left out (%s in all): "+
			"a replay configures the device itself", english.Count(t.configStores, "store"))
		t.trace.Warnings = append(t.trace.Warnings, Warning{t.configStoreLine, text})
	}
	if t.configLoads > 0 {
		t.trace.Ignored = append(t.trace.Ignored,
			Count{"loads of PCI configuration space", t.configLoads})
	}
	return t.trace, nil
}

// missingText describes what the image of an incomplete recording lacks.
func (t *recording) missingText(place *record.Error) string {
	switch {
	case errors.Is(place, record.ErrGap):
		return "the recording is incomplete: the image does less than the program did"
	case !errors.Is(place, record.ErrCut):
		return "the file is cut or damaged after the END line of the recording; nothing is missing"
	}
	text := fmt.Sprintf("the recording is incomplete: it ends before line %d, after %s", place.Line,
		english.Count(t.barAccesses, "access"))
	if t.name != "" {
		text += fmt.Sprintf(" and %v", time.Duration(t.time-1).Round(time.Microsecond))
	}
	return text + ", without an END line; all later accesses of the program are missing"
}

func (t *recording) noAccessError() error {
	if t.name == "" {
		return TraceError(0,
			"the recording contains no access to a BAR: the program only opened the simulator "+
				"(%s of configuration space, %s)",
			english.Count(t.configLoads, "load"), english.Count(t.clocks, "clock step"))
	}
	if t.name == record.ServedDevice {
		return TraceError(0, "the recording contains no access to a BAR: "+
			"no driver of the virtual machine accessed the served device "+
			"(%s and %s of configuration space); "+
			"start the driver or program in the machine, and record again",
			english.Count(t.configLoads, "load"), english.Count(t.configStores, "store"))
	}
	return TraceError(0, "the recording contains no access to %s: the program mapped a BAR "+
		"but did not access the BAR (%s and %s of configuration space); `lm record --help` lists "+
		"the mappings that lm can record", t.name, english.Count(t.configLoads, "load"),
		english.Count(t.configStores, "store"))
}

func (t *recording) readHeader(c *record.Capture) error {
	t.name = c.Name
	t.trace = &Trace{Board: t.source.Board, Vendor: c.Vendor, Device: c.Device}
	if t.trace.Board == nil {
		t.trace.Board = boards.FindByID(c.Vendor, c.Device)
	}
	if t.trace.Board == nil {
		return UsageError("lm has no board for %04x:%04x, the device of the recording; "+
			"use --board generic, or --device and --board for a similar board; boards: %s",
			c.Vendor, c.Device, BoardList())
	}
	if b := t.trace.Board; t.source.Device == "" && b.Vendor != 0 && c.Vendor != 0 &&
		(b.Vendor != c.Vendor || b.Device != c.Device) {
		return UsageError("the recording is of %04x:%04x, but board %s is %04x:%04x; "+
			"use --device and --board if the devices are similar", c.Vendor, c.Device,
			b.Name, b.Vendor, b.Device)
	}
	t.sink.Start(t.trace.Board)
	return nil
}

func (t *recording) addRecord(rec *record.Record) error {
	t.trace.Lines = max(t.trace.Lines, rec.Line)
	a := &t.access
	*a = Access{Line: rec.Line, Time: t.time, Bar: rec.Bar, Offset: rec.Offset, Width: rec.Width}
	switch rec.Kind {
	case record.BarWrite, record.BarRead:
		t.barAccesses++
		a.Op = OpStore
		if rec.Kind == record.BarRead {
			a.Op = OpLoad
		}
		return t.sink.Block(a, rec.Data)
	case record.HostWrite, record.HostRead:
		return t.sink.Device(rec.Line, t.time, rec.Kind == record.HostWrite, rec.Offset,
			bytes.Clone(rec.Data))
	case record.HostBoth:
		return t.sink.Both(rec.Line, t.time, rec.Offset, bytes.Clone(rec.Data))
	case record.Memory:
		return t.sink.Memory(rec.Line, rec.Offset, rec.Size)
	case record.Event:
		t.trace.Warnings = append(t.trace.Warnings, Warning{rec.Line, string(rec.Data)})
	case record.Interrupt:
		a.Op = OpInterrupt
		return t.sink.Access(a)
	case record.Mark:
		a.Op, a.Name = OpMark, string(rec.Data)
		return t.sink.Access(a)
	case record.Gap:
		t.trace.Warnings = append(t.trace.Warnings,
			Warning{rec.Line, "not recorded: " + string(rec.Data)})
	case record.ConfigWrite:
		if t.configStores++; t.configStores == 1 {
			t.configStoreLine = rec.Line
		}
		t.config.noteVectors(rec.Offset, rec.Data)
	case record.ConfigRead:
		t.configLoads++
		t.config.add(rec.Offset, rec.Data)
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
		{"interrupts", list.interrupts},
		{"bytes of host memory that the device reaches", list.hostBytes},
		{"bytes of host memory that the program stored", list.storedBytes},
		{"bytes of host memory that the device wrote", list.writtenBytes},
		{"bytes of host memory that the program or the device wrote", list.bothBytes},
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
