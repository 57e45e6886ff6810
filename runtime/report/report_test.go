package report

import (
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
)

// TestCommandIsNamedByImageAndSequence: and what it saw, where it looked at anything.
// Texts with the names of an image are tested in lmrun and in the C archive.
func TestCommandIsNamedByImageAndSequence(t *testing.T) {
	check := func(mode gen.Condition) fbs.Command {
		return fbs.Command{Opcode: gen.OpcodeExpect,
			Mode: uint8(mode)}
	}
	view := &fbs.View{
		Sequences: []fbs.Sequence{{First: 0, Count: 3}, {First: 3, Count: 5}},
		Commands: []fbs.Command{2: {}, 3: check(gen.ConditionEqual),
			4: check(gen.ConditionNotEqual), 5: {Opcode: gen.OpcodeCompare}, 7: {}},
	}
	for want, r := range map[string]runtime.Result{
		"":                         {Command: -1},
		"command 2 (number 3 of )": {Command: 2},
		"command 4 (number 2 of )": {Command: 4},
		"command 2 (number 3 of ): " + runtime.CutShort: {Command: 2,
			FileLost: true},
		"command 3 (number 1 of ): got 0x7, wanted 0x8 under mask 0xf": {Command: 3, Got: 7,
			Want: 8, Mask: 15},
		"command 4 (number 2 of ): got 0x18, wanted any bit of 0x6 set": {Command: 4, Got: 0x18,
			Mask: 6},
		"command 4 (number 2 of ): got 0x1f, wanted any bit of 0x6 clear": {Command: 4, Got: 0x1f,
			Want: 6, Mask: 6},
		"command 4 (number 2 of ): got 0x12, wanted not 0x2 under mask 0x6": {Command: 4, Got: 0x12,
			Want: 2, Mask: 6},
		"command 5 (number 3 of ): element 9: got 0x1, wanted 0x2": {Command: 5, Got: 1, Want: 2,
			Mask: 255, Element: 9},
	} {
		if got := string(AppendFailure(nil, view, &r)); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	room := make([]byte, 0, 128)
	view.Sequences[1].First, view.Sequences[1].Count = 3, 1<<31-4
	for command := range int32(len(view.Commands)) {
		r := runtime.Result{Command: command, Got: ^uint64(0), Want: 1, Mask: ^uint64(0),
			Element: 1<<32 - 1}
		if n := testing.AllocsPerRun(100, func() { AppendFailure(room, view, &r) }); n != 0 {
			t.Errorf("command %d: %v objects", command, n)
		}
	}
}
