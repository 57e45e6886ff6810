package house

import (
	"go/parser"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// layers has the layer of each wing, a folder of tools. A package may import packages of its
// own wing and of wings in lower layers. Wings of one layer do not import each other.
var layers = map[string]int{
	"lmrun":   0, // the target's program, its files and its arguments
	"lminit":  1, // PID 1 of boot images, which starts lmrun
	"image":   2, // the image on the host: files, listings, tensors
	"capture": 3,
	"look":    3,
	"devices": 3,
	"ship":    3,
	"lm":      4, // what users call: the program,
	"metal":   4, // and the Go API
	"check":   5, // how the project checks itself; test files are exempt
}

func TestEveryFolderOfToolsIsAWing(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "tools"))
	if err != nil {
		t.Fatal(err)
	}
	folders := 0
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		folders++
		if _, known := layers[entry.Name()]; !known {
			t.Errorf("tools/%s is not a wing; move it into one, or add it to layers", entry.Name())
		}
	}
	if folders != len(layers) {
		t.Errorf("tools has %d folders, but layers lists %d wings", folders, len(layers))
	}
}

func TestWingsImportOneWay(t *testing.T) {
	arrows := 0
	visitFiles(t, func(path string) {
		from, isTool := wingOf(path, "tools/")
		if !isTool || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(positions, filepath.Join(root, path), nil,
			parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range importsOf(file) {
			to, isTool := wingOf(imported, "lightmetal/tools/")
			if !isTool || from == to {
				continue
			}
			arrows++
			if layers[to] >= layers[from] {
				t.Errorf("%s imports %s: wing %s may only import wings of lower layers", path,
					imported, from)
			}
		}
	})
	if arrows < 10 {
		t.Errorf("%d imports between wings were found, at least 10 expected", arrows)
	}
}

// wingOf returns the first folder of a path after the prefix. isTool reports whether the path
// has the prefix.
func wingOf(path, prefix string) (wing string, isTool bool) {
	path, isTool = strings.CutPrefix(path, prefix)
	wing, _, _ = strings.Cut(path, "/")
	return wing, isTool
}
