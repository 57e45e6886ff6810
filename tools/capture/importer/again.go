package importer

import (
	"io"
	"maps"
	"slices"

	"lightmetal/tools/capture/again"
	"lightmetal/tools/capture/importer/traces"
)

// Repetitions compares a trace with others of the same work and format.
type Repetitions struct {
	options     *Options
	trace       *traces.Trace
	accesses    []traces.Access
	comparisons []*again.Comparison
}

// ReadRepeated reads the trace that others repeat. The error is an *Error.
func (o *Options) ReadRepeated(trace io.Reader) (*Repetitions, error) {
	if o.Part != (Part{}) || o.Frame != (Part{}) {
		return nil, traces.UsageError("--again compares whole recordings; leave out --part and " +
			"--frame")
	}
	t, list, err := traces.Read(trace, o.traceSource())
	if err != nil {
		return nil, err
	}
	if t.Board.TLB != nil {
		return nil, traces.UsageError("--again does not follow TLB windows, which %s has",
			t.Board.Name)
	}
	return &Repetitions{options: o, trace: t, accesses: o.withoutOmitted(list)}, nil
}

// Compare compares the trace with another one. The error is an *Error, of the first store that
// differs for a reason that no image can repeat; then the comparison is returned, too.
func (r *Repetitions) Compare(other io.Reader) (*again.Comparison, error) {
	t, list, err := traces.Read(other, r.options.traceSource())
	if err != nil {
		return nil, err
	}
	if t.Vendor != r.trace.Vendor || t.Device != r.trace.Device {
		return nil, traces.TraceError(0, "the device is %04x:%04x, but that of this trace is "+
			"%04x:%04x", t.Vendor, t.Device, r.trace.Vendor, r.trace.Device)
	}
	c, err := again.Compare(r.accesses, r.options.withoutOmitted(list), r.options.isInputStore)
	if err != nil {
		return nil, err
	}
	r.comparisons = append(r.comparisons, c)
	return c, c.Err()
}

// Apply sets the options that carry values, that leave out comparisons of registers whose values
// vary in any trace, and that wait where the traces waited. What the options say already has
// priority. It returns the comparisons.
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
	// Values that vary come first: they decide, too.
	for _, kind := range []again.Kind{again.Varies, again.Waits} {
		for _, c := range r.comparisons {
			for _, d := range c.Differences {
				place := rangeOf(d.Place)
				switch {
				case d.Kind != kind || slices.Contains(decided, place):
					continue
				case kind == again.Varies:
					o.Ignore = append(o.Ignore, place)
				default:
					o.Poll = append(o.Poll, place)
				}
				decided = append(decided, place)
			}
		}
	}
	return r.comparisons
}

func rangeOf(p again.Place) Range {
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

// withoutOmitted returns the accesses outside the ranges of Omit.
func (o *Options) withoutOmitted(list []traces.Access) []traces.Access {
	return slices.DeleteFunc(list, func(a traces.Access) bool {
		return slices.ContainsFunc(o.Omit, func(r Range) bool {
			p := r.Place.withDefaultBar(o.Bar)
			return p.HasBar && p.Bar == a.Bar && a.Offset >= r.First && a.Offset <= r.Last
		})
	})
}

// isInputStore reports whether a store is inside a named input of a BAR.
func (o *Options) isInputStore(a *traces.Access) bool {
	return slices.ContainsFunc(o.Inputs, func(t TensorSpec) bool {
		p := t.Place.withDefaultBar(o.Bar)
		return p.HasBar && p.Bar == a.Bar && a.Offset >= t.Address &&
			a.Offset+uint64(a.Width) <= t.Address+t.Size()
	})
}
