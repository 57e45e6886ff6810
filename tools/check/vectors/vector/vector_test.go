package vector

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTextOfEveryVectorIsReadBack parses all vectors of the tree, and prints them again.
func TestTextOfEveryVectorIsReadBack(t *testing.T) {
	paths, err := filepath.Glob("../../../../testdata/vectors/*.vec")
	if err != nil || len(paths) == 0 {
		t.Fatalf("testdata/vectors has no vectors, or error %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			vectors, err := Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(string(text), "\n\n")
			printed := head + "\n"
			for _, v := range vectors {
				printed += "\n" + v.String()
			}
			if printed != string(text) {
				t.Error("the text differs after it was parsed and printed")
			}
		})
	}
}

func TestInvalidLinesAreErrors(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"unknown word", "jump 0", "unknown word"},
		{"missing word", "load device0.bar0 0x0 4", "too few words"},
		{"surplus word", "run 0 1", "too many words"},
		{"number", "run zero", "not a number"},
		{"bytes", "input 0 0q", "hexadecimal"},
		{"space", "load bar0 0x0 4 0x0", "not a BAR"},
		{"BAR", "load device0.bar 0x0 4 0x0", "not a BAR"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("vector v\nimage i.lmb\n" + test.line + "\n")
			if err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.Contains(err.Error(), "line 3") {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	if _, err := Parse("run 0\n"); err == nil {
		t.Error("a line before the first vector: no error")
	}
}

func TestFileIsResizedAndThenPatched(t *testing.T) {
	base := []byte{1, 2, 3, 4}
	tests := []struct {
		name    string
		size    int
		patches []Patch
		want    []byte
		isError bool
	}{
		{"unchanged", -1, nil, []byte{1, 2, 3, 4}, false},
		{"truncated", 2, nil, []byte{1, 2}, false},
		{"empty", 0, nil, []byte{}, false},
		{"extended and patched", 6, []Patch{{5, []byte{9}}, {0, []byte{7, 8}}},
			[]byte{7, 8, 3, 4, 0, 9}, false},
		{"patch outside", -1, []Patch{{3, []byte{1, 2}}}, nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := &Vector{Size: test.size, Patches: test.patches}
			got, err := v.File(base)
			if (err != nil) != test.isError || !slices.Equal(got, test.want) {
				t.Errorf("file %v, error %v, want %v, an error: %v", got, err, test.want,
					test.isError)
			}
		})
	}
}
