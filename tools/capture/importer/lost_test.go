package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/tools/capture/importer/traces"
)

// TestGluedEventsOfQEMUAreRejected joins events to other lines and cuts them: such an access must
// not be lost without an error.
func TestGluedEventsOfQEMUAreRejected(t *testing.T) {
	const (
		vfio = "vfio_region_write  (0000:01:00.0:region0+0x4, 0x1, 4)"
		load = "vfio_region_read  (0000:01:00.0:region0+0x4, 4) = 0x1"
		ops  = "memory_region_ops_write cpu 0 mr 0x7f addr 0x10000004 value 0x1 size 4 name " +
			"'edu-mmio'"
	)
	o := forEdu(Options{Regions: []traces.Region{{Name: "edu-mmio", Base: eduBase},
		{Name: "0000:01:00.0"}}})
	for _, event := range []string{vfio, load, ops} {
		for _, line := range []string{
			"pci_nvme_mmio_read addr 0x1c si" + event, "[    0.1] Booting Linux" + event,
			"vfio_region_setup Device 0000:01:00.0" + event,
			vfio + event, load + event, ops + event, ops + " " + event, event[:12], event[:17],
			"x" + event[:17], event[:len(event)-1],
			strings.ReplaceAll(event, "'", "'"+event),
		} {
			if line == strings.ReplaceAll(event, "'", "'"+event) && event != ops ||
				line == event[:len(event)-1] && event == load {
				continue // the event is unchanged, or the cut leaves no digit
			}
			_, _, err := Import(strings.NewReader(ops+"\n"+line+"\n"), o)
			if err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
				t.Errorf("%q: error %v, want one for line 2", line, err)
			}
		}
	}
	trace, list, err := traces.Read(strings.NewReader(ops+
		"\nvfio_region_setup Device 0000:01:00.0, region 0\n"+
		"vfio_region_mmap Region 0000:01:00.0 BAR 0\n"), o.traceSource())
	if err != nil || len(list) != 1 || len(trace.Ignored) != 2 {
		t.Errorf("trace %+v with %d accesses, error %v; want 1 access and 2 ignored lines", trace,
			len(list), err)
	}
}

func TestGluedRecordsOfMmiotraceAreRejected(t *testing.T) {
	const access = "W 4 1.000000 1 0x100000004 0x1 0x0 0"
	for _, line := range []string{
		"MARK 1.5 hello" + access, "# tracer: mmiotrace" + access, "LSPCI 00:02.0 edu" + access,
		"MAP 1.000000 1 0x100000000 0xffff0000 0x1000 0x0 0" + access,
		"UNMAP 1.000000 1 0x0 0" + access, access + access, eduDevice + "driver" + access,
		eduDevice + "driver " + access,
		"UNKNOWN 1.000000 1 0x100000010 0f,1f,44 0x0 0" + access,
	} {
		_, _, err := Import(strings.NewReader(mmiotrace(eduDevice, access, line)),
			Options{From: FromMmiotrace})
		if err == nil || !strings.HasPrefix(err.Error(), "line 4: ") {
			t.Errorf("%q: error %v, want one for line 4", line, err)
		}
	}
}

const (
	unknownText = "UNKNOWN: the kernel could not decode the instruction (0f,1f,44) that accessed " +
		"0x100000010: the access is lost; "
	queryText = "record the driver in a virtual machine with QEMU's trace, or import lines " +
		"without " +
		"it with --part"
)

// TestLinesOutsideThePartAreLeftOut: what no image can repeat is an error only inside the part, or
// if it may have pointed a TLB window for the part.
func TestLinesOutsideThePartAreLeftOut(t *testing.T) {
	device := strings.Replace(eduDevice, "100000 0 0 0 0 0 0", "100000 0 0 0 0 0 1000", 1)
	device = strings.Replace(device, "100000000 0 0 0 0 0 0", "100000000 0 0 0 0 0 200000000", 1)
	const before, inside = "W 4 0x4 0x1", "W 4 0x8 0x2"
	for name, line := range map[string]string{
		"option ROM":  "R 2 1.000000 1 0x200000000 0xaa55 0x0 0",
		"not decoded": "UNKNOWN 1.000000 1 0x100000010 f3,a5,f6 0x0 0",
		"lost events": "MARK 0.000000 Lost 17 events.",
		"buffer full": "CPU:0 [LOST 17 EVENTS]",
		"misaligned":  "R 4 1.000000 1 0x100000002 0x0 0x0 0",
		"past a BAR":  "R 8 1.000000 1 0x1000ffffc 0x0 0x0 0",
		"no BAR":      "R 4 1.000000 1 0x900000000 0x0 0x0 0",
	} {
		for where, lines := range map[string][]string{
			"first":  {line, before, "MARK 1.0 frame 1", inside, "MARK 1.0 end", before},
			"before": {before, line, "MARK 1.0 frame 1", inside, "MARK 1.0 end", before},
			"after":  {before, "MARK 1.0 frame 1", inside, "MARK 1.0 end", before, line},
		} {
			text := mmiotrace(device, lines...)
			image, report := mustImport(t, text, Options{Part: Part{"frame 1", "end"}})
			checkCommands(t, image, "mark frame 1\nwrite bar0+0x8 w4 0x2\nmark end\n")
			if got := passSummary(report, "read"); !strings.Contains(got,
				"left out 3 accesses outside the part") {
				t.Errorf("%s, %s the part: %s", name, where, got)
			}
			_, _, err := Import(strings.NewReader(text), Options{From: FromMmiotrace})
			want := fmt.Sprintf("line %d: ", 3+slices.Index(lines, line))
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s, %s the part, without --part: error %v", name, where, err)
			}
			s, err := Summarize(strings.NewReader(text), Options{From: FromMmiotrace})
			if err != nil || len(s.Regions) == 0 {
				t.Errorf("%s, %s the part: summary %v, error %v", name, where, s, err)
			}
		}
	}
	tlb := mmiotrace(whDevice, whPoint(wh166Config, 1, 1, 0), "MARK 0.000000 Lost 17 events.",
		"MARK 1.0 frame 1", access("W", 4, wh166, 1))
	wantError(t, tlb, Options{Part: Part{"frame 1", ""}}, "line 4: the kernel lost 17 events: the "+
		"trace is incomplete (record again with a larger buffer_size_kb)")
}

