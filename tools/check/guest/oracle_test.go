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

// command is a Command of a test's image; the width is 4 unless it says other.
func command(c fbs.Command) lmb.Command {
	if c.Width == 0 && c.Opcode != lmb.OpcodeMark && c.Opcode != gen.OpcodeDelay &&
		c.Opcode != gen.OpcodeCall {
		c.Width = 4
	}
	return lmb.Command{Command: c}
}

func write(offset uint32, value uint64) lmb.Command {
	return command(fbs.Command{Opcode: gen.OpcodeWrite, Offset: offset, Value: value})
}

func expect(offset uint32, value uint64) lmb.Command {
	return command(fbs.Command{
		Opcode: gen.OpcodeExpect, Mode: uint8(gen.ConditionEqual), Option: uint8(gen.PolicyFail),
		Offset: offset, Value: value, Mask: 0xffffffff,
	})
}

func poll(offset uint32, mask, value uint64, deadlineUs uint32) lmb.Command {
	return command(fbs.Command{
		Opcode: gen.OpcodeExpect, Mode: uint8(gen.ConditionEqual), Option: uint8(gen.PolicyFail),
		Offset: offset, Value: value, Mask: mask, Amount: deadlineUs, Index: 100,
	})
}

// eduImage is an image for edu with one window, all of BAR 0, and the
// sequences of commands given.
func eduImage(sequences ...lmb.Sequence) *lmb.Image {
	return &lmb.Image{
		Origin: lmb.Origin{Tool: "guest test"},
		Devices: []lmb.Device{{Board: "edu", Vendor: edu.vendor, Device: edu.device,
			Bars: [6]uint64{edu.size}}},
		Windows: []lmb.Window{{Window: fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.NoSlot,
			Size: edu.size}}},
		Sequences: sequences,
	}
}

func mainOf(commands ...lmb.Command) lmb.Sequence {
	return lmb.Sequence{Name: "main", Commands: commands}
}

