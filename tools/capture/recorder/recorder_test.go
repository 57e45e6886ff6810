//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"cmp"
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

	"golang.org/x/sys/unix"
)

const cardSize = 1 << 20 // bytes of the file that represents a BAR

// childVariable is the environment variable that passes childOptions to a process of the test's own
// program, in which no test runs. The recorder runs there.
const childVariable = "LM_RECORDER_OPTIONS"

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Unsetenv(childVariable)
		setCopiesByBytes()
		replaceRequest()
		kvmFile = cmp.Or(os.Getenv(kvmVariable), kvmFile)
		os.Exit(runChild(text))
	}
	var err error
	if programFolder, err = os.MkdirTemp("", "lm-recorder-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	exit := m.Run()
	os.RemoveAll(programFolder)
	os.Exit(exit)
}

// childOptions contains the options of the recorder and the path of the record.
type childOptions struct {
	Options
	Path string
}

// runChild runs the recorder with the options that text contains, and returns the exit status.
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

// runResult is the result of running a program with or without the recorder.
type runResult struct {
	exit     int    // status
	output   string // of the program
	messages string // of the recorder
	card     []byte // the file that represents a BAR, after the run
	capture  *record.Capture
	err      error // of reading the record
}

// accesses returns the loads and stores of the record as the format writes them, without the BAR.
func (r *runResult) accesses() (list []string) {
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

// eventLines returns the texts of the record's EVENT lines.
func (r *runResult) eventLines() (list []string) {
	for _, a := range r.capture.Records {
		if a.Kind == record.Event {
			list = append(list, string(a.Data))
		}
	}
	return list
}

// createCard creates a file of zeros that represents a BAR, and returns its path.
func createCard(t *testing.T) string {
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

// mapCard maps the file of a card, so that the test can act as the device.
func mapCard(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	card, err := unix.Mmap(int(file.Fd()), 0, cardSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(card) })
	return card
}

// runUnrecorded runs a program on a new card, without the recorder.
func runUnrecorded(t *testing.T, env []string, program ...string) *runResult {
	t.Helper()
	path := createCard(t)
	c := exec.Command(program[0], append([]string{path}, program[1:]...)...)
	c.Env = append(os.Environ(), env...)
	return runCommand(t, c, path)
}

// runRecorded runs a program on a new card under the recorder, and reads the record.
func runRecorded(t *testing.T, env []string, o Options, program ...string) *runResult {
	t.Helper()
	path := createCard(t)
	c, out := recorderCommand(t, env, o, path, program...)
	r := runCommand(t, c, path)
	r.readRecord(out)
	return r
}

// recorderCommand returns the command that runs a program on a card under the recorder, and the
// path of the record.
func recorderCommand(t *testing.T, env []string, o Options, path string,
	program ...string) (c *exec.Cmd, out string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "out.record")
	o.Program = append([]string{program[0], path}, program[1:]...)
	o.Files = append(o.Files, File{Path: path, Bar: 2, Vendor: 0x1af4, Device: 0x1110})
	text, err := json.Marshal(childOptions{o, out})
	if err != nil {
		t.Fatal(err)
	}
	c = exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), env...), childVariable+"="+string(text))
	return c, out
}

// readRecord reads the record into capture and err.
func (r *runResult) readRecord(path string) {
	file, err := os.Open(path)
	if err != nil {
		r.err = err
		return
	}
	defer file.Close()
	r.capture, r.err = record.Read(file)
}

// runCommand runs a command for at most 5 minutes. path is the file of its card.
func runCommand(t *testing.T, c *exec.Cmd, path string) *runResult {
	t.Helper()
	var output, messages bytes.Buffer
	c.Stdout, c.Stderr = &output, &messages
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
	return &runResult{exit: c.ProcessState.ExitCode(), output: output.String(),
		messages: messages.String(), card: data}
}

// programs has the paths of the programs that compileProgram has built, by flags and source. They
// are in programFolder.
var (
	programs      = map[string]string{}
	programFolder string
)

// compileProgram builds a C program of testdata, unless that was done before, and returns the path
// of the program.
func compileProgram(t *testing.T, source string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip("needs gcc")
	}
	key := strings.Join(slices.Concat(flags, []string{source}), " ")
	program := programs[key]
	if program != "" {
		return program
	}
	program = filepath.Join(programFolder, fmt.Sprintf("program%d", len(programs)))
	args := slices.Concat([]string{"-Wall", "-o", program}, flags, []string{source, "-lpthread"})
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("compiling %s: %v\n%s", source, err, out)
	}
	programs[key] = program
	return program
}

// compareRuns compares exit status, output and card of a recorded run with those of a run without
// the recorder.
func compareRuns(t *testing.T, with, without *runResult) {
	t.Helper()
	if with.exit != without.exit || with.output != without.output {
		t.Errorf("exit status %d and output %q, without the recorder %d and %q; messages: %s",
			with.exit, with.output, without.exit, without.output, with.messages)
	}
	if !bytes.Equal(with.card, without.card) {
		t.Error("the program left other data on the card than without the recorder")
	}
	if with.err != without.err {
		t.Errorf("reading the record: %v; messages of the recorder: %s", with.err, with.messages)
	}
}

// checkReplay makes the recorded stores on a card of zeros. Each recorded load must have the data
// that the stores before it left there, and the result must equal the card after the run.
func checkReplay(t *testing.T, r *runResult) {
	t.Helper()
	memory := make([]byte, cardSize)
	for _, a := range r.capture.Records {
		if a.Kind == record.BarWrite {
			copy(memory[a.Offset:], a.Data)
		}
		if got := memory[a.Offset:][:len(a.Data)]; a.Kind == record.BarRead &&
			!bytes.Equal(got, a.Data) {
			t.Fatalf("line %d of the record: load of %x at %#x, but %x was stored there", a.Line,
				a.Data, a.Offset, got)
		}
	}
	if !bytes.Equal(memory, r.card) {
		t.Error("the recorded stores leave other data on the card than the program")
	}
}

// printedAccesses returns the accesses that the program itself printed, in lines that begin with =.
func printedAccesses(output string) (list []string) {
	for line := range strings.Lines(output) {
		if text, ok := strings.CutPrefix(line, "= "); ok {
			list = append(list, strings.TrimSuffix(text, "\n"))
		}
	}
	return list
}

// firstDifference describes the first element in which two lists differ, or returns "".
func firstDifference(got, want []string) string {
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
