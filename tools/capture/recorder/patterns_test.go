//go:build linux && (amd64 || arm64)

package recorder

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lightmetal/tools/capture/record"

	"golang.org/x/sys/unix"
)

const patternsSource = "testdata/patterns.c"

func TestRecordListsTheAccessesOfTheProgram(t *testing.T) {
	for _, flags := range [][]string{{"-O0"}, {"-O2"}, {"-O3", "-march=native"},
		{"-O2", "-static"}} {
		program := compileProgram(t, patternsSource, flags...)
		for _, scenario := range []string{"volatile", "mappings", "children", "exec"} {
			t.Run(strings.Join(append(flags, scenario), " "), func(t *testing.T) {
				with := runRecorded(t, nil, Options{}, program, scenario)
				compareRuns(t, with, runUnrecorded(t, nil, program, scenario))
				if difference := firstDifference(with.accesses(),
					printedAccesses(with.output)); difference != "" {
					t.Errorf("accesses of the record: %s", difference)
				}
			})
		}
	}
}

// tunings are values of GLIBC_TUNABLES, with which the C library chooses other copy functions.
var tunings = map[string]string{
	"default":  "",
	"AVX2":     "glibc.cpu.hwcaps=-AVX512VL,-AVX512F",
	"SSE2":     "glibc.cpu.hwcaps=-AVX2,-AVX512VL,-AVX512F,-ERMS,-FSRM",
	"strings":  "glibc.cpu.x86_rep_movsb_threshold=200:glibc.cpu.x86_rep_stosb_threshold=200",
	"temporal": "glibc.cpu.x86_non_temporal_threshold=16448",
}

func TestCopiesOfLibrariesAndCompilersLeaveTheSameBytes(t *testing.T) {
	for _, flags := range [][]string{{"-O0"}, {"-O2"}, {"-O3", "-march=native"}, {"-Os"}} {
		program := compileProgram(t, patternsSource, flags...)
		without := runUnrecorded(t, nil, program, "bulk")
		for name, tuning := range tunings {
			if runtime.GOARCH != "amd64" && name != "default" {
				continue
			}
			t.Run(strings.Join(append(flags, name), " "), func(t *testing.T) {
				with := runRecorded(t, []string{"GLIBC_TUNABLES=" + tuning}, Options{}, program,
					"bulk")
				compareRuns(t, with, without)
				checkReplay(t, with)
				t.Logf("evidence: %d accesses of copies and loops recorded", len(with.accesses()))
			})
		}
	}
}

func TestTwentyThreadsAndSignalsLoseNothing(t *testing.T) {
	program := compileProgram(t, patternsSource, "-O2")
	threads := runRecorded(t, nil, Options{}, program, "threads")
	compareRuns(t, threads, runUnrecorded(t, nil, program, "threads"))
	checkReplay(t, threads)
	if got := len(threads.accesses()); got != 20*200*4+20 {
		t.Errorf("the record has %d accesses of 20 threads, want %d", got, 20*200*4+20)
	}
	signals := runRecorded(t, nil, Options{}, program, "signals")
	compareRuns(t, signals, runUnrecorded(t, nil, program, "signals"))
	checkReplay(t, signals)
}

func TestProgramGetsItsOwnFaults(t *testing.T) {
	program := compileProgram(t, patternsSource, "-O2")
	for _, scenario := range []string{"readonly", "bus", "none"} {
		with := runRecorded(t, nil, Options{}, program, scenario)
		without := runUnrecorded(t, nil, program, scenario)
		if with.exit != without.exit || with.output != without.output ||
			len(with.output) == 0 && scenario != "none" {
			t.Errorf("%s: exit status %d and output %q, without the recorder %d and %q", scenario,
				with.exit, with.output, without.exit, without.output)
		}
	}
	if killed := runRecorded(t, nil, Options{}, program, "killed"); killed.exit != 128+
		int(unix.SIGTERM) {
		t.Errorf("killed: exit status %d, want %d", killed.exit, 128+int(unix.SIGTERM))
	}
	if call := runRecorded(t, nil, Options{}, program, "call"); call.exit != 4 {
		t.Errorf("system call with a pointer to a BAR: exit status %d, want 4", call.exit)
	}
}

