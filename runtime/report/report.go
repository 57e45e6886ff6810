// Package report words the failure of a run: the command and the value that it saw. lmrun, lm
// and the C archive use it.
package report

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
)

// AppendFailure appends where a run ended and what the command there saw: "command 3 of main:
// got ...". It allocates nothing if the text has room for 128 bytes and a name.
func AppendFailure(text []byte, view *fbs.View, r *runtime.Result) []byte {
	text = runtime.AppendCommand(text, view, int(r.Command))
	if r.FileTruncated {
		text = append(append(text, ": "...), runtime.FileTruncatedText...)
	}
	return AppendObserved(text, view, r)
}

// AppendObserved appends the value that the failing command loaded and the value that it
// expected. It appends nothing for a command that does not compare.
func AppendObserved(text []byte, view *fbs.View, r *runtime.Result) []byte {
	if r.Mask == 0 {
		return text
	}
	switch c := &view.Commands[r.Command]; {
	case c.Opcode == gen.OpcodeCompare:
		return fbs.AppendText(text, ": element %d: got %x, wanted %x", r.Element, r.Got, r.Want)
	case gen.Condition(c.Mode) == gen.ConditionEqual:
		return fbs.AppendText(text, ": got %x, wanted %x under mask %x", r.Got, r.Want, r.Mask)
	case r.Want == 0:
		return fbs.AppendText(text, ": got %x, wanted any bit of %x set", r.Got, r.Mask)
	case r.Want == r.Mask:
		return fbs.AppendText(text, ": got %x, wanted any bit of %x clear", r.Got, r.Mask)
	}
	return fbs.AppendText(text, ": got %x, wanted not %x under mask %x", r.Got, r.Want, r.Mask)
}
