package fbs

import (
	"math"
	"testing"
)

// TestRingWrapsBeforeAnEntryThatDoesNotFit also at the end of the address space.
func TestRingWrapsBeforeAnEntryThatDoesNotFit(t *testing.T) {
	const end = math.MaxUint64
	r := &Ring{Begin: end - 8, End: end, First: end - 8}
	for _, test := range []struct {
		position, step, value uint64
		isNewLap              bool
	}{
		{end - 8, 8, end - 8, false},
		{end - 4, 4, end - 4, false},
		{end - 4, 5, end - 8, true},
		{end, 1, end - 8, true},
	} {
		value, isNewLap := NextRingValue(r, test.position, test.step)
		if value != test.value || isNewLap != test.isNewLap {
			t.Errorf("%#x + %d: %#x, %v, want %#x, %v", test.position, test.step, value, isNewLap,
				test.value, test.isNewLap)
		}
	}
}