// accesses parses a trace written as one "r|w width offset value" a line, all
// hexadecimal, through the real parser.
func accesses(t *testing.T, short string) []access {
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

func expanded(t *testing.T, image *lmb.Image, sequence string) *plan {
	t.Helper()
	p, err := expand(image, sequence, edu, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTraceKeepsOrderWidthPlaceAndValueOfOneRegion(t *testing.T) {
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
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("access %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func TestTraceLineThatMakesNoSenseIsAnErrorWithItsNumber(t *testing.T) {
	for _, line := range []string{
		"memory_region_ops_read cpu 1 mr 0x55b7 addr value 0x1 size 4 name 'edu-mmio'",
		"memory_region_ops_read cpu 1 mr 0x55b7 addr 0x10 value 0x1 size 3 name 'edu-mmio'",
		"memory_region_ops_fetch cpu 1 mr 0x55b7 addr 0x10 value 0x1 size 4 name 'edu-mmio'",
	} {
		_, err := parseTrace(strings.NewReader("x\n"+line+"\n"), edu)
		if err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: got error %v", line, err)
		}
	}
}

func TestRealTraceParsesToAllItsAccesses(t *testing.T) {
	log, err := os.ReadFile("../../../testdata/captures/edu.qemutrace")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseTrace(bytes.NewReader(log), edu)
	if want := bytes.Count(log, []byte("'edu-mmio'")); err != nil || len(got) != want {
		t.Fatalf("got %d accesses, %v, want %d", len(got), err, want)
	}
}

// program exercises every command that leaves a trace.
func program() *lmb.Image {
	image := eduImage(mainOf(
		expect(0, 0x10000ed),
		write(4, 0x12345678),
		command(fbs.Command{Opcode: lmb.OpcodeMark}),
		command(fbs.Command{Opcode: gen.OpcodeModify, Offset: 0x20, Value: 0x80, Mask: 0xf0}),
		poll(0x20, 1, 0, 1000),
		command(fbs.Command{Opcode: gen.OpcodeCall, Index: 1}),
		lmb.Command{Command: fbs.Command{
			Opcode: gen.OpcodeCopyIn, Width: 8, Mode: uint8(gen.AccessExact), Offset: 0x80,
			Amount: 16,
		}, Data: []byte("abcdefghijklmnop")},
		lmb.Command{Command: fbs.Command{
			Opcode: gen.OpcodeCopyIn, Width: 4, Mode: uint8(gen.AccessBulk), Offset: 0x100,
			Amount: 12,
		}, Data: []byte("ABCDEFGHIJKL")},
		command(fbs.Command{
			Opcode: gen.OpcodeFill, Mode: uint8(gen.AccessFixed), Offset: 0x64, Amount: 8, Value: 5,
		}),
		command(fbs.Command{
			Opcode: gen.OpcodeCopyOut, Mode: uint8(gen.AccessExact), Offset: 8, Amount: 4, Index: 1,
			Value: 4,
		}),
		command(fbs.Command{Opcode: gen.OpcodeExpect, Mode: uint8(gen.ConditionEqual),
			Option: uint8(gen.PolicyFail)}),
	), lmb.Sequence{Name: "other", Commands: []lmb.Command{write(8, 5)}})
	image.Tensors = []lmb.Tensor{{Name: "y", Role: gen.RoleOutput, DType: gen.DTypeUint32,
		Shape: []uint32{2}}}
	return image
}

const programTrace = `r 4 0 10000ed
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
	p := expanded(t, program(), "main")
	failed, rest, err := p.match(accesses(t, programTrace))
	if failed != "" || len(rest) != 0 || err != nil {
		t.Fatalf("got %q, %v, %v", failed, rest, err)
	}
	if want := []byte{0, 0, 0, 0, 0x78, 0, 0, 0}; !bytes.Equal(p.outputs["y"], want) {
		t.Errorf("output: got %x, want %x", p.outputs["y"], want)
	}
}

// Whatever is changed in a trace, the plan notices, but for what the device is
// free to answer.
func TestPlanRefusesEveryChangedTrace(t *testing.T) {
	lines := slices.Collect(strings.Lines(programTrace))
	refused := func(name string, changed []string) {
		failed, rest, err := expanded(t, program(),
			"main").match(accesses(t, strings.Join(changed, "")))
		if err == nil && failed == "" && len(rest) == 0 {
			t.Errorf("accepted: %s", name)
		}
	}
	for i, line := range lines {
		replaced := func(by ...string) []string {
			return slices.Concat(lines[:i], by, lines[i+1:])
		}
		f := strings.Fields(line)
		if !strings.HasPrefix(line, "r 4 20 81") { // a poll may load as often as it needs
			refused("without "+line, replaced())
			refused("twice "+line, replaced(line, line))
		}
		refused("elsewhere "+line, replaced(f[0]+" "+f[1]+" "+f[2]+"4 "+f[3]+"\n"))
		refused("other way "+line, replaced(map[string]string{"r": "w", "w": "r"}[f[0]]+line[1:]))
		refused("narrower "+line, replaced(f[0]+" 2 "+f[2]+" "+f[3]+"\n"))
		if f[0] == "w" {
			refused("other value "+line, replaced(f[0]+" "+f[1]+" "+f[2]+" "+f[3][:len(f[3])-1]+
				"f\n"))
		}
	}
	refused("an access too many", append(lines, "r 4 0 0\n"))
}

func TestLoadThatDoesNotSatisfyItsConditionEndsThePlanThere(t *testing.T) {
	image := eduImage(mainOf(write(4, 1), expect(4, 2), write(4, 3)),
		lmb.Sequence{Name: "safe", Commands: []lmb.Command{write(0x64, 9)}})
	failed, rest, err := expanded(t, image, "main").match(accesses(t,
		"w 4 4 1\nr 4 4 7\nw 4 64 9\n"))
	if failed != "main[1]" || err != nil {
		t.Fatalf("got %q, %v, want main[1]", failed, err)
	}
	if failed, rest, err = expanded(t, image, "safe").match(rest); failed != "" || len(rest) != 0 ||
		err != nil {
		t.Fatalf("safe: got %q, %v, %v", failed, rest, err)
	}
	if _, _, err := expanded(t, image, "main").match(accesses(t,
		"w 4 4 1\nr 4 4 2\n")); err == nil {
		t.Error("a run that ends although the condition holds was accepted")
	}
}

func TestPollThatNeverHoldsEndsThePlanAfterItsLoads(t *testing.T) {
	image := eduImage(mainOf(poll(0x20, 1, 0, 1000), write(4, 3)))
	failed, rest, err := expanded(t, image, "main").match(accesses(t,
		"r 4 20 1\nr 4 20 1\nr 4 20 1\n"))
	if failed != "main[0]" || len(rest) != 0 || err != nil {
		t.Fatalf("got %q, %v, %v, want main[0]", failed, rest, err)
	}
}

func TestWindowsOfOtherDevicesAndBarsLeaveNoTrace(t *testing.T) {
	image := eduImage(mainOf(write(4, 1)))
	image.Windows = append(image.Windows,
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 1, Size: 4096}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Device: 1, Size: 4096}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindConfig, Size: 256}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindHost, Size: 4096}})
	image.Devices = append(image.Devices, lmb.Device{Board: "nvme", Vendor: 0x1b36, Device: 0x10})
	for w := range image.Windows[1:] {
		c := write(8, 2)
		c.Window = uint16(w + 1)
		image.Sequences[0].Commands = append(image.Sequences[0].Commands, c)
	}
	if failed, _, err := expanded(t, image, "main").match(accesses(t, "w 4 4 1\n")); failed != "" ||
		err != nil {
		t.Fatal(failed, err)
	}
}

func TestPlanAppliedToMemoryLeavesWhatADeviceOfMemoryWould(t *testing.T) {
	image := program()
	image.Sequences[0].Commands = image.Sequences[0].Commands[1:] // memory has no identification
	memory := make([]byte, edu.size)
	memory[0x20] = 0x32
	p := expanded(t, image, "main")
	if err := p.apply(memory); err != nil {
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
	if err := expanded(t, program(), "main").apply(make([]byte, edu.size)); err == nil {
		t.Error("an expect that cannot hold was accepted")
	}
}
