package report

import (
	"bytes"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
)

// window2 is the window of all commands of the tests.
const window2 = 2

// failureView returns a view with the sequences main and safe and one command after another.
func failureView(commands ...fbs.Command) *fbs.View {
	const main, safe = fbs.NameRange(4), fbs.NameRange(4<<8 | 4) // offset and length in Text
	for i := range commands {
		commands[i].Window, commands[i].Offset = window2, 0x20
	}
	return &fbs.View{
		Text:      []byte("mainsafe"),
		Sequences: []fbs.Sequence{{Name: main, Count: 1}, {Name: safe, First: 1, Count: 1 << 20}},
		Commands:  commands,
	}
}

// TestFailureNamesCommandAndValues expects the position of the command, the beginning of its line
// in a listing, and the value that it loaded if it compares values.
func TestFailureNamesCommandAndValues(t *testing.T) {
	expect := func(mode gen.Condition, mask, value uint64, deadlineUs uint32) fbs.Command {
		return fbs.Command{Opcode: gen.OpcodeExpect, Mode: uint8(mode), Width: 4, Mask: mask,
			Value: value, Amount: deadlineUs}
	}
	const equal, unequal = gen.ConditionEqual, gen.ConditionNotEqual
	compare := fbs.Command{Opcode: gen.OpcodeCompare, Width: 1}
	copyIn := fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 8}
	late := hal.DeadlinePassed
	for _, test := range []struct {
		want    string
		command fbs.Command
		result  runtime.Result
	}{
		{"poll.4 w2+0x20 & 0x1 == 0x0: got 0x81 after 1 s (bits that differ: 0)",
			expect(equal, 1, 0, 1_000_000), runtime.Result{Code: late, Got: 0x81, Mask: 1}},
		{"poll.4 w2+0x20 & 0xf == 0xc: got 0x3 after 20 ms (bits that differ: 0, 1, 2, 3)",
			expect(equal, 15, 12, 20_000), runtime.Result{Code: late, Got: 3, Want: 12, Mask: 15}},
		{"poll.4 w2+0x20 == 0x1f: got 0x0 after 1500 us (5 bits differ)",
			expect(equal, 1<<32-1, 0x1f, 1500),
			runtime.Result{Code: late, Want: 0x1f, Mask: 1<<32 - 1}},
		{"poll.4 w2+0x20 & 0x6 != 0x6: got 0x1f after 1 ms", expect(unequal, 6, 6, 1000),
			runtime.Result{Code: late, Got: 0x1f, Want: 6, Mask: 6}},
		{"poll.4 w2+0x20 & 0xffff reached 0x10: got 0xd after 10 ms",
			expect(gen.ConditionReached, 1<<16-1, 16, 10_000),
			runtime.Result{Code: late, Got: 13, Want: 16, Mask: 1<<16 - 1}},
		{"expect.4 w2+0x20 & 0xf == 0x8: got 0x7 (bits that differ: 0, 1, 2, 3)",
			expect(equal, 15, 8, 0),
			runtime.Result{Code: hal.ExpectFailed, Got: 7, Want: 8, Mask: 15}},
		{"poll.4 w2+0x20 & 0x1 == 0x0", expect(equal, 1, 0, 1000),
			runtime.Result{Code: hal.FrameLate}},
		{"read.4 w2+0x20", expect(equal, 0, 0, 0), runtime.Result{Code: hal.DeviceGone}},
		{"compare.1 w2+0x20: element 9: got 0x1, wanted 0x2 (bits that differ: 0, 1)", compare,
			runtime.Result{Code: hal.CompareFailed, Got: 1, Want: 2, Mask: 255, ElementIndex: 9}},
		{"copy.8 w2+0x20: " + runtime.FileTruncatedText, copyIn,
			runtime.Result{Code: hal.IO, FileTruncated: true}},
	} {
		t.Run(test.want, func(t *testing.T) {
			view := failureView(fbs.Command{}, fbs.Command{}, test.command)
			test.result.Command = 2
			want := "safe, command 1: " + test.want
			if got := string(AppendFailure(nil, view, &test.result, "")); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
	moved := failureView(fbs.Command{}, fbs.Command{Opcode: gen.OpcodeWith, Index: 3,
		Mode: uint8(gen.PlaceOffset)}, expect(equal, 15, 8, 0))
	result := runtime.Result{Code: hal.ExpectFailed, Command: 2, Got: 0, Want: 8, Mask: 15}
	const text = "safe, command 1: expect.4 w2+0x20 & 0xf == 0x8 (offset moved by ring 3): " +
		"got 0x0 (bits that differ: 3)"
	if got := string(AppendFailure(nil, moved, &result, "")); got != text {
		t.Errorf("with a ring: got %q, want %q", got, text)
	}
	view := failureView(fbs.Command{}, fbs.Command{}, copyIn)
	failed := runtime.Result{Code: hal.BusFault, Command: 2}
	want := "safe, command 1: copy.8 100%d w2+0x20"
	if got := string(AppendFailure(nil, view, &failed, "100%d w2")); got != want {
		t.Errorf("with the name of the window: got %q, want %q", got, want)
	}
	none := runtime.Result{Code: hal.InputMissing, Command: -1}
	if got := AppendFailure(nil, failureView(), &none, ""); len(got) != 0 {
		t.Errorf("no command failed: got %q, want nothing", got)
	}
}

// TestCommandHasTheWordsOfAListing checks the text of every opcode.
func TestCommandHasTheWordsOfAListing(t *testing.T) {
	for want, c := range map[string]fbs.Command{
		"write.4 w2+0x20 0x5": {Opcode: gen.OpcodeWrite, Width: 4, Value: 5},
		"write.2 w2+0x20 0x6": {Opcode: gen.OpcodeModify, Width: 2, Value: 6, Mask: 7},
		"write.8 w2+0x20":     {Opcode: gen.OpcodeRelocate, Width: 8},
		"copy.8 w2+0x20":      {Opcode: gen.OpcodeCopyIn, Width: 8},
		"fill.1 w2+0x20":      {Opcode: gen.OpcodeFill, Width: 1},
		"copy.4 <- w2+0x20":   {Opcode: gen.OpcodeCopyOut, Width: 4},
		"compare.4 w2+0x20":   {Opcode: gen.OpcodeCompare, Width: 4},
		"point w2":            {Opcode: gen.OpcodePoint},
		"fence":               {Opcode: gen.OpcodeFence},
		"delay":               {Opcode: gen.OpcodeDelay},
		"call":                {Opcode: gen.OpcodeCall},
		"end":                 {Opcode: gen.OpcodeEnd},
	} {
		t.Run(want, func(t *testing.T) {
			if got := string(appendCommand(nil, &failureView(c).Commands[0], "")); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestLongestTextsFitAndAllocateNothing: a sealed process prints these texts, and must not
// allocate.
func TestLongestTextsFitAndAllocateNothing(t *testing.T) {
	const most = ^uint64(0)
	longName := fbs.NameRange(fbs.NameMax) // the first bytes of Text
	for what, c := range map[string]fbs.Command{
		"poll": {Opcode: gen.OpcodeExpect, Mode: uint8(gen.ConditionEqual), Width: 8,
			Mask: most - 1, Value: most - 1, Amount: 1<<32 - 1},
		"compare":  {Opcode: gen.OpcodeCompare, Width: 8},
		"copy in":  {Opcode: gen.OpcodeCopyIn, Width: 8},
		"copy out": {Opcode: gen.OpcodeCopyOut, Width: 8},
	} {
		t.Run(what, func(t *testing.T) {
			c.Window, c.Offset = 1<<16-1, 1<<32-1
			view := &fbs.View{
				Text:      bytes.Repeat([]byte("x"), fbs.NameMax),
				Sequences: []fbs.Sequence{{Name: longName, Count: 1<<32 - 1}},
				Commands:  []fbs.Command{c},
			}
			r := runtime.Result{Code: hal.DeadlinePassed, Got: 0xf << 60, Mask: most,
				ElementIndex: 1<<32 - 1}
			if r.FileTruncated = c.Opcode == gen.OpcodeCopyIn; r.FileTruncated {
				r.Mask = 0
			}
			room := make([]byte, 0, FailureTextMax)
			if n := len(AppendFailure(room, view, &r, "")); n > FailureTextMax {
				t.Errorf("the text has %d bytes, want at most FailureTextMax, which is %d", n,
					FailureTextMax)
			}
			if n := testing.AllocsPerRun(100,
				func() { AppendFailure(room, view, &r, "") }); n != 0 {
				t.Errorf("AppendFailure allocates %v objects, want 0", n)
			}
		})
	}
}