// TestUndecodedCopyNamesCauseAndRemedy: rep movs is what the kernel's memcpy_toio uses.
func TestUndecodedCopyNamesCauseAndRemedy(t *testing.T) {
	wantError(t, mmiotrace(eduDevice, "UNKNOWN 1.000000 1 0x100000010 f3,a5,f6 0x0 0"), Options{},
		"line 3: UNKNOWN: the kernel could not decode the instruction (f3,a5,f6) that accessed "+
			"0x100000010: the access is lost; it is rep movs, which copies: memcpy_toio or "+
			"memcpy_fromio; "+queryText)
}

// TestUndecodedAccessOfAnotherDeviceIsLeftOut: an access that the kernel could not decode is an
// error only if it is one of the imported device.
func TestUndecodedAccessOfAnotherDeviceIsLeftOut(t *testing.T) {
	unknown := func(address string) string {
		return twoDevices + "UNKNOWN 2.000000 1 " + address + " 0f,1f,44 0x0 0\n"
	}
	for _, o := range []Options{{Device: "1234:11e8"}, {Board: &boards.Edu}, {Device: "00:02.0"}} {
		_, report := mustImport(t, unknown("0x400000010"), o)
		if got := passSummary(report, "read"); !strings.Contains(got,
			"left out 1 accesses to 00:04.0 10de:0001 that the kernel could not decode") {
			t.Errorf("summary of the pass read: %s", got)
		}
		wantError(t, unknown("0x100000010"), o, "line 8: "+unknownText+queryText)
	}
	first := strings.Replace(twoDevices, "R 4 1.000000",
		"UNKNOWN 0.500000 1 0x100000010 0f,1f,44 0x0 0\nR 4 1.000000", 1)
	wantError(t, first, Options{Device: "1234:11e8"}, "line 5: "+unknownText+queryText)
}

// TestDevicesOfTwoDomainsMayShareASlot: PCIDEV lines do not contain the PCI domain.
func TestDevicesOfTwoDomainsMayShareASlot(t *testing.T) {
	text := "VERSION 20070824\n" + eduDevice +
		"\nPCIDEV 0010 1af41110 b 300000000 0 0 0 0 0 0 100 0 0 0 0 0 0 \n" +
		"R 4 1.000000 1 0x100000000 0x10000ed 0x0 0\nR 4 1.000001 2 0x300000008 0x0 0x0 0\n"
	image, _ := mustImport(t, text, Options{Device: "1234:11e8"})
	checkCommands(t, image, "\nexpect bar0+0x0 w4 0x10000ed mask 0xffffffff\n")
	image, _ = mustImport(t, text, Options{Device: "1af4:1110"})
	checkCommands(t, image, "\nexpect bar0+0x8 w4 0x0 mask 0xffffffff\n")
	wantError(t, text, Options{Device: "00:02.0"},
		"the trace has accesses to several devices: 00:02.0 1234:11e8 (1 access), "+
			"00:02.0 1af4:1110 (1 access); choose one with --device VVVV:DDDD or --device BB:DD.F")
}

// TestAccessesOfManyDevicesAreAssigned has accesses of 30,000 devices. Each access is assigned to
// its device, and the error stays short.
func TestAccessesOfManyDevicesAreAssigned(t *testing.T) {
	const n = 30_000
	var text strings.Builder
	text.WriteString("VERSION 20070824\n")
	for i := range n {
		fmt.Fprintf(&text, "PCIDEV %04x 123411e8 b %x 0 0 0 0 0 0 100000 0 0 0 0 0 0 \n", i,
			uint64(i+1)<<24)
	}
	for i := range n {
		fmt.Fprintf(&text, "R 4 1.000000 1 0x%x 0x10000ed 0x0 0\n", uint64(i+1)<<24)
	}
	_, _, err := Import(strings.NewReader(text.String()), Options{From: FromMmiotrace})
	if err == nil || !strings.Contains(err.Error(), "accesses to several devices") ||
		!strings.HasSuffix(err.Error(), "and 29992 more; choose one with --device VVVV:DDDD "+
			"or --device BB:DD.F") {
		t.Errorf("error %.300v, want one that lists a few devices and counts 29992 more", err)
	}
}
