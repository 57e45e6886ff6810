package importer

import (
	"io"
	"slices"

	"lightmetal/tools/capture/again"
	"lightmetal/tools/capture/importer/traces"
)

// CompareAgain compares a trace with another one of the same work and format, and sets the options
// that leave out comparisons of registers whose values vary, and that wait where the traces waited.
// What the options say already has priority. The error is an *Error, of the first store that
// differs for a reason that no image can repeat.
func (o *Options) CompareAgain(trace, otherTrace io.Reader) (*again.Comparison, error) {
	if o.Part != (Part{}) || o.Frame != (Part{}) {
		return nil, traces.UsageError("--again compares whole recordings; leave out --part and " +
			"--frame")
	}
	t, a, err := traces.Read(trace, o.traceSource())
	if err != nil {
		return nil, err
	}
	if t.Board.TLB != nil {
		return nil, traces.UsageError("--again does not follow TLB windows, which %s has",
			t.Board.Name)
	}
	u, b, err := traces.Read(otherTrace, o.traceSource())
	if err != nil {
		return nil, err
	}
	if t.Vendor != u.Vendor || t.Device != u.Device {
		return nil, traces.TraceError(0, "the device is %04x:%04x, but that of this trace is "+
			"%04x:%04x", u.Vendor, u.Device, t.Vendor, t.Device)
	}
	c, err := again.Compare(o.withoutOmitted(a), o.withoutOmitted(b), o.isInputStore)
	if err != nil {
		return nil, err
	}
	o.applyDifferences(c)
	return c, c.Err()
}

func (o *Options) applyDifferences(c *again.Comparison) {
	decided := slices.Concat(o.Poll, o.Wait, o.CounterRanges, o.Ignore)
	varies := map[Range]bool{}
	var waits []Range
	for _, d := range c.Differences {
		r := Range{Place: Place{HasBar: true, Bar: d.Place.Bar}, First: d.Place.Offset,
			Last: d.Place.Offset}
		if slices.ContainsFunc(decided, func(other Range) bool {
			other.Place = other.Place.withDefaultBar(o.Bar)
			return other == r
		}) {
			continue
		}
		switch d.Kind {
		case again.Waits:
			waits = append(waits, r)
		case again.Varies:
			varies[r] = true
			o.Ignore = append(o.Ignore, r)
		}
	}
	o.Poll = append(o.Poll, slices.DeleteFunc(waits, func(r Range) bool { return varies[r] })...)
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
