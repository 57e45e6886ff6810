package importer

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/tools/capture/importer/traces"
)

func TestMmiotraceFindsTheBarOfAnAddress(t *testing.T) {
	text := lines(bhDevice, "W 4 0x1fc00000 0x0", "R 4 4:0x0 0x1", "R 8 4:0x7fffffff8 0x2")
	_, list, err := traces.Read(strings.NewReader(text), traces.Source{From: FromMmiotrace})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		bar    uint8
		offset uint64
	}{{0, 0x1fc00000}, {4, 0}, {4, 0x7fffffff8}} {
		if a := list[i]; a.Bar != want.bar || a.Offset != want.offset {
			t.Errorf("access %d: BAR %d + 0x%x, want BAR %d + 0x%x", i, a.Bar, a.Offset, want.bar,
				want.offset)
		}
	}
}

func TestMmiotraceRefusesWithTheLine(t *testing.T) {
	const load = "R 4 1.000000 1 0x100000000 0x5 0x0 0"
	head := "VERSION 20070824\n" + eduDevice + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "no VERSION line: this is not an mmiotrace"},
		{"no access", head, "the trace has no access to a device"},
		{"unknown version", "VERSION 20990101\n" + load + "\n",
			`line 1: version "20990101" of mmiotrace is unknown; it must be 20070824`},
		{"no version", eduDevice + "\n",
			"line 1: PCIDEV before VERSION, which only trace_pipe has: cat " +
				"/sys/kernel/tracing/trace_pipe >FILE after mmiotrace is enabled"},
		{"front cut off", load + "\n",
			"line 1: R before VERSION, which only trace_pipe has: cat " +
				"/sys/kernel/tracing/trace_pipe >FILE after mmiotrace is enabled"},
		{"lost events", head + "MARK 0.000000 Lost 17 events.\n" + load + "\n",
			"line 3: the kernel lost 17 events: the trace is incomplete (record again with a " +
				"larger buffer_size_kb)"},
		{"lost events that trace_pipe tells of", head + "CPU:0 [LOST 17 EVENTS]\n" + load + "\n",
			"line 3: the kernel lost 17 events: the trace is incomplete (record again with a " +
				"larger buffer_size_kb)"},
		{"not decoded", head + "UNKNOWN 1.000000 1 0x100000010 0f,1f,44 0x0 0\n",
			"line 3: UNKNOWN: the kernel could not decode the instruction that accessed " +
				"0x100000010: the access is lost"},
		{"rw what", head + "rw what?\n",
			`line 3: "rw what?": the kernel could not decode this access`},
		{"map what", head + "map what?\n",
			`line 3: "map what?": the kernel could not decode this access`},
		{"unknown record", head + "X 4 1.000000\n",
			`line 3: "X 4 1.000000" is not a line of mmiotrace`},
		{"binary", head + "\x1f\x8b\x00\n", `line 3: "\x1f\x8b\x00" is not a line of mmiotrace`},
		{"width 3", head + "R 3 1.000000 1 0x100000000 0x5 0x0 0\n",
			"line 3: width 3 is not 1, 2, 4 or 8"},
		{"width 0", head + "R 0 1.000000 1 0x100000000 0x5 0x0 0\n",
			"line 3: width 0 is not 1, 2, 4 or 8"},
		{"width 16", head + "R 16 1.000000 1 0x100000000 0x5 0x0 0\n",
			"line 3: width 16 is not 1, 2, 4 or 8"},
		{"width 2^32+4", head + "R 4294967300 1.000000 1 0x100000000 0x5 0x0 0\n",
			"line 3: width 4294967300 is not 1, 2, 4 or 8"},
		{"wide value", head + "R 4 1.000000 1 0x100000000 0x123456789 0x0 0\n",
			"line 3: value 0x123456789 is wider than 4 bytes"},
		{"misaligned", head + "R 4 1.000000 1 0x100000002 0x5 0x0 0\n",
			"line 3: address 0x100000002 is not a multiple of the width 4"},
		{"outside every BAR", head + "R 4 1.000000 1 0x200000000 0x5 0x0 0\n",
			"line 3: address 0x200000000 is not in a BAR of a PCIDEV line"},
		{"just behind the BAR", head + "R 4 1.000000 1 0x100100000 0x5 0x0 0\n",
			"line 3: address 0x100100000 is not in a BAR of a PCIDEV line"},
		{"over the end of the BAR",
			"VERSION 20070824\nPCIDEV 0010 123411e8 b 100000000 0 0 0 0 0 0 ffffc 0 0 0 0 0 0\n" +
				"R 8 1.000000 1 0x1000ffff8 0x5 0x0 0\n",
			"line 3: 8 bytes at offset 0xffff8 exceed the end of BAR 0 of 00:02.0 1234:11e8"},
		{"I/O ports", "VERSION 20070824\nPCIDEV 0010 123411e8 b 100000001 0 0 0 0 0 0 100000 0 0 " +
			"0 0 0 0\n" + load + "\n",
			"line 3: address 0x100000000 is not in a BAR of a PCIDEV line"},
		{"BAR without an address",
			"VERSION 20070824\nPCIDEV 0010 123411e8 b 0 0 0 0 0 0 0 100000 0 0 0 0 0 0\n" +
				"R 4 1.000000 1 0x1000 0x5 0x0 0\n",
			"line 3: address 0x1000 is not in a BAR of a PCIDEV line"},
		{"expansion ROM",
			"VERSION 20070824\nPCIDEV 0010 123411e8 b 0 0 0 0 0 0 100000001 0 0 0 0 0 0 10000\n" +
				load + "\n",
			"line 3: offset 0x0 of the expansion ROM of 00:02.0 1234:11e8: an image cannot " +
				"access that"},
		{"no number", head + "R 4 1.000000 1 0x10000000g 0x5 0x0 0\n",
			`line 3: R line: address "0x10000000g" is not a number of the expected form`},
		{"hex without 0x", head + "R 4 1.000000 1 100000000 0x5 0x0 0\n",
			`line 3: R line: address "100000000" is not a number of the expected form`},
		{"65 bits", head + "R 8 1.000000 1 0x100000000 0x10000000000000000 0x0 0\n",
			`line 3: R line: value "0x10000000000000000" is not a number of the expected form`},
		{"cut in the value", head + "R 4 1.000000 1 0x100000000 0x\n",
			`line 3: R line: value "0x" is not a number of the expected form`},
		{"cut before the value", head + "R 4 1.000000 1 0x100000000\n",
			"line 3: R line without value: the line is cut"},
		{"cut before the pid", head + "R 4 1.000000 1 0x100000000 0x5 0x0\n",
			"line 3: R line without pid: the line is cut"},
		{"two lines in one", head + load + load + "\n",
			`line 3: R line: pid "0R" is not a number of the expected form`},
		{"more fields", head + load + " 7\n", `line 3: R line has too many fields: "7"`},
		{"no newline", head + load,
			"line 3: the last line has no newline, so the trace was cut there (if it is " +
				"complete, add a newline)"},
		{"cut MAP", head + "MAP 1.000000 1 0x100000000 0xffff000000000000\n",
			"line 3: MAP line without length: the line is cut"},
		{"cut UNMAP", head + "UNMAP 1.000000\n",
			"line 3: UNMAP line without map id: the line is cut"},
		{"cut UNKNOWN", head + "UNKNOWN 1.000000 1 0x100000010 0f,1f\n",
			`line 3: UNKNOWN line: opcode bytes "0f,1f" is not a number of the expected form`},
		{"cut MARK", head + "MARK 1.\n",
			`line 3: MARK line: time "1." is not a number of the expected form`},
		{"cut PCIDEV", "VERSION 20070824\nPCIDEV 0010 123411e8 b 100000000 0 0\n",
			"line 2: PCIDEV line without resource 3: the line is cut"},
		{"wide ids", "VERSION 20070824\nPCIDEV 0010 1123411e8 b 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
			"line 2: PCIDEV line has ids of more than 16 bits"},
		{"moved device", head + "PCIDEV 0010 123411e8 b 300000000 0 0 0 0 0 0 100000 0 0 0 0 0 0\n",
			"line 3: PCIDEV 00:02.0 has other ids or ranges than before"},
		{"unknown device",
			"VERSION 20070824\nPCIDEV 0010 10de0001 b 100000000 0 0 0 0 0 0 100000 0 0 0 0 0 0 " +
				"nouveau\n" + load + "\n",
			"no board for 00:02.0 10de:0001; boards: edu (1234:11e8), ivshmem (1af4:1110), nvme " +
				"(1b36:0010), wormhole (1e52:401e), blackhole (1e52:b140); use --board generic " +
				"for any device, or --device and --board if a board is similar"},
		{"huge line", head + strings.Repeat("R", 3<<20) + "\n",
			"line 3: longer than 1048576 bytes: this is not a trace"},
		{"refused by the board", head + "R 8 1.000000 1 0x100000000 0x5 0x0 0\n",
			"line 3: load of 8 bytes at BAR 0 + 0x0: board edu does not accept this width there " +
				"(registers)"},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.text, Options{}, c.want) })
	}
}

