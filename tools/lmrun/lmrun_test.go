package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb/lmbtest"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// runnerVariable is the environment variable that makes the test program run main of lmrun.
const runnerVariable = "LM_TEST_RUNNER"

func TestMain(m *testing.M) {
	if os.Getenv(runnerVariable)+os.Getenv(framesVariable)+os.Getenv(signalledVariable)+
		os.Getenv(countedVariable) != "" {
		// As in the shipped program, which links no profiler and starts with GOMAXPROCS=1. The
		// first allocation that a profiler samples, or that a second processor makes, maps
		// memory, which kills a sealed child.
		goruntime.MemProfileRate = 0
		runtime.DedicateProcess()
	}
	if os.Getenv(runnerVariable) != "" {
		main()
	}
	if os.Getenv(framesVariable) != "" {
		runFramesChild()
	}
	if os.Getenv(signalledVariable) != "" {
		runSignalledChild(os.Args[1:])
	}
	if os.Getenv(countedVariable) != "" {
		runCountedChild(os.Args[1:])
	}
	os.Exit(m.Run())
}

// childCommand returns a command that runs this test program with an environment variable, which
// makes it do something else than run tests. The command is not started.
func childCommand(t *testing.T, variable, value string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), variable+"="+value)
	return c
}

func runLmrun(t *testing.T, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	c := childCommand(t, runnerVariable, "1", args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); c.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

const eduImage = "../../testdata/images/edu.lmb"

func TestEveryFailureHasItsExitStatus(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		exit int
		want string
		args []string
	}{
		{64, "no image given", nil},
		{64, "is unknown or has no value", []string{"-frobnicate"}},
		{64, "unknown flag -frobnicate", []string{"-frobnicate=1", eduImage}},
		{64, "two images given", []string{eduImage, eduImage}},
		{64, "unknown device", []string{"-device", "mock:edu", eduImage}},
		{64, "unknown device", []string{"-device", "pci:nonsense", eduImage}},
		{64, "-input takes NAME=ring:FILE, not n=ring:", []string{"-input", "n=ring:", eduImage}},
		{64, "-output takes NAME=FILE, not =ring:x", []string{"-output", "=ring:x", eduImage}},
		{64, "-deadline must be at most 1h, not 2h", []string{"-deadline", "2h", eduImage}},
		{64, "-longest takes a time such as", []string{"-longest", "2x", eduImage}},
		{64, "-at-least takes a version (1 to 4294967295), not 0",
			[]string{"-at-least", "0", eduImage}},
		{64, "unknown flag -frob", []string{"-version", "-frob=1"}},
		{65, "the file is empty", []string{"../../testdata/bad/empty.lmb"}},
		{65, "envelope checksum is", []string{"../../testdata/bad/flipped-bit.lmb"}},
		{65, "is not a regular file", []string{"/dev/null"}},
		{65, "is not a regular file", []string{pipe}},
		{66, "no such file", []string{"none.lmb"}},
		{77, "cannot check signatures", []string{"-key", "key.pub", eduImage}},
		{69, "no such device", []string{"-device", "pci:ffff:00:00.0", eduImage}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			stdout, stderr, exit := runLmrun(t, test.args...)
			isReported := strings.HasPrefix(stderr, "lmrun: ") &&
				strings.Contains(stderr, test.want)
			if exit != test.exit || !isReported || stdout != "" {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d, no stdout, and %q", exit,
					stdout, stderr, test.exit, test.want)
			}
			checkJSONFailure(t, test.exit, append([]string{"-json"}, test.args...))
			checkJSONFailure(t, test.exit, append(test.args, "--json"))
		})
	}
}

// checkJSONFailure runs lmrun with -json. The object must have the exit status and no
// command.
func checkJSONFailure(t *testing.T, want int, args []string) {
	t.Helper()
	stdout, stderr, exit := runLmrun(t, args...)
	var object struct{ Exit, Command int }
	err := json.Unmarshal([]byte(stdout), &object)
	if err != nil || exit != want || object.Exit != exit {
		t.Errorf("lmrun %q: exit %d, stdout %q, %v; want exit %d, also in the object", args, exit,
			stdout, err, want)
	}
	if object.Command != -1 || stderr != "" {
		t.Errorf("lmrun %q: command %d, stderr %q; want -1 and no stderr", args, object.Command,
			stderr)
	}
}