func TestUnsupportedInstructionIsReportedAndEndsTheProgram(t *testing.T) {
	flags, code := []string{"-O2"}, ": db " // FILD
	if runtime.GOARCH == "arm64" {
		// Without the flag, the exclusive load is in a function of the compiler's library.
		flags, code = append(flags, "-mno-outline-atomics"), ": 885f" // LDAXR of 4 bytes
	}
	program := compileProgram(t, patternsSource, flags...)
	ended := runRecorded(t, nil, Options{}, program, "unknown")
	if !strings.Contains(ended.messages, code) {
		t.Errorf("the messages lack the code %q of the instruction: %s", code, ended.messages)
	}
	if ended.exit != 128+int(unix.SIGKILL) || ended.output != "" ||
		!strings.Contains(ended.messages, "do_unknown") ||
		!strings.Contains(ended.messages, "lm does not support the instruction at") {
		t.Errorf("exit status %d and output %q, want the program killed; messages: %s", ended.exit,
			ended.output, ended.messages)
	}
	continued := runRecorded(t, nil, Options{ContinueUnrecorded: true}, program, "unknown")
	if continued.exit != 0 || continued.output != "2\n" || continued.card[0] != 2 {
		t.Errorf("ContinueUnrecorded: exit status %d and output %q, want 0 and 2; messages: %s",
			continued.exit, continued.output, continued.messages)
	}
	for _, r := range []*runResult{ended, continued} {
		if !errors.Is(r.err, record.ErrGap) ||
			!slices.Equal(r.accesses(), []string{"W 0 4 01000000"}) {
			t.Errorf("record: %v, accesses %v; want a gap and the first store", r.err, r.accesses())
		}
	}
}

func TestLimitEndsTheProgramAndTheRecordIsComplete(t *testing.T) {
	program := compileProgram(t, patternsSource, "-O2")
	r := runRecorded(t, nil, Options{AccessLimit: 100}, program, "forever")
	if r.err != nil || len(r.accesses()) != 100 || r.exit != 128+int(unix.SIGKILL) ||
		!strings.Contains(r.messages, "limit") {
		t.Errorf("exit status %d, record: %v, %d accesses, want a killed program and 100; "+
			"messages: %s", r.exit, r.err, len(r.accesses()), r.messages)
	}
}

func TestInterruptedRecordIsComplete(t *testing.T) {
	program := compileProgram(t, patternsSource, "-O2")
	// A shell that starts the test with & lets it ignore SIGINT. The program does not inherit that
	// if the test handles SIGINT.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, unix.SIGINT)
	defer signal.Stop(interrupts)
	c, out := recorderCommand(t, nil, Options{}, createCard(t), program, "forever")
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(pipe).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the program printed %q, want ready: %v", line, err)
	}
	if err := unix.Kill(-c.Process.Pid, unix.SIGINT); err != nil { // as a terminal does
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, pipe)
	_ = c.Wait()
	var r runResult
	if r.readRecord(out); r.err != nil || c.ProcessState.ExitCode() != 128+int(unix.SIGINT) {
		t.Errorf("exit status %d, record: %v; want %d and a complete record",
			c.ProcessState.ExitCode(), r.err, 128+int(unix.SIGINT))
	}
}

func TestProgramThatCannotBeRunIsReported(t *testing.T) {
	for _, program := range []string{"/nowhere/program", os.DevNull} {
		r := runRecorded(t, nil, Options{}, program)
		if r.exit != 98 || !strings.Contains(r.messages, program) {
			t.Errorf("%s: exit status %d, want 98 and a message with the name: %s", program, r.exit,
				r.messages)
		}
		if !errors.Is(r.err, os.ErrNotExist) {
			t.Errorf("%s: the recorder left a record: %v", program, r.err)
		}
	}
}
