// Package report says in words where a run failed, for lmrun and for hosts in C.
package report

import (
	"lightmetal/fbs"
	"lightmetal/runtime"
)

// Append adds to a text the command that ended a run, by its index in the image and
// in its sequence, and what it saw; nothing where no command was carried out. It
// allocates nothing where the text has room for 128 bytes and a name.
func Append(text []byte, view *fbs.View, r *runtime.Result) []byte {
	for i := range view.Sequences {
		s := &view.Sequences[i]
		if r.Command >= int32(s.First) && r.Command < int32(s.First+s.Count) {
			text = fbs.AppendText(text, "command %d (number %d of ", uint64(r.Command), uint64(r.Command)-uint64(s.First))
			text = append(append(text, view.Bytes(s.Name)...), ')')
		}
	}
	if r.Mask != 0 {
		text = fbs.AppendText(text, ": got %x, wanted %x under mask %x", r.Got, r.Want, r.Mask)
	}
	return text
}
