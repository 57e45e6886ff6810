package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/check/golden"
	"lightmetal/tools/image/lmb"
)

// scopesListing has scopes of every kind (nested, through a call, crossing, begun twice, never
// ended, ended but never begun) and phases.
const scopesListing = edu + `
main:
  begin "outer"
  write.4 r+0x4 1
  begin "inner"
  delay 3us
  end "inner"
  mark "one"
  write.4 r+0x4 2
  mark "two"
  write.4 r+0x4 2
  write.4 r+0x4 2
  end "outer"
  begin "a"
  delay 10us
  begin "b"
  delay 1us
  end "a"
  delay 5us
  end "b"
  begin "again"
  delay 100us
  begin "again"
  delay 2us
  end "again"
  end "nothing"
  begin "open"
  begin "over a call"
  call sub
  call sub
sub:
  end "over a call"
  mark "in sub"
  delay 7us
  begin "within"
  delay 1us
  end "within"
safe:
  write.4 r+0x20 0
`

func TestTimesAddUp(t *testing.T) {
	files := map[string][]byte{"scopes": assemble(t, scopesListing),
		"multicast": assemble(t, multicastListing), "large": largeImage(t, 20_000)}
	for _, name := range replayableImages {
		files[name] = readImage(t, name)
	}
	for name, file := range files {
		view := verify(t, file)
		d := recordingMock(view)
		p, result := profileRuns(t, view, d, "main", 3)
		if result.Code != hal.OK || p.Runs != 3 {
			t.Fatalf("%s: result %v, %d runs; want ok, 3 runs", name, result, p.Runs)
		}
		if p.TotalNs != d.Now() {
			t.Errorf("%s: the profile has %d ns, the device's clock %d", name, p.TotalNs, d.Now())
		}
		for what, list := range map[string][]TimeSpent{"opcodes": p.Opcodes, "windows": p.Windows} {
			total, count := int64(0), uint64(0)
			for i := range list {
				total += list[i].TotalNs
				count += list[i].Count
			}
			count -= findTime(p.Opcodes, "end", "").Count // p.Commands does not count Ends
			if total != p.TotalNs || count != p.Commands {
				t.Errorf("%s: the sum of all %s is %d ns in %d commands, want %d ns in %d", name,
					what, total, count, p.TotalNs, p.Commands)
			}
		}
		if took := timelineNs(p.Timeline); took != p.MostNs || p.OverheadNs != 0 ||
			p.LeastNs > p.MostNs {
			t.Errorf("%s: the timeline has %d ns; least %d, most %d, overhead %d", name, took,
				p.LeastNs, p.MostNs, p.OverheadNs)
		}
	}
}

// TestProfilingMakesTheSameAccesses as a run without a profile, in the same time.
func TestProfilingMakesTheSameAccesses(t *testing.T) {
	files := map[string][]byte{"scopes": assemble(t, scopesListing),
		"multicast": assemble(t, multicastListing)}
	for _, name := range replayableImages {
		files[name] = readImage(t, name)
	}
	for name, file := range files {
		view := verify(t, file)
		plain, profiled := recordingMock(view), recordingMock(view)
		runSequence(t, view, plain, "main")
		profileRuns(t, view, profiled, "main", 1)
		if len(plain.Journal()) == 0 || !slices.Equal(plain.Journal(), profiled.Journal()) ||
			plain.Now() != profiled.Now() {
			t.Errorf("%s: %d accesses in %d ns, but %d in %d ns with a profile", name,
				len(plain.Journal()), plain.Now(), len(profiled.Journal()), profiled.Now())
		}
	}
}

func TestProfilingMappedMemory(t *testing.T) {
	view := verify(t, assemble(t,
		"lightmetal 1\ntarget ivshmem 1af4:1110 bar2 1MiB\nwindow m bar2 offset 0 size 1MiB\n"+
			"main:\n  write.4 m+0x0 1\n  write.4 m+0x4 2\n  write.8 m+0x8 3\n"+
			"  copy.8 m+0x100 <- pattern 0x1 size 4KiB bulk\n  expect.4 m+0x4 == 2\n"))
	d := &mappedDevice{Device: mock.New(&boards.Ivshmem), memory: make([]byte, 1<<20)}
	p, result := profileRuns(t, view, d, "main", 1)
	if result.Code != hal.OK || d.memory[0] != 1 || d.memory[8] != 3 || p.Commands != 5 ||
		p.TotalNs != (p.commandCount()+1)*7 || p.OverheadNs != 7 {
		t.Errorf("result %v, memory % x, profile %+v", result, d.memory[:16], p)
	}
}

