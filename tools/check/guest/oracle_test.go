package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// newCommand returns a command for an image. The default width is 4.
func newCommand(c fbs.Command) lmb.Command {
	if c.Width == 0 && c.Opcode != lmb.OpcodeMark && c.Opcode != gen.OpcodeDelay &&
		c.Opcode != gen.OpcodeCall {
		c.Width = 4
	}
	return lmb.Command{Command: c}
}

// writeCommand returns a command that stores 4 bytes.
func writeCommand(offset uint32, value uint64) lmb.Command {
	return newCommand(fbs.Command{Opcode: gen.OpcodeWrite, Offset: offset, Value: value})
}

// expectCommand returns a command that loads 4 bytes and expects a value.
func expectCommand(offset uint32, value uint64) lmb.Command {
	return newCommand(fbs.Command{
		Opcode: gen.OpcodeExpect, Mode: uint8(gen.ConditionEqual), Option: uint8(gen.PolicyFail),
		Offset: offset, Value: value, Mask: 0xffffffff,
	})
}

// pollCommand returns a command that repeats a load of 4 bytes until it returns a value.
func pollCommand(offset uint32, mask, value uint64, deadlineUs uint32) lmb.Command {
	return newCommand(fbs.Command{
		Opcode: gen.OpcodeExpect, Mode: uint8(gen.ConditionEqual), Option: uint8(gen.PolicyFail),
		Offset: offset, Value: value, Mask: mask, Amount: deadlineUs, Index: 100,
	})
}

// eduImage returns an image for edu with the given sequences. Its only window is the whole BAR 0.
func eduImage(sequences ...lmb.Sequence) *lmb.Image {
	return &lmb.Image{
		Origin: lmb.Origin{Tool: "guest test"},
		Devices: []lmb.Device{{Board: "edu", Vendor: edu.vendor, Device: edu.device,
			Bars: [6]uint64{edu.size}}},
		Windows: []lmb.Window{{Window: fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.AnySlot,
			Size: edu.size}}},
		Sequences: sequences,
	}
}

// mainSequence returns a sequence with the name main.
func mainSequence(commands ...lmb.Command) lmb.Sequence {
	return lmb.Sequence{Name: "main", Commands: commands}
}

