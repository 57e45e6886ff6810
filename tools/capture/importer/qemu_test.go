package importer

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/tools/capture/boardfile"
	"lightmetal/tools/capture/importer/traces"
)

const eduBase = 0x10000000 // guest-physical address of BAR 0

// eduTrace returns memory_region_ops events of edu. `r OFFSET SIZE VALUE` is a load, `w ...` a
// store; OFFSET has two hexadecimal digits.
func eduTrace(list ...string) string {
	var b strings.Builder
	for _, line := range list {
		f := strings.Fields(line)
		event := map[string]string{"r": "read", "w": "write"}[f[0]]
		b.WriteString("memory_region_ops_" + event + " cpu 0 mr 0x55b6bee1c320 addr 0x100000" +
			f[1] +
			" value " + f[3] + " size " + f[2] + " name 'edu-mmio'\n")
	}
	return b.String()
}

func TestQemuRejectsWithLineNumber(t *testing.T) {
	const good = "memory_region_ops_read cpu 0 mr 0x7f addr 0x10000000 value 0x10000ed size 4 " +
		"name 'edu-mmio'\n"
	o := forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase}}})
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "the trace has no memory_region_ops or vfio_region event (QEMU writes " +
			"them with -trace 'memory_region_ops_*')"},
		{"other events only", "pci_nvme_mmio_write addr 0x1000 data 0x1 size 4\n",
			"the trace has no memory_region_ops or vfio_region event (QEMU writes them with " +
				"-trace 'memory_region_ops_*')"},
		{"cut in the name",
			good +
				"memory_region_ops_read cpu 0 mr 0x7f addr 0x10000000 value 0x1 size 4 name " +
				"'edu-\n",
			`line 2: memory_region_ops event: "name 'edu-" is not the name of a region: the ` +
				`line is cut or has an unknown form`},
		{"cut in the size",
			good + "memory_region_ops_read cpu 0 mr 0x7f addr 0x10000000 value 0x1 size\n",
			`line 2: memory_region_ops event: expected "size" with a number, found "size": the ` +
				`line is cut or has an unknown form`},
		{"cut in the value", good + "memory_region_ops_read cpu 0 mr 0x7f addr 0x10000000 val\n",
			`line 2: memory_region_ops event: expected "value" with a number, found "val": the ` +
				`line is cut or has an unknown form`},
		{"cut in the event", good + "memory_region_ops_re\n",
			"line 2: \"memory_region_ops_re\" begins like a memory_region_ops event, but the " +
				"rest is cut or has an unknown form"},
		{"cut and joined",
			good +
				"pci_nvme_mmio_read addr 0x1c simemory_region_ops_read cpu 0 mr 0x7f addr " +
				"0x10000000 value 0x1 size 4 name 'edu-mmio'\n",
			"line 2: \"memory_region_ops_read cpu 0 mr 0x7f addr 0x10000000 value 0\"... begins " +
				"like a memory_region_ops event, but the rest is cut or has an unknown form"},
		{"no number", good +
			"memory_region_ops_read cpu 0 mr 0x7f addr 0x1000000q value 0x1 size 4 name " +
			"'edu-mmio'\n",
			`line 2: memory_region_ops event: expected "addr" with a number, found "addr ` +
				`0x1000000q": the line is cut or has an unknown form`},
		{"no newline", strings.TrimSuffix(good, "\n"),
			"line 1: the last line has no newline, so the trace was cut there (if it is " +
				"complete, add a newline)"},
		{"width 3", good +
			"memory_region_ops_read cpu 0 mr 0x7f addr 0x10000000 value 0x1 size 3 name " +
			"'edu-mmio'\n",
			"line 2: the width must be 1, 2, 4 or 8 bytes, not 3"},
		{"width 0", good +
			"memory_region_ops_read cpu 0 mr 0x7f addr 0x10000000 value 0x1 size 0 name " +
			"'edu-mmio'\n",
			"line 2: the width must be 1, 2, 4 or 8 bytes, not 0"},
		{"wide store", good +
			"memory_region_ops_write cpu 0 mr 0x7f addr 0x10000000 value 0x123456789 size 4 name " +
			"'edu-mmio'\n",
			"line 2: value 0x123456789 is wider than 4 bytes"},
		{"misaligned", good +
			"memory_region_ops_write cpu 0 mr 0x7f addr 0x10000002 value 0x1 size 4 name " +
			"'edu-mmio'\n",
			"line 2: address 0x10000002 must be a multiple of the width of 4 bytes: the guest " +
				"made " +
				"a smaller access; the events memory_region_ops show the widths of QEMU's model " +
				"of " +
				"the device, not the guest's (lm record in the guest records those)"},
		{"before the base",
			good +
				"memory_region_ops_write cpu 0 mr 0x7f addr 0xffffffc value 0x1 size 4 name " +
				"'edu-mmio'\n",
			`line 2: address 0xffffffc is before the base 0x10000000 of region "edu-mmio"; ` +
				`check --base`},
		{"after the BAR",
			good +
				"memory_region_ops_write cpu 0 mr 0x7f addr 0x10100000 value 0x1 size 4 name " +
				"'edu-mmio'\n",
			"line 2: address 0x10100000 is outside BAR 0 of edu, which starts at 0x10000000 " +
				"and has 0x100000 bytes; check --base"},
		{"host memory", good + eduTrace("w 88 8 0x40000", "w 80 8 0x0", "w 80 8 0x4196e000"),
			"line 4: store of 0x4196e000 to the DMA source address: a replay needs host memory " +
				"there, which the trace lacks; add a file of this memory with --host"},
	} {
		t.Run(c.name, func(t *testing.T) { wantError(t, c.text, o, c.want) })
	}
}

