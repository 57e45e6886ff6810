package record

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/golden"
	"lightmetal/tools/image/lmb/lmbtest"
)

var buildDir string // directory of the files that gcc builds

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "record")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// compileOnce builds a file with gcc, if it does not exist yet, and returns its path.
func compileOnce(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("skipped: no gcc to build the recorder with")
	}
	path := filepath.Join(buildDir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	arguments = append([]string{"-O2", "-Wall", "-o", path}, arguments...)
	if out, err := exec.Command("gcc", append(arguments, "-ldl")...).CombinedOutput(); err != nil {
		t.Fatalf("building %s with gcc: %v\n%s", name, err, out)
	}
	return path
}

// buildRecorder builds the library that records, and returns its path.
func buildRecorder(t *testing.T) string {
	return compileOnce(t, "librecord.so", "-shared", "-fPIC", "shim/record.c")
}

// library is the library of a simulator, and the board that it simulates.
type library struct{ board, path string }

// fakeSimulators builds replacements for the vendor's simulators.
func fakeSimulators(t *testing.T) []library {
	return []library{
		{"wormhole", compileOnce(t, "wormhole.so", "-shared", "-fPIC", "testdata/fakesim.c")},
		{"blackhole", compileOnce(t, "blackhole.so", "-shared", "-fPIC", "-DBLACKHOLE",
			"testdata/fakesim.c")},
	}
}

// clientRun is the result of one run of the client under the recorder.
type clientRun struct {
	text   string // the recording
	output string // of the client and the simulator
	err    error  // exit status of the client
}

// runClient runs testdata/client.c under the recorder.
func runClient(t *testing.T, simulator string, arguments ...string) clientRun {
	t.Helper()
	return runClientWith(t, simulator, filepath.Join(t.TempDir(), "out.record"), arguments...)
}

// runClientWith runs the client with a simulator and a file for the recording.
func runClientWith(t *testing.T, simulator, file string, arguments ...string) clientRun {
	t.Helper()
	client := compileOnce(t, "client", "testdata/client.c")
	cmd := exec.Command(client, append([]string{buildRecorder(t)}, arguments...)...)
	cmd.Env = append(os.Environ(), "LM_RECORD_LIBRARY="+simulator, "LM_RECORD_FILE="+file)
	output, err := cmd.CombinedOutput()
	text, _ := os.ReadFile(file)
	return clientRun{string(text), string(output), err}
}

// recordClient runs the client, which must exit with 0, and returns the recording and its text.
func recordClient(t *testing.T, simulator string, arguments ...string) (*Capture, string) {
	t.Helper()
	s := runClient(t, simulator, arguments...)
	if s.err != nil {
		t.Fatalf("client %v: %v\n%s", arguments, s.err, s.output)
	}
	c, err := Read(strings.NewReader(s.text))
	if err != nil {
		t.Fatal(err)
	}
	return c, s.text
}

