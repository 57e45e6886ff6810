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

const patterns = "testdata/patterns.c"

func TestListIsWhatTheProgramDid(t *testing.T) {
	for _, flags := range [][]string{{"-O0"}, {"-O2"}, {"-O3", "-march=native"},
		{"-O2", "-static"}} {
		program := compiled(t, patterns, flags...)
		for _, scenario := range []string{"volatile", "mappings", "children", "exec"} {
			t.Run(strings.Join(append(flags, scenario), " "), func(t *testing.T) {
				with := recorded(t, nil, Options{}, program, scenario)
				same(t, with, alone(t, nil, program, scenario))
				if difference := differ(with.accesses(), expected(with.output)); difference != "" {
					t.Error(difference)
				}
			})
		}
	}
}

// tunings make C's library choose other functions.
var tunings = map[string]string{
	"default":  "",
	"AVX2":     "glibc.cpu.hwcaps=-AVX512VL,-AVX512F",
	"SSE2":     "glibc.cpu.hwcaps=-AVX2,-AVX512VL,-AVX512F,-ERMS,-FSRM",
	"strings":  "glibc.cpu.x86_rep_movsb_threshold=200:glibc.cpu.x86_rep_stosb_threshold=200",
	"temporal": "glibc.cpu.x86_non_temporal_threshold=16448",
}

func TestCopiesOfLibrariesAndCompilersLeaveTheSameBytes(t *testing.T) {
	for _, flags := range [][]string{{"-O0"}, {"-O2"}, {"-O3", "-march=native"}, {"-Os"}} {
		program := compiled(t, patterns, flags...)
		without := alone(t, nil, program, "bulk")
		for name, tuning := range tunings {
			if runtime.GOARCH != "amd64" && name != "default" {
				continue
			}
			t.Run(strings.Join(append(flags, name), " "), func(t *testing.T) {
				with := recorded(t, []string{"GLIBC_TUNABLES=" + tuning}, Options{}, program,
					"bulk")
				same(t, with, without)
				carriedOut(t, with)
				t.Logf("evidence: %d accesses of copies and loops recorded", len(with.accesses()))
			})
		}
	}
}

func TestTwentyThreadsAndSignalsLoseNothing(t *testing.T) {
	program := compiled(t, patterns, "-O2")
	threads := recorded(t, nil, Options{}, program, "threads")
	same(t, threads, alone(t, nil, program, "threads"))
	carriedOut(t, threads)
	if got := len(threads.accesses()); got != 20*200*4+20 {
		t.Errorf("%d accesses of 20 threads, want %d", got, 20*200*4+20)
	}
	signals := recorded(t, nil, Options{}, program, "signals")
	same(t, signals, alone(t, nil, program, "signals"))
	carriedOut(t, signals)
}

func TestProgramGetsItsOwnFaults(t *testing.T) {
	program := compiled(t, patterns, "-O2")
	for _, scenario := range []string{"readonly", "bus", "none"} {
		with := recorded(t, nil, Options{}, program, scenario)
		without := alone(t, nil, program, scenario)
		if with.exit != without.exit || with.output != without.output ||
			len(with.output) == 0 && scenario != "none" {
			t.Errorf("%s: exit %d with %q, without the recorder %d with %q", scenario, with.exit,
				with.output, without.exit, without.output)
		}
	}
	if killed := recorded(t, nil, Options{}, program, "killed"); killed.exit != 128+
		int(unix.SIGTERM) {
		t.Errorf("killed: exit %d", killed.exit)
	}
	if call := recorded(t, nil, Options{}, program, "call"); call.exit != 4 {
		t.Errorf("a system call with a pointer to a BAR: exit %d", call.exit)
	}
}

func TestWhatCannotBeRecordedIsToldAndEndsTheProgram(t *testing.T) {
	program := compiled(t, patterns, "-O2")
	ended := recorded(t, nil, Options{}, program, "unknown")
	if refused := map[string]string{"amd64": "db "}[runtime.GOARCH]; !strings.Contains(ended.said,
		refused) {
		t.Errorf("%q is not among the bytes that it said: %s", refused, ended.said)
	}
	if ended.exit != 128+int(unix.SIGKILL) || ended.output != "" ||
		!strings.Contains(ended.said, "do_unknown") ||
		!strings.Contains(ended.said, "lm does not support the instruction at") {
		t.Errorf("exit %d with %q; it said %s", ended.exit, ended.output, ended.said)
	}
	goesOn := recorded(t, nil, Options{ContinueUnrecorded: true}, program, "unknown")
	if goesOn.exit != 0 || goesOn.output != "2\n" || goesOn.card[0] != 2 {
		t.Errorf("exit %d with %q; it said %s", goesOn.exit, goesOn.output, goesOn.said)
	}
	for _, r := range []*run{ended, goesOn} {
		if !errors.Is(r.err, record.ErrGap) ||
			!slices.Equal(r.accesses(), []string{"W 0 4 01000000"}) {
			t.Errorf("the record: %v, %v", r.err, r.accesses())
		}
	}
}

func TestLimitEndsTheProgramAndTheRecordIsWhole(t *testing.T) {
	program := compiled(t, patterns, "-O2")
	r := recorded(t, nil, Options{AccessLimit: 100}, program, "forever")
	if r.err != nil || len(r.accesses()) != 100 || r.exit != 128+int(unix.SIGKILL) ||
		!strings.Contains(r.said, "limit") {
		t.Errorf("exit %d, record %v, %d accesses; it said %s", r.exit, r.err, len(r.accesses()),
			r.said)
	}
}

func TestInterruptedRecordIsWhole(t *testing.T) {
	program := compiled(t, patterns, "-O2")
	// what is taken here, a program does not inherit as ignored, as behind a shell's &
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, unix.SIGINT)
	defer signal.Stop(taken)
	c, out := prepared(t, nil, Options{}, card(t), program, "forever")
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(pipe).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	if err := unix.Kill(-c.Process.Pid, unix.SIGINT); err != nil { // as a terminal does
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, pipe)
	_ = c.Wait()
	var r run
	if r.read(out); r.err != nil || c.ProcessState.ExitCode() != 128+int(unix.SIGINT) {
		t.Errorf("exit %d, record %v", c.ProcessState.ExitCode(), r.err)
	}
}

func TestProgramThatCannotBeRunIsSaidSo(t *testing.T) {
	for _, program := range []string{"/nowhere/program", os.DevNull} {
		r := recorded(t, nil, Options{}, program)
		if r.exit != 98 || !strings.Contains(r.said, program) {
			t.Errorf("%s: exit %d: %s", program, r.exit, r.said)
		}
		if !errors.Is(r.err, os.ErrNotExist) {
			t.Errorf("%s leaves a record: %v", program, r.err)
		}
	}
}