// mappedDevice is a device whose windows are ordinary memory. Its clock advances by 7 ns each time
// that it is read.
type mappedDevice struct {
	*mock.Device
	memory []byte
	now    int64
}

func (m *mappedDevice) Map(w fbs.Window) (hal.Aperture, error) {
	return hal.MappedAperture(m.memory, w.Offset, w.Size, -1), nil
}

func (m *mappedDevice) Now() int64 {
	m.now += 7
	return m.now
}

func (p *Profile) commandCount() int64 { return int64(p.Commands) }

// TestProfilingChangesNoResult runs images that fail in every way.
func TestProfilingChangesNoResult(t *testing.T) {
	safe := "safe:\n  write.4 r+0x20 0\n"
	for _, text := range []string{
		"main:\n  write.4 r+0x4 1\n  expect.4 r+0x0 == 1\n" + safe,
		"main:\n  write.4 r+0x4 1\n  expect.4 r+0x0 == 1 else ignore\n" +
			"  expect.4 r+0x0 == 2 else ignore\n" + safe,
		"main:\n  write.4 r+0x4 1\n  poll.4 r+0x20 & 0x80 == 0x80 within 1ms every 10us\n",
		"main:\n  compare.4 r+0x0 uint32 == uint32 0x010000ee\n" + safe,
		"main:\n  call sub\n  write.4 r+0x4 2\nsub:\n  write.4 r+0x4 1\n  expect.4 r+0x0 == 1\n" +
			safe,
		"main:\n  write.4 r+0xc 1\n" + safe, // rejected: the device has no register there
		"main:\n  expect.4 r+0x0 == 1\nsafe:\n  expect.4 r+0x0 == 2\n",
		"main:\n  write.4 r+0x4 1\n",
	} {
		view := verify(t, assemble(t, edu+text))
		plain, profiled := recordingMock(view), recordingMock(view)
		want := runSequence(t, view, plain, "main")
		p, got := profileRuns(t, view, profiled, "main", 1)
		if got != want {
			t.Errorf("%s\nresult %+v, but %+v with a profile", text, want, got)
		}
		if !slices.Equal(plain.Journal(), profiled.Journal()) {
			t.Errorf("%s: accesses %v, but %v with a profile", text, plain.Journal(),
				profiled.Journal())
		}
		if want.SafeRan && (len(p.Timeline[rowSequences]) != 2 ||
			p.Timeline[rowSequences][1].Name != "safe") {
			t.Errorf("%s: the timeline has no sequence safe: %+v", text, p.Timeline[rowSequences])
		}
		total := int64(0)
		for i := range p.Opcodes {
			total += p.Opcodes[i].TotalNs
		}
		if total != profiled.Now() {
			t.Errorf("%s: the opcodes have %d ns in all, want %d", text, total, profiled.Now())
		}
	}
}

func TestProfilerReturnsTheErrorsOfLoad(t *testing.T) {
	view := verify(t, assemble(t,
		edu+"main:\n  write.4 r+0x4 1\n  write.4 r+0x4 2\n  write.4 r+0x80 bus(r)\n"))
	_, plain := runtime.Load(view, runtime.AnyTLBWindow, mock.New(&boards.Edu))
	_, err := NewProfiler(view, 0, runtime.AnyTLBWindow, Clock{}, mock.New(&boards.Edu))
	if plain == nil || err == nil || err.Error() != plain.Error() {
		t.Errorf("Load returns %v, but NewProfiler %v", plain, err)
	}
	if _, err := NewProfiler(view, 0, runtime.AnyTLBWindow, Clock{}); err == nil {
		t.Error("NewProfiler accepts an image without its device")
	}
}

func TestRunTooLongToProfileIsRejected(t *testing.T) {
	text := edu + "main:\n" + strings.Repeat("  call sub\n", 6000) + "sub:\n" +
		strings.Repeat("  delay 1us\n", 6000)
	view := verify(t, assemble(t, text))
	if _, err := NewProfiler(view, 0, runtime.AnyTLBWindow, Clock{},
		mock.New(&boards.Edu)); err == nil || !strings.Contains(err.Error(), "36012001 commands") {
		t.Errorf("error %v, want one with the number of commands", err)
	}
	// stampCount counts main with its End, sub twice, and safe.
	text = edu + "main:\n" + strings.Repeat("  call sub\n", 2) + "sub:\n" +
		strings.Repeat("  delay 1us\n", 6000) + "safe:\n  delay 1us\n"
	if n := stampCount(verify(t, assemble(t, text)), 0); n != 3+2*6001+2 {
		t.Errorf("stampCount returns %d, want %d", n, 3+2*6001+2)
	}
}

