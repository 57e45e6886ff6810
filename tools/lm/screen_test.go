package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"lightmetal/fbs/gen"
	"lightmetal/tools/image/npy"

	"golang.org/x/sys/unix"
)

// runOnTerminal runs a command line on a terminal with a number of columns. It returns the exit
// status and what the terminal shows.
func runOnTerminal(t *testing.T, columns uint16, args ...string) (exit int, text string) {
	t.Helper()
	return runOnTerminalUntil(t, columns, "", func() {}, args...)
}

// runOnTerminalUntil is runOnTerminal, but calls `do` when the terminal first shows `trigger`.
func runOnTerminalUntil(t *testing.T, columns uint16, trigger string, do func(),
	args ...string) (exit int, text string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals here: ", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals here: ", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ,
		&unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		var data []byte
		for buffer, waiting := make([]byte, 4096), true; ; {
			n, err := master.Read(buffer)
			if data = append(data, buffer[:n]...); err != nil {
				break // EIO: the other side is closed
			}
			if waiting && strings.Contains(string(data), trigger) {
				waiting = false
				do()
			}
		}
		master.Close()
		shown <- strings.ReplaceAll(string(data), "\r\n", "\n")
	}()
	out, errors := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = terminal, terminal
	exit = run(args)
	os.Stdout, os.Stderr = out, errors
	terminal.Close()
	return exit, <-shown
}

// TestLinesOnATerminalFitAndHaveColors also checks that text without a terminal is not wrapped.
func TestLinesOnATerminalFitAndHaveColors(t *testing.T) {
	image := filepath.Join(testdata, "images", "edu-factorial.lmb")
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for _, columns := range []uint16{60, 80, 200} {
		exit, text := runOnTerminal(t, columns, "info", image)
		_, plain, _ := lm(t, "info", image)
		if exit != 0 || strings.Join(strings.Fields(text), " ") !=
			strings.Join(strings.Fields(plain), " ") || text == plain {
			t.Errorf("%d columns: exit status %d, want 0, the same words and a wrapped line:\n%s",
				columns, exit, text)
		}
		for line := range strings.Lines(text) {
			most := min(int(columns), 100)
			n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			if words := strings.Fields(line); n > most && len(words[0]) < 64 { // a SHA-256
				t.Errorf("on a terminal of %d columns, a line has %d: %s", columns, n, line)
			}
		}
	}
	failed, done := red+"lm:"+noColor+" usage", green+"done:"+noColor+" main of"
	if exit, text := runOnTerminal(t, 80, "inf"); exit != 64 || !strings.HasPrefix(text, failed) {
		t.Errorf("exit status %d, want 64; %q", exit, text)
	}
	replay := []string{"replay", "--device", "mock:edu", image}
	if exit, text := runOnTerminal(t, 80, replay...); exit != 0 || !strings.HasPrefix(text, done) {
		t.Errorf("exit status %d, want 0; %q", exit, text)
	}
	t.Setenv("NO_COLOR", "1")
	if exit, text := runOnTerminal(t, 80, replay...); exit != 0 || strings.Contains(text, "\x1b") {
		t.Errorf("with NO_COLOR: exit status %d, want 0; %q", exit, text)
	}
}

// TestDataIsNotWrappedOnATerminal, because a user may copy it.
func TestDataIsNotWrappedOnATerminal(t *testing.T) {
	image := filepath.Join(testdata, "images", "wh.twoop.lmb")
	for _, args := range [][]string{{"verify", "--json", image},
		{"dump", "--full", image}, {"dump", "--json", image}} {
		_, text := runOnTerminal(t, 60, args...)
		if _, plain, _ := lm(t, args...); text != plain {
			t.Errorf("lm %v prints other text on a terminal:\n%s", args, text)
		}
	}
}

// TestDumpOnATerminalShortensData also checks that everything else is there.
func TestDumpOnATerminalShortensData(t *testing.T) {
	image := filepath.Join(testdata, "images", "wh.twoop.lmb")
	_, text := runOnTerminal(t, 200, "dump", image)
	_, full, _ := lm(t, "dump", image)
	const block = "tensor a input int32[256] = hex {\n"
	start := strings.Index(full, block) + len(block)
	const line = len("  38ffffff 8e000000 05010000 8f000000 90010000 90000000 5c000000 d4ffffff\n")
	want := block + full[start:start+2*line] + "  ... 960 bytes more; --full prints them\n}\n"
	if !strings.Contains(text, want) || strings.Count(text, "more; --full") < 4 ||
		!strings.HasSuffix(text, full[strings.LastIndex(full, "\n  "):]) {
		t.Errorf("lm dump on a terminal prints\n%s\nwant it to contain\n%s", text, want)
	}
}

