package traces

import (
	"reflect"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
)

const rwmmioTask = "    insmod-611     [002] .....    41.20100"

// rwmmioOf returns the source of a trace whose driver mapped BAR 0 of edu at ffff800085a00000.
func rwmmioOf() Source {
	return Source{From: FromRwmmio, Board: &boards.Edu,
		Regions: []Region{{Base: 0xffff_8000_85a0_0000}}}
}

func TestRwmmioReaderReturnsEveryField(t *testing.T) {
	text := "# tracer: nop\n" +
		"# entries-in-buffer/entries-written: 8/8   #P:4\n" +
		rwmmioTask + "1: rwmmio_write: acc_probe+0x60/0x1e0 [acc] width=32 val=0x5 " +
		"addr=0xffff800085a00010\n" +
		rwmmioTask + "2: rwmmio_post_write: acc_probe+0x60/0x1e0 [acc] width=32 val=0x5 " +
		"addr=0xffff800085a00010\n" +
		rwmmioTask + "3: tracing_mark_write: begin  here\n" +
		" my task-7 [000] d.h1. 41.5: rwmmio_read: f+0x1/0x2 -> g+0x1/0x2 width=64 " +
		"addr=0xffff800085a00088\n" +
		rwmmioTask + "4: rwmmio_write: other+0x60/0x1e0 width=8 val=0x1 addr=0xffff800085b00000\n" +
		" my task-7 [000] d.h1. 41.6: rwmmio_post_read: f+0x1/0x2 -> g+0x1/0x2 width=64 val=0 " +
		"addr=0xffff800085a00088\n" +
		rwmmioTask + "5: sched_switch: prev_comm=insmod\n"
	trace, list, err := Read(strings.NewReader(text), rwmmioOf())
	if err != nil {
		t.Fatal(err)
	}
	want := []Access{
		{Line: 3, Op: OpStore, Width: 4, Offset: 0x10, Value: 5, Time: 41_201_001_000},
		{Line: 5, Op: OpMark, Name: "begin  here", Time: 41_201_003_000},
		{Line: 8, Op: OpLoad, Width: 8, Offset: 0x88, Time: 41_600_000_000},
	}
	if !reflect.DeepEqual(list, want) {
		t.Errorf("got %+v, want %+v", list, want)
	}
	ignored := []Count{{"accesses to other addresses", 1}, {"other lines", 3}}
	if trace.Lines != 9 || !reflect.DeepEqual(trace.Ignored, ignored) {
		t.Errorf("%d lines, ignored %+v; want 9 lines, ignored %+v", trace.Lines, trace.Ignored,
			ignored)
	}
}

func TestRwmmioWithSeveralBARs(t *testing.T) {
	board := boards.Ivshmem
	board.BarSizes[0] = 1 << 20 // a limit, which reaches into the other mapping
	o := Source{From: FromRwmmio, Board: &board, BarSizesAreLimits: true, Regions: []Region{
		{Base: 0xffff_8000_0000_0000}, {Base: 0xffff_8000_0000_1000, Bar: 2}}}
	const line = rwmmioTask + "1: rwmmio_write: f width=32 val=0x5 addr=0xffff80000000"
	_, list, err := Read(strings.NewReader(line+"0008\n"+line+"1004\n"), o)
	if err != nil || len(list) != 2 || list[0].Bar != 0 || list[0].Offset != 8 ||
		list[1].Bar != 2 || list[1].Offset != 4 {
		t.Errorf("got %+v, %v; want a store to BAR 0 + 8, and one to BAR 2 + 4", list, err)
	}
	same := []Region{o.Regions[0], {Base: o.Regions[0].Base, Bar: 2}}
	twice := []Region{o.Regions[1], {Base: 0xffff_9000_0000_0000, Bar: 2}}
	for name, bad := range map[string][]Region{
		"of known sizes": o.Regions, "at one address": same, "of one BAR": twice,
	} {
		o.Regions, o.BarSizesAreLimits = bad, name != "of known sizes"
		_, _, err := Read(strings.NewReader(line+"0008\n"), o)
		if hal.CodeOf(err) != hal.Usage || !strings.Contains(err.Error(), "overlap or name") {
			t.Errorf("bases %s: %v; want them refused", name, err)
		}
	}
}

func TestRwmmioReaderRejects(t *testing.T) {
	const write = rwmmioTask + "1: rwmmio_write: f width=32 val=0x5 addr=0xffff800085a00010\n"
	const form = "has a rwmmio event that is cut or has an unknown form"
	for name, test := range map[string]struct{ text, want string }{
		"lost": {write + "CPU:2 [LOST 12 EVENTS]\n", "line 2: the kernel lost 12 events"},
		"overwritten": {"# entries-in-buffer/entries-written: 6/9  #P:4\n" + write,
			"line 1: the kernel kept 6 of 9 events"},
		"no value": {rwmmioTask + "1: rwmmio_read: f width=32 addr=0xffff800085a00010\n",
			"line 1: the value of this load is missing"},
		"only ends": {strings.Replace(write, "rwmmio_w", "rwmmio_post_w", 1),
			"only the ends of stores"},
		"cut":            {write + rwmmioTask + "2: rwmmio_write: f width=32 val=0x5\n", form},
		"cut and joined": {strings.Split(write, " addr")[0] + write, form},
		"cut event":      {write + rwmmioTask + "2: rwmmio_write\n", form},
		"misaligned": {strings.Replace(write, "0010", "0011", 1),
			"line 1: address 0x11 must be a multiple"},
		"width":     {strings.Replace(write, "=32", "=24", 1), "the width must be 1, 2, 4 or 8"},
		"bits":      {strings.Replace(write, "=32", "=33", 1), "8, 16, 32 or 64 bits, not 33"},
		"elsewhere": {strings.Replace(write, "85a", "90a", 1), "no access to the BARs at --base"},
		"empty":     {"# tracer: nop\n", "the trace has no event rwmmio_write"},
	} {
		_, _, err := Read(strings.NewReader(test.text), rwmmioOf())
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
	o := rwmmioOf()
	o.Regions = nil
	far := strings.Replace(write, "85a", "90a", 1)
	_, _, err := Read(strings.NewReader(write+strings.Replace(write, "00010", "01010", 1)+far), o)
	const places = "accesses: 0xffff800085a00010..0xffff800085a01013 (0 loads, 2 stores); " +
		"0xffff800090a00010..0xffff800090a00013 (0 loads, 1 stores)"
	if err == nil || !strings.Contains(err.Error(), places) {
		t.Errorf("without --base: got %v, want an error with %q", err, places)
	}
}
