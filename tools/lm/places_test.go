package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/capture/importer"
	"lightmetal/tools/image/fail"
)

// TestPlaceInATileNeedsItsOwnFlag, because the commas within a place are not those of a list.
// Values that can be read in both ways are rejected.
func TestPlaceInATileNeedsItsOwnFlag(t *testing.T) {
	const ambiguous = "use one flag for each place"
	for values, want := range map[string]string{
		"1,1,0x30000-0x30003":            "[(1,1) 30000-30003]",
		"0x1,0x1,0x23000":                "[(1,1) 23000-23000]",
		"100,1,0x23000":                  "[(100,1) 23000-23000]",
		"1,1,0x10-0x13":                  "[(1,1) 10-13]",
		"1 1 0x23000-0x233ff":            "[1-1 1-1 23000-233ff]",
		"0x10,0x14":                      "[10-10 14-14]",
		"0x120,0x124,0x128":              "[120-120 124-124 128-128]",
		"0x10,0x14,bar2+0x1 bus:0x1-0x2": "[10-10 14-14 bar2+1-1 bus:1-2]",
		"0x20,0x24,0x28":                 ambiguous,
		"1,2,3":                          ambiguous,
		"0x120,2,11,0x3000":              ambiguous,
		"2,11,0x3000,0x120":              ambiguous,
	} {
		f := importFlags{from: "qemu", poll: strings.Fields(values), ignore: strings.Fields(values)}
		var o importer.Options
		err := fail.Try(func() { o = f.importerOptions("") })
		got := fmt.Sprint(err)
		if err == nil {
			got = rangesText(o.Ignore)
		}
		if !strings.Contains(got, want) || rangesText(o.Poll) != rangesText(o.Ignore) {
			t.Errorf("--ignore %s: %s, want %s", values, got, want)
		}
	}
	out := filepath.Join(t.TempDir(), "i.lmb")
	exit, stdout, stderr := lm(t, "import", "--from", "mmiotrace", "--ignore",
		"1,1,0x23000-0x233ff", "../../testdata/captures/wh.twoop.mmiotrace", "-o", out)
	if exit != 0 || !strings.Contains(stdout+stderr, "the value of 128 loads is ignored") {
		t.Errorf("exit status %d, want 0 and 128 ignored loads:\n%s%s", exit, stdout, stderr)
	}
}

// rangesText returns the ranges of a list as text.
func rangesText(list []importer.Range) string {
	var text []string
	for _, r := range list {
		text = append(text, fmt.Sprintf("%v%x-%x", r.Place, r.First, r.Last))
	}
	return fmt.Sprint(text)
}