// TestWrappedLinesAreIndented: the rest of a line begins below the text after the first column, or
// is indented further than the line.
func TestWrappedLinesAreIndented(t *testing.T) {
	for line, want := range map[string]string{
		"short":                            "short",
		"key   one two three four five":    "key   one two\n      three four\n      five",
		"  a sentence of several words":    "  a sentence of\n      several\n      words",
		"one_word_that_is_too_long":        "one_word_that_is_too_long",
		"lm: /a/very/long/path/x.lmb: bad": "lm: /a/very/long/path/x.lmb:\n    bad",
		"äöüäöüäöü äöüäöüäöü äöüäöüäöü": "äöüäöüäöü\n    äöüäöüäöü\n    äöüäöüäöü",
		"exactly sixteen!":                  "exactly sixteen!",
		"exactly sixteen! and one more one": "exactly sixteen!\n    and one more\n    one",
	} {
		s := &screen{columns: 16}
		if got := s.wrap(line); got != want {
			t.Errorf("%q is wrapped to\n%s\nwant\n%s", line, got, want)
		}
	}
}

// TestLongTensorsAreAbbreviatedOnATerminal, but not with --all or in a pipe.
func TestLongTensorsAreAbbreviatedOnATerminal(t *testing.T) {
	var words []string
	for i := range 2000 {
		words = append(words, fmt.Sprint(i%1000))
	}
	data, err := npy.Values(gen.DTypeInt32, words)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.npy")
	array := &npy.Array{Type: "<i4", Shape: []uint32{2, 10, 100}, Data: data}
	if err := os.WriteFile(path, npy.Format(array), 0o644); err != nil {
		t.Fatal(err)
	}
	const want = `int32[2x10x100]
[[[  0   1   2 ...  97  98  99]
  [100 101 102 ... 197 198 199]
  [200 201 202 ... 297 298 299]
  ...
  [700 701 702 ... 797 798 799]
  [800 801 802 ... 897 898 899]
  [900 901 902 ... 997 998 999]]
 [[  0   1   2 ...  97  98  99]
  [100 101 102 ... 197 198 199]
  [200 201 202 ... 297 298 299]
  ...
  [700 701 702 ... 797 798 799]
  [800 801 802 ... 897 898 899]
  [900 901 902 ... 997 998 999]]]
`
	if exit, text := runOnTerminal(t, 80, "tensor", path); exit != 0 || text != want {
		t.Errorf("exit status %d, output\n%s\nwant\n%s", exit, text, want)
	}
	_, all := runOnTerminal(t, 80, "tensor", "--all", path)
	elements := strings.NewReplacer("[", " ", "]", " ").Replace(strings.TrimPrefix(all, "int32"))
	if n := len(strings.Fields(elements)); n != 1+2000 || strings.Contains(all, omissionMark) {
		t.Errorf("--all prints %d words, want %d", n, 1+2000)
	}
	for line := range strings.Lines(all) {
		if len(line) > 81 {
			t.Errorf("a line has %d columns: %s", len(line), line)
		}
	}
	if _, csv, _ := lm(t, "tensor", path); strings.Count(csv, ",") != 2000-20 {
		t.Errorf("in a pipe, want all 2000 numbers: %s", csv)
	}
}

// TestDumpWritesAFile: -o writes the bytes that else go to standard output, and one line about the
// file goes to standard output.
func TestDumpWritesAFile(t *testing.T) {
	image := filepath.Join(testdata, "images", "wh.twoop.lmb")
	file := filepath.Join(t.TempDir(), "x.lms")
	for _, flags := range [][]string{nil, {"--numbers"}, {"--json"}} {
		_, want, _ := lm(t, append([]string{"dump", image}, flags...)...)
		exit, message, stderr := lm(t, append([]string{"dump", "-o", file, image}, flags...)...)
		line := file + ": 1 sequence, 18 commands\n"
		if len(flags) > 0 && flags[0] == "--json" {
			line = ""
		}
		if exit != 0 || message != line || stderr != "" || string(mustRead(t, file)) != want {
			t.Errorf("%v: exit status %d, want 0; %s%s", flags, exit, message, stderr)
		}
	}
	if exit, _, stderr := lm(t, "dump", "-o", image, image); exit != 64 ||
		!strings.Contains(stderr, "is the same file as input") {
		t.Errorf("exit status %d, want 64; stderr: %s", exit, stderr)
	}
}
