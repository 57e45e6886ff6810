package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/tools/image/fail"

	"github.com/spf13/pflag"
)

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
		info.Sequences[0].Opcodes["expect"] != 1 ||
		info.Sequences[0].Opcodes["poll"] != 1 || info.Sequences[0].WaitUs != 1_000_000 {
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
}

func TestEveryCommandHasHelp(t *testing.T) {
	lines := [][]string{{"--help"}}
	for _, c := range newRoot().Commands() {
		if !c.Hidden {
			lines = append(lines, []string{c.Name(), "--help"})
		}
	}
	for _, args := range lines {
		exit, text, _ := lm(t, args...)
		if exit != 0 || !strings.Contains(text, "Usage:") || len(text) < 300 {
			t.Errorf("lm %v: exit status %d, want 0; output %q", args, exit, text)
		}
		for line := range strings.Lines(text) {
			if strings.Count(line, "(default") > 1 {
				t.Errorf("lm %v names two defaults: %s", args, line)
			}
		}
	}
}

// TestUsageErrorsHaveOnePrefix: errors with exit status 64 come from the flags, the importer, the
// runtime and the inputs, but begin alike.
func TestUsageErrorsHaveOnePrefix(t *testing.T) {
	image := filepath.Join(t.TempDir(), "x.lmb")
	listing := filepath.Join(t.TempDir(), "x.lms")
	if err := os.WriteFile(listing, []byte("lightmetal 1\ndevice edu 1234:11e8 bar0 1MiB\n"+
		"window r bar0 offset 0 size 1MiB\ntensor x input uint32[1]\nmain:\n  copy.4 r+0x8 <- "+
		"x[:]\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "", "asm", listing, "-o", image)
	capture := filepath.Join(testdata, "captures", "wh.twoop.record")
	for _, args := range [][]string{
		{"nosuch"}, {"import", "--nosuch"}, {"import", "--part", "x", capture},
		{"import", "--bar", "9", capture}, {"import", "--stop", "1..2", capture},
		{"import", "--from", "nope", capture}, {"replay", "--device", "mock:edu", image},
		{"replay", "--device", "mock:edu", "--window", "1", image},
	} {
		exit, _, stderr := lm(t, args...)
		if exit != 64 || !strings.HasPrefix(stderr, "lm: usage: ") ||
			strings.Contains(stderr, hal.InputMissing.Error()) {
			t.Errorf("lm %v: exit status %d, want 64; %s", args, exit, stderr)
		}
	}
}

// TestUnfinishedRecordingBelongsToItsTrace: a recording of a.b that was killed is not one of a.
func TestUnfinishedRecordingBelongsToItsTrace(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{".a.b.12.part", ".a.b.1f-2c.part"} {
		if err := os.WriteFile(name, []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got := unfinishedRecording("a"); got != "" {
		t.Errorf("the unfinished recording of a is %s, want none", got)
	}
	for _, name := range []string{"a.b", "./a.b"} {
		if got := filepath.Base(unfinishedRecording(name)); !strings.HasPrefix(got, ".a.b.1") {
			t.Errorf("the unfinished recording of %s is %s", name, got)
		}
	}
}