func isWidthWarning(w traces.Warning) bool {
	return strings.Contains(w.Text, "widths that its model")
}

// TestRegionsWithOneWidthCauseAWarning: QEMU calls a model with the widths that the model takes. A
// region with several widths shows the guest's, and so do the events vfio_region.
func TestRegionsWithOneWidthCauseAWarning(t *testing.T) {
	const vfio = "vfio_region_write  (0000:01:00.0:region0+0x4, 0x1, 4)\n"
	for _, c := range []struct {
		name, text, region string
		warns              bool
	}{
		{"one width", eduTrace("w 08 4 0x5", "r 08 4 0x5"), "edu-mmio", true},
		{"two widths", eduTrace("w 08 4 0x5", "r 98 8 0x0"), "edu-mmio", false},
		{"passed through", vfio + vfio, "0000:01:00.0", false},
	} {
		_, report := mustImport(t, c.text, forEdu(Options{
			Regions: []traces.Region{{Name: c.region, Base: eduBase}}}))
		if got := slices.ContainsFunc(report.Warnings, isWidthWarning); got != c.warns {
			t.Errorf("%s: warns: %v, want %v: %v", c.name, got, c.warns, report.Warnings)
		}
	}
}

const eduRegions = `"edu-mmio" at 0x10000000..0x10000023 (2 loads, 0 stores); "gic_dist" at ` +
	`0x8000000..0x8000003 (0 loads, 1 stores)`

func TestQemuWithoutAChoiceListsBoardsAndRegions(t *testing.T) {
	text := "memory_region_ops_write cpu 0 mr 0x7f addr 0x8000000 value 0x0 size 4 name " +
		"'gic_dist'\n" + eduTrace("r 00 4 0x10000ed", "r 20 4 0x0")
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no board", Options{From: FromQemu,
			Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase}}},
			"a trace of QEMU does not name its device; use --board; boards: " +
				"edu (1234:11e8), ivshmem (1af4:1110), nvme (1b36:0010), wormhole (1e52:401e), " +
				"blackhole (1e52:b140)"},
		{"no region", forEdu(Options{}), "choose the device's region with --region NAME and " +
			"--base ADDRESS; regions: " + eduRegions},
		{"no base", forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio"}}}),
			`region "edu-mmio" needs --base, the guest-physical address of its BAR (0x10000000, ` +
				`if it is BAR 0 of edu); regions: ` + eduRegions},
		{"no such region", forEdu(Options{Regions: []traces.Region{{Name: "edu", Base: eduBase}}}),
			`the trace contains no access to region "edu" at 0x10000000; regions: ` + eduRegions},
		{"nothing in the range", forEdu(Options{Regions: []traces.Region{{Base: 0x20000000}}}),
			`the trace contains no access to region at 0x20000000; regions: ` + eduRegions},
		{"no such BAR", forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase,
			Bar: 2}}}), "board edu has no BAR 2"},
		{"no BAR at all",
			forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase, Bar: 255}}}),
			"board edu has no BAR 255"},
		{"odd base",
			forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase + 1}}}),
			"--base 0x10000001 must be the address of a BAR: a multiple of 16, " +
				"and the BAR must end below 2^64"},
		{"base at the end of the world",
			forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: ^uint64(15)}}}),
			"--base 0xfffffffffffffff0 must be the address of a BAR: a multiple of 16, " +
				"and the BAR must end below 2^64"},
	} {
		t.Run(c.name, func(t *testing.T) { wantError(t, text, c.o, c.want) })
	}
}

