// Package report describes the failure of a run as text. The text names the command that failed,
// the value that the command loaded from the device, and the value that the command expected.
// lmrun and lm print such texts, and the C archive returns them.
package report

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
)

// AppendFailure appends a description of a failed run to `text`: the command that failed, and the
// values that the command loaded and expected. An example is
// "command 3 of main: got 0x1, wanted 0x0 under mask 0x1". AppendFailure allocates nothing if
// `text` has capacity for 128 more bytes plus the name of the sequence.
func AppendFailure(text []byte, view *fbs.View, r *runtime.Result) []byte {
	text = runtime.AppendPlace(text, view, int(r.Command))
	if r.FileTruncated {
		text = append(append(text, ": "...), runtime.FileTruncatedText...)
	}
	return AppendMismatch(text, view, r)
}

// AppendMismatch appends two values to `text`: the value that the failed command loaded, and the
// value that the command expected. It appends nothing if the failed command compared no values.
func AppendMismatch(text []byte, view *fbs.View, r *runtime.Result) []byte {
	if r.Mask == 0 {
		return text
	}
	switch c := &view.Commands[r.Command]; {
	case c.Opcode == gen.OpcodeCompare:
		return fbs.AppendText(text, ": element %d: got %x, wanted %x", r.Element, r.Got, r.Want)
	case gen.Condition(c.Mode) == gen.ConditionEqual:
		return fbs.AppendText(text, ": got %x, wanted %x under mask %x", r.Got, r.Want, r.Mask)
	case gen.Condition(c.Mode) == gen.ConditionReached:
		const reached = ": got %x, wanted %x or later under mask %x"
		return fbs.AppendText(text, reached, r.Got, r.Want, r.Mask)
	case r.Want == 0:
		return fbs.AppendText(text, ": got %x, wanted any bit of %x set", r.Got, r.Mask)
	case r.Want == r.Mask:
		return fbs.AppendText(text, ": got %x, wanted any bit of %x clear", r.Got, r.Mask)
	}
	const unequal = ": got %x, wanted anything but %x under mask %x"
	return fbs.AppendText(text, unequal, r.Got, r.Want, r.Mask)
}
