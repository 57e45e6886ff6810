package house

import (
	"go/parser"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// layers has the layer of each folder of tools. A package may import packages of its own folder and
// of folders in lower layers. Folders of one layer must not import each other.
var layers = map[string]int{
	"lmrun":   0, // the target's program, its files and its arguments
	"lminit":  1, // PID 1 of boot images, which starts lmrun
	"image":   2, // the image on the host: files, listings, tensors
	"capture": 3,
	"look":    3,
	"ship":    3,
	"devices": 4, // lm serve writes recordings
	"lm":      5, // the program that users run
	"metal":   5, // the Go API
	"check":   6, // the project's checks; test files are exempt
}

func TestEveryFolderOfToolsHasALayer(t *testing.T) {
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
			t.Errorf("tools/%s has no layer; move it into another folder, or add it to layers",
				entry.Name())
		}
	}
	if folders != len(layers) {
		t.Errorf("tools has %d folders, but layers lists %d", folders, len(layers))
	}
}

func TestToolsImportOnlyLowerLayers(t *testing.T) {
	importCount := 0
	visitFiles(t, func(path string) {
		from, isTool := toolFolder(path, "tools/")
		if !isTool || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(positions, filepath.Join(root, path), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range importsOf(file) {
			to, isTool := toolFolder(imported, "lightmetal/tools/")
			if !isTool || from == to {
				continue
			}
			importCount++
			if layers[to] >= layers[from] {
				t.Errorf("%s imports %s: tools/%s may only import folders of lower layers", path,
					imported, from)
			}
		}
	})
	if importCount < 10 {
		t.Errorf("only %d imports between folders of tools were found, want at least 10",
			importCount)
	}
}

// toolFolder returns the first folder of a path after the prefix. isTool reports whether the path
// has the prefix.
func toolFolder(path, prefix string) (folder string, isTool bool) {
	path, isTool = strings.CutPrefix(path, prefix)
	folder, _, _ = strings.Cut(path, "/")
	return folder, isTool
}