func TestImageWithTheMostDevicesIsProfiled(t *testing.T) {
	text := "lightmetal 1\n" + strings.Repeat("target edu 1234:11e8 bar0 1MiB\n", fbs.DevicesMax) +
		"window regs bar0 offset 0x0 size 1MiB\nmain:\n  write.4 regs+0x4 0x1\n"
	view := verify(t, assemble(t, text))
	devices := make([]hal.Device, fbs.DevicesMax)
	for i := range devices {
		devices[i] = mock.New(&boards.Edu)
	}
	p, err := NewProfiler(view, 0, runtime.AnyTLBWindow, Clock{}, devices...)
	if err != nil {
		t.Fatal(err)
	}
	if result := p.Run(0, false); result.Code != hal.OK {
		t.Errorf("the profiled run ends with %v", result)
	}
}

// findTime returns the entry of a list with a name and a kind, or an empty entry.
func findTime(list []TimeSpent, name, kind string) TimeSpent {
	for _, s := range list {
		if s.Name == name && s.Kind == kind {
			return s
		}
	}
	return TimeSpent{}
}

func TestScopesAndPhasesOfARun(t *testing.T) {
	view := verify(t, assemble(t, scopesListing))
	d := recordingMock(view)
	p, err := NewProfiler(view, 0, runtime.AnyTLBWindow, Clock{}, d)
	if err != nil {
		t.Fatal(err)
	}
	p.Run(0, false)
	profile := p.Profile()
	for _, want := range []struct {
		name, kind string
		count      uint64
		ns         int64
	}{
		{"inner", kindScope, 1, 3000}, {"outer", kindScope, 1, 3400}, {"one", kindPhase, 1, 100},
		{"two", kindPhase, 1, 200},
		{"a", kindScope, 1, 11000}, {"b", kindScope, 1, 6000}, {"again", kindScope, 1, 2000},
		{"nothing", kindScope, 0, 0}, {"open", kindScope, 0, 0},
		{"over a call", kindScope, 1, 0}, {"in sub", kindPhase, 2, 16000},
		{"within", kindScope, 2, 2000},
	} {
		if got := findTime(profile.Scopes, want.name, want.kind); got.Count != want.count ||
			got.TotalNs != want.ns {
			t.Errorf("%s %s: %+v, want %d times, %d ns", want.kind, want.name, got, want.count,
				want.ns)
		}
	}
	if sub := findTime(profile.Sequences, "sub", ""); sub.Count != 2 || sub.TotalNs != 16000 {
		t.Errorf("sequence sub: %+v, want 2 times, 16000 ns", sub)
	}
}

func TestRepeatedBeginRestartsAScope(t *testing.T) {
	view := verify(t, assemble(t, edu+"main:\n"+
		strings.Repeat("  begin \"x\"\n  delay 1us\n", 2*timelineRowsMax)+"  end \"x\"\n"))
	p, _ := profileRuns(t, view, recordingMock(view), "main", 1)
	if x := findTime(p.Scopes, "x", kindScope); x.Count != 1 || x.TotalNs != 1000 {
		t.Errorf("scope x: %+v, want once, 1000 ns", x)
	}
}

// TestTimelineHasARowForEachOpenScope, also for scopes that cross.
func TestTimelineHasARowForEachOpenScope(t *testing.T) {
	view := verify(t, assemble(t, scopesListing))
	p, _ := profileRuns(t, view, recordingMock(view), "main", 1)
	var b strings.Builder
	for row, list := range p.Timeline {
		fmt.Fprintf(&b, "row %d\n", row)
		for i := range list {
			s := &list[i]
			fmt.Fprintf(&b, "  from %s %s: %s %s, commands: %d, %s\n", lmb.TimeText(s.Start),
				lmb.TimeText(s.Ns), s.Kind, s.Name, s.Count, lmb.SizeText(s.Bytes))
		}
	}
	golden.File(t, "testdata/scopes.txt", b.String())
}

// traceEvents returns the events of a trace. It reads them as any program would, without the types
// that wrote them.
func traceEvents(t *testing.T, file []byte) []map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(file, &object); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	for _, e := range object["traceEvents"].([]any) {
		list = append(list, e.(map[string]any))
	}
	return list
}

