package report

import (
	"testing"

	"lightmetal/fbs"
	"lightmetal/runtime"
)

// TestCommandIsNamedByImageAndSequence: and what it saw, where it looked at anything.
// Texts with the names of an image are tested in lmrun and in the C archive.
func TestCommandIsNamedByImageAndSequence(t *testing.T) {
	view := &fbs.View{Sequences: []fbs.Sequence{{First: 0, Count: 3}, {First: 3, Count: 5}}}
	for want, r := range map[string]runtime.Result{
		"":                         {Command: -1},
		"command 2 (number 2 of )": {Command: 2},
		"command 4 (number 1 of )": {Command: 4},
		"command 3 (number 0 of ): got 0x7, wanted 0x8 under mask 0xf": {Command: 3, Got: 7, Want: 8, Mask: 15},
	} {
		if got := string(Append(nil, view, &r)); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	room := make([]byte, 0, 128)
	r := runtime.Result{Command: 1 << 30, Got: ^uint64(0), Want: ^uint64(0), Mask: ^uint64(0)}
	view.Sequences[1].Count = 1<<31 - 4
	if n := testing.AllocsPerRun(100, func() { Append(room, view, &r) }); n != 0 {
		t.Errorf("%v objects", n)
	}
}
