package fbs_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"lightmetal/tools/check/effort"
)

// TestBuildForABigEndianProcessorFails checks that the error names the cause.
func TestBuildForABigEndianProcessorFails(t *testing.T) {
	effort.SkipShort(t)
	build := exec.Command("go", "build", ".")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=s390x", "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	const want = "undefined: lightmetalSupportsOnlyLittleEndianProcessors"
	if err == nil || !strings.Contains(string(output), want) {
		t.Errorf("go build for s390x: %v\n%s\nwant %q", err, output, want)
	}
}