// idOf returns what identifies the image in a file.
func idOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fbs.ImageID(fbs.ReadStruct[fbs.Preamble](data).Checksum)
}

// assembleFile assembles a listing, writes the image to a file and returns its path.
func assembleFile(t *testing.T, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.lmb")
	if err := os.WriteFile(path, lmbtest.File(t, source), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCheckReportsWhatARunWouldReportBeforeItOpensADevice covers the longest time, an input that
// is given twice, the names and the number of devices, and hardware windows.
func TestCheckReportsWhatARunWouldReportBeforeItOpensADevice(t *testing.T) {
	long := assembleFile(t,
		"lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0x0 size 1MiB\n"+
			"tensor n input uint32[]\nmain:\n"+strings.Repeat("  call hour\n", 2)+
			"hour:\n  write.4 r+0x4 0x1\n"+strings.Repeat("  delay 10s\n", 400))
	for _, test := range []struct {
		exit  int
		want  string
		flags []string
	}{
		{65, "may take 8000 s 809 us, but the limit is 3600 s 0 us", nil},
		{65, "may take 8000 s 809 us, but the limit is 7999 s 0 us", []string{"-longest", "7999s"}},
		{65, "8000 s 809 us, but the limit is 0 s 1 us", []string{"-longest", "1us"}},
		{0, "the image is valid", []string{"-longest", "3h"}},
		{0, "the image is valid", []string{"-longest", "8001s"}},
		{64, "-input n is given twice", []string{"-input", "n=a", "-input", "n=b"}},
		{64, "-input n is given twice", []string{"-input", "n=a", "-input=n=a"}},
		{64, "unknown device", []string{"-longest", "3h", "-device", "pci:1234:11e"}},
		{64, "unknown device", []string{"-longest", "3h", "-device", "pic:1234:11e8"}},
		{64, "usage: the image is for 1 device(s), but -device names 2",
			[]string{"-longest", "3h", "-device", "pci:1234:11e8", "-device",
				"tt:/dev/tenstorrent/0"}},
		{0, "the image is valid", []string{"-longest", "3h", "-device", "vfio:0000:01:00.0"}},
		{64, "-window: the image has no TLB window", []string{"-longest", "3h", "-window", "3"}},
	} {
		t.Run(strings.Join(test.flags, " "), func(t *testing.T) {
			args := append([]string{"-check"}, test.flags...)
			stdout, stderr, exit := runLmrun(t, append(args, long)...)
			if exit != test.exit || !strings.Contains(stdout+stderr, test.want) {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and %q", exit, stdout, stderr,
					test.exit, test.want)
			}
		})
	}
}

// TestCheckWarnsOfAMissingSafe has a sequence with a misspelt name, which the warning must contain.
func TestCheckWarnsOfAMissingSafe(t *testing.T) {
	const edu = "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0 size 1MiB\n"
	image := assembleFile(t, edu+"main:\n  write.4 r+0x4 0x1\nsave:\n  write.4 r+0x4 0x0\n")
	const want = "the image has no sequence safe for the time after a failure; it has main save"
	_, stderr, exit := runLmrun(t, "-check", image)
	if exit != 0 || stderr != "lmrun: warning: "+want+"\n" {
		t.Errorf("exit %d, stderr %q; want 0 and %q", exit, stderr, want)
	}
	stdout, stderr, exit := runLmrun(t, "-check", "-json", image)
	if exit != 0 || stderr != "" || !strings.Contains(stdout, `"warnings":["`+want+`"]`) {
		t.Errorf("-json: exit %d, stdout %q, stderr %q; want 0 and %q", exit, stdout, stderr, want)
	}
	image = assembleFile(t, edu+"main:\n  write.4 r+0x4 0x1\nsafe:\n  write.4 r+0x4 0x0\n")
	if _, stderr, exit := runLmrun(t, "-check", image); exit != 0 || stderr != "" {
		t.Errorf("with safe: exit %d, stderr %q; want 0 and no warning", exit, stderr)
	}
}

// TestSupervisedRunReportsItsMaxStopTime expects the longest time from a signal to the end, for
// the verified image, before a device is opened. If the image is rejected, nothing is reported.
func TestSupervisedRunReportsItsMaxStopTime(t *testing.T) {
	slow := assembleFile(t, `lightmetal 1
target ivshmem 1af4:1110 bar2 0x100000
window m bar2 offset 0x0 size 0x100000
main:
  poll.4 m+0x0 == 0x1 within 3s
  call pause
pause:
  delay 2s
last:
  delay 1s
hour:
  delay 10s
  delay 10s
  delay 10s
safe:
  delay 4s
`)
	for flags, want := range map[string]struct {
		exit    int
		seconds float64 // -1: there is no report
	}{
		"":                            {69, 5 + 4},
		"-after last":                 {69, 5 + 1 + 4},
		"-deadline 100ms":             {69, 0.1 + 4},
		"-deadline 1h":                {69, 5 + 4},
		"-sequence last":              {69, 1 + 4},
		"-sequence last -before main": {69, 5 + 4},
		"-before last -after main":    {69, 5 + 5 + 4},
		// A run without a deadline ends after at most runtime.StopGraceNs. With a deadline, this
		// limit does not apply.
		"-sequence hour":                        {69, 10 + 4},
		"-sequence hour -deadline 25s":          {69, 25 + 4},
		"-sequence hour -deadline 2s":           {69, 2 + 4},
		"-before hour -after hour":              {69, 10 + 10 + 4},
		"-deadline 1s -before hour -after last": {69, 10 + 1 + 4},
		"-longest 3s":                           {65, -1},
		"-check":                                {0, -1},
		"-sequence none":                        {64, -1},
	} {
		t.Run(flags, func(t *testing.T) {
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			args := strings.Fields("-supervised -device pci:ffff:00:00.0 " + flags)
			c := childCommand(t, runnerVariable, "1", append(args, slow)...)
			c.ExtraFiles = []*os.File{writer}
			text, _ := c.CombinedOutput()
			writer.Close()
			report, _ := io.ReadAll(reader)
			reader.Close()
			first, id, _ := strings.Cut(string(report), "\n")
			us, err := strconv.ParseFloat(first, 64)
			// Each sequence may be late by 23.16 ms: 10 of sleep, 8 of work, 5.16 of diagnosis.
			sequences := 2 + strings.Count(flags, "-after")
			least := want.seconds*1e6 + 23_160*float64(sequences)
			// Some microseconds more are for the accesses.
			isRight := err == nil && us >= least && us <= least+100 && id == idOf(t, slow)+"\n"
			if want.seconds < 0 {
				isRight = len(report) == 0
			}
			if c.ProcessState.ExitCode() != want.exit || !isRight {
				t.Errorf("%v, report %q; want %+v; output: %s", c.ProcessState, report, want, text)
			}
		})
	}
	c := childCommand(t, runnerVariable, "1", "-supervised", "-device", "pci:ffff:00:00.0", slow)
	text, _ := c.CombinedOutput()
	if c.ProcessState.ExitCode() != 64 || !strings.Contains(string(text), "descriptor 3") {
		t.Errorf("-supervised without descriptor 3: %v, %s; want exit status 64", c.ProcessState,
			text)
	}
}

func TestHelpIsOnStandardOutput(t *testing.T) {
	stdout, stderr, exit := runLmrun(t, "-help")
	if exit != 0 || stdout != usage || stderr != "" {
		t.Errorf("-help: exit %d, stdout %q, stderr %q; want 0 and the usage", exit, stdout, stderr)
	}
}

func TestVersionNamesFormatAndSchema(t *testing.T) {
	for _, line := range [][]string{{"-version", "-json"}, {"--json", "-version"}} {
		var object map[string]string
		stdout, stderr, exit := runLmrun(t, line...)
		want := map[string]string{"version": version,
			"format": fmt.Sprintf("%d.%d", fbs.FormatMajor, fbs.FormatMinor),
			"schema": fmt.Sprintf("0x%x", fbs.SchemaHash)}
		if err := json.Unmarshal([]byte(stdout), &object); err != nil || exit != 0 ||
			stderr != "" || !maps.Equal(object, want) {
			t.Errorf("lmrun %q: exit %d, stdout %q, stderr %q, %v; want 0 and the object %v", line,
				exit, stdout, stderr, err, want)
		}
	}
	want := fmt.Sprintf("%s, format %d.%d, schema 0x%x\n", version, fbs.FormatMajor,
		fbs.FormatMinor, fbs.SchemaHash)
	stdout, stderr, exit := runLmrun(t, "-version")
	if exit != 0 || stdout != want || stderr != "" {
		t.Errorf("-version: exit %d, stdout %q, stderr %q; want 0 and %q", exit, stdout, stderr,
			want)
	}
}

func TestParseCommandLines(t *testing.T) {
	standard := args.Options{Sequence: "main", RunCount: 1, MaxSequenceNs: 3600e9,
		FirstTLBWindow: runtime.AnyTLBWindow,
		Image:          "x.lmb"}
	with := func(change func(*args.Options)) args.Options { o := standard; change(&o); return o }
	for _, test := range []struct {
		line string
		want args.Options
	}{
		{"x.lmb", standard},
		{"-device pci:1234:11e8 x.lmb --device=tt:/dev/tenstorrent/3",
			with(func(o *args.Options) {
				o.Devices = []string{"pci:1234:11e8",
					"tt:/dev/tenstorrent/3"}
			})},
		{"-sequence safe -loop 7 x.lmb",
			with(func(o *args.Options) { o.Sequence, o.RunCount = "safe", 7 })},
		{"-input a=b=c -output d=e x.lmb", with(func(o *args.Options) {
			o.Inputs, o.Outputs = []args.Binding{{Name: "a", Path: "b=c"}},
				[]args.Binding{{Name: "d", Path: "e"}}
		})},
		{"-window 12 -seal --json x.lmb",
			with(func(o *args.Options) { o.FirstTLBWindow, o.Seal, o.PrintJSON = 12, true, true })},
		{"-loop forever -deadline 20ms x.lmb",
			with(func(o *args.Options) { o.RunCount, o.DeadlineNs = 0, 20_000_000 })},
		{"-deadline 1500us -watchdog /dev/watchdog0=5 -key k x.lmb", with(func(o *args.Options) {
			o.DeadlineNs, o.Watchdog, o.KeyFile = 1_500_000, "/dev/watchdog0=5", "k"
		})},
		{"-deadline 1h x.lmb", with(func(o *args.Options) { o.DeadlineNs = 3600e9 })},
		{"-longest 90m x.lmb", with(func(o *args.Options) { o.MaxSequenceNs = 5400e9 })},
		{"-deadline 3600s x.lmb", with(func(o *args.Options) { o.DeadlineNs = 3600e9 })},
		{"-longest 7200s x.lmb", with(func(o *args.Options) { o.MaxSequenceNs = 7200e9 })},
		{"-h", with(func(o *args.Options) { o.PrintHelp, o.Image = true, "" })},
	} {
		t.Run(test.line, func(t *testing.T) {
			got, err := args.Parse(strings.Fields(test.line))
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("Parse(%q): %+v, %v; want %+v", test.line, got, err, test.want)
			}
		})
	}
	for _, line := range []string{"", "-loop 0 x", "-loop -1 x", "-loop x x", "-window x x",
		"-window 65535 x", "-input a x", "-input =b x", "-output a= x", "-loop", "a b",
		"-deadline 0ms x", "-deadline 20 x", "-deadline ms x", "-deadline 20mss x",
		"-deadline 3601s x", "-deadline -1s x", "-deadline 4294967295s x", "-deadline 2h x",
		"-longest 9999999h x", "-longest 1d x", "-input a=ring: x"} {
		t.Run(line, func(t *testing.T) {
			if _, err := args.Parse(strings.Fields(line)); hal.CodeOf(err) != hal.Usage {
				t.Errorf("Parse(%q): %v, want a usage error", line, err)
			}
		})
	}
}