// parseShortTrace returns the accesses of a trace in a short form: each line is "r width offset
// value" or "w width offset value", with hexadecimal numbers. It expands the lines to QEMU's format
// and parses them with parseTrace.
func parseShortTrace(t *testing.T, short string) []access {
	t.Helper()
	var log strings.Builder
	for line := range strings.Lines(short) {
		f := strings.Fields(line)
		verb := map[string]string{"r": "read", "w": "write"}[f[0]]
		log.WriteString("memory_region_ops_" + verb + " cpu 1 mr 0x55aa addr 0x10" +
			strings.Repeat("0", 6-len(f[2])) + f[2] +
			" value 0x" + f[3] + " size " + f[1] + " name 'edu-mmio'\n")
	}
	trace, err := parseTrace(strings.NewReader(log.String()), edu)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// mustExpand returns the plan of a sequence of an image for edu.
func mustExpand(t *testing.T, image *lmb.Image, sequence string) *plan {
	t.Helper()
	p, err := expand(image, sequence, edu, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParsedTraceHasOrderWidthOffsetAndValue(t *testing.T) {
	const log = "memory_region_ops_read cpu 0 mr 0x55b6 " +
		"addr 0x8000004 value 0x8 size 4 name 'gic_dist'\n" +
		"memory_region_ops_read cpu 1 mr 0x55b7 " +
		"addr 0x10000000 value 0x10000ed size 4 name 'edu-mmio'\n" +
		"EDU: clamping DMA 0x418a6000 to 0x018a6000!\n" +
		"memory_region_ops_write cpu 1 mr 0x55b7 " +
		"addr 0x10000080 value 0x1122334455667788 size 8 name 'edu-mmio'\n" +
		"memory_region_ops_read cpu 0 mr 0x55b7 " +
		"addr 0x10000084 value 0xffffffffffffffff size 4 name 'edu-mmio'\n"
	got, err := parseTrace(strings.NewReader(log), edu)
	want := []access{{false, 0, 4, 0x10000ed}, {true, 0x80, 8, 0x1122334455667788},
		{false, 0x84, 4, 0xffffffff}}
	if err != nil || len(got) != len(want) {
		t.Fatalf("got %v, error %v, want %v", got, err, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("access %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func TestInvalidTraceLineIsAnErrorWithItsNumber(t *testing.T) {
	for _, line := range []string{
		"memory_region_ops_read cpu 1 mr 0x55b7 addr value 0x1 size 4 name 'edu-mmio'",
		"memory_region_ops_read cpu 1 mr 0x55b7 addr 0x10 value 0x1 size 3 name 'edu-mmio'",
		"memory_region_ops_fetch cpu 1 mr 0x55b7 addr 0x10 value 0x1 size 4 name 'edu-mmio'",
	} {
		_, err := parseTrace(strings.NewReader("x\n"+line+"\n"), edu)
		if err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: error %v, want one that starts with \"line 2: \"", line, err)
		}
	}
}

func TestCapturedTraceIsParsedCompletely(t *testing.T) {
	log, err := os.ReadFile("../../../testdata/captures/edu.qemutrace")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseTrace(bytes.NewReader(log), edu)
	if want := bytes.Count(log, []byte("'edu-mmio'")); err != nil || len(got) != want {
		t.Fatalf("got %d accesses, error %v, want %d", len(got), err, want)
	}
}

// imageWithEveryCommand returns an image with all commands that access the device.
func imageWithEveryCommand() *lmb.Image {
	image := eduImage(mainSequence(
		expectCommand(0, 0x10000ed),
		writeCommand(4, 0x12345678),
		newCommand(fbs.Command{Opcode: lmb.OpcodeMark}),
		newCommand(fbs.Command{Opcode: gen.OpcodeModify, Offset: 0x20, Value: 0x80, Mask: 0xf0}),
		pollCommand(0x20, 1, 0, 1000),
		newCommand(fbs.Command{Opcode: gen.OpcodeCall, Index: 1}),
		lmb.Command{Command: fbs.Command{
			Opcode: gen.OpcodeCopyIn, Width: 8, Mode: uint8(gen.AccessExact), Offset: 0x80,
			Amount: 16,
		}, Data: []byte("abcdefghijklmnop")},
		lmb.Command{Command: fbs.Command{
			Opcode: gen.OpcodeCopyIn, Width: 4, Mode: uint8(gen.AccessBulk), Offset: 0x100,
			Amount: 12,
		}, Data: []byte("ABCDEFGHIJKL")},
		newCommand(fbs.Command{
			Opcode: gen.OpcodeFill, Mode: uint8(gen.AccessFixed), Offset: 0x64, Amount: 8, Value: 5,
		}),
		newCommand(fbs.Command{
			Opcode: gen.OpcodeCopyOut, Mode: uint8(gen.AccessExact), Offset: 8, Amount: 4, Index: 1,
			Value: 4,
		}),
		newCommand(fbs.Command{Opcode: gen.OpcodeExpect, Mode: uint8(gen.ConditionEqual),
			Option: uint8(gen.PolicyFail)}),
	), lmb.Sequence{Name: "other", Commands: []lmb.Command{writeCommand(8, 5)}})
	image.Tensors = []lmb.Tensor{{Name: "y", Role: gen.RoleOutput, DType: gen.DTypeUint32,
		Shape: []uint32{2}}}
	return image
}

// everyCommandTrace is a trace, in short form, of a run of imageWithEveryCommand.
const everyCommandTrace = `r 4 0 10000ed
w 4 4 12345678
r 4 20 33
w 4 20 83
r 4 20 81
r 4 20 81
r 4 20 80
w 4 8 5
w 8 80 6867666564636261
w 8 88 706f6e6d6c6b6a69
w 8 100 4847464544434241
w 4 108 4c4b4a49
w 4 64 5
w 4 64 5
r 4 8 78
r 4 0 10000ed
`

func TestPlanOfEveryCommandMatchesItsTrace(t *testing.T) {
	p := mustExpand(t, imageWithEveryCommand(), "main")
	failed, rest, err := p.match(parseShortTrace(t, everyCommandTrace))
	if failed != "" || len(rest) != 0 || err != nil {
		t.Fatalf("failed at %q, accesses %v left over, error %v; want none", failed, rest, err)
	}
	if want := []byte{0, 0, 0, 0, 0x78, 0, 0, 0}; !bytes.Equal(p.outputs["y"], want) {
		t.Errorf("output: got %x, want %x", p.outputs["y"], want)
	}
}

// TestPlanRejectsEveryChangedTrace changes each access of a trace. match must report each change,
// except changes of values that the device may choose.
func TestPlanRejectsEveryChangedTrace(t *testing.T) {
	lines := slices.Collect(strings.Lines(everyCommandTrace))
	requireRejected := func(name string, changed []string) {
		failed, rest, err := mustExpand(t, imageWithEveryCommand(),
			"main").match(parseShortTrace(t, strings.Join(changed, "")))
		if err == nil && failed == "" && len(rest) == 0 {
			t.Errorf("match accepted a changed trace: %s", name)
		}
	}
	for i, line := range lines {
		replaced := func(newLines ...string) []string {
			return slices.Concat(lines[:i], newLines, lines[i+1:])
		}
		f := strings.Fields(line)
		if !strings.HasPrefix(line, "r 4 20 81") { // a poll may repeat its load any number of times
			requireRejected("without "+line, replaced())
			requireRejected("twice "+line, replaced(line, line))
		}
		requireRejected("other offset "+line, replaced(f[0]+" "+f[1]+" "+f[2]+"4 "+f[3]+"\n"))
		verb := map[string]string{"r": "w", "w": "r"}[f[0]]
		requireRejected("other kind "+line, replaced(verb+line[1:]))
		requireRejected("narrower "+line, replaced(f[0]+" 2 "+f[2]+" "+f[3]+"\n"))
		if f[0] == "w" {
			value := f[3][:len(f[3])-1] + "f"
			requireRejected("other value "+line, replaced(f[0]+" "+f[1]+" "+f[2]+" "+value+"\n"))
		}
	}
	requireRejected("an access too many", append(lines, "r 4 0 0\n"))
}

func TestFailedExpectEndsTheRun(t *testing.T) {
	image := eduImage(mainSequence(writeCommand(4, 1), expectCommand(4, 2), writeCommand(4, 3)),
		lmb.Sequence{Name: "safe", Commands: []lmb.Command{writeCommand(0x64, 9)}})
	failed, rest, err := mustExpand(t, image, "main").match(parseShortTrace(t,
		"w 4 4 1\nr 4 4 7\nw 4 64 9\n"))
	if failed != "main[1]" || err != nil {
		t.Fatalf("main: failed at %q, error %v, want main[1]", failed, err)
	}
	failed, rest, err = mustExpand(t, image, "safe").match(rest)
	if failed != "" || len(rest) != 0 || err != nil {
		t.Fatalf("safe: failed at %q, accesses %v left over, error %v; want none", failed, rest,
			err)
	}
	if _, _, err := mustExpand(t, image, "main").match(parseShortTrace(t,
		"w 4 4 1\nr 4 4 2\n")); err == nil {
		t.Error("match accepted a run that ends although the condition is met")
	}
}

func TestFailedPollEndsTheRun(t *testing.T) {
	image := eduImage(mainSequence(pollCommand(0x20, 1, 0, 1000), writeCommand(4, 3)))
	failed, rest, err := mustExpand(t, image, "main").match(parseShortTrace(t,
		"r 4 20 1\nr 4 20 1\nr 4 20 1\n"))
	if failed != "main[0]" || len(rest) != 0 || err != nil {
		t.Fatalf("failed at %q, accesses %v left over, error %v; want main[0]", failed, rest, err)
	}
}

func TestPlanIgnoresOtherDevicesAndBars(t *testing.T) {
	image := eduImage(mainSequence(writeCommand(4, 1)))
	image.Windows = append(image.Windows,
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 1, Size: 4096}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Device: 1, Size: 4096}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindConfig, Size: 256}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindHost, Size: 4096}})
	image.Devices = append(image.Devices, lmb.Device{Board: "nvme", Vendor: 0x1b36, Device: 0x10})
	for w := range image.Windows[1:] {
		c := writeCommand(8, 2)
		c.Window = uint16(w + 1)
		image.Sequences[0].Commands = append(image.Sequences[0].Commands, c)
	}
	failed, _, err := mustExpand(t, image, "main").match(parseShortTrace(t, "w 4 4 1\n"))
	if failed != "" || err != nil {
		t.Fatalf("failed at %q, error %v, want none", failed, err)
	}
}

