package importer

import (
	"io"
	"maps"
	"slices"

	"lightmetal/boards"
	"lightmetal/tools/capture/again"
	"lightmetal/tools/capture/importer/traces"
)

// Repetitions compares a trace with others of the same work and format.
type Repetitions struct {
	options     *Options
	trace       *traces.Trace
	recording   *again.Recording
	comparisons []*again.Comparison
}

// ReadRepeated reads the trace that others repeat. The error is an *Error.
func (o *Options) ReadRepeated(trace io.Reader) (*Repetitions, error) {
	if o.Part != (Part{}) || o.Frame != (Part{}) {
		return nil, traces.UsageError("--again compares whole recordings; leave out --part and " +
			"--frame")
	}
	t, recording, err := o.readWhole(trace)
	if err != nil {
		return nil, err
	}
	if t.Board.TLB != nil {
		return nil, traces.UsageError("--again does not follow TLB windows, which %s has",
			t.Board.Name)
	}
	for _, h := range o.Host {
		recording.Memory = append(recording.Memory, again.Span{Bus: h.Bus,
			Size: uint64(len(h.Data))})
	}
	return &Repetitions{options: o, trace: t, recording: recording}, nil
}

// Compare compares the trace with another one. The error is an *Error. If it names a difference
// that no image can repeat, Compare returns the comparison, too.
func (r *Repetitions) Compare(other io.Reader) (*again.Comparison, error) {
	t, recording, err := r.options.readWhole(other)
	if err != nil {
		return nil, err
	}
	if t.Vendor != r.trace.Vendor || t.Device != r.trace.Device {
		return nil, traces.TraceError(0, "the device is %04x:%04x, but that of this trace is "+
			"%04x:%04x", t.Vendor, t.Device, r.trace.Vendor, r.trace.Device)
	}
	c, err := again.Compare(r.recording, recording, r.options.isInput)
	if err != nil {
		return nil, err
	}
	r.comparisons = append(r.comparisons, c)
	return c, c.Err()
}

// wholeReader collects all accesses of a trace, also those of the device to host memory.
type wholeReader struct {
	options   *Options
	recording again.Recording
}

func (o *Options) readWhole(trace io.Reader) (*traces.Trace, *again.Recording, error) {
	w := wholeReader{options: o}
	t, err := traces.Scan(trace, o.traceSource(), &w)
	return t, &w.recording, err
}

func (w *wholeReader) Start(*boards.Board) {}

func (w *wholeReader) Access(a *traces.Access) error {
	switch {
	case a.Op == traces.OpRejected || a.Op == traces.OpLost:
		return traces.TraceError(a.Line, "%s", a.Name)
	case a.Op != traces.OpInterrupt && !w.options.isOmitted(a):
		w.recording.Accesses = append(w.recording.Accesses, *a)
	}
	return nil
}

func (w *wholeReader) Block(a *traces.Access, data []byte) error {
	return traces.EachAccess(a, data, w.Access)
}

func (w *wholeReader) Device(line int, _ int64, write bool, bus uint64, data []byte) error {
	w.recording.Transfers = append(w.recording.Transfers,
		again.Transfer{Line: line, Bus: bus, Write: write, Data: slices.Clone(data)})
	return nil
}

// Both takes what --ignore names as written by the device, and the rest as stored by the program.
func (w *wholeReader) Both(line int, time int64, bus uint64, data []byte) error {
	ignored := slices.ContainsFunc(w.options.Ignore, func(r Range) bool {
		return r.Bus && bus >= r.First && bus <= r.Last
	})
	return w.Device(line, time, ignored, bus, data)
}

func (w *wholeReader) Memory(_ int, bus, size uint64) error {
	w.recording.Memory = append(w.recording.Memory, again.Span{Bus: bus, Size: size})
	return nil
}

// Apply sets options: the image carries values, does not compare loads whose values vary in any
// trace, and waits where the traces waited. Options that are set already have priority. Apply
// returns the comparisons.
func (r *Repetitions) Apply() []*again.Comparison {
	o := r.options
	o.repeated = len(r.comparisons)
	decided := slices.Concat(o.Poll, o.Wait, o.CounterRanges, o.Ignore)
	for i := range decided {
		decided[i].Place = decided[i].Place.withDefaultBar(o.Bar)
	}
	for _, c := range r.comparisons {
		for _, m := range c.Moves {
			decided = append(decided, o.addCarry(m))
		}
	}
	o.varying = map[int]bool{}
	for _, c := range r.comparisons {
		for line, place := range c.Varying {
			o.varying[line] = !slices.Contains(decided, rangeOf(place))
		}
	}
	for _, c := range r.comparisons {
		for _, d := range c.Differences {
			place := rangeOf(d.Place)
			switch {
			case slices.Contains(decided, place):
				continue
			case d.Kind == again.Varies && place.Bus:
				o.Ignore = append(o.Ignore, place)
			case d.Kind == again.Waits:
				o.Poll = append(o.Poll, place)
			default:
				continue
			}
			decided = append(decided, place)
		}
	}
	return r.comparisons
}

func rangeOf(p again.Place) Range {
	if p.Last != 0 {
		return Range{Place: Place{Bus: true}, First: p.Offset, Last: p.Last}
	}
	return Range{Place: Place{HasBar: true, Bar: p.Bar}, First: p.Offset, Last: p.Offset}
}

// addCarry adds a Carry, unless the options have one to the same register, and returns the register
// whose values it carries.
func (o *Options) addCarry(m again.Move) Range {
	c := Carry{rangeOf(m.From), rangeOf(m.To), m.Loads}
	i := slices.IndexFunc(o.Carry, func(other Carry) bool {
		other.To.Place = other.To.withDefaultBar(o.Bar)
		return other.To == c.To
	})
	switch {
	case i < 0:
		o.Carry = append(o.Carry, c)
	case o.Carry[i].Loads != nil && o.Carry[i].From == c.From:
		maps.Copy(o.Carry[i].Loads, c.Loads)
	}
	return c.From
}

func (o *Options) isOmitted(a *traces.Access) bool {
	return slices.ContainsFunc(o.Omit, func(r Range) bool {
		p := r.Place.withDefaultBar(o.Bar)
		return p.HasBar && p.Bar == a.Bar && a.Offset >= r.First && a.Offset <= r.Last
	})
}

// isInput reports whether a place is inside a named input, or in a range of AsData.
func (o *Options) isInput(place again.Place) bool {
	r := rangeOf(place)
	last := max(r.Last, r.First+uint64(max(place.Width, 1))-1)
	kept := slices.ContainsFunc(o.AsData, func(other Range) bool {
		return other.withDefaultBar(o.Bar) == r.Place && r.First >= other.First &&
			r.First <= other.Last
	})
	return kept || slices.ContainsFunc(o.Inputs, func(t TensorSpec) bool {
		return t.withDefaultBar(o.Bar) == r.Place && r.First >= t.Address &&
			last < t.Address+t.Size()
	})
}