func TestQuotedTextDecodesToTheSameText(t *testing.T) {
	for _, text := range []string{"", "plain", "a\"b\\c", "line\nbreak\x00\x1b\x7f\t", "/a b/ü",
		"\u009b\u2028€😀", "\xff\xe2\x82"} {
		var got string
		quoted := append(files.AppendEscaped([]byte(`"`), files.JSON, []byte(text)), '"')
		err := json.Unmarshal(files.EscapeControls(quoted), &got)
		if err != nil || got != string([]rune(text)) {
			t.Errorf("%q is quoted and decoded to %q, %v", text, got, err)
		}
	}
}

func TestTimingAndFailureTexts(t *testing.T) {
	o := args.Options{Image: "x.lmb", Sequence: "main"}
	end := outcome{runs: 4, totalRunNs: 10_000, shortestRunNs: 2_000, longestRunNs: 3_100}
	const timing = ", in us: least 2.0, mean 2.5, most 3.1"
	if got := string(appendTiming(nil, &end)); !strings.Contains(got, timing) {
		t.Errorf("appendTiming: %q", got)
	}
	end.result = runtime.Result{Code: hal.ExpectFailed, Got: 7, Want: 8, Mask: 15, SafeRan: true}
	end.err = &hal.Fault{Code: hal.ExpectFailed,
		Reason: "main, command 3: expect.4 w0+0x0 == 0x8: got 0x7"}
	if got := string(appendFailure(nil, &end)); got != "expect failed: main, command 3: "+
		"expect.4 w0+0x0 == 0x8: got 0x7; then sequence safe ran: done" {
		t.Errorf("appendFailure: %q", got)
	}
	var object map[string]any
	if err := json.Unmarshal(appendJSON(nil, o, &end, hal.ExpectFailed), &object); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]any{"exit": 76.0, "image": "x.lmb", "sequence": "main",
		"runs": 4.0, "got": 7.0, "want": 8.0, "mask": 15.0, "safe": "done", "mean_ns": 2500.0} {
		if object[field] != want {
			t.Errorf("field %s of the JSON object: %v, want %v", field, object[field], want)
		}
	}
}

