package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wings are the folders of tools, from the lowest layer to the highest. A package may import
// packages of its own wing and of wings in lower layers. Wings of one layer do not import
// each other.
var wings = [][]string{
	{"lmrun"},  // the target's program, its files and its arguments
	{"lminit"}, // PID 1 of boot images, which starts lmrun
	{"image"},  // the image on the host: files, listings, tensors
	{"capture", "look", "devices", "ship"},
	{"lm", "metal"}, // what users call: the program and the Go API
	{"check"},       // how the project checks itself; test files are exempt
}

// layers returns the layer of each wing, counted from 0.
func layers() map[string]int {
	layer := map[string]int{}
	for i, names := range wings {
		for _, name := range names {
			layer[name] = i
		}
	}
	return layer
}

func TestEveryFolderOfToolsIsAWing(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "tools"))
	if err != nil {
		t.Fatal(err)
	}
	layer := layers()
	for _, entry := range entries {
		if _, known := layer[entry.Name()]; entry.IsDir() && !known {
			t.Errorf("tools/%s is no wing; move it into one, or add it to wings", entry.Name())
		}
		delete(layer, entry.Name())
	}
	for name := range layer {
		t.Errorf("tools/%s is listed in wings and does not exist", name)
	}
}

func TestWingsImportOneWay(t *testing.T) {
	const prefix = "lightmetal/tools/"
	layer, arrows := layers(), 0
	for _, folder := range foldersWithSources(t) {
		for name, file := range sources(t, folder) {
			from := wingOf(strings.TrimPrefix(name, "tools/"))
			for _, imported := range importsOf(file) {
				path, isTool := strings.CutPrefix(imported, prefix)
				to := wingOf(path)
				if !isTool || from == to {
					continue
				}
				arrows++
				if layer[to] >= layer[from] {
					t.Errorf("%s imports %s: wing %s may only import wings of lower layers", name,
						imported, from)
				}
			}
		}
	}
	if arrows < 10 {
		t.Errorf("%d imports between wings were found, at least 10 expected", arrows)
	}
}

func wingOf(path string) string {
	wing, _, _ := strings.Cut(path, "/")
	return wing
}

// foldersWithSources returns the folders of tools that have Go files which are not tests,
// relative to the root.
func foldersWithSources(t *testing.T) (list []string) {
	t.Helper()
	tools := filepath.Join(root, "tools")
	err := filepath.WalkDir(tools, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if entry.Name() == "testdata" {
			return filepath.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				folder, err := filepath.Rel(root, path)
				list = append(list, folder)
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
