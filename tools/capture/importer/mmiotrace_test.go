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

func TestMmiotraceRejectsWithLineNumber(t *testing.T) {
	const load = "R 4 1.000000 1 0x100000000 0x5 0x0 0"
	head := "VERSION 20070824\n" + eduDevice + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "the VERSION line is missing, so the file is not a trace of mmiotrace"},
		{"no access", head,
			"the trace contains no access to any device: mmiotrace shows only BARs that a driver " +
				"maps while it is on; unload the driver, enable mmiotrace, start cat " +
				"trace_pipe, then " +
				"load the driver"},
		{"unknown version", "VERSION 20990101\n" + load + "\n",
			`line 1: version "20990101" of mmiotrace is unknown; it must be 20070824`},
		{"no version", eduDevice + "\n",
			"line 1: the VERSION line must come before this PCIDEV line: enable " +
				"mmiotrace, then run cat /sys/kernel/tracing/trace_pipe >FILE"},
		{"front cut off", load + "\n",
			"line 1: the VERSION line must come before this R line: enable " +
				"mmiotrace, then run cat /sys/kernel/tracing/trace_pipe >FILE"},
		{"lost events", head + "MARK 0.000000 Lost 17 events.\n" + load + "\n",
			"line 3: the kernel lost 17 events: the trace is incomplete (record again with a " +
				"larger buffer_size_kb)"},
		{"lost events that trace_pipe reports", head + "CPU:0 [LOST 17 EVENTS]\n" + load + "\n",
			"line 3: the kernel lost 17 events: the trace is incomplete (record again with a " +
				"larger buffer_size_kb)"},
		{"no PCIDEV line", "VERSION 20070824\nW 4 1.000000 1 0xb0600010 0x1 0x0 0\n",
			"line 2: no PCIDEV line comes before this access: the PCIDEV lines at the start of " +
				"trace_pipe name the devices and their BARs, so record again and keep the whole " +
				"output of cat"},
		{"nothing but the first line", "VERSION 20070824\n",
			"the trace has no PCIDEV lines, which name the devices and their BARs: record again " +
				"and " +
				"keep the whole output of cat trace_pipe"},
		{"not decoded", head + "UNKNOWN 1.000000 1 0x100000010 0f,1f,44 0x0 0\n",
			"line 3: " + unknownText + queryText},
		{"undecoded rw", head + "rw what?\n",
			`line 3: "rw what?": the kernel could not decode this access, ` +
				"so the trace lacks it; record with lm record or QEMU instead"},
		{"undecoded map", head + "map what?\n",
			`line 3: "map what?": the kernel could not decode this access, ` +
				"so the trace lacks it; record with lm record or QEMU instead"},
		{"unknown record", head + "X 4 1.000000\n",
			`line 3: "X 4 1.000000" is not a line of mmiotrace`},
		{"binary", head + "\x1f\x8b\x00\n", `line 3: "\x1f\x8b\x00" is not a line of mmiotrace`},
		{"width 3", head + "R 3 1.000000 1 0x100000000 0x5 0x0 0\n",
			"line 3: the width must be 1, 2, 4 or 8 bytes, not 3"},
		{"width 0", head + "R 0 1.000000 1 0x100000000 0x5 0x0 0\n",
			"line 3: the width must be 1, 2, 4 or 8 bytes, not 0"},
		{"width 16", head + "R 16 1.000000 1 0x100000000 0x5 0x0 0\n",
			"line 3: the width must be 1, 2, 4 or 8 bytes, not 16"},
		{"width 2^32+4", head + "R 4294967300 1.000000 1 0x100000000 0x5 0x0 0\n",
			"line 3: the width must be 1, 2, 4 or 8 bytes, not 4294967300"},
		{"wide value", head + "R 4 1.000000 1 0x100000000 0x123456789 0x0 0\n",
			"line 3: value 0x123456789 is wider than 4 bytes"},
		{"misaligned", head + "R 4 1.000000 1 0x100000002 0x5 0x0 0\n",
			"line 3: address 0x100000002 must be a multiple of the width of 4 bytes"},
		{"outside every BAR", head + "R 4 1.000000 1 0x200000000 0x5 0x0 0\n",
			"line 3: address 0x200000000 is outside the BARs of all PCIDEV lines; " +
				"choose a device with --device"},
		{"just after the BAR", head + "R 4 1.000000 1 0x100100000 0x5 0x0 0\n",
			"line 3: address 0x100100000 is outside the BARs of all PCIDEV lines; " +
				"choose a device with --device"},
		{"across the end of the BAR",
			"VERSION 20070824\nPCIDEV 0010 123411e8 b 100000000 0 0 0 0 0 0 ffffc 0 0 0 0 0 0\n" +
				"R 8 1.000000 1 0x1000ffff8 0x5 0x0 0\n",
			"line 3: 8 bytes at offset 0xffff8 exceed the end of BAR 0 of 00:02.0 1234:11e8"},
		{"I/O ports", "VERSION 20070824\nPCIDEV 0010 123411e8 b 100000001 0 0 0 0 0 0 100000 0 0 " +
			"0 0 0 0\n" + load + "\n",
			"line 3: address 0x100000000 is outside the BARs of all PCIDEV lines; " +
				"choose a device with --device"},
		{"BAR without an address",
			"VERSION 20070824\nPCIDEV 0010 123411e8 b 0 0 0 0 0 0 0 100000 0 0 0 0 0 0\n" +
				"R 4 1.000000 1 0x1000 0x5 0x0 0\n",
			"line 3: address 0x1000 is outside the BARs of all PCIDEV lines; " +
				"choose a device with --device"},
		{"expansion ROM",
			"VERSION 20070824\nPCIDEV 0010 123411e8 b 0 0 0 0 0 0 100000001 0 0 0 0 0 0 10000\n" +
				load + "\n",
			"line 3: access to offset 0x0 of the expansion ROM of 00:02.0 1234:11e8: " +
				"an image can access only BARs; import lines without it with --part"},
		{"no number", head + "R 4 1.000000 1 0x10000000g 0x5 0x0 0\n",
			`line 3: R line: address "0x10000000g" is not a number of the expected form`},
		{"hex without 0x", head + "R 4 1.000000 1 100000000 0x5 0x0 0\n",
			`line 3: R line: address "100000000" is not a number of the expected form`},
		{"65 bits", head + "R 8 1.000000 1 0x100000000 0x10000000000000000 0x0 0\n",
			`line 3: R line: value "0x10000000000000000" is not a number of the expected form`},
		{"cut in the value", head + "R 4 1.000000 1 0x100000000 0x\n",
			`line 3: R line: value "0x" is not a number of the expected form`},
		{"cut before the value", head + "R 4 1.000000 1 0x100000000\n",
			"line 3: the R line is cut: value is missing"},
		{"cut before the pid", head + "R 4 1.000000 1 0x100000000 0x5 0x0\n",
			"line 3: the R line is cut: pid is missing"},
		{"two lines in one", head + load + load + "\n",
			`line 3: R line: pid "0R" is not a number of the expected form`},
		{"more fields", head + load + " 7\n", `line 3: R line has too many fields: "7"`},
		{"no newline", head + load,
			"line 3: the last line has no newline, so the trace was cut there (if it is " +
				"complete, add a newline)"},
		{"cut MAP", head + "MAP 1.000000 1 0x100000000 0xffff000000000000\n",
			"line 3: the MAP line is cut: length is missing"},
		{"cut UNMAP", head + "UNMAP 1.000000\n",
			"line 3: the UNMAP line is cut: map id is missing"},
		{"cut UNKNOWN", head + "UNKNOWN 1.000000 1 0x100000010 0f,1f\n",
			`line 3: UNKNOWN line: opcode bytes "0f,1f" is not a number of the expected form`},
		{"cut MARK", head + "MARK 1.\n",
			`line 3: MARK line: time "1." is not a number of the expected form`},
		{"cut PCIDEV", "VERSION 20070824\nPCIDEV 0010 123411e8 b 100000000 0 0\n",
			"line 2: the PCIDEV line is cut: resource 3 is missing"},
		{"wide ids", "VERSION 20070824\nPCIDEV 0010 1123411e8 b 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
			"line 2: in the PCIDEV line, the slot 10 must have at most 4 hexadecimal digits, " +
				"and the ids 1123411e8 at most 8"},
		{"moved device", head + "PCIDEV 0010 123411e8 b 300000000 0 0 0 0 0 0 100000 0 0 0 0 0 0\n",
			"line 3: the PCIDEV line of 00:02.0 has other ids or ranges than an earlier " +
				"line; choose a device with --device"},
		{"unknown device",
			"VERSION 20070824\nPCIDEV 0010 10de0001 b 100000000 0 0 0 0 0 0 100000 0 0 0 0 0 0 " +
				"nouveau\n" + load + "\n",
			"lm has no board for 00:02.0 10de:0001; use --board generic, " +
				"or --device and --board for a similar board; boards: edu (1234:11e8), " +
				"ivshmem (1af4:1110), nvme (1b36:0010), wormhole (1e52:401e), " +
				"blackhole (1e52:b140)"},
		{"huge line", head + strings.Repeat("R", 3<<20) + "\n",
			"line 3: the line is longer than 1048576 bytes, so the file is not a trace"},
		{"rejected by the board", head + "R 8 1.000000 1 0x100000000 0x5 0x0 0\n",
			"line 3: load of 8 bytes at BAR 0 + 0x0: board edu does not accept this width there " +
				"(registers)"},
	} {
		t.Run(c.name, func(t *testing.T) { wantError(t, c.text, Options{}, c.want) })
	}
}

