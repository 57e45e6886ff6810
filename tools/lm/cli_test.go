package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb/lmbtest"
	"lightmetal/tools/image/npy"

	"github.com/spf13/pflag"
)

// TestCountOfOneIsSingular checks that text output has "1 command", not "1 commands".
func TestCountOfOneIsSingular(t *testing.T) {
	image := assemble(t, edu+"main:\n  write.4 r+0x20 0\n")
	for _, command := range []string{"verify", "info"} {
		if exit, stdout, stderr := lm(t, command, image); exit != 0 ||
			!strings.Contains(stdout, " 1 command") || strings.Contains(stdout, "1 commands") {
			t.Errorf("%s: exit status %d, want 0; %s%s", command, exit, stdout, stderr)
		}
	}
}

// lm runs a command line and returns its exit status and output.
func lm(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	capture := func(file **os.File) func() string {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		old := *file
		*file = write
		text := make(chan string)
		go func() {
			data, _ := io.ReadAll(read)
			read.Close()
			text <- string(data)
		}()
		return func() string {
			*file = old
			write.Close()
			return <-text
		}
	}
	out, err := capture(&os.Stdout), capture(&os.Stderr)
	exit = run(args)
	return exit, out(), err()
}

// tempFile writes text to a file in a new temporary directory and returns its path.
func tempFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// edu is the header of a listing for the board edu, with a window r of BAR 0.
const edu = "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0 size 1MiB\n"

// assemble assembles a listing and returns the path of the image.
func assemble(t *testing.T, listing string) string {
	t.Helper()
	source := tempFile(t, "x.lms", listing)
	if exit, _, stderr := lm(t, "asm", source); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	return strings.TrimSuffix(source, ".lms") + ".lmb"
}

