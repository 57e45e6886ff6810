//go:build linux && (amd64 || arm64)

package recorder

import (
	"regexp"
	"testing"
)

// TestHandlersSurviveAccessesWithSignalsBlocked: each access is a fault. If the fault's signal is
// blocked or ignored, the kernel resets its handler, which the recorder must restore.
func TestHandlersSurviveAccessesWithSignalsBlocked(t *testing.T) {
	program := compileProgram(t, "testdata/signals.c", "-O1")
	with, without := runRecorded(t, nil, Options{}, program), runUnrecorded(t, nil, program)
	address := regexp.MustCompile(`0x[0-9a-f]{9,}`) // of the BAR, which differs in each run
	with.output, without.output = address.ReplaceAllString(with.output, "BAR"),
		address.ReplaceAllString(without.output, "BAR")
	compareRuns(t, with, without)
	if with.exit != 0 {
		t.Errorf("exit status %d, want 0; output: %s", with.exit, with.output)
	}
}