// TestTraceThatIsCutInsideALineIsRejected: a cut can leave a shorter number that can still be
// parsed. A trace that lacks even one byte at its end must not be imported as a complete one.
func TestTraceThatIsCutInsideALineIsRejected(t *testing.T) {
	for _, c := range []struct {
		text string
		head int // lines without an access
		o    Options
	}{
		{mmiotrace(eduDevice, "R 4 0x0 0x10000ed", "W 4 0x8 0x5", "R 4 0x8 0x78"), 2,
			Options{From: FromMmiotrace}},
		{eduTrace("r 00 4 0x10000ed", "w 08 4 0x5", "r 08 4 0x78"), 0,
			forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase}}})},
	} {
		for n := range len(c.text) {
			cut := c.text[:n]
			_, _, err := Import(strings.NewReader(cut), c.o)
			complete := strings.HasSuffix(cut, "\n") && strings.Count(cut, "\n") > c.head
			if complete != (err == nil) {
				t.Errorf("cut to %d of %d bytes, which end with %q: error %v, want imported: %v", n,
					len(c.text), cut[max(0, n-10):], err, complete)
			}
		}
	}
}

func TestMmiotraceAcceptsLongMarks(t *testing.T) {
	mark := strings.Repeat("long ", 40000)
	text := mmiotrace(eduDevice, "MARK 1.000000 "+mark, "R 4 0x0 0x10000ed")
	image, _ := mustImport(t, text, Options{})
	checkCommands(t, image, `
mark `+strings.TrimSpace(mark[:255])+`
expect bar0+0x0 w4 0x10000ed mask 0xffffffff
`)
}