func TestEveryFailureHasItsExitCodeAndSaysWhatToDo(t *testing.T) {
	image := filepath.Join(testdata, "images", "edu.lmb")
	twoop := filepath.Join(testdata, "images", "wh.twoop.lmb")
	trace := filepath.Join(testdata, "captures", "edu.qemutrace")
	noRule := tempFile(t, "acme.lms",
		"lightmetal 1\ntarget acme abcd:0001 bar0 4KiB\nwindow r bar0 size 4KiB\nmain:\n"+
			"  write.4 r+0x0 1\n")
	file := lmbtest.File(t, edu+"aa:\n  delay 1us\nab:\n  delay 1us\n")
	// No writer here makes two equal names, so the test changes the name "ab" to "aa".
	at := bytes.Index(file, []byte("aaab"))
	file[at+3] = 'a'
	binary.LittleEndian.PutUint32(file[12:],
		fbs.EnvelopeChecksum(file[:binary.LittleEndian.Uint64(file[32:])]))
	twins := tempFile(t, "twins.lmb", string(file))
	for _, test := range []struct {
		exit int
		want string
		args []string
	}{
		{64, "there is no command lm frobnicate; lm --help lists", []string{"frobnicate"}},
		{64, "lm info --help", []string{"info"}},
		{64, "lm dump --help", []string{"dump", "--frob", image}},
		{64, "--device is missing: use --device mock:edu or --device pci:1234:11e8",
			[]string{"replay", image}},
		{64, "there is no board \"nope\"; use edu,",
			[]string{"replay", "--device", "mock:nope", image}},
		{64, "no sequence \"nope\"", []string{"replay", "--device", "mock:edu", "--sequence",
			"nope", image}},
		{64, "--input takes NAME=FILE", []string{"replay", "--device", "mock:wormhole", "--input",
			"a", twoop}},
		{64, "there is no input \"z\" in", []string{"replay", "--device", "mock:wormhole",
			"--input",
			"z=x.npy", twoop}},
		{64, "--loop 0", []string{"replay", "--device", "mock:edu", "--loop", "0", image}},
		{64, "--check-golden: ", []string{"replay", "--device", "mock:edu", "--check-golden",
			image}},
		{65, "the trace is empty", []string{"import", tempFile(t, "empty.record", "")}},
		{64, "cannot be recognized; use --from", []string{"import", tempFile(t, "x.trace", "x")}},
		{64, "unknown format", []string{"import", "--from", "nope", trace}},
		{64, "pass \"nope\" is unknown; passes: lift", []string{"import", "--from", "qemu",
			"--without", "nope", "--region",
			"edu-mmio", "--base", "0x10000000", "--board", "edu", trace}},
		{65, "x.lms:4:3", []string{"asm", tempFile(t, "x.lms", edu+"  frobnicate\n")}},
		{65, "lm: listing: sequence 1 cannot be written: sequence aa already starts in line",
			[]string{"dump", twins}},
		{65, "lm: bad image: " + noRule + ":5: command 0", []string{"asm", noRule}},
		{65, "is not a regular file", []string{"info", t.TempDir()}},
		{65, "not a Light Metal image", []string{"verify",
			tempFile(t, "x.lmb", strings.Repeat("x", 100))}},
		{65, "line 2", []string{"import", "--from", "mmiotrace", "--board", "edu",
			tempFile(t, "x", "VERSION 20070824\nW 3 1.0 1 0x0 0x0 0x0 0\n")}},
		{65, "has type <i2 and shape 3, but input a is int32[256]",
			[]string{"replay", "--device", "mock:wormhole", "--input",
				"a=" + tempFile(t, "a.npy",
					string(npy.Format(&npy.Array{Type: "<i2", Shape: []uint32{3},
						Data: make([]byte, 6)}))), twoop}},
		{65, "has 3 bytes, but input a needs 1024",
			[]string{"replay", "--device", "mock:wormhole", "--input",
				"a=" + tempFile(t, "a.bin", "xxx"), twoop}},
		{66, "no such file", []string{"info", "/nonexistent.lmb"}},
		{66, "no such file", []string{"asm", "/nonexistent.lms"}},
		{66, "no such file", []string{"import", "--from", "qemu", "/nonexistent"}},
		{69, "TLB window 185", []string{"replay", "--device", "mock:wormhole", "--window",
			"185", twoop}},
		{69, "pci:dead:beef", []string{"replay", "--device", "pci:dead:beef", image}},
		{69, "library does not exist", []string{"replay", "--device", "ttsim:/nonexistent.so",
			twoop}},
		{70, ": main, command 1: write.4 l1+0x121b0 0xf0000: operation 2: ",
			[]string{"replay", "--device", "mock:wormhole",
				assemble(t,
					"lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\nwindow l1 tlb size "+
						"1MiB\n"+
						"main:\n  point l1 tile 1,1 address 0xffb00000\n"+
						"  write.4 l1+0x121b0 0xf0000\n")}},
		{75, ": main, command 0: poll.4 w0+0x20 & 0x80 == 0x80: got 0x0 after 1 ms (bits that " +
			"differ: 7); then sequence safe ran: done",
			[]string{"replay", "--device", "mock:edu",
				assemble(t, strings.Replace(edu, "window r", "window w0", 1)+
					"main:\n  poll.4 w0+0x20 & 0x80 == 0x80 within 1ms\nsafe:\n"+
					"  write.4 w0+0x20 0\n")}},
		{75, "then sequence safe ran: device rejected the access: operation ",
			[]string{"replay", "--device", "mock:wormhole",
				assemble(t,
					"lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\nwindow l1 tlb size "+
						"1MiB\n"+
						"main:\n  point l1 tile 1,1 address 0x0\n"+
						"  poll.4 l1+0x100 == 0x1 within 1ms\n"+
						"safe:\n  point l1 tile 1,1 address 0xffb00000\n"+
						"  write.4 l1+0x121b0 0xf0000\n")}},
		{76, ": main, command 0: expect.4 r+0x0 == 0x10000ee: got 0x10000ed (bits that differ: " +
			"0, 1); the image has no sequence safe",
			[]string{"replay", "--device", "mock:edu",
				assemble(t, edu+"main:\n  expect.4 r+0x0 == 0x010000ee\n")}},
		{78, "it is for edu (1234:11e8), but mock:ivshmem is 1af4:1110",
			[]string{"replay", "--device", "mock:ivshmem", image}},
		{78, "the image is for edu (1234:11e8), not for nvme",
			[]string{"verify", "--board", "nvme", image}},
	} {
		exit, stdout, stderr := lm(t, test.args...)
		if exit != test.exit || !strings.Contains(stderr, test.want) || stdout != "" {
			t.Errorf("lm %s\n\texit status %d: %s%s\twant %d: %s", strings.Join(test.args, " "),
				exit, stdout, stderr, test.exit, test.want)
		}
		if strings.Count(stderr, "\n") != 1 {
			t.Errorf("lm %s: more than one line: %s", strings.Join(test.args, " "), stderr)
		}
	}
}

func TestJSONIsOneObjectOnSuccessAndOnFailure(t *testing.T) {
	image := filepath.Join(testdata, "images", "edu.lmb")
	failing := assemble(t, edu+"main:\n  expect.4 r+0x0 == 0x010000ee\n")
	for _, test := range []struct {
		exit int
		args []string
	}{
		{0, []string{"replay", "--json", "--device", "mock:edu", image}},
		{76, []string{"replay", "--json", "--device", "mock:edu", failing}},
		{66, []string{"replay", "--json", "--device", "mock:edu", "/nonexistent"}},
		{64, []string{"replay", "--json", image}},
		{64, []string{"replay", "--loop", "x", "--json", image}},
		{64, []string{"verify", "--frobnicate", "--json", image}},
		{0, []string{"verify", "--json", image}},
		{65, []string{"verify", "--json", tempFile(t, "x.lmb", "x")}},
	} {
		exit, stdout, stderr := lm(t, test.args...)
		var object struct {
			Exit         int
			Code, Reason string
		}
		if err := json.Unmarshal([]byte(stdout), &object); err != nil {
			t.Errorf("lm %v: standard output is not one JSON object (%v): %q", test.args, err,
				stdout)
		}
		if exit != test.exit || object.Exit != exit || object.Code == "" ||
			(object.Reason == "") != (exit == 0) || stderr != "" {
			t.Errorf("lm %v: exit status %d, want %d; the JSON must have it and a reason for a "+
				"failure; output: %s%s", test.args, exit, test.exit, stdout, stderr)
		}
	}
}

