package listing

import (
	"bytes"
	"slices"

	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// readBack parses the text that was just written. It returns the reason why the text does not have
// the intended meaning, or "".
func (p *printer) readBack(check *parser, means func() bool) string {
	check.feed(p.out.String())
	switch {
	case len(check.errs) > 0:
		return check.errs[0].(*Error).Reason
	case !means():
		return "a listing cannot express one of the values"
	}
	return ""
}

// isHeader reports whether the declarations before data and tensors are those of the image.
func (p *printer) isHeader(got *lmb.Image) bool {
	want := p.image
	return want.Origin == got.Origin && slices.Equal(want.Devices, got.Devices) &&
		slices.Equal(want.Rules, got.Rules) &&
		slices.Equal(want.Windows, got.Windows)
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
	if tensor := int(c.Index) - 1; c.Opcode == gen.OpcodeCopyOut && tensor >= p.firstGolden {
		if tensor >= len(check.image.Tensors) ||
			!sameTensor(p.image.Tensors[tensor], check.image.Tensors[tensor]) {
			return false // the copy fills an output that belongs to no compare
		}
		check.image.Tensors[tensor].Data = p.image.Tensors[tensor].Data // frees the copy
	}
	s.Commands, check.calls = s.Commands[:0], check.calls[:0]
	if lmb.HasPayload(&want.Command) {
		want.Value = 0 // lmb.Encode fills it
	}
	return got.Command == want.Command && bytes.Equal(got.Data, want.Data)
}
