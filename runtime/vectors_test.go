package runtime_test

import (
	"testing"

	"lightmetal/tools/check/vectors/reader"
)

// TestRuntimeAgreesWithVectors runs the vectors of testdata here, too, so that they also run on
// arm64, with the race detector and without assembly. They state each access, wait and result of
// every kind of command, of failures and of devices that go away.
func TestRuntimeAgreesWithVectors(t *testing.T) {
	reader.CheckAll(t, "../testdata/vectors", true, &reader.Runtime{})
}
