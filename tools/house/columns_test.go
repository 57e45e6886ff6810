package house

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"lightmetal/tools/house/measure"
)

var update = flag.Bool("update", false, "write columns.txt again")

const (
	columnsMax  = 100 // of a line, a tab being 4
	columnsList = "columns.txt"
)

// longLines counts the lines of a text with more than columnsMax columns.
func longLines(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if utf8.RuneCount(line)+3*bytes.Count(line, []byte("\t")) > columnsMax {
			n++
		}
	}
	return n
}

// isSource reports whether a file is Go, assembly, C or shell.
func isSource(path string, text []byte) bool {
	switch filepath.Ext(path) {
	case ".go", ".s", ".S", ".c", ".h", ".sh":
		return true
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	return bytes.HasPrefix(first, []byte("#!")) && bytes.Contains(first, []byte("sh"))
}

// readColumns reads the list: lines of a number and a path.
func readColumns(text string) (map[string]int, error) {
	list := map[string]int{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var n int
		var path string
		if _, err := fmt.Sscanf(line, "%d %s\n", &n, &path); err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %q is not a number and a path", columnsList, line)
		}
		list[path] = n
	}
	return list, nil
}

func writeColumns(counts map[string]int) string {
	var text strings.Builder
	text.WriteString("# Lines of more than 100 columns, by file. Numbers only come down: " +
		"go test ./tools/house -run Columns -update\n")
	for _, path := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&text, "%d %s\n", counts[path], path)
	}
	return text.String()
}

// risen names the files with more long lines than are listed.
func risen(counts, list map[string]int) (names []string) {
	for _, path := range slices.Sorted(maps.Keys(counts)) {
		if counts[path] > list[path] {
			names = append(names, fmt.Sprintf("%s has %d lines of more than %d columns, "+
				"%d are listed; break them", path, counts[path], columnsMax, list[path]))
		}
	}
	return names
}

// TestLinesHaveHundredColumns fails if a file has more long lines than columns.txt lists,
// until no file has any.
func TestLinesHaveHundredColumns(t *testing.T) {
	counts, all := map[string]int{}, 0
	eachFile(t, func(path string) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if !isSource(path, text) {
			return
		}
		isGenerated, err := measure.IsGenerated(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if n := longLines(text); n > 0 && !isGenerated {
			counts[path] = n
			all += n
		}
	})
	text, err := os.ReadFile(columnsList)
	if err != nil {
		t.Fatal(err)
	}
	list, err := readColumns(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range risen(counts, list) {
		t.Error(what)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(columnsList, []byte(writeColumns(counts)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listed := 0
	for _, n := range list {
		listed += n
	}
	t.Logf("%d lines of more than %d columns in %d files, %d are listed", all, columnsMax,
		len(counts), listed)
	if all < listed {
		t.Log("go test ./tools/house -run Columns -update takes the list down")
	}
}

// TestColumnsAreCounted tries the check on texts.
func TestColumnsAreCounted(t *testing.T) {
	for text, want := range map[string]int{
		"":                                               0,
		strings.Repeat("x", 100):                         0,
		strings.Repeat("ü", 100) + "\n":                  0,
		strings.Repeat("x", 101):                         1,
		"\t" + strings.Repeat("x", 96) + "\n":            0,
		"\t" + strings.Repeat("x", 97) + "\n":            1,
		"a\n" + strings.Repeat("x", 101) + "\n":          1,
		strings.Repeat(strings.Repeat("x", 101)+"\n", 3): 3,
	} {
		if got := longLines([]byte(text)); got != want {
			t.Errorf("%.20q: %d, want %d", text, got, want)
		}
	}
	list, err := readColumns("# A comment.\n2 a.go\n1 b.go\n")
	if err != nil {
		t.Fatal(err)
	}
	now := map[string]int{"a.go": 3, "b.go": 1, "new.go": 1}
	if found := risen(now, list); len(found) != 2 || !strings.HasPrefix(found[0], "a.go has 3") ||
		!strings.HasPrefix(found[1], "new.go has 1") {
		t.Errorf("%q", found)
	}
	if found := risen(map[string]int{"a.go": 1}, list); found != nil {
		t.Errorf("%q", found)
	}
	if _, err := readColumns("many a.go\n"); err == nil {
		t.Error("a list without numbers is read")
	}
}
