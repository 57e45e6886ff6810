package traces

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lightmetal/boards"
)

// edu is the source of traces that QEMU wrote of its edu device.
var edu = Source{From: FromQemu, Board: &boards.Edu,
	Regions: []Region{{Name: "edu-mmio", Base: 0x10000000}}}

func TestMmiotraceReaderReturnsEveryField(t *testing.T) {
	text := "LSPCI 01:00.0 Processing accelerators\n" +
		"# tracer: mmiotrace\n" +
		"VERSION 20070824\n" +
		"PCIDEV 0000 80861237 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \n" +
		"PCIDEV 0100 1e52401e 0 10000000c 0 c0000000 0 200000004 0 0 20000000 0 100000 0 2000000 " +
		"0 0 tenstorrent\n" +
		"MAP 4294967295.000001 1 0x100000000 0xffffc90000000000 0x20000000 0xffffffff81234567 " +
		"1234\n" +
		"W 8 1.000002 1 0x11fc00530 0x40000410ff 0xffffffffa0001000 77\n" +
		"R 1 1.25 -1 0x10b000001 0xFf 0x0 -1\n" +
		"MARK 1.500000  begin  here \n" +
		"\n" +
		"R 2 2.000000 1 0x10b000002 0x1234 0x0 0\n" +
		"UNMAP 3.000000 1 0x0 0\n"
	trace, list, err := Read(strings.NewReader(text), Source{From: FromMmiotrace})
	if err != nil {
		t.Fatal(err)
	}
	want := []Access{
		{Line: 7, Op: OpStore, Width: 8, Offset: 0x1fc00530, Value: 0x40000410ff,
			Time: 1_000_002_000},
		{Line: 8, Op: OpLoad, Width: 1, Offset: 0x0b000001, Value: 0xff, Time: 1_250_000_000},
		{Line: 9, Op: OpMark, Name: "begin  here", Time: 1_500_000_000},
		{Line: 11, Op: OpLoad, Width: 2, Offset: 0x0b000002, Value: 0x1234, Time: 2_000_000_000},
	}
	if len(list) != len(want) {
		t.Fatalf("got %d accesses, want %d: %+v", len(list), len(want), list)
	}
	for i := range want {
		if list[i] != want[i] {
			t.Errorf("access %d: got %+v, want %+v", i, list[i], want[i])
		}
	}
	if trace.Board != &boards.Wormhole || trace.Lines != 12 {
		t.Errorf("board %v, %d lines; want wormhole, 12 lines", trace.Board, trace.Lines)
	}
}

func TestQemuReaderReturnsEveryField(t *testing.T) {
	text := "memory_region_ops_read cpu 0 mr 0x55b6bee1c320 addr 0x8000004 value 0x8 size 4 name " +
		"'gic_dist'\n" +
		"memory_region_ops_write cpu -1 mr 0x55b6bee1c320 addr 0x10000080 value " +
		"0x1122334455667788 size 8 name 'edu-mmio'\n" +
		"719585@1608130130.441190:memory_region_ops_read cpu 1 mr 0x7f addr 0x10000000 value " +
		"0xFFFFFFFFffffffff size 4 name 'edu-mmio'\n" +
		"pci_nvme_mmio_write addr 0x1000 data 0x1 size 4\n" +
		"ram_block_resize block pc.ram\n" +
		"\n" +
		"[    0.000000] Booting Linux\n" +
		"memory_region_ops_read cpu 1 mr 0x7f addr 0x10000020 value 0x0 size 4\n" +
		"memory_region_ops_read cpu 1 mr 0x7f addr 0x9000000 value 0x0 size 1\n"
	trace, list, err := Read(strings.NewReader(text), edu)
	if err != nil {
		t.Fatal(err)
	}
	want := []Access{
		{Line: 2, Op: OpStore, Width: 8, Offset: 0x80, Value: 0x1122334455667788},
		{Line: 3, Op: OpLoad, Width: 4, Offset: 0, Value: 0xffffffff, Time: 1608130130_441190000},
		{Line: 8, Op: OpLoad, Width: 4, Offset: 0x20},
	}
	if !slices.Equal(list, want) {
		t.Errorf("got  %+v\nwant %+v", list, want)
	}
	wantIgnored := []Count{{"accesses to other regions", 2}, {"lines of other text", 2},
		{"lines of pci_nvme_mmio_write", 1}, {"lines of ram_block_resize", 1}}
	if !slices.Equal(trace.Ignored, wantIgnored) {
		t.Errorf("ignored %+v, want %+v", trace.Ignored, wantIgnored)
	}
}

// TestISOTimesOfQEMUAreRead: with -msg timestamp=on, QEMU 10.2 and later write times as ISO 8601 in
// UTC, and a thread after the time if that is requested.
func TestISOTimesOfQEMUAreRead(t *testing.T) {
	const event = "memory_region_ops_write cpu 0 mr 0x7f addr 0x10000004 value 0x1 size 4 name " +
		"'edu-mmio'\n"
	text := "2026-11-22T05:06:07.123456Z " + event +
		"2026-11-22T05:06:07.623456Z (4711:CPU 0/TCG): " + event + "7@1608130130.441190:" + event +
		event
	trace, list, err := Read(strings.NewReader(text), edu)
	if err != nil || len(list) != 4 || len(trace.Ignored) != 0 {
		t.Fatalf("trace %+v with %d accesses, error %v; want 4 accesses and no ignored line", trace,
			len(list), err)
	}
	first := time.Date(2026, 11, 22, 5, 6, 7, 123456000, time.UTC).UnixNano()
	for i, want := range []int64{first, first + 500_000_000, 1608130130_441190000, 0} {
		if got := list[i].Time; got != want {
			t.Errorf("line %d: time %d, want %d", i+1, got, want)
		}
	}
}