func TestPlanAppliedToMemoryWritesExpectedBytes(t *testing.T) {
	image := imageWithEveryCommand()
	// Remove the command that expects edu's identification, which memory does not have.
	image.Sequences[0].Commands = image.Sequences[0].Commands[1:]
	memory := make([]byte, edu.size)
	memory[0x20] = 0x32
	p := mustExpand(t, image, "main")
	if err := p.applyTo(memory); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		offset int
		bytes  string
	}{{4, "\x78\x56\x34\x12"}, {0x20, "\x82\x00"}, {8, "\x05\x00"}, {0x80, "abcdefghijklmnop\x00"},
		{0x100, "ABCDEFGHIJKL\x00"}, {0x64, "\x05\x00\x00\x00\x00"}} {
		if got := memory[want.offset : want.offset+len(want.bytes)]; string(got) != want.bytes {
			t.Errorf("at %#x: got %x, want %x", want.offset, got, want.bytes)
		}
	}
	if want := []byte{0, 0, 0, 0, 5, 0, 0, 0}; !bytes.Equal(p.outputs["y"], want) {
		t.Errorf("output: got %x, want %x", p.outputs["y"], want)
	}
	p = mustExpand(t, imageWithEveryCommand(), "main")
	if err := p.applyTo(make([]byte, edu.size)); err == nil {
		t.Error("applyTo accepted a condition that memory cannot meet")
	}
}
