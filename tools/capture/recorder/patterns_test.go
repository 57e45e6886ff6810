//go:build linux && (amd64 || arm64)

package recorder

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/capture/record"
	"lightmetal/tools/check/effort"

	"golang.org/x/sys/unix"
)

// tunings are values of GLIBC_TUNABLES, with which the C library chooses other copy functions.
var tunings = map[string]string{
	"default":  "",
	"AVX2":     "glibc.cpu.hwcaps=-AVX512VL,-AVX512F",
	"SSE2":     "glibc.cpu.hwcaps=-AVX2,-AVX512VL,-AVX512F,-ERMS,-FSRM",
	"strings":  "glibc.cpu.x86_rep_movsb_threshold=200:glibc.cpu.x86_rep_stosb_threshold=200",
	"temporal": "glibc.cpu.x86_non_temporal_threshold=16448",
}

func TestCopiesOfLibrariesAndCompilersLeaveTheSameBytes(t *testing.T) {
	effort.SkipShort(t)
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
