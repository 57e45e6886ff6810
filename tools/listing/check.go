package listing

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

func reason(check *parser) string {
	if len(check.errs) == 0 {
		return "it has a value that the language has no text for"
	}
	return check.errs[0].(*Error).Reason
}

// checkHeader parses the declarations just written and says why they do not
// mean the image's, empty if they do.
func (p *printer) checkHeader(check *parser) string {
	check.feed(p.out.String())
	want, got := p.image, check.image
	switch {
	case len(check.errs) > 0:
	case want.Origin != got.Origin:
	case !slices.Equal(want.Targets, got.Targets):
	case !slices.Equal(want.Rules, got.Rules):
	case !slices.Equal(want.Windows, got.Windows):
	case !slices.EqualFunc(want.Tensors[:p.golden], got.Tensors, sameTensor):
	default:
		return ""
	}
	return reason(check)
}

func (p *printer) checkLabel(check *parser, name string) string {
	check.feed(p.out.String())
	last := len(check.image.Sequences) - 1
	if len(check.errs) > 0 || last < 0 || check.image.Sequences[last].Name != name {
		return reason(check)
	}
	return ""
}

func sameTensor(a, b lmb.Tensor) bool {
	return a.Name == b.Name && a.Role == b.Role && a.Golden == b.Golden && a.DType == b.DType && slices.Equal(a.Shape, b.Shape) &&
		(a.Data == nil) == (b.Data == nil) && bytes.Equal(a.Data, b.Data)
}

// checkCommand parses the command that was just written and says how what it
// means differs from c, empty if it does not.
func (p *printer) checkCommand(check *parser, c *lmb.Command) string {
	check.feed(p.out.String())
	s := &check.image.Sequences[len(check.image.Sequences)-1]
	if len(check.errs) > 0 || len(s.Commands) != 1 {
		return reason(check)
	}
	got, want := s.Commands[0], *c
	if len(check.calls) == 1 {
		// The sequence called may come later, so that only its name can be checked.
		if int(c.Index) >= len(p.image.Sequences) || p.image.Sequences[c.Index].Name != check.calls[0].name {
			return "it calls another sequence"
		}
		got.Index = c.Index
	}
	if tensor := int(c.Index) - 1; c.Opcode == gen.OpcodeCopyOut && tensor >= p.golden &&
		(tensor >= len(check.image.Tensors) || !sameTensor(p.image.Tensors[tensor], check.image.Tensors[tensor])) {
		return "the output that it fills is none of a compare"
	}
	s.Commands, check.calls = s.Commands[:0], check.calls[:0]
	clearEncoded(&want)
	return difference(&want, &got)
}

// clearEncoded zeroes the fields that lmb.Encode fills.
func clearEncoded(c *lmb.Command) {
	if lmb.HasPayload(&c.Command) {
		c.Value = 0
	}
}

// difference names a field in which two commands differ, empty for none.
func difference(want, got *lmb.Command) string {
	if !bytes.Equal(want.Data, got.Data) {
		return "it has data that it does not use"
	}
	if want.Command == got.Command {
		return ""
	}
	w, g := reflect.ValueOf(want.Command), reflect.ValueOf(got.Command)
	for i := range w.NumField() {
		if w.Field(i).Interface() != g.Field(i).Interface() {
			return fmt.Sprintf("its %s is %v, and the text means %v", w.Type().Field(i).Name, w.Field(i), g.Field(i))
		}
	}
	return ""
}
