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
	exit, out, _ := lm(t, "import", "--find-frames", "--json", "--from", "record", record, "-o",
		one)
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
	args := []string{"import", "--from", "record", record, "-o", two}
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

// TestWithoutAFrameThereIsNoImage: lm import fails, but lm import --summary only prints that there
// is no frame.
func TestWithoutAFrameThereIsNoImage(t *testing.T) {
	record, image := "../../testdata/captures/wh.nocdram.record.gz",
		filepath.Join(t.TempDir(), "x.lmb")
	exit, out, errors := lm(t, "import", "--find-frames", "--from", "record", record, "-o", image)
	if exit != 65 || !strings.Contains(out, "no frame   ") ||
		!strings.Contains(errors, "no frame was found: ") {
		t.Errorf("exit status %d, want 65 and the reason; output: %s%s", exit, out, errors)
	}
	if _, err := os.Stat(image); err == nil {
		t.Error("an image was written")
	}
	for _, flags := range [][]string{nil, {"--json"}} {
		exit, out, errors = lm(t,
			append([]string{"import", "--find-frames", "--summary", "--from", "record", record},
				flags...)...)
		if exit != 0 || errors != "" || !strings.Contains(out,
			map[bool]string{true: `"found":false`, false: "no frame   "}[flags != nil]) {
			t.Errorf("--summary %v: exit status %d, want 0 and no frame; output: %s%s", flags, exit,
				out, errors)
		}
	}
	for _, args := range [][]string{{"--candidate", "1"}, {"--find-frames", "--candidate", "-1"},
		{"--find-frames", "--frame", "3..9"}, {"--stop", "9.."},
		{"--find-frames", "--without", "fold"}} {
		if exit, out, errors := lm(t,
			append([]string{"import", "--from", "record", record, "-o", image},
				args...)...); exit != 64 {
			t.Errorf("lm import %v: exit status %d, want 64; output: %s%s", args, exit, out, errors)
		}
	}
}