// TestTraceFollowsTheFormat: events have known phases, ids and times in microseconds; slices of a
// thread do not overlap; threads have names.
func TestTraceFollowsTheFormat(t *testing.T) {
	files := map[string][]byte{"scopes": assemble(t, scopesListing),
		"large": largeImage(t, 120_000), "twoop": readImage(t, "wh.twoop.lmb")}
	for name, file := range files {
		view := verify(t, file)
		p, _ := profileRuns(t, view, recordingMock(view), "main", 1)
		named, last := map[float64]bool{}, map[float64]float64{}
		slices := 0
		for i, e := range traceEvents(t, traceFile(t, p)) {
			thread := e["tid"].(float64)
			if e["pid"] != 1.0 || e["name"] == "" {
				t.Fatalf("%s: event %d is invalid: %v", name, i, e)
			}
			switch e["ph"] {
			case "M":
				named[thread] = named[thread] || e["name"] == "thread_name"
				continue
			case "X":
			default:
				t.Fatalf("%s: event %d is invalid: %v", name, i, e)
			}
			slices++
			start, took := e["ts"].(float64), e["dur"].(float64)
			if start < last[thread]-1e-6 || took < 0 || !named[thread] {
				t.Fatalf("%s: event %d: %v; the previous one ends at %v, thread named: %v", name, i,
					e, last[thread], named[thread])
			}
			last[thread] = start + took
			args := e["args"].(map[string]any)
			if _, ok := args["command"]; !ok {
				t.Fatalf("%s: event %d has no command: %v", name, i, e)
			}
		}
		if slices == 0 || slices > 3*slicesMax {
			t.Errorf("%s: %d slices, want 1 to %d", name, slices, 3*slicesMax)
		}
	}
}

func TestTraceAndProfileMatchTheGoldenFiles(t *testing.T) {
	file := assemble(t, scopesListing)
	view := verify(t, file)
	p, _ := profileRuns(t, view, recordingMock(view), "main", 1)
	p.Image, p.Checksum = "scopes.lmb", "0x12345678"
	golden.File(t, "testdata/scopes.trace.json", string(traceFile(t, p)))
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/scopes.profile.txt", text.String())
}

// clearOpcodeTimes removes data that the profiler needs only while it makes slices, and that a
// trace does not have.
func clearOpcodeTimes(timeline [][]Slice) {
	for _, row := range timeline {
		for i := range row {
			row[i].opcodeNs = nil
		}
	}
}

