package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/image/lmb/lmbtest"
)

var update = flag.Bool("update", false,
	"rewrite the recordings in testdata/captures from the vendor's simulators")

var scratch string // for what gcc builds

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "record")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// gcc builds a file once and returns its path.
func gcc(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("skipped: no gcc to build the recorder with")
	}
	path := filepath.Join(scratch, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	arguments = append([]string{"-O2", "-Wall", "-o", path}, arguments...)
	if out, err := exec.Command("gcc", append(arguments, "-ldl")...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return path
}

func recorder(t *testing.T) string {
	return gcc(t, "librecord.so", "-shared", "-fPIC", "shim/record.c")
}

// library is a simulator and what it simulates.
type library struct{ board, path string }

// fakes are the stand-ins for the vendor's simulators.
func fakes(t *testing.T) []library {
	return []library{
		{"wormhole", gcc(t, "wormhole.so", "-shared", "-fPIC", "testdata/fakesim.c")},
		{"blackhole", gcc(t, "blackhole.so", "-shared", "-fPIC", "-DBLACKHOLE",
			"testdata/fakesim.c")},
	}
}

// result is one run of the client under the recorder.
type result struct {
	text   string // the recording
	output string // of the client and the simulator
	err    error  // how it ended
}

func run(t *testing.T, simulator string, arguments ...string) result {
	t.Helper()
	client := gcc(t, "client", "testdata/client.c")
	file := filepath.Join(t.TempDir(), "out.record")
	cmd := exec.Command(client, append([]string{recorder(t)}, arguments...)...)
	cmd.Env = append(os.Environ(), "LM_RECORD_LIBRARY="+simulator, "LM_RECORD_FILE="+file)
	output, err := cmd.CombinedOutput()
	text, _ := os.ReadFile(file)
	return result{string(text), string(output), err}
}

// recorded is a run that ends well, read back.
func recorded(t *testing.T, simulator string, arguments ...string) (*Capture, string) {
	t.Helper()
	s := run(t, simulator, arguments...)
	if s.err != nil {
		t.Fatalf("%v: %v\n%s", arguments, s.err, s.output)
	}
	c, err := Read(strings.NewReader(s.text))
	if err != nil {
		t.Fatal(err)
	}
	return c, s.text
}

// image writes a raw program for the client.
func image(t *testing.T, program []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, program, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// kernel is the loaded part of a kernel's ELF file.
func kernel(t *testing.T, name string) string {
	t.Helper()
	return image(t, lmbtest.Kernel(t, "../../../testdata/kernels/"+name+".elf"))
}

func TestRecordingOfARunIsWhole(t *testing.T) {
	for _, l := range fakes(t) {
		for run, program := range map[string][]byte{"twoop": {1, 0, 0, 0}, "mlp4": {2, 0, 0, 0}} {
			t.Run(l.board+"/"+run, func(t *testing.T) {
				c, _ := recorded(t, l.path, run, image(t, program))
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
					t.Errorf("the last record is %+v, want the reset", last)
				}
				if written < 2000 || read < 160 || clocks < 2000 {
					t.Errorf("%d bytes written, %d read, %d clocks", written, read, clocks)
				}
			})
		}
	}
}

func TestHeaderSaysWhatIsSimulated(t *testing.T) {
	want := map[string]Capture{
		"wormhole": {Vendor: 0x1e52, Device: 0x401e, Bars: [6]Bar{
			0: {0x1_0000_0000, 512 << 20}, 2: {0x1_2000_0000, 1 << 20},
			4: {0x8_0000_0000, 32 << 20}}},
		"blackhole": {Vendor: 0x1e52, Device: 0xb140, Bars: [6]Bar{
			0: {0x1_0000_0000, 512 << 20}, 2: {0x1_2000_0000, 1 << 20},
			4: {0x8_0000_0000, 32 << 30}}},
	}
	for _, l := range fakes(t) {
		c, _ := recorded(t, l.path, "leave")
		if w := want[l.board]; c.Vendor != w.Vendor || c.Device != w.Device || c.Bars != w.Bars {
			t.Errorf("%s: %+v", l.board, c)
		}
	}
}

func TestDeviceAccessToHostMemoryFollowsItsCause(t *testing.T) {
	_, text := recorded(t, fakes(t)[0].path, "dma")
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
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestRejectedAccessIsTheLastLine(t *testing.T) {
	s := run(t, fakes(t)[0].path, "refused")
	if s.err == nil || !strings.Contains(s.output, "TLB region overrun") {
		t.Fatalf("%v: %s", s.err, s.output)
	}
	want := "\nW 0 b000000 16 00000000000000000000000000000000\nR 0 bfffff8 16"
	if !strings.HasSuffix(s.text, want) {
		t.Errorf("the recording ends with %q", s.text[max(0, len(s.text)-80):])
	}
	c, err := Read(strings.NewReader(s.text))
	if !errors.Is(err, ErrCut) || len(c.Records) != 3 {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestCrashKeepsWhatWasRecorded(t *testing.T) {
	s := run(t, fakes(t)[0].path, "crash")
	c, err := Read(strings.NewReader(s.text))
	if s.err == nil || !errors.Is(err, ErrCut) || len(c.Records) != 2 || c.Records[1].Clocks != 5 {
		t.Errorf("%v, %v, %+v", s.err, err, c)
	}
}

func TestReturnFromMainEndsTheRecording(t *testing.T) {
	if _, text := recorded(t, fakes(t)[0].path, "leave"); !strings.HasSuffix(text, "END 1\n") {
		t.Errorf("%q", text)
	}
}

func TestForkedCopyDoesNotWrite(t *testing.T) {
	if _, text := recorded(t, fakes(t)[0].path, "fork"); strings.Count(text, "END") != 1 ||
		strings.Contains(text, "CLK 77") {
		t.Errorf("%s", text)
	}
}

// TestWhatIsNoRecordingIsNotWrittenOver: neither by a first session nor by a
// second, whose name nobody typed. Earlier recordings and empty files are.
func TestWhatIsNoRecordingIsNotWrittenOver(t *testing.T) {
	client, shim, fake := gcc(t, "client", "testdata/client.c"), recorder(t), fakes(t)[0].path
	for _, test := range []struct {
		suffix, text string
		kept         bool
	}{{"", "precious", true}, {"", "LMRECOR", true}, {".2", "precious, and longer than that", true},
		{"", "", false}, {"", "LMRECORD 1\nDEVICE 1e52 401e\n", false}} {
		file := filepath.Join(t.TempDir(), "out.record")
		if err := os.WriteFile(file+test.suffix, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(client, shim, "sessions")
		cmd.Env = append(os.Environ(), "LM_RECORD_LIBRARY="+fake, "LM_RECORD_FILE="+file)
		out, err := cmd.CombinedOutput()
		text, _ := os.ReadFile(file + test.suffix)
		if (string(text) == test.text) != test.kept || (err != nil) != test.kept ||
			strings.Contains(string(out), "is not a recording") != test.kept {
			t.Errorf("%q in out.record%s: %v, now %d bytes\n%s", test.text, test.suffix, err,
				len(text), out)
		}
	}
}

// A program may open the simulator again, of the same library or of it loaded
// anew (tt-umd does, once for each cluster).
func TestEverySessionHasARecordingOfItsOwn(t *testing.T) {
	client, shim, fake := gcc(t, "client", "testdata/client.c"), recorder(t), fakes(t)[0].path
	for _, run := range []string{"sessions", "reload"} {
		file := filepath.Join(t.TempDir(), "out.record")
		cmd := exec.Command(client, shim, run)
		cmd.Env = append(os.Environ(), "LM_RECORD_LIBRARY="+fake, "LM_RECORD_FILE="+file)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out),
			"lightmetal recorder: session 1 made no access to the device\n") ||
			strings.Count(string(out), "recorder") != 1 {
			t.Fatalf("%s: %v\n%s", run, err, out)
		}
		for i, suffix := range []string{"", ".2", ".3"} {
			f, err := os.Open(file + suffix)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Read(f)
			f.Close()
			if err != nil || c.Vendor != 0x1e52 {
				t.Fatalf("%s, session %d: %v", run, i+1, err)
			}
			if i == 0 {
				continue
			}
			mark, last := c.Records[0], c.Records[len(c.Records)-1]
			want := []string{"second session", "third session"}[i-1]
			if mark.Kind != Mark || string(mark.Data) != want || last.Kind != BarRead ||
				last.Data[0] != byte(i+1) {
				t.Errorf("%s, session %d: %+v ... %+v", run, i+1, mark, last)
			}
		}
	}
}

func TestProgramThatNeverOpensTheSimulatorIsToldSo(t *testing.T) {
	s := run(t, fakes(t)[0].path, "never")
	if s.err != nil || s.text != "" || !strings.Contains(s.output,
		"it never called libttsim_init") {
		t.Errorf("%v, %q: %s", s.err, s.text, s.output)
	}
}

// TestProbeOfTheSimulatorIsNoSession loads the recorder, unloads it, and runs a copy of it, as
// tt-umd does.
func TestProbeOfTheSimulatorIsNoSession(t *testing.T) {
	s := run(t, fakes(t)[0].path, "probe")
	if s.err != nil || strings.Contains(s.output, "recorder") {
		t.Errorf("%v: %s", s.err, s.output)
	}
	c, err := Read(strings.NewReader(s.text))
	if err != nil || len(c.Records) == 0 {
		t.Errorf("%v: %s", err, s.text)
	}
}

func TestRecorderSaysWhatItLacks(t *testing.T) {
	client, shim, fake := gcc(t, "client", "testdata/client.c"), recorder(t), fakes(t)[0].path
	unknown := gcc(t, "unknown.so", "-shared", "-fPIC", "-DIDS=0xfeed1e52", "testdata/fakesim.c")
	file := filepath.Join(t.TempDir(), "out.record")
	for _, c := range []struct{ name, library, file, want string }{
		{"no library", "", file, "LM_RECORD_LIBRARY must name"},
		{"no file", fake, "", "LM_RECORD_FILE must name"},
		{"library that is not there", "/nowhere/libttsim.so", file, "/nowhere/libttsim.so"},
		{"itself", shim, file, "names the recorder itself"},
		{"file that cannot be", fake, "/nowhere/out.record", "No such file"},
		{"unknown device", unknown, file, "1e52:feed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(client, shim, "leave")
			cmd.Env = append(os.Environ(), "LM_RECORD_LIBRARY="+c.library, "LM_RECORD_FILE="+c.file)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "lightmetal recorder: ") ||
				!strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s, want %q", err, out, c.want)
			}
		})
	}
}

// The simulators are deterministic, so the recordings in the tree can be made
// again to the byte: go test ./tools/capture/record -update with both variables set.
func TestRecordingsInTheTreeAreTheVendorsSimulators(t *testing.T) {
	for _, s := range []struct{ short, variable string }{{"wh", "LM_TTSIM_WH"},
		{"bh", "LM_TTSIM_BH"}} {
		for run, program := range map[string]string{"twoop": "twoop", "mlp4": "mlp"} {
			t.Run(s.short+"."+run, func(t *testing.T) {
				simulator := os.Getenv(s.variable)
				if simulator == "" {
					t.Skipf("skipped: %s names no simulator", s.variable)
				}
				_, text := recorded(t, simulator, run, kernel(t, program))
				file := "../../../testdata/captures/" + s.short + "." + run + ".record"
				if *update {
					if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal([]byte(text), want) {
					t.Errorf("%s differs from a recording made now", file)
				}
			})
		}
	}
}

func TestRecordingsInTheTreeCanBeRead(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/captures/*.record")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(f); err != nil {
			t.Errorf("%s:%v", file, err)
		}
		f.Close()
	}
}
