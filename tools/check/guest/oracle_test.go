package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/tools/capture/importer"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb/lmbtest"
)

// parseShortTrace returns the accesses of a trace in a short form: each line is "r width offset
// value" or "w width offset value", with hexadecimal numbers. It expands the lines to QEMU's
// format and parses them with parseTrace.
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

// mustLoad loads an image. Its TLB windows are those that it prefers.
func mustLoad(t *testing.T, file []byte, traced region) *follower {
	t.Helper()
	f, err := newFollower(file, traced, anyTLBWindow)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// mustLoadListing assembles a listing, without its first line, and loads the image.
func mustLoadListing(t *testing.T, text string, traced region) *follower {
	t.Helper()
	return mustLoad(t, lmbtest.File(t, "lightmetal 1\n"+text), traced)
}

// readFile returns the contents of a file.
func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// requireRun requires that a trace has exactly the accesses of a successful run.
func (f *follower) requireRun(t *testing.T, sequence string, trace []access) {
	t.Helper()
	failed, rest, err := f.follow(sequence, trace)
	if failed != "" || len(rest) != 0 || err != nil {
		t.Errorf("failed at %q, %d accesses left over, %v", failed, len(rest), err)
	}
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

// TestCapturedTraceMatchesItsImage follows the image of a capture that QEMU wrote.
func TestCapturedTraceMatchesItsImage(t *testing.T) {
	log := readFile(t, "../../../testdata/captures/edu.qemutrace")
	trace, err := parseTrace(bytes.NewReader(log), edu)
	if want := bytes.Count(log, []byte("'edu-mmio'")); err != nil || len(trace) != want {
		t.Fatalf("got %d accesses, error %v, want %d", len(trace), err, want)
	}
	image, _, err := importer.Import(bytes.NewReader(log), importer.Options{
		From: importer.FromQemu, Board: &boards.Edu,
		Regions: []traces.Region{{Name: edu.name, Base: 0x10000000}}})
	if err != nil {
		t.Fatal(err)
	}
	mustLoad(t, lmbtest.Encode(t, image), edu).requireRun(t, "main", trace)
}

// memoryRegion is a region of memory. QEMU's trace of it has the name of edu's region.
var memoryRegion = region{edu.name, 0x1234, 1, 0, edu.size}

// memoryHead is the head of a listing for memoryRegion. Its rule accepts all accesses to memory.
const memoryHead = `target memory 1234:0001 bar0 1MiB
rule memory bar0 widths 1 2 4 8 memory
window r bar0 offset 0x0 size 1MiB
`

// everyCommandMain has all commands that access the device, after a check of edu's identification.
const everyCommandMain = `  write.4   r+0x4 0x12345678
  write.4   r+0x20 0x80 mask 0xf0
  poll.4    r+0x20 & 0x1 == 0x0 within 1ms every 100us
  call      other
  copy.8    r+0x80 <- hex 6162636465666768696a6b6c6d6e6f70
  copy.4    r+0x100 <- hex 4142434445464748494a4b4c bulk
  fill.4    r+0x64 <- 0x5 size 8 fifo
  copy.4    y[4:8] <- r+0x8
  read.4    r+0x0
other:
  write.4   r+0x8 5
`

const (
	memoryWithOutput = memoryHead + "tensor y output uint32[2]\nmain:\n"
	identification   = "  expect.4  r+0x0 == 0x010000ed\n"
	everyListing     = memoryWithOutput + identification + everyCommandMain
)

// everyCommandTrace is a trace, in short form, of a run of everyListing.
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

func TestRunOfEveryCommandMatchesItsTrace(t *testing.T) {
	f := mustLoadListing(t, everyListing, memoryRegion)
	f.requireRun(t, "main", parseShortTrace(t, everyCommandTrace))
	if want := []byte{0, 0, 0, 0, 0x78, 0, 0, 0}; !bytes.Equal(f.output("y"), want) {
		t.Errorf("output: got %x, want %x", f.output("y"), want)
	}
}

// TestEveryChangedTraceIsADifference changes each access of a trace. follow must report each
// change, except changes of values that the device may choose.
func TestEveryChangedTraceIsADifference(t *testing.T) {
	lines := slices.Collect(strings.Lines(everyCommandTrace))
	requireRejected := func(name string, changed []string) {
		f := mustLoadListing(t, everyListing, memoryRegion)
		failed, rest, err := f.follow("main", parseShortTrace(t, strings.Join(changed, "")))
		if err == nil && failed == "" && len(rest) == 0 {
			t.Errorf("follow accepted a changed trace: %s", name)
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

// eduHead is the head of a listing for edu.
const eduHead = `target edu 1234:11e8 bar0 1MiB
window r bar0 offset 0x0 size 1MiB
main:
`

func TestFailedExpectEndsTheRun(t *testing.T) {
	const text = eduHead + "  write.4 r+0x4 1\n  expect.4 r+0x4 == 2\n  write.4 r+0x4 3\n" +
		"safe:\n  write.4 r+0x64 9\n"
	for trace, want := range map[string]string{
		"w 4 4 1\nr 4 4 7\nw 4 64 9\n": "main[1] [] <nil>",
		"w 4 4 1\nr 4 4 7\nw 4 64 9\nr 4 0 0\n": "main[1] " +
			"[load of 4 bytes at 0x0, value 0x0] <nil>",
		"w 4 4 1\nr 4 4 7\n": " [] safe[0], access 2: the trace ends here, with a store of 4 " +
			"bytes at 0x64, value 0x9 missing",
		"w 4 4 1\nr 4 4 2\n": " [] main[2], access 2: the trace ends here, with a store of 4 " +
			"bytes at 0x4, value 0x3 missing",
	} {
		failed, rest, err := mustLoadListing(t, text, edu).follow("main", parseShortTrace(t, trace))
		if got := fmt.Sprint(failed, " ", rest, " ", err); got != want {
			t.Errorf("trace\n%s: got %s, want %s", trace, got, want)
		}
	}
}

func TestFailedPollEndsTheRun(t *testing.T) {
	const text = eduHead + "  poll.4 r+0x20 & 0x1 == 0 within 1ms every 100us\n  write.4 r+0x4 3\n"
	failed, rest, err := mustLoadListing(t, text, edu).follow("main", parseShortTrace(t,
		"r 4 20 1\nr 4 20 1\nr 4 20 1\n"))
	if failed != "main[0]" || len(rest) != 0 || err != nil {
		t.Fatalf("failed at %q, accesses %v left over, error %v; want main[0]", failed, rest, err)
	}
	if _, _, err := mustLoadListing(t, text, edu).follow("main", parseShortTrace(t,
		"r 4 20 1\n")); err == nil {
		t.Error("follow accepted a poll that fails without a load after its deadline")
	}
}

func TestOtherDevicesAndBarsAreIgnored(t *testing.T) {
	mustLoadListing(t, `target memory 1234:0001 bar0 1MiB bar1 4KiB
target ivshmem 1af4:1110 bar2 1MiB
rule memory bar0 widths 1 2 4 8 memory
rule other bar1 widths 4
window r bar0 offset 0x0 size 1MiB
window other bar1 offset 0x0 size 4KiB
window ram bar2 offset 0x0 size 4KiB target 1
window cfg config size 256
window host host size 4KiB
main:
  write.4 r+0x4 1
  expect.4 other+0x8 == 2
  expect.4 ram+0x8 == 2
  expect.4 cfg+0x8 == 2
  expect.4 host+0x8 == 2
`, memoryRegion).requireRun(t, "main", parseShortTrace(t, "w 4 4 1\n"))
}

func TestRunOnMemoryWritesExpectedBytes(t *testing.T) {
	f := mustLoadListing(t, memoryWithOutput+everyCommandMain, memoryRegion)
	f.memory = make([]byte, memoryRegion.size)
	f.memory[0x20] = 0x32
	f.requireRun(t, "main", nil)
	for _, want := range []struct {
		offset int
		bytes  string
	}{{4, "\x78\x56\x34\x12"}, {0x20, "\x82\x00"}, {8, "\x05\x00"},
		{0x80, "abcdefghijklmnop\x00"}, {0x100, "ABCDEFGHIJKL\x00"},
		{0x64, "\x05\x00\x00\x00\x00"}} {
		if got := f.memory[want.offset : want.offset+len(want.bytes)]; string(got) != want.bytes {
			t.Errorf("at %#x: got %x, want %x", want.offset, got, want.bytes)
		}
	}
	if want := []byte{0, 0, 0, 0, 5, 0, 0, 0}; !bytes.Equal(f.output("y"), want) {
		t.Errorf("output: got %x, want %x", f.output("y"), want)
	}
	f = mustLoadListing(t, everyListing, memoryRegion)
	f.memory = make([]byte, memoryRegion.size)
	if failed, _, err := f.follow("main", nil); failed != "main[0]" || err != nil {
		t.Errorf("memory that cannot meet the condition: failed at %q, %v, want main[0]", failed,
			err)
	}
}