// twoDevices is a trace of three devices, of which two are accessed.
const twoDevices = "VERSION 20070824\n" + eduDevice + "\n" +
	"PCIDEV 0018 1af41110 b 300000000 0 0 0 0 0 0 100 0 0 0 0 0 0 \n" +
	"PCIDEV 0020 10de0001 b 400000000 0 0 0 0 0 0 1000 0 0 0 0 0 0 \n" +
	"R 4 1.000000 1 0x100000000 0x10000ed 0x0 0\n" +
	"R 4 1.000001 2 0x300000008 0x0 0x0 0\n" +
	"W 4 1.000002 1 0x100000004 0x1 0x0 0\n"

func TestMmiotraceOfSeveralDevicesNeedsAChoice(t *testing.T) {
	wantError(t, twoDevices, Options{},
		"the trace has accesses to several devices: 00:02.0 1234:11e8 (2 accesses), "+
			"00:03.0 1af4:1110 (1 access); choose one with --device VVVV:DDDD or --device BB:DD.F")
	for _, device := range []string{"1234:11E8", "00:02.0", "0000:00:02.0"} {
		image, report := mustImport(t, twoDevices, Options{Device: device})
		checkCommands(t, image, `
expect bar0+0x0 w4 0x10000ed mask 0xffffffff
write bar0+0x4 w4 0x1
`)
		if got := passSummary(report,
			"read"); got != "7 lines: 1 load, 1 store; left out 1 accesses to 00:03.0 1af4:1110" {
			t.Errorf("device %s: summary of the pass read: %s", device, got)
		}
	}
	image, _ := mustImport(t, twoDevices, Options{Board: &boards.Ivshmem})
	checkCommands(t, image, "\nexpect bar0+0x8 w4 0x0 mask 0xffffffff\n")
}