// flagsWithValue are all flags that have a value.
var flagsWithValue = []string{"device", "sequence", "before", "after", "input", "output", "loop",
	"deadline", "watchdog", "window", "key", "longest", "at-least", "faults", "version-counter"}

// TestEmptyFlagValueIsRejected checks all flags with a value: a shell variable that is not set
// must not turn off a function, such as the check of signatures.
func TestEmptyFlagValueIsRejected(t *testing.T) {
	for _, name := range flagsWithValue {
		if !strings.Contains(usage+"-key FILE -at-least N -version-counter FILE", "-"+name+" ") {
			t.Errorf("-%s is not in the usage", name)
		}
		for _, line := range [][]string{{"-" + name, "", eduImage}, {"-" + name + "=", eduImage},
			{"--" + name + "=", eduImage}, {eduImage, "-" + name},
			{"-" + name + "=1=x", "-" + name + "=", eduImage}} {
			if _, err := args.Parse(line); hal.CodeOf(err) != hal.Usage {
				t.Errorf("Parse(%q): %v, want a usage error", line, err)
			}
		}
	}
	for text := range strings.Lines(usage) {
		if words := strings.Fields(text); strings.HasPrefix(text, "  -") && len(words) > 1 &&
			words[1] == strings.ToUpper(words[1]) {
			if name, _, _ := strings.Cut(words[0][1:], "="); !slices.Contains(flagsWithValue,
				name) {
				t.Errorf("%s is in the usage, but not in flagsWithValue", words[0])
			}
		}
	}
	for _, line := range [][]string{{"-key=", eduImage}, {"-key=" + eduImage, "-key=", eduImage}} {
		if _, stderr, exit := runLmrun(t, line...); exit != 64 ||
			!strings.Contains(stderr, "has no value") {
			t.Errorf("lmrun %q: exit %d, %s; want exit 64 and %q", line, exit, stderr,
				"has no value")
		}
	}
}