// writeProgram writes a raw program for the client to a file, and returns its path.
func writeProgram(t *testing.T, program []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, program, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeKernel writes the loadable part of a kernel's ELF file to a file, and returns its path.
func writeKernel(t *testing.T, name string) string {
	t.Helper()
	return writeProgram(t, lmbtest.Kernel(t, "../../../testdata/kernels/"+name+".elf"))
}

func TestRecordingOfARunIsComplete(t *testing.T) {
	effort.SkipShort(t)
	for _, l := range fakeSimulators(t) {
		for run, program := range map[string][]byte{"twoop": {1, 0, 0, 0}, "mlp4": {2, 0, 0, 0}} {
			t.Run(l.board+"/"+run, func(t *testing.T) {
				c, _ := recordClient(t, l.path, run, writeProgram(t, program))
				var written, read, clocks int
				for _, r := range c.Records {
					switch r.Kind {
					case BarWrite:
						written += len(r.Data)
					case BarRead:
						read += len(r.Data)
					case Clock:
						clocks += int(r.Clocks)
					}
				}
				last := c.Records[len(c.Records)-1]
				if last.Kind != BarWrite || binary.LittleEndian.Uint32(last.Data) != 0x47800 {
					t.Errorf("the last record is %+v, want a store of 0x47800 (reset)", last)
				}
				if written < 2000 || read < 160 || clocks < 2000 {
					t.Errorf("the recording has %d bytes written, %d bytes read and %d clocks, "+
						"want at least 2000, 160 and 2000", written, read, clocks)
				}
			})
		}
	}
}

func TestHeaderDescribesTheSimulatedDevice(t *testing.T) {
	effort.SkipShort(t)
	want := map[string]Capture{
		"wormhole": {Vendor: 0x1e52, Device: 0x401e, Bars: [6]Bar{
			0: {0x1_0000_0000, 512 << 20}, 2: {0x1_2000_0000, 1 << 20},
			4: {0x8_0000_0000, 32 << 20}}},
		"blackhole": {Vendor: 0x1e52, Device: 0xb140, Bars: [6]Bar{
			0: {0x1_0000_0000, 512 << 20}, 2: {0x1_2000_0000, 1 << 20},
			4: {0x8_0000_0000, 32 << 30}}},
	}
	for _, l := range fakeSimulators(t) {
		c, _ := recordClient(t, l.path, "leave")
		if w := want[l.board]; c.Vendor != w.Vendor || c.Device != w.Device || c.Bars != w.Bars {
			t.Errorf("%s: header %+v, want %+v", l.board, c, w)
		}
	}
}

func TestDeviceAccessToHostMemoryFollowsItsCause(t *testing.T) {
	_, text := recordClient(t, fakeSimulators(t)[0].path, "dma")
	const want = `LMRECORD 1
DEVICE 1e52 401e
BAR 0 100000000 20000000
BAR 2 120000000 100000
BAR 4 800000000 2000000
CR 0 0 4 521e1e40
W 2 0 4 00100000
W 2 4 4 07000000
W 2 10 4 01000000
HR 700001000 16 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf
HW 700001010 16 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf
R 2 14 4 00000000
HR 700001000 16 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf
HW 700001010 16 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf
END 9
`
	if text != want {
		t.Errorf("recording\n%s\nwant\n%s", text, want)
	}
}

// TestEndOfTheClient compares what is left by each way in which the client may end or use the
// recorder.
func TestEndOfTheClient(t *testing.T) {
	for _, c := range []struct {
		name    string
		fails   bool   // the client
		output  string // pattern in the output
		records int    // -1: there is no recording
		isCut   bool   // the recording has no END line
		text    string // pattern in the recording
	}{
		// the simulator rejects an access, which is the last line
		{"refused", true, "TLB region overrun", 3, true,
			`\nW 0 b000000 16 0{32}\nR 0 bfffff8 16$`},
		{"crash", true, "", 2, true, `\nCLK 5\n$`},
		{"leave", false, "", 1, false, `\nEND 1\n$`},
		// the forked process does not write
		{"fork", false, "", 2, false, `\nBAR 4 .*\nCR 0 0 4 521e1e40\nCLK 1\nEND 2\n$`},
		{"never", false, "it never called libttsim_init", -1, false, "^$"},
		// the client loads the recorder, unloads it, and runs a copy of it, as tt-umd does
		{"probe", false, `^\[0\] .* seconds\n$`, 9, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := runClient(t, fakeSimulators(t)[0].path, c.name)
			if (s.err != nil) != c.fails || !regexp.MustCompile(c.output).MatchString(s.output) {
				t.Errorf("error %v, want a failure: %v, output %q: %s", s.err, c.fails, c.output,
					s.output)
			}
			if !regexp.MustCompile(c.text).MatchString(s.text) {
				t.Errorf("recording %s\nwant %q", s.text, c.text)
			}
			capture, err := Read(strings.NewReader(s.text))
			if c.records >= 0 && (errors.Is(err, ErrCut) != c.isCut || !c.isCut && err != nil ||
				len(capture.Records) != c.records) {
				t.Errorf("Read: error %v, recording %+v; want %d records, cut: %v", err, capture,
					c.records, c.isCut)
			}
		})
	}
}

func TestRecorderReportsInvalidSettings(t *testing.T) {
	fake, file := fakeSimulators(t)[0].path, filepath.Join(t.TempDir(), "out.record")
	unknown := compileOnce(t, "unknown.so", "-shared", "-fPIC", "-DIDS=0xfeed1e52",
		"testdata/fakesim.c")
	for _, c := range []struct{ library, file, want string }{
		{"", file, "LM_RECORD_LIBRARY must name"},
		{fake, "", "LM_RECORD_FILE must name"},
		{"/nowhere/libttsim.so", file, "/nowhere/libttsim.so"},
		{buildRecorder(t), file, "names the recorder itself"},
		{fake, "/nowhere/out.record", "No such file"},
		{unknown, file, "1e52:feed"},
	} {
		s := runClientWith(t, c.library, c.file, "leave")
		if s.err == nil || !strings.Contains(s.output, "lightmetal recorder: ") ||
			!strings.Contains(s.output, c.want) {
			t.Errorf("error %v, want a message of the recorder with %q: %s", s.err, c.want,
				s.output)
		}
	}
}