func TestMmiotraceWithoutTheChosenDeviceIsRejected(t *testing.T) {
	wantError(t, twoDevices, Options{Device: "10de:0001"},
		"the trace contains no access to device 10de:0001; devices in the trace: "+
			"00:02.0 1234:11e8 (2 accesses), "+
			"00:03.0 1af4:1110 (1 access), 00:04.0 10de:0001 (0 accesses)")
	wantError(t, twoDevices, Options{Board: &boards.Wormhole},
		"the trace contains no access to board wormhole (1e52:401e); devices in the trace: "+
			"00:02.0 1234:11e8 (2 "+
			"accesses), 00:03.0 1af4:1110 (1 access), 00:04.0 10de:0001 (0 accesses)")
}

func TestDeviceMayBeImportedAsASimilarBoard(t *testing.T) {
	text := strings.Replace(mmiotrace(eduDevice, "R 4 0x0 0x10000ed"), "123411e8", "10de0001", 1)
	image, report := mustImport(t, text, Options{Device: "10de:0001", Board: &boards.Edu})
	target := image.Devices[0]
	if target.Board != "edu" || target.Vendor != 0x10de || target.Device != 1 {
		t.Errorf("device %+v, want 10de:0001 with board edu", target)
	}
	if got := report.String(); !strings.Contains(got,
		"warning   00:02.0 10de:0001 is imported as board edu (1234:11e8)\n") {
		t.Errorf("the report lacks the warning of another board:\n%s", got)
	}
}

func TestAccessesOutsideEveryBarAreLeftOutIfADeviceIsChosen(t *testing.T) {
	text := mmiotrace(eduDevice, "R 4 1.000000 1 0xfed000f0 0x5 0x0 0", "W 4 0x4 0x1")
	image, report := mustImport(t, text, Options{Device: "1234:11e8"})
	checkCommands(t, image, "\nwrite bar0+0x4 w4 0x1\n")
	if got := report.String(); !strings.Contains(got, "left out 1 accesses outside every BAR") ||
		!strings.Contains(got,
			"warning   line 3: this and all other accesses outside the BARs of PCIDEV lines "+
				"are left out\n") {
		t.Errorf("the report lacks the accesses that are left out:\n%s", got)
	}
}

func TestRepeatedHeaderOfTracePipeIsAccepted(t *testing.T) {
	head := "VERSION 20070824\n" + eduDevice + "\n"
	image, _ := mustImport(t, mmiotrace(eduDevice, "W 4 0x4 0x1")+head+
		"W 4 2.000000 1 0x100000004 0x2 0x0 0\n", Options{})
	checkCommands(t, image, "\nwrite bar0+0x4 w4 0x1\nwrite bar0+0x4 w4 0x2\n")
}

func TestReadErrorIsNotTreatedAsTheEnd(t *testing.T) {
	text := mmiotrace(eduDevice, "W 4 0x4 0x1")
	broken := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))
	_, _, err := Import(r, Options{From: FromMmiotrace})
	if err == nil || err.Error() != "line 4: disk on fire" || hal.CodeOf(err) != hal.IO {
		t.Errorf("got error %v, code %v; want line 4: disk on fire, code IO", err, hal.CodeOf(err))
	}
}

func TestProgressReportsTheBytesRead(t *testing.T) {
	text := mmiotrace(eduDevice,
		strings.Split(strings.Repeat("W 4 0x4 0x1\n", 50000), "\n")[:50000]...)
	var reports []int64
	mustImport(t, text, Options{Progress: func(n int64) { reports = append(reports, n) }})
	if len(reports) < 2 || reports[len(reports)-1] != int64(len(text)) {
		t.Errorf("progress %v, want at least 2 reports, the last of %d bytes", reports, len(text))
	}
	for i := 1; i < len(reports); i++ {
		if reports[i] <= reports[i-1] {
			t.Errorf("progress %v does not increase", reports)
		}
	}
}