// A cut can leave a shorter number that still parses; a trace that lost even
// one byte at its end must not pass for a whole one.
func TestMmiotraceIsRefusedWhereverItIsCutInALine(t *testing.T) {
	text := lines(eduDevice, "R 4 0x0 0x10000ed", "W 4 0x8 0x5", "R 4 0x8 0x78")
	for n := range len(text) {
		_, _, err := Import(strings.NewReader(text[:n]), Options{From: FromMmiotrace})
		if whole := n > 0 && text[n-1] == '\n' &&
			strings.Count(text[:n], "\n") > 2; whole != (err == nil) {
			t.Errorf("cut to %d of %d bytes (ends %q): %v", n, len(text), text[max(0, n-10):n], err)
		}
	}
}

func TestMmiotraceTakesLineEndsOfWindowsAndLongMarks(t *testing.T) {
	mark := strings.Repeat("long ", 40000)
	text := lines(eduDevice, "MARK 1.000000 "+mark, "R 4 0x0 0x10000ed")
	image, _ := mustImport(t, strings.ReplaceAll(text, "\n", "\r\n"), Options{})
	commands(t, image, `
mark `+strings.TrimSpace(mark[:255])+`
expect bar0+0x0 w4 0x10000ed mask 0xffffffff
`)
}

const twoDevices = "VERSION 20070824\n" + eduDevice + "\n" +
	"PCIDEV 0018 1af41110 b 300000000 0 0 0 0 0 0 100 0 0 0 0 0 0 \n" +
	"PCIDEV 0020 10de0001 b 400000000 0 0 0 0 0 0 1000 0 0 0 0 0 0 \n" +
	"R 4 1.000000 1 0x100000000 0x10000ed 0x0 0\n" +
	"R 4 1.000001 2 0x300000008 0x0 0x0 0\n" +
	"W 4 1.000002 1 0x100000004 0x1 0x0 0\n"

