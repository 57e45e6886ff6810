package importer

import (
	"io"
	"slices"

	"lightmetal/tools/capture/again"
	"lightmetal/tools/capture/importer/traces"
)

// CompareAgain compares a trace with another one of the same work, and sets the options that leave
// out comparisons of registers whose values vary, and that wait where the traces waited. other has
// the format of the other trace. The error is an *Error, of the first store that differs for a
// reason that no image can repeat.
func (o *Options) CompareAgain(trace, otherTrace io.Reader,
	other string) (*again.Comparison, error) {
	if o.Part != (Part{}) || o.Frame != (Part{}) {
		return nil, traces.UsageError("--again compares whole recordings; leave out --part and " +
			"--frame")
	}
	source := o.traceSource()
	t, a, err := traces.Read(trace, source)
	if err != nil {
		return nil, err
	}
	if t.Board.TLB != nil {
		return nil, traces.UsageError("--again does not follow TLB windows, which %s has",
			t.Board.Name)
	}
	source.From = other
	_, b, err := traces.Read(otherTrace, source)
	if err != nil {
		return nil, err
	}
	c, err := again.Compare(a, b, o.isInputStore)
	if err != nil {
		return nil, err
	}
	for _, d := range c.Differences {
		r := Range{Place: Place{HasBar: true, Bar: d.Place.Bar}, First: d.Place.Offset,
			Last: d.Place.Offset}
		switch d.Kind {
		case again.Waits:
			o.Poll = append(o.Poll, r)
		case again.Varies:
			o.Ignore = append(o.Ignore, r)
		}
	}
	o.Ignore = slices.DeleteFunc(o.Ignore, func(r Range) bool { return slices.Contains(o.Poll, r) })
	return c, c.Err()
}

// isInputStore reports whether a store is inside a named input of a BAR.
func (o *Options) isInputStore(a *traces.Access) bool {
	return slices.ContainsFunc(o.Inputs, func(t TensorSpec) bool {
		p := t.Place.withDefaultBar(o.Bar)
		return p.HasBar && p.Bar == a.Bar && a.Offset >= t.Address &&
			a.Offset+uint64(a.Width) <= t.Address+t.Size()
	})
}
