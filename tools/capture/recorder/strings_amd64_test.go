package recorder

import (
	"testing"

	"lightmetal/tools/capture/record"
)

// TestStringInstructionIsOneLine: a repeated string instruction is one line of the record, with all
// its accesses in order. If an element depends on the one before, the program sees the right data.
func TestStringInstructionIsOneLine(t *testing.T) {
	program := compileProgram(t, "testdata/strings.c", "-O2")
	for scenario, want := range map[string]struct{ lines, accesses int }{
		"fill":   {1, 1 << 20},
		"write":  {1, 1 << 20},
		"words":  {1, 5000},
		"read":   {2, 20000},
		"down":   {100, 100}, // one line each, because the addresses decrease
		"within": {41, 41},
		// The load whose store faults is made a second time.
		"closed": {2, 2*pageSize + 1},
	} {
		t.Run(scenario, func(t *testing.T) {
			with := runRecorded(t, nil, Options{}, program, scenario)
			compareRuns(t, with, runUnrecorded(t, nil, program, scenario))
			checkReplay(t, with)
			lines := 0
			for _, r := range with.capture.Records {
				if r.Kind == record.BarWrite || r.Kind == record.BarRead {
					lines++
				}
			}
			if n := len(with.accesses()); lines != want.lines || n != want.accesses {
				t.Errorf("the record has %d accesses in %d lines, want %d in %d", n, lines,
					want.accesses, want.lines)
			}
		})
	}
}