func TestQemuAddressSelectsARegionWithoutName(t *testing.T) {
	text := eduTrace("r 00 4 0x10000ed", "w 04 4 0x1") +
		// another region of the same name, outside BAR 0
		"memory_region_ops_write cpu 0 mr 0x7f addr 0x10100000 value 0x7 size 4 name 'edu-mmio'\n"
	want := "\nexpect bar0+0x0 w4 0x10000ed mask 0xffffffff\nwrite bar0+0x4 w4 0x1\n"
	image, report := mustImport(t, text, forEdu(Options{Regions: []traces.Region{{Base: eduBase}}}))
	checkCommands(t, image, want)
	wantSummary(t, report, "read", "3 lines: 1 load, 1 store; left out 1 accesses to other regions")
	nameless := strings.ReplaceAll(text, " name 'edu-mmio'", "")
	image, _ = mustImport(t, nameless,
		forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase}}}))
	checkCommands(t, image, want)
}

// TestQemuDistinguishesRegionsOfTheSameName: another device has a region of the same name at
// another address, which has another number (mr) in QEMU.
func TestQemuDistinguishesRegionsOfTheSameName(t *testing.T) {
	second := "memory_region_ops_write cpu 0 mr 0x7f addr 0x20000004 value 0x7 size 4 name " +
		"'edu-mmio'\n"
	text := second + eduTrace("r 00 4 0x10000ed", "w 04 4 0x1") + second
	generic, err := boardfile.Generic(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio",
		Base: eduBase}}}),
		{From: FromQemu, Board: generic, BarSizesAreLimits: true, Device: "1234:11e8",
			Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase}}}} {
		image, report := mustImport(t, text, o)
		checkCommands(t, image,
			"\nexpect bar0+0x0 w4 0x10000ed mask 0xffffffff\nwrite bar0+0x4 w4 0x1\n")
		wantSummary(t, report, "read",
			"4 lines: 1 load, 1 store; left out 2 accesses to other regions")
	}
	moved := strings.ReplaceAll(second, "0x7f", "0x55b6bee1c320")
	wantError(t, moved+eduTrace("r 00 4 0x10000ed"),
		forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase}}}),
		`line 2: region "edu-mmio" is at 0x10000000 now, but was at another address in line 1: `+
			`the guest moved the BAR`)
	// This address could be in the BAR, whose size is unknown.
	near := strings.ReplaceAll(second, "0x20000004", "0x10100004")
	wantError(t, eduTrace("r 00 4 0x10000ed")+near, Options{From: FromQemu, Board: generic,
		BarSizesAreLimits: true,
		Device:            "1234:11e8",
		Regions:           []traces.Region{{Name: "edu-mmio", Base: eduBase}}},
		`line 2: QEMU has several regions with the name "edu-mmio"; use a board file with the `+
			`size of BAR 0 to distinguish these regions`)
}

// TestFormatsOfOtherQemuVersionsAndBackendsAreRead: events of QEMU up to 2.4 have no cpu, those up
// to 2.6 no 0x before 0; the backends ftrace and syslog write their own text before an event.
func TestFormatsOfOtherQemuVersionsAndBackendsAreRead(t *testing.T) {
	o := forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase}}})
	want, _ := mustImport(t, eduTrace("w 08 4 0x0", "r 00 4 0x10000ed"), o)
	for _, format := range []string{
		"memory_region_ops_write mr 0x7f addr 0x10000008 value 0 size 4\n" +
			"memory_region_ops_read mr 0x7f addr 0x10000000 value 0x10000ed size 4\n",
		"memory_region_ops_write cpu 1 mr 0x7f addr 0x10000008 value 0 size 4\n" +
			"memory_region_ops_read cpu 1 mr 0x7f addr 0x10000000 value 0x10000ed size 4\n",
		" qemu-system-x86-4242    [001] ..... 12.000001: tracing_mark_write: " +
			"memory_region_ops_write cpu 0 mr 0x7f addr 0x10000008 value 0x0 size 4 name " +
			"'edu-mmio'\n CPU 0/KVM-7 [000] d..1 12.000003: tracing_mark_write: " +
			"memory_region_ops_read cpu 0 mr 0x7f addr 0x10000000 value 0x10000ed size 4 " +
			"name 'edu-mmio'\n",
		"Nov 22 08:00:00 host qemu-system-x86_64[4242]: memory_region_ops_write cpu 0 mr 0x7f " +
			"addr 0x10000008 value 0x0 size 4 name 'edu-mmio'\n" +
			"2026-11-22T08:00:00.5+00:00 host qemu[42]: memory_region_ops_read cpu 0 mr 0x7f " +
			"addr 0x10000000 value 0x10000ed size 4 name 'edu-mmio'\n",
	} {
		got, _ := mustImport(t, format, o)
		if imageText(got) != imageText(want) {
			t.Errorf("commands of\n%s\ngot\n%s\nwant\n%s", format, imageText(got), imageText(want))
		}
	}
}