func TestProfileReadBackIsTheSame(t *testing.T) {
	for name, file := range map[string][]byte{"scopes": assemble(t, scopesListing),
		"twoop": readImage(t, "wh.twoop.lmb"), "large": largeImage(t, 120_000)} {
		view := verify(t, file)
		p, _ := profileRuns(t, view, recordingMock(view), "main", 2)
		p.Image, p.Checksum = name, view.ID()
		clearOpcodeTimes(p.Timeline)
		back, err := ReadTrace(bytes.NewReader(traceFile(t, p)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(back, p) {
			t.Errorf("%s: the profile has changed after WriteTrace and ReadTrace", name)
		}
	}
}

// TestTimelineOfALongRunIsMerged: the timeline of a long run has a limited number of slices, which
// contain all commands.
func TestTimelineOfALongRunIsMerged(t *testing.T) {
	view := verify(t, largeImage(t, 3*slicesMax))
	p, result := profileRuns(t, view, recordingMock(view), "main", 1)
	if result.Code != hal.OK || p.MergeNs == 0 {
		t.Fatalf("result %v, MergeNs %d; want ok and merged slices", result, p.MergeNs)
	}
	slices, commands, ns := 0, uint64(0), int64(0)
	for _, s := range p.Timeline[rowCommands] {
		slices, commands, ns = slices+1, commands+s.Count, ns+s.Ns
	}
	untimed := findTime(p.Opcodes, "mark", "").Count + findTime(p.Opcodes, "call", "").Count
	if slices > 2*slicesMax || commands != p.Commands-untimed || ns != p.TotalNs {
		t.Errorf("the timeline has %d slices, want at most %d; %d commands, want %d; %d ns, "+
			"want %d", slices, 2*slicesMax, commands, p.Commands-untimed, ns, p.TotalNs)
	}
}

func TestDamagedProfilesAreRejected(t *testing.T) {
	view := verify(t, assemble(t,
		edu+"main:\n  begin \"s\"\n  write.4 r+0x4 1\n  write.4 r+0x4 1\n  write.4 r+0x4 1\n"+
			"  write.4 r+0x4 1\n  write.4 r+0x4 1\n  delay 30us\n  write.4 r+0x4 2\n  end \"s\"\n"))
	p, _ := profileRuns(t, view, recordingMock(view), "main", 1)
	original := string(traceFile(t, p))
	for _, test := range []struct{ old, new, want string }{
		{original, "", "broken JSON at byte"},
		{original, "[]", "cannot unmarshal array"},
		{original, "{}", "\"lightmetal\" is missing"},
		{original, original[:len(original)/2], "broken JSON at byte"},
		{original, original + "x", "broken JSON at byte"},
		{`"version":2`, `"version":1`, "has version 1"},
		{`"total_ns":30600,"least_ns"`, `"total_ns":-1,"least_ns"`, "negative"},
		{`"runs":1`, `"runs":1e99`, "lightmetal"},
		{`"runs":1`, `"walks":1`, "unknown field"},
		{`"ph":"X"`, `"ph":"B"`, "phase \"B\""},
		{`"ts":0.500`, `"ts":"0.500x"`, "event"},
		{`"ts":0.500`, `"ts":-0.5`, "must be a time"},
		{`"ts":0.500`, `"ts":1e300`, "must be a time"},
		{`"ts":0.500`, `"ts":0.3`, "before the end of the previous event"},
		{`"ts":0.500,"dur":30.000`, `"ts":0.500,"dur":40`, "before the end of the previous event"},
		{`"ts":30.500,"dur":0.100`, `"ts":30.500,"dur":40`, "thread 3 continues after the end " +
			"of the run"},
		{`"dur":30.000`, `"dur":null`, "must be a time"},
		{`"pid":1,"tid":3,"ts":0.500`, `"pid":1,"tid":-1,"ts":0.500`, "thread -1"},
		{`"pid":1,"tid":3,"ts":0.500`, `"pid":1,"tid":33,"ts":0.500`, "thread 33"},
		{`"command":5,"commands"`, `"command":-5,"commands"`, "event 11: json"},
		{`"traceEvents":[`, `"traceEvents":{`, "broken JSON at byte"},
		{original, `{"traceEvents":{}}`, "must be a list"},
		{original, `{"lightmetal":null}`, "has version 0"},
		{original, `{"lightmetal":{"version":2},"lightmetal":{"version":2}}`, "twice"},
	} {
		text := strings.Replace(original, test.old, test.new, 1)
		if text == original {
			t.Fatalf("the test replaces %q, which is not in the trace", test.old)
		}
		if _, err := ReadTrace(strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40q replaced by %.40q: error %v, want %q", test.old, test.new, err,
				test.want)
		}
	}
}

func TestLargeProfilesAreRejectedBeforeTheyFillMemory(t *testing.T) {
	for want, text := range map[string]string{
		"larger than 64 MiB": `{"x":"` + strings.Repeat("x", traceBytesMax) + `"}`,
		"more than 1048576": `{"traceEvents":[` + strings.Repeat(`{"ph":"M"},`, traceEventsMax+1) +
			`{}]}`,
		"\"lightmetal\" is too " +
			"large": `{"lightmetal":[` + strings.Repeat("{},", traceSummaryMax/3) + `{}]}`,
		`table "opcodes" has`: `{"lightmetal":{"version":2,"opcodes":[` +
			strings.Repeat("{},", timeSpentMax+1) + `{}]}}`,
		"21 slowest": `{"lightmetal":{"version":2,"slowest":[` + strings.Repeat("{},", slowestMax) +
			`{}]}}`,
	} {
		if _, err := ReadTrace(strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// FuzzReadTrace checks that a page can show every profile that ReadTrace accepts.
func FuzzReadTrace(f *testing.F) {
	for _, text := range []string{scopesListing, multicastListing} {
		view := verify(f, assemble(f, text))
		p, _ := profileRuns(f, view, recordingMock(view), "main", 1)
		f.Add(traceFile(f, p))
	}
	r := Analyze(verify(f, assemble(f, multicastListing)), WholeFile, nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadTrace(bytes.NewReader(data))
		if err != nil {
			return
		}
		var page bytes.Buffer
		if err := r.WritePage(&page, p, testGenerator); err != nil {
			t.Fatal(err)
		}
		checkPage(t, page.Bytes())
		if err := p.Write(&page); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMicrosecondsKeepNanoseconds(t *testing.T) {
	for _, ns := range []int64{0, 1, 999, 1000, 1001, 123456789, traceTimeMax - 1} {
		if got, err := nanoseconds(microseconds(ns)); err != nil || got != ns {
			t.Errorf("%d ns are written as %s us and read as %d ns (%v)", ns, microseconds(ns), got,
				err)
		}
	}
	if _, err := nanoseconds(json.Number("NaN")); err == nil {
		t.Error("nanoseconds accepts NaN")
	}
}
