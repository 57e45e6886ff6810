package house

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"lightmetal/tools/check/house/measure"
)

const (
	columnsMax = 100
	tabColumns = 4
)

// columnsOf returns the width of a line without its newline.
func columnsOf(line []byte) int {
	return utf8.RuneCount(line) + (tabColumns-1)*bytes.Count(line, []byte("\t"))
}

// longLines describes the lines of a text with more than columnsMax columns.
func longLines(path string, text []byte) (found []string) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if n := columnsOf(bytes.TrimSuffix(line, []byte("\n"))); n > columnsMax {
			found = append(found, fmt.Sprintf("%s:%d: %d columns, at most %d", path, number, n,
				columnsMax))
		}
	}
	return found
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

// TestLinesHaveHundredColumns fails for each line of a source that is longer. Generated code is
// exempt.
func TestLinesHaveHundredColumns(t *testing.T) {
	visitFiles(t, func(path string) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		isGenerated, err := measure.IsGenerated(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if !isSource(path, text) || isGenerated {
			return
		}
		for _, line := range longLines(path, text) {
			t.Error(line)
		}
	})
}

func TestColumnsAreCounted(t *testing.T) {
	tests := []struct {
		name, text string
		want       int
	}{
		{"empty", "", 0},
		{"hundred", strings.Repeat("x", 100), 0},
		{"hundred characters of two bytes", strings.Repeat("ü", 100) + "\n", 0},
		{"one too many", strings.Repeat("x", 101), 1},
		{"tab of four columns", "\t" + strings.Repeat("x", 96) + "\n", 0},
		{"tab and one too many", "\t" + strings.Repeat("x", 97) + "\n", 1},
		{"second line", "a\n" + strings.Repeat("x", 101) + "\n", 1},
		{"three lines", strings.Repeat(strings.Repeat("x", 101)+"\n", 3), 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := len(longLines("x.go", []byte(test.text))); got != test.want {
				t.Errorf("%d long lines found, want %d", got, test.want)
			}
		})
	}
}
