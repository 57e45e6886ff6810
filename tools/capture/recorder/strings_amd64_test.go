package recorder

import (
	"testing"

	"lightmetal/tools/capture/record"
)

// TestStringInstructionIsOneLine: of one that repeats, however many accesses it makes, in the
// order in which it makes them. What one element needs of the one before it sees.
func TestStringInstructionIsOneLine(t *testing.T) {
	program := compiled(t, "testdata/strings.c", "-O2")
	for scenario, want := range map[string]struct{ lines, accesses int }{
		"fill":   {1, 1 << 20},
		"write":  {1, 1 << 20},
		"words":  {1, 5000},
		"read":   {2, 20000},
		"down":   {100, 100}, // each of them, as the addresses go down
		"within": {41, 41},
		// the load whose store faults is made again
		"closed": {2, 2*pageSize + 1},
	} {
		t.Run(scenario, func(t *testing.T) {
			with := recorded(t, nil, Options{}, program, scenario)
			same(t, with, alone(t, nil, program, scenario))
			carriedOut(t, with)
			lines := 0
			for _, r := range with.capture.Records {
				if r.Kind == record.BarWrite || r.Kind == record.BarRead {
					lines++
				}
			}
			if n := len(with.accesses()); lines != want.lines || n != want.accesses {
				t.Errorf("%d accesses in %d lines, want %d in %d", n, lines, want.accesses,
					want.lines)
			}
		})
	}
}
