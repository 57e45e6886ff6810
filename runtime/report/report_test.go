package report

import (
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
)

// TestFailureNamesCommandAndSequence: with the command's number within its sequence, and the value
// that it saw if it compares one.
func TestFailureNamesCommandAndSequence(t *testing.T) {
	check := func(mode gen.Condition) fbs.Command {
		return fbs.Command{Opcode: gen.OpcodeExpect,
			Mode: uint8(mode)}
	}
	const main = fbs.Name(len("main")) // at the start of Text
	view := &fbs.View{
		Text: []byte("main"),
		Sequences: []fbs.Sequence{
			{Name: main, First: 0, Count: 3}, {Name: main, First: 3, Count: 5},
		},
		Commands: []fbs.Command{2: {}, 3: check(gen.ConditionEqual),
			4: check(gen.ConditionNotEqual), 5: {Opcode: gen.OpcodeCompare},
			6: check(gen.ConditionReached), 7: {}},
	}
	for want, r := range map[string]runtime.Result{
		"":                  {Command: -1},
		"command 2 of main": {Command: 2},
		"command 1 of main": {Command: 4},
		"command 2 of main: " + runtime.FileTruncatedText: {Command: 2,
			FileTruncated: true},
		"command 0 of main: got 0x7, wanted 0x8 under mask 0xf": {Command: 3, Got: 7,
			Want: 8, Mask: 15},
		"command 1 of main: got 0x18, wanted any bit of 0x6 set": {Command: 4, Got: 0x18,
			Mask: 6},
		"command 1 of main: got 0x1f, wanted any bit of 0x6 clear": {Command: 4, Got: 0x1f,
			Want: 6, Mask: 6},
		"command 1 of main: got 0x12, wanted anything but 0x2 under mask 0x6": {
			Command: 4, Got: 0x12, Want: 2, Mask: 6},
		"command 3 of main: got 0xd, wanted 0x10 or later under mask 0xffff": {Command: 6, Got: 13,
			Want: 16, Mask: 0xffff},
		"command 2 of main: element 9: got 0x1, wanted 0x2": {Command: 5, Got: 1, Want: 2,
			Mask: 255, Element: 9},
	} {
		t.Run(want, func(t *testing.T) {
			if got := string(AppendFailure(nil, view, &r)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	room := make([]byte, 0, 128)
	view.Sequences[1].First, view.Sequences[1].Count = 3, 1<<31-4
	for command := range int32(len(view.Commands)) {
		r := runtime.Result{Command: command, Got: ^uint64(0), Want: 1, Mask: ^uint64(0),
			Element: 1<<32 - 1}
		if n := testing.AllocsPerRun(100, func() { AppendFailure(room, view, &r) }); n != 0 {
			t.Errorf("command %d: AppendFailure allocates %v objects, want 0", command, n)
		}
	}
}
