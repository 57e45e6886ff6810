package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The flags that --find-frames prints make the same image, and what it found is
// in the report, as text and as JSON.
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
		t.Fatalf("%d %v %s", exit, err, out)
	}
	args := []string{"import", "--from", "record", record, "-o", two}
	for _, flag := range report.Frames.Flags {
		args = append(args, strings.SplitN(flag, " ", 2)...)
	}
	if exit, out, errors := lm(t, args...); exit != 0 {
		t.Fatal(exit, out, errors)
	}
	a, errA := os.ReadFile(one)
	b, errB := os.ReadFile(two)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Error("another image", errA, errB)
	}
	exit, out, _ = lm(t, "replay", "--device", "mock:wormhole", "--before", "init", "--sequence",
		"frame", "--check-golden", one)
	if exit != 0 {
		t.Error(exit, out)
	}
}

// Without a frame there is no image; --summary only tells.
func TestWithoutAFrameThereIsNoImage(t *testing.T) {
	record, image := "../../testdata/captures/wh.nocdram.record.gz",
		filepath.Join(t.TempDir(), "x.lmb")
	exit, out, errors := lm(t, "import", "--find-frames", "--from", "record", record, "-o", image)
	if exit != 65 || !strings.Contains(out, "no frame   ") ||
		!strings.Contains(errors, "no frame was found: ") {
		t.Error(exit, out, errors)
	}
	if _, err := os.Stat(image); err == nil {
		t.Error("an image is there")
	}
	for _, flags := range [][]string{nil, {"--json"}} {
		exit, out, errors = lm(t,
			append([]string{"import", "--find-frames", "--summary", "--from", "record", record},
				flags...)...)
		if exit != 0 || errors != "" || !strings.Contains(out,
			map[bool]string{true: `"found":false`, false: "no frame   "}[flags != nil]) {
			t.Error(flags, exit, out, errors)
		}
	}
	for _, args := range [][]string{{"--candidate", "1"}, {"--find-frames", "--candidate", "-1"},
		{"--find-frames", "--frame", "3..9"}, {"--stop", "9.."},
		{"--find-frames", "--without", "fold"}} {
		if exit, out, errors := lm(t,
			append([]string{"import", "--from", "record", record, "-o", image},
				args...)...); exit != 64 {
			t.Error(args, exit, out, errors)
		}
	}
}