func TestInfoAndDumpAsJSON(t *testing.T) {
	image := filepath.Join(testdata, "images", "wh.twoop.lmb")
	_, stdout, _ := lm(t, "info", "--json", image)
	var info imageInfo
	if err := json.Unmarshal([]byte(stdout), &info); err != nil {
		t.Fatal(err)
	}
	if info.Devices[0].Board != "wormhole" || len(info.Tensors) != 3 ||
		info.Tensors[2].Role != "output" || info.Windows[0].Kind != "tlb" ||
		info.Sequences[0].Opcodes["expect"] < 2 || info.Sequences[0].WaitUs != 1_000_000 {
		t.Errorf("lm info --json has wrong fields: %s", stdout)
	}
	_, stdout, _ = lm(t, "dump", "--json", image)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if uint32(len(lines)) != info.Sequences[0].Commands {
		t.Errorf("lm dump --json prints %d lines for %d commands", len(lines),
			info.Sequences[0].Commands)
	}
	for i, line := range lines {
		var c dumpedCommand
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Index != i || c.Text == "" {
			t.Errorf("line %d: error %v, want command %d with a text: %s", i, err, i, line)
		}
	}
}

func TestNewInputGivesNewOutput(t *testing.T) {
	folder := t.TempDir()
	a, b := make([]byte, 1024), make([]byte, 1024)
	for i := range 256 {
		binary.LittleEndian.PutUint32(a[4*i:], uint32(i*1000))
		binary.LittleEndian.PutUint32(b[4*i:], uint32(-i*997))
	}
	npyFile, raw := filepath.Join(folder, "a.npy"), filepath.Join(folder, "b.bin")
	if err := os.WriteFile(npyFile,
		npy.Format(&npy.Array{Type: "<i4", Shape: []uint32{256}, Data: a}), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(raw, b, 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(folder, "d.npy")
	exit, stdout, stderr := lm(t, "replay", "--device", "mock:wormhole", "--input", "a="+npyFile,
		"--input", "b="+raw, "--output", "d="+out, "--loop", "3",
		filepath.Join(testdata, "images", "wh.twoop.lmb"))
	if exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	if !strings.HasSuffix(stdout, "\n"+out+": output d, int32[256], written\n") {
		t.Errorf("the text does not name the output file: %s", stdout)
	}
	exit, stdout, _ = lm(t, "replay", "--device", "mock:wormhole", "--check-golden",
		filepath.Join(testdata, "images", "wh.twoop.lmb"))
	if exit != 0 || !strings.HasSuffix(stdout, "\n1 output compared with golden data, all "+
		"equal\n") {
		t.Errorf("exit status %d, want 0; the text does not say what was compared: %s", exit,
			stdout)
	}
	file, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	d, err := npy.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 1024)
	for i := range 256 {
		binary.LittleEndian.PutUint32(want[4*i:], uint32(max(0, 3*i-100)))
	}
	if !bytes.Equal(d.Data, want) || d.Type != "<i4" || len(d.Shape) != 1 || d.Shape[0] != 256 {
		t.Errorf("d = % x..., type %s, shape %v; want % x..., <i4, [256]", d.Data[:32], d.Type,
			d.Shape, want[:32])
	}
	if exit, _, stderr := lm(t, "replay", "--device", "mock:wormhole", "--input", "a="+npyFile,
		"--check-golden", filepath.Join(testdata, "images", "wh.twoop.lmb")); exit != 76 ||
		!strings.Contains(stderr, "output d: 256 of 256 int32 elements differ from the golden "+
			"data; the first, [0], is 26 instead of 0; "+
			"the largest difference is 254538 at [255]") {
		t.Errorf("golden check with another input: exit status %d, want 76; stderr: %s", exit,
			stderr)
	}
}

func TestCommandsHaveHelp(t *testing.T) {
	for _, name := range []string{"", "asm", "dump", "import", "info", "verify", "replay"} {
		args := []string{"--help"}
		if name != "" {
			args = []string{name, "--help"}
		}
		exit, stdout, _ := lm(t, args...)
		if exit != 0 || !strings.Contains(stdout, "Usage:") || len(stdout) < 300 {
			t.Errorf("lm %v: exit status %d, want 0; %d bytes", args, exit, len(stdout))
		}
	}
}

func TestSequencesBeforeAndAfterTheRunsAreReplayedOnce(t *testing.T) {
	image := assemble(t, `lightmetal 1
target ivshmem 1af4:1110 bar2 1MiB
window m bar2 offset 0 size 1MiB
main:
  expect.4 m+0x0 == 0x1
  write.4 m+0x4 0x5
begin:
  expect.4 m+0x0 == 0x0
  write.4 m+0x0 0x1
finish:
  expect.4 m+0x4 == 0x5
  write.4 m+0x0 0x0
`)
	for _, test := range []struct {
		exit int
		args []string
	}{
		{0, []string{"--before", "begin", "--after", "finish", "--loop", "3"}},
		{0, []string{"--before", "begin", "--after", "finish", "--loop", "3", "--profile",
			filepath.Join(t.TempDir(), "p.json")}},
		{76, nil},
		{76, []string{"--before", "finish"}},
		{76, []string{"--before", "begin", "--after", "begin"}},
		{64, []string{"--before", "none"}},
		{64, []string{"--after", "none"}},
		{64, []string{"--sequence", ""}},
	} {
		args := append([]string{"replay", "--device", "mock:ivshmem"}, append(test.args, image)...)
		if exit, _, stderr := lm(t, args...); exit != test.exit {
			t.Errorf("lm %v: exit %d, %s; want %d", args, exit, stderr, test.exit)
		}
	}
}

// TestCommandClosesItsImages counts the descriptors of an image that are open after each command.
func TestCommandClosesItsImages(t *testing.T) {
	open := func() (n int) {
		links, _ := filepath.Glob("/proc/self/fd/*")
		for _, link := range links {
			if file, _ := os.Readlink(link); filepath.Base(file) == "edu.lmb" {
				n++
			}
		}
		return n
	}
	for _, args := range [][]string{{"info"}, {"verify"}, {"diff", "../../testdata/images/edu.lmb"},
		{"replay", "--device", "mock:edu"}, {"replay", "--device", "mock:wormhole"}} {
		lm(t, append(args, "../../testdata/images/edu.lmb")...)
		if n := open(); n > 0 {
			t.Errorf("lm %v leaves %d images open", args, n)
		}
	}
}

// TestNoFlagTakesAnEmptyValue tries every flag of every command that takes a value.
func TestNoFlagTakesAnEmptyValue(t *testing.T) {
	tried := 0
	for _, c := range newRoot().Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			tried++
			for _, args := range [][]string{{"--" + f.Name, ""}, {"--" + f.Name + "="}} {
				again, _, err := newRoot().Find([]string{c.Name()})
				if err != nil {
					t.Fatal(err)
				}
				if err := again.ParseFlags(args); err == nil &&
					codeOf(fail.Try(func() { rejectEmptyValues(again, nil) })) != hal.Usage {
					t.Errorf("lm %s %q is accepted, want an error", c.Name(), args)
				}
			}
		})
	}
	if tried < 30 {
		t.Errorf("only %d flags were tried, want at least 30", tried)
	}
	for _, args := range [][]string{{"--key", ""}, {"--key="}, {"--key", "keys", "--key="}} {
		if exit, stdout, stderr := lm(t, append([]string{"verify", "../../testdata/images/edu.lmb"},
			args...)...); exit != 64 || stdout != "" ||
			!strings.Contains(stderr, "--key has an empty value") {
			t.Errorf("%q: exit status %d, want 64; %s%s", args, exit, stdout, stderr)
		}
	}
}

// TestDumpNumbersCommandsAsMessagesDo: numbers start from 0 within each sequence and do not count
// marks. They are comments, so that the listing assembles to the same image.
func TestDumpNumbersCommandsAsMessagesDo(t *testing.T) {
	image := assemble(t, edu+"main:\n  mark \"m\"\n  write.4 r+0x4 1\n  write.4 r+0x4 2\n"+
		"safe:\n  write.4 r+0x20 0\n")
	exit, text, stderr := lm(t, "dump", "--numbers", image)
	if exit != 0 || stderr != "" {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	for _, want := range []string{
		"mark      \"m\"\n", "r+0x4 0x1  # main, command 0\n", "r+0x4 0x2  # main, command 1\n",
		"r+0x20 0x0  # safe, command 0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the listing lacks %q:\n%s", want, text)
		}
	}
	again := assemble(t, text)
	if got, want := mustRead(t, again), mustRead(t, image); !bytes.Equal(got, want) {
		t.Errorf("the numbered listing makes another image: %d bytes, want %d", len(got), len(want))
	}
}
