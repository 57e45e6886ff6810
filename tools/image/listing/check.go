package listing

import (
	"bytes"
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// finish parses the text of a part of the listing and writes it. It fails if the parsed text does
// not have the intended meaning. The error names the part.
func (p *printer) finish(isMeant func() bool, part string, args ...any) {
	p.check.feed(p.out.String())
	why := "a listing cannot express one of the values"
	switch {
	case len(p.check.errs) > 0:
		why = p.check.errs[0].(*Error).Reason
	case isMeant():
		fail.Must(p.out.WriteTo(p.to))
		return
	}
	fail.On(&fbs.Error{Place: "listing",
		Reason: fmt.Sprintf(part, args...) + " cannot be written: " + why})
}

// isHeader reports whether the parsed declarations before data and tensors equal the image's.
func (p *printer) isHeader(got *lmb.Image) bool {
	want := p.image
	return want.Origin == got.Origin && slices.Equal(want.Captures, got.Captures) &&
		slices.Equal(want.Devices, got.Devices) &&
		slices.Equal(want.Rules, got.Rules) &&
		slices.Equal(want.Windows, got.Windows) && slices.Equal(want.Rings, got.Rings)
}

func sameTensor(a, b lmb.Tensor) bool {
	return a.Name == b.Name && a.Role == b.Role && a.Golden == b.Golden && a.DType == b.DType &&
		slices.Equal(a.Shape, b.Shape) &&
		(a.Data == nil) == (b.Data == nil) && bytes.Equal(a.Data, b.Data)
}

// isCommand reports whether the last command that was parsed is c, and removes it.
func (p *printer) isCommand(check *parser, c *lmb.Command) bool {
	s := &check.image.Sequences[len(check.image.Sequences)-1]
	if len(s.Commands) != 1 {
		return false
	}
	got, want := s.Commands[0], *c
	if len(check.calls) == 1 {
		// The called sequence may come later, so only its name can be checked.
		if int(c.Index) >= len(p.image.Sequences) ||
			p.image.Sequences[c.Index].Name != check.calls[0].name {
			return false
		}
		got.Index = c.Index
	}
	if output := p.goldenOutput(c); output != nil {
		if int(c.Index) > len(check.image.Tensors) ||
			!sameTensor(*output, check.image.Tensors[c.Index-1]) {
			return false // the copy fills an output that belongs to no compare
		}
		check.image.Tensors[c.Index-1].Data = output.Data // frees the copy
	}
	s.Commands, check.calls = s.Commands[:0], check.calls[:0]
	if lmb.HasPayload(&want.Command) {
		want.Value = 0 // lmb.Encode fills it
	}
	return got.Command == want.Command && bytes.Equal(got.Data, want.Data)
}
