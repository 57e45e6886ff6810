package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPlaceInATileIsOneOfAList: its commas are not those of the list, so that
// loads in a tile can be ignored, and polled.
func TestPlaceInATileIsOneOfAList(t *testing.T) {
	for text, want := range map[string][]string{
		"1,1,0x30000-0x30003":       {"1,1,0x30000-0x30003"},
		"0x20,0x24,0x28":            {"0x20", "0x24", "0x28"},
		"0x20,2,11,0x8,bus:0x1-0x2": {"0x20", "2,11,0x8", "bus:0x1-0x2"},
	} {
		if got := places(strings.Split(text, ",")); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	out := filepath.Join(t.TempDir(), "i.lmb")
	exit, stdout, stderr := lm(t, "import", "--from", "mmiotrace", "--ignore", "1,1,0x23000-0x233ff", "../../testdata/captures/wh.twoop.mmiotrace", "-o", out)
	if exit != 0 || !strings.Contains(stdout+stderr, "the value of 128 loads is ignored") {
		t.Errorf("%d\n%s%s", exit, stdout, stderr)
	}
}
