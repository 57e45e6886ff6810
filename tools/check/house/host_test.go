package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// foldersOfOthers are the folders that belong neither to the target, whose packages imports lists,
// nor to the host tools, with the reason.
var foldersOfOthers = map[string]string{
	"tools/check/guest":                        "what only tests run: machines",
	"tools/check/guest/inside":                 "what only tests run: programs in machines",
	"tools/check/coverage":                     "what only tests run: reached instructions",
	"tools/check/coverage/corpus":              "what only tests run: images for machines",
	"tools/check/coverage/reach":               "what only tests run: reached functions",
	"tools/check/coverage/trace":               "what only tests run: reached instructions",
	"tools/check/pages":                        "what only tests run: the commands of pages",
	"tools/check/simulate":                     "what only tests run: a simulated world",
	"tools/check/simulate/images":              "what only tests run: images at random",
	"tools/check/simulate/kernel":              "what only tests run: a simulated world",
	"tools/check/simulate/world":               "what only tests run: a simulated world",
	"tools/image/lmb/lmbtest":                  "what only tests run: helpers",
	"tools/capture/recorder/testdata/patterns": "what only tests run: a program that is recorded",
	"testdata/workloads":                       "what only tests run: programs that are captured",
	"testdata/workloads/run":                   "what only tests run: programs that are captured",
	"testdata/kernels/metal":                   "what only tests run: programs that are captured",
}

// functionMax is the largest number of lines of a function of the host tools.
const functionMax = 60

// isOfTarget reports whether a folder is a package of the target or is made from its schema.
func isOfTarget(folder string) bool {
	_, listed := imports[folder]
	return listed && folder != "boards/chips" // which mocks and host tools import
}

// hostFiles returns the paths of the sources of the host tools, without tests.
func hostFiles(t *testing.T) (list []string) {
	t.Helper()
	eachFile(t, func(path string) {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
			!isOfTarget(filepath.Dir(path)) && foldersOfOthers[filepath.Dir(path)] == "" {
			list = append(list, path)
		}
	})
	if len(list) < 100 {
		t.Fatalf("%d sources of host tools were found, at least 100 expected", len(list))
	}
	return list
}

// TestFunctionsAreShort fails if a function of the host tools is too long to be read at
// once. Tests contain their tables and are left out.
func TestFunctionsAreShort(t *testing.T) {
	for _, name := range hostFiles(t) {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			first, last := set.Position(f.Pos()).Line, set.Position(f.End()).Line
			if n := last - first + 1; n > functionMax {
				t.Errorf("%s: %s has %d lines, at most %d; split it", name, f.Name.Name, n,
					functionMax)
			}
		}
	}
}
