//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/capture/record"
)

const cardSize = 1 << 20

// child carries Options to a process of the test's own program, in which
// nothing else is started.
const child = "LM_RECORDER_OPTIONS"

func TestMain(m *testing.M) {
	if text := os.Getenv(child); text != "" {
		os.Unsetenv(child)
		setCopiesByBytes()
		os.Exit(runChild(text))
	}
	os.Exit(m.Run())
}

// childOptions are Options, and where the record goes.
type childOptions struct {
	Options
	Path string
}

func runChild(text string) int {
	var c childOptions
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return 99
	}
	out, err := os.Create(c.Path)
	if err != nil {
		return 97
	}
	o := c.Options
	o.Out, o.Warnings = out, os.Stderr
	result, err := Run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "failure:", err)
		os.Remove(c.Path)
		return 98
	}
	if result.KillReason != "" {
		fmt.Fprintln(os.Stderr, "stopped:", result.KillReason)
	}
	return result.ExitStatus
}

// run is what became of a program under the recorder, or without it.
type run struct {
	exit         int
	output, said string // the program's, the recorder's
	card         []byte // the file that stands for a BAR, afterwards
	capture      *record.Capture
	err          error // of reading the record
}

// accesses returns the loads and stores as the format has them, without the BAR.
func (r *run) accesses() (list []string) {
	for _, a := range r.capture.Records {
		kind, known := map[record.Kind]string{record.BarWrite: "W", record.BarRead: "R"}[a.Kind]
		if !known {
			continue
		}
		width := len(a.Data)
		if a.Width != 0 {
			width = int(a.Width)
		}
		for data := range slices.Chunk(a.Data, width) {
			list = append(list, fmt.Sprintf("%s %x %d %x", kind, a.Offset, width, data))
			a.Offset += uint64(width)
		}
	}
	return list
}

// told is what the record has of EVENT lines.
func (r *run) told() (list []string) {
	for _, a := range r.capture.Records {
		if a.Kind == record.Event {
			list = append(list, string(a.Data))
		}
	}
	return list
}

// card makes a file that represents a BAR.
func card(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "lm-recorder-")
	if err != nil {
		folder = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	path := filepath.Join(folder, "card")
	if err := os.WriteFile(path, make([]byte, cardSize), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// alone runs a program on a card, without the recorder.
func alone(t *testing.T, env []string, program ...string) *run {
	t.Helper()
	path := card(t)
	c := exec.Command(program[0], append([]string{path}, program[1:]...)...)
	c.Env = append(os.Environ(), env...)
	return finished(t, c, path)
}

// recorded runs it under the recorder.
func recorded(t *testing.T, env []string, o Options, program ...string) *run {
	t.Helper()
	path := card(t)
	c, out := prepared(t, env, o, path, program...)
	r := finished(t, c, path)
	r.read(out)
	return r
}

func prepared(t *testing.T, env []string, o Options, path string, program ...string) (c *exec.Cmd,
	out string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "out.record")
	o.Program = append([]string{program[0], path}, program[1:]...)
	o.Files = append(o.Files, File{Path: path, Bar: 2, Vendor: 0x1af4, Device: 0x1110})
	text, err := json.Marshal(childOptions{o, out})
	if err != nil {
		t.Fatal(err)
	}
	c = exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), env...), child+"="+string(text))
	return c, out
}

func (r *run) read(path string) {
	file, err := os.Open(path)
	if err != nil {
		r.err = err
		return
	}
	defer file.Close()
	r.capture, r.err = record.Read(file)
}

func finished(t *testing.T, c *exec.Cmd, path string) *run {
	t.Helper()
	var output, said bytes.Buffer
	c.Stdout, c.Stderr = &output, &said
	limit := time.AfterFunc(5*time.Minute, func() { _ = c.Process.Kill() })
	defer limit.Stop()
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &run{exit: c.ProcessState.ExitCode(), output: output.String(), said: said.String(),
		card: data}
}

// compiled builds a program of testdata.
func compiled(t *testing.T, source string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip("needs gcc")
	}
	program := filepath.Join(t.TempDir(), "program")
	args := slices.Concat([]string{"-Wall", "-o", program}, flags, []string{source, "-lpthread"})
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// same compares a recorded run with one without the recorder.
func same(t *testing.T, with, without *run) {
	t.Helper()
	if with.exit != without.exit || with.output != without.output {
		t.Errorf("exit %d with %q, without the recorder %d with %q; it said %s", with.exit,
			with.output, without.exit, without.output, with.said)
	}
	if !bytes.Equal(with.card, without.card) {
		t.Error("the card is not as it is without the recorder")
	}
	if with.err != nil {
		t.Errorf("the record: %v; the recorder said %s", with.err, with.said)
	}
}

// carriedOut replays the list on a card of zeros: every load has to give what
// the stores before it left there, and the end has to be the card's.
func carriedOut(t *testing.T, r *run) {
	t.Helper()
	memory := make([]byte, cardSize)
	for _, a := range r.capture.Records {
		if a.Kind == record.BarWrite {
			copy(memory[a.Offset:], a.Data)
		}
		if got := memory[a.Offset:][:len(a.Data)]; a.Kind == record.BarRead &&
			!bytes.Equal(got, a.Data) {
			t.Fatalf("line %d: a load of %x at %#x, where %x was stored", a.Line, a.Data, a.Offset,
				got)
		}
	}
	if !bytes.Equal(memory, r.card) {
		t.Error("the list does not make the card what it is")
	}
}

// expected is the list that the program itself prints.
func expected(output string) (list []string) {
	for line := range strings.Lines(output) {
		if text, ok := strings.CutPrefix(line, "= "); ok {
			list = append(list, strings.TrimSuffix(text, "\n"))
		}
	}
	return list
}

// differ returns where two lists differ first.
func differ(got, want []string) string {
	for n := range max(len(got), len(want)) {
		at := func(list []string) string {
			if n < len(list) {
				return list[n]
			}
			return "nothing"
		}
		if at(got) != at(want) {
			return fmt.Sprintf("access %d: got %s, want %s", n, at(got), at(want))
		}
	}
	return ""
}