func TestQemuDeviceMayHaveSeveralRegions(t *testing.T) {
	text := "memory_region_ops_read cpu 0 mr 0x1 addr 0x10000008 value 0x0 size 4 name " +
		"'ivshmem-mmio'\n" +
		"memory_region_ops_write cpu 0 mr 0x2 addr 0x8000400010 value 0x5 size 8 name 'mem'\n"
	image, _ := mustImport(t, text, Options{From: FromQemu, Board: &boards.Ivshmem,
		Regions: []traces.Region{
			{Name: "ivshmem-mmio", Base: 0x10000000}, {Name: "mem", Base: 0x8000400000, Bar: 2}}})
	checkCommands(t, image, `
expect bar0+0x8 w4 0x0 mask 0xffffffff
write bar2+0x10 w8 0x5
`)
	if bars := image.Devices[0].Bars; bars != [6]uint64{0: 256, 2: 4 << 20} {
		t.Errorf("BARs %v, want 256 bytes of BAR 0 and 4 MiB of BAR 2", bars)
	}
}

func TestVfioRegionsAreBars(t *testing.T) {
	text := "vfio_region_write  (0000:01:00.0:region0+0x4, 0x12345678, 4)\n" +
		"7@1.5:vfio_region_read  (0000:01:00.0:region0+0x4, 4) = 0xffffffffedcba987\n" +
		"vfio_region_write  (0000:02:00.0:region0+0x4, 0x1, 4)\n" +
		"memory_region_ops_write cpu 0 mr 0x7f addr 0x10000004 value 0x12345678 size 4 name " +
		"'0000:01:00.0 BAR 0'\n"
	for _, region := range []string{"0000:01:00.0", "0000:01:00.0:region0"} {
		image, report := mustImport(t, text,
			forEdu(Options{Regions: []traces.Region{{Name: region}}}))
		checkCommands(t, image, `
write bar0+0x4 w4 0x12345678
expect bar0+0x4 w4 0xedcba987 mask 0xffffffff
`)
		if got := passSummary(report,
			"read"); got != "4 lines: 1 load, 1 store; left out 2 accesses to other regions" {
			t.Errorf("region %s: summary of the pass read: %s", region, got)
		}
	}
}

func TestVfioRegionRejectsWithLineNumber(t *testing.T) {
	o := forEdu(Options{Regions: []traces.Region{{Name: "0000:01:00.0"}}})
	for _, line := range []string{
		"vfio_region_write  (0000:01:00.0:region0+0x4, 0x12345678",
		"vfio_region_write  (0000:01:00.0:region0+0x4, 0x12345678, 4) = 0x1",
		"vfio_region_write  (0000:01:00.0:region0, 0x1, 4)",
		"vfio_region_write  (0000:01:00.0:regionx+0x4, 0x1, 4)",
		"vfio_region_write  (0000:01:00.0+0x4, 0x1, 4)",
		"vfio_region_write",
		"vfio_region_read  (0000:01:00.0:region0+0x4, 4)",
		"vfio_region_read  (0000:01:00.0:region0+0x4, 0x1, 4)",
		"vfio_region_read  0000:01:00.0:region0+0x4, 4) = 0x1",
	} {
		text := strings.TrimSpace(line[strings.IndexAny(line+" ", " "):])
		wantError(t, line+"\n", o, "line 1: vfio_region event: "+strconv.Quote(text)+
			" is cut or has an unknown form")
	}
	wantError(t, "vfio_region_write  (0000:01:00.0:region0+0x4, 0x123456789, 4)\n", o,
		"line 1: value 0x123456789 is wider than 4 bytes")
	wantError(t, "vfio_region_write  (0000:01:00.0:region7+0x4, 0x1, 4)\n", o,
		"line 1: region 7 is not a BAR of board edu")
	wantError(t, "vfio_region_write  (0000:01:00.0:region256+0x4, 0x1, 4)\n", o,
		`line 1: vfio_region event: "(0000:01:00.0:region256+0x4, 0x1, 4)" is cut or has an `+
			`unknown form`)
}

func TestRamDeviceEventsCauseAWarning(t *testing.T) {
	text := eduTrace("r 00 4 0x10000ed") +
		"memory_region_ram_device_write cpu 0 mr 0x7f addr 0x0 value 0x1 size 4\n"
	_, report := mustImport(t, text, forEdu(Options{Regions: []traces.Region{{Base: eduBase}}}))
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0].Text, "x-no-mmap=on") {
		t.Errorf("warnings %v, want one that names x-no-mmap=on", report.Warnings)
	}
}

