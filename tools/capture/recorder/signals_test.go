//go:build linux && (amd64 || arm64)

package recorder

import (
	"regexp"
	"testing"
)

// TestHandlersOutliveAccessesWithSignalsBlocked: each access is a fault, at which
// the kernel resets the handler of a signal that is blocked or ignored.
func TestHandlersOutliveAccessesWithSignalsBlocked(t *testing.T) {
	program := compiled(t, "testdata/signals.c", "-O1")
	with, without := recorded(t, nil, Options{}, program), alone(t, nil, program)
	place := regexp.MustCompile(`0x[0-9a-f]{9,}`) // of the BAR, which is another in each run
	with.output, without.output = place.ReplaceAllString(with.output, "BAR"),
		place.ReplaceAllString(without.output, "BAR")
	same(t, with, without)
	if with.exit != 0 {
		t.Errorf("exit %d: %s", with.exit, with.output)
	}
}