// TestOtherFilesAreNotOverwritten: a file that is not a recording is overwritten neither by the
// first session nor by the second, whose file name the recorder derives. Earlier recordings and
// empty files are overwritten.
func TestOtherFilesAreNotOverwritten(t *testing.T) {
	fake := fakeSimulators(t)[0].path
	for _, test := range []struct {
		suffix, text string
		kept         bool // the file must not change
	}{{"", "precious", true}, {"", "LMRECOR", true}, {".2", "precious, and longer than that", true},
		{"", "", false}, {"", "LMRECORD 1\nDEVICE 1e52 401e\n", false}} {
		file := filepath.Join(t.TempDir(), "out.record")
		if err := os.WriteFile(file+test.suffix, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		run := runClientWith(t, fake, file, "sessions")
		text, _ := os.ReadFile(file + test.suffix)
		if (string(text) == test.text) != test.kept || (run.err != nil) != test.kept ||
			strings.Contains(run.output, "is not a recording") != test.kept {
			t.Errorf("out.record%s with %q: client: %v, file has %d bytes now, want kept: %v\n%s",
				test.suffix, test.text, run.err, len(text), test.kept, run.output)
		}
	}
}

// TestEachSessionHasItsOwnRecording: a program may open the simulator again, with the same library
// or after loading the library again (as tt-umd does for each cluster).
func TestEachSessionHasItsOwnRecording(t *testing.T) {
	fake := fakeSimulators(t)[0].path
	for _, run := range []string{"sessions", "reload"} {
		file := filepath.Join(t.TempDir(), "out.record")
		client := runClientWith(t, fake, file, run)
		if client.err != nil || strings.Count(client.output, "recorder") != 1 ||
			!strings.Contains(client.output,
				"lightmetal recorder: session 1 made no access to the device\n") {
			t.Fatalf("client %s: error %v, want one message of the recorder, about session 1:\n%s",
				run, client.err, client.output)
		}
		for i, suffix := range []string{"", ".2", ".3"} {
			f, err := os.Open(file + suffix)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Read(f)
			f.Close()
			if err != nil || c.Vendor != 0x1e52 {
				t.Fatalf("client %s, session %d: recording %+v, error %v", run, i+1, c, err)
			}
			if i == 0 {
				continue
			}
			mark, last := c.Records[0], c.Records[len(c.Records)-1]
			want := []string{"second session", "third session"}[i-1]
			if mark.Kind != Mark || string(mark.Data) != want || last.Kind != BarRead ||
				last.Data[0] != byte(i+1) {
				t.Errorf("client %s, session %d: first record %+v, last %+v; want mark %q and a "+
					"load of %d", run, i+1, mark, last, want, i+1)
			}
		}
	}
}

// TestRecordingsInTheTreeMatchTheVendorsSimulators: the simulators are deterministic, so that a new
// recording equals the one in the tree in each byte. With both variables set,
// go test ./tools/capture/record -update rewrites the recordings.
func TestRecordingsInTheTreeMatchTheVendorsSimulators(t *testing.T) {
	for _, s := range []struct{ short, variable string }{{"wh", "LM_TTSIM_WH"},
		{"bh", "LM_TTSIM_BH"}} {
		for run, program := range map[string]string{"twoop": "twoop", "mlp4": "mlp"} {
			t.Run(s.short+"."+run, func(t *testing.T) {
				simulator := os.Getenv(s.variable)
				if simulator == "" {
					t.Skipf("skipped: %s names no simulator", s.variable)
				}
				_, text := recordClient(t, simulator, run, writeKernel(t, program))
				file := "../../../testdata/captures/" + s.short + "." + run + ".record"
				golden.File(t, file, text)
			})
		}
	}
}

func TestRecordingsInTheTreeCanBeRead(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/captures/*.record")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %d recordings, want at least 4: %v", len(files), err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(f); err != nil {
			t.Errorf("Read: %s:%v", file, err)
		}
		f.Close()
	}
}
