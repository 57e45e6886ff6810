package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/capture/importer"
	"lightmetal/tools/image/fail"
)

// TestPlaceInATileIsAFlagOfItsOwn: its commas are not those of a list, and
// what may be either is refused.
func TestPlaceInATileIsAFlagOfItsOwn(t *testing.T) {
	const refused = "use one flag for each place"
	for values, want := range map[string]string{
		"1,1,0x30000-0x30003":            "[(1,1) 30000-30003]",
		"0x1,0x1,0x23000":                "[(1,1) 23000-23000]",
		"100,1,0x23000":                  "[(100,1) 23000-23000]",
		"1,1,0x10-0x13":                  "[(1,1) 10-13]",
		"1 1 0x23000-0x233ff":            "[1-1 1-1 23000-233ff]",
		"0x10,0x14":                      "[10-10 14-14]",
		"0x120,0x124,0x128":              "[120-120 124-124 128-128]",
		"0x10,0x14,bar2+0x1 bus:0x1-0x2": "[10-10 14-14 bar2+1-1 bus:1-2]",
		"0x20,0x24,0x28":                 refused,
		"1,2,3":                          refused,
		"0x120,2,11,0x3000":              refused,
		"2,11,0x3000,0x120":              refused,
	} {
		f := importFlags{from: "qemu", poll: strings.Fields(values), ignore: strings.Fields(values)}
		var o importer.Options
		err := fail.Try(func() { o = f.importerOptions("") })
		got := fmt.Sprint(err)
		if err == nil {
			got = told(o.Ignore)
		}
		if !strings.Contains(got, want) || told(o.Poll) != told(o.Ignore) {
			t.Errorf("%s: %s, want %s", values, got, want)
		}
	}
	out := filepath.Join(t.TempDir(), "i.lmb")
	exit, stdout, stderr := lm(t, "import", "--from", "mmiotrace", "--ignore",
		"1,1,0x23000-0x233ff", "../../testdata/captures/wh.twoop.mmiotrace", "-o", out)
	if exit != 0 || !strings.Contains(stdout+stderr, "the value of 128 loads is ignored") {
		t.Errorf("%d\n%s%s", exit, stdout, stderr)
	}
}

func told(list []importer.Range) string {
	var text []string
	for _, r := range list {
		text = append(text, fmt.Sprintf("%v%x-%x", r.Place, r.First, r.Last))
	}
	return fmt.Sprint(text)
}