// TestOnlyOtherDevicesMayBeMisaligned: accesses of other devices may be misaligned, like those of
// the PC's ports (vbe, 0x1cf), but accesses of the imported device may not. A summary counts both.
func TestOnlyOtherDevicesMayBeMisaligned(t *testing.T) {
	mmio := Options{From: FromMmiotrace, Device: "1234:11e8"}
	for _, c := range []struct {
		other, own, head string
		o                Options
	}{
		{"memory_region_ops_write cpu 0 mr 0x9 addr 0x1cf value 0x0 size 2 name 'vbe'\n",
			eduTrace("w 08 4 0x5"), "",
			forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase}}})},
		{"vfio_region_write  (0000:02:00.0:region0+0x2, 0x1, 4)\n",
			"vfio_region_write  (0000:01:00.0:region0+0x8, 0x5, 4)\n", "",
			forEdu(Options{Regions: []traces.Region{{Name: "0000:01:00.0"}}})},
		{"VERSION 20070824\n" + eduDevice +
			"\nPCIDEV 0020 8086100e b 200000000 0 0 0 0 0 0 100000 0 0 0 0 0 0 e1000\n" +
			"W 4 1.000000 1 0x200000002 0x5 0x0 0\n",
			"W 4 1.000000 1 0x100000008 0x5 0x0 0\n", "VERSION 20070824\n" + eduDevice + "\n",
			mmio},
	} {
		if image, _ := mustImport(t, c.other+c.own, c.o); len(image.Sequences[0].Commands) != 1 {
			t.Errorf("%s%d commands, want 1", c.other, len(image.Sequences[0].Commands))
		}
		wrong := strings.NewReplacer("addr 0x10000008", "addr 0x10000006", "+0x8", "+0x6",
			"0x100000008", "0x100000006").Replace(c.own)
		if _, _, err := Import(strings.NewReader(c.head+wrong), c.o); err == nil ||
			!strings.Contains(err.Error(), "6 must be a multiple of the width of 4 bytes") {
			t.Errorf("%serror %v, want one about a misaligned address", wrong, err)
		}
		s, err := Summarize(strings.NewReader(c.other+wrong), c.o)
		if err != nil || len(s.Regions) < 2 || s.Regions[0].Stores+s.Regions[1].Stores != 2 {
			t.Errorf("%s%ssummary %+v, error %v; want 2 stores", c.other, wrong, s, err)
		}
	}
}

func TestManyEventsOfOtherKindsAreCountedInBoundedSpace(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		b.WriteString("event_" + strings.Repeat("x", i) + "\n")
	}
	summary, err := Summarize(strings.NewReader(b.String()), Options{From: FromQemu})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range summary.Other {
		n += c.N
	}
	if len(summary.Other) > 300 || n != 1000 {
		t.Errorf("the summary has %d kinds of %d lines, want at most 300 kinds of 1000 lines",
			len(summary.Other), n)
	}
}

func TestUnknownFormatAndPassAreUsageErrors(t *testing.T) {
	wantError(t, "", Options{From: "strace"}, `unknown format "strace"; it must be mmiotrace, `+
		`rwmmio, qemu or record`)
	wantError(t, "", Options{Without: []string{"folding"}},
		`pass "folding" is unknown; passes: lift, fold, expect, drop, coalesce, fence, mark`)
	wantError(t, "", Options{Poll: []Range{{First: 2, Last: 1}}},
		"range 0x2-0x1 ends before its start")
	if _, err := Summarize(strings.NewReader(""), Options{From: "strace"}); err == nil {
		t.Error("Summarize accepts an unknown format")
	}
}

// TestOptionsCanBeUsedForSeveralTraces: QEMU numbers regions again in each run, so the options must
// not keep the region numbers of the first trace.
func TestOptionsCanBeUsedForSeveralTraces(t *testing.T) {
	o := forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase}}})
	first := eduTrace("w 08 4 0x5")
	// A region of the same name elsewhere, which has the number that the first trace's region had.
	another := strings.ReplaceAll(first, "addr 0x1", "addr 0x2")
	for _, text := range []string{first, another +
		strings.ReplaceAll(first, "mr 0x55", "mr 0x56")} {
		if image, _ := mustImport(t, text, o); len(image.Sequences[0].Commands) != 1 {
			t.Errorf("%d commands, want 1 of trace\n%s", len(image.Sequences[0].Commands), text)
		}
	}
}
