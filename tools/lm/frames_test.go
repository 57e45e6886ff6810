package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFlagsThatFindFramesPrintsMakeTheSameImage reads the flags from the report, which also has the
// frames that were found.
func TestFlagsThatFindFramesPrintsMakeTheSameImage(t *testing.T) {
	record, dir := "../../testdata/captures/wh.frames.record.gz", t.TempDir()
	one, two := filepath.Join(dir, "one.lmb"), filepath.Join(dir, "two.lmb")
	exit, out, _ := lm(t, "import", "--reproducible", "--find-frames", "--json", "--from",
		"record", record, "-o", one)
	var report struct {
		Frames struct {
			Found      bool
			Flags      []string
			Candidates []struct{ Times int }
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || exit != 0 ||
		!report.Frames.Found || report.Frames.Candidates[0].Times != 5 {
		t.Fatalf("exit status %d, want 0 and a frame that occurs 5 times (%v): %s", exit, err, out)
	}
	args := []string{"import", "--reproducible", "--from", "record", record, "-o", two}
	for _, flag := range report.Frames.Flags {
		args = append(args, strings.SplitN(flag, " ", 2)...)
	}
	if exit, out, errors := lm(t, args...); exit != 0 {
		t.Fatalf("lm %v: exit status %d, want 0; output: %s%s", args, exit, out, errors)
	}
	a, errA := os.ReadFile(one)
	b, errB := os.ReadFile(two)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the flags of --find-frames make another image (%v, %v)", errA, errB)
	}
	exit, out, _ = lm(t, "replay", "--device", "mock:wormhole", "--before", "init", "--sequence",
		"frame", "--check-golden", one)
	if exit != 0 {
		t.Errorf("exit status %d, want 0; output: %s", exit, out)
	}
}
