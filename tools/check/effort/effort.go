// Package effort says how much a test tries: little with -short, as in `./build.sh test quick`;
// what finds the faults of a change in `./build.sh test`; and everything in `./build.sh test
// nightly`, which sets LM_NIGHTLY. tools/check/README.md says when each runs.
package effort

import (
	"os"
	"testing"
)

func isNightly() bool { return os.Getenv("LM_NIGHTLY") == "1" }

// Cases returns how many random or repeated cases a test tries.
func Cases(short, test, nightly int) int {
	switch {
	case isNightly():
		return nightly
	case testing.Short():
		return short
	}
	return test
}

// SkipShort skips a test that takes more than about a second of a processor and cannot try less, or
// whose result is the same on every processor.
func SkipShort(t testing.TB) {
	t.Helper()
	if testing.Short() && !isNightly() {
		t.Skip("not with -short")
	}
}

// SkipUnlessNightly skips a test that takes long and seldom finds what no other test finds.
func SkipUnlessNightly(t testing.TB) {
	t.Helper()
	if !isNightly() {
		t.Skip("only in ./build.sh test nightly")
	}
}
