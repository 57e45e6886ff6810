// Package report says in words where a run failed, for lmrun, lm and hosts in C.
package report

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
)

// Append adds the command that ended a run, by its index in the image and its number in
// its sequence (from 1, marks left out, as a listing has them), and what it saw, if there
// is one. It allocates nothing where the text has room for 128 bytes and a name.
func AppendFailure(text []byte, view *fbs.View, r *runtime.Result) []byte {
	for i := range view.Sequences {
		s := &view.Sequences[i]
		if r.Command >= int32(s.First) && r.Command < int32(s.First+s.Count) {
			text = fbs.AppendText(text, "command %d (number %d of ", uint64(r.Command),
				uint64(r.Command)-uint64(s.First)+1)
			text = append(append(text, view.NameBytes(s.Name)...), ')')
		}
	}
	if r.FileLost {
		text = append(append(text, ": "...), runtime.CutShort...)
	}
	return AppendObserved(text, view, r)
}

// AppendSeen adds what the command saw and what was wanted, if it looked at anything.
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