func TestMmiotraceOfSeveralDevicesNeedsAChoice(t *testing.T) {
	refused(t, twoDevices, Options{},
		"accesses to several devices: 00:02.0 1234:11e8 (2 accesses), 00:03.0 1af4:1110 (1 "+
			"access); choose one by VVVV:DDDD or BB:DD.F")
	for _, device := range []string{"1234:11E8", "00:02.0", "0000:00:02.0"} {
		image, report := mustImport(t, twoDevices, Options{Device: device})
		commands(t, image, `
expect bar0+0x0 w4 0x10000ed mask 0xffffffff
write bar0+0x4 w4 0x1
`)
		if got := did(report,
			"read"); got != "7 lines: 1 load, 1 store; left out 1 accesses to 00:03.0 1af4:1110" {
			t.Errorf("read: %s", got)
		}
	}
	image, _ := mustImport(t, twoDevices, Options{Board: &boards.Ivshmem})
	commands(t, image, "\nexpect bar0+0x8 w4 0x0 mask 0xffffffff\n")
}

func TestMmiotraceOfAnotherDeviceIsRefused(t *testing.T) {
	refused(t, twoDevices, Options{Device: "10de:0001"},
		"the trace has no access to device 10de:0001; devices in the trace: "+
			"00:02.0 1234:11e8 (2 accesses), "+
			"00:03.0 1af4:1110 (1 access), 00:04.0 10de:0001 (0 accesses)")
	refused(t, twoDevices, Options{Board: &boards.Wormhole},
		"the trace has no access to board wormhole (1e52:401e); devices in the trace: "+
			"00:02.0 1234:11e8 (2 "+
			"accesses), 00:03.0 1af4:1110 (1 access), 00:04.0 10de:0001 (0 accesses)")
}

func TestDeviceMayBeImportedAsABoardLikeIt(t *testing.T) {
	text := strings.Replace(lines(eduDevice, "R 4 0x0 0x10000ed"), "123411e8", "10de0001", 1)
	image, report := mustImport(t, text, Options{Device: "10de:0001", Board: &boards.Edu})
	target := image.Devices[0]
	if target.Board != "edu" || target.Vendor != 0x10de || target.Device != 1 {
		t.Errorf("target %+v", target)
	}
	if got := report.String(); !strings.Contains(got,
		"warning   00:02.0 10de:0001 is imported as board edu (1234:11e8)\n") {
		t.Errorf("report:\n%s", got)
	}
}

func TestAccessesOutsideEveryBarAreLeftOutWhereADeviceIsNamed(t *testing.T) {
	text := lines(eduDevice, "R 4 1.000000 1 0xfed000f0 0x5 0x0 0", "W 4 0x4 0x1")
	image, report := mustImport(t, text, Options{Device: "1234:11e8"})
	commands(t, image, "\nwrite bar0+0x4 w4 0x1\n")
	if got := report.String(); !strings.Contains(got, "left out 1 accesses outside every BAR") ||
		!strings.Contains(got,
			"warning   line 3: the first access outside the BARs of PCIDEV lines; it was left "+
				"out\n") {
		t.Errorf("report:\n%s", got)
	}
}

func TestTracePipeOpenedTwiceRepeatsItsHead(t *testing.T) {
	head := "VERSION 20070824\n" + eduDevice + "\n"
	image, _ := mustImport(t, lines(eduDevice, "W 4 0x4 0x1")+head+
		"W 4 2.000000 1 0x100000004 0x2 0x0 0\n", Options{})
	commands(t, image, "\nwrite bar0+0x4 w4 0x1\nwrite bar0+0x4 w4 0x2\n")
}

func TestReadErrorIsNotTakenForTheEnd(t *testing.T) {
	text := lines(eduDevice, "W 4 0x4 0x1")
	broken := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))
	_, _, err := Import(r, Options{From: FromMmiotrace})
	if err == nil || err.Error() != "line 4: disk on fire" || hal.CodeOf(err) != hal.IO {
		t.Errorf("got %v, code %v", err, hal.CodeOf(err))
	}
}

func TestProgressTellsHowMuchIsRead(t *testing.T) {
	text := lines(eduDevice, strings.Split(strings.Repeat("W 4 0x4 0x1\n", 50000), "\n")[:50000]...)
	var told []int64
	mustImport(t, text, Options{Progress: func(n int64) { told = append(told, n) }})
	if len(told) < 2 || told[len(told)-1] != int64(len(text)) {
		t.Errorf("told %v of %d bytes", told, len(text))
	}
	for i := 1; i < len(told); i++ {
		if told[i] <= told[i-1] {
			t.Errorf("told %v", told)
		}
	}
}
