package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// exemptFolders are the folders that belong neither to the target, whose packages allowedImports
// lists, nor to the host tools, with the reason.
var exemptFolders = map[string]string{
	"tools/check/guest":                        "run only by tests: machines",
	"tools/check/guest/inside":                 "run only by tests: programs in machines",
	"tools/check/ringdevice":                   "run only by tests: a device and its driver",
	"tools/check/coverage":                     "run only by tests: reached instructions",
	"tools/check/coverage/corpus":              "run only by tests: images for machines",
	"tools/check/coverage/reach":               "run only by tests: reached functions",
	"tools/check/coverage/trace":               "run only by tests: reached instructions",
	"tools/check/golden":                       "run only by tests: helpers",
	"tools/check/pages":                        "run only by tests: the commands of pages",
	"tools/check/fakekernel":                   "run only by tests: a fake kernel",
	"tools/check/simulate":                     "run only by tests: a simulated world",
	"tools/check/simulate/images":              "run only by tests: random images",
	"tools/check/simulate/kernel":              "run only by tests: a simulated world",
	"tools/check/simulate/world":               "run only by tests: a simulated world",
	"tools/image/lmb/lmbtest":                  "run only by tests: helpers",
	"tools/capture/recorder/testdata/patterns": "run only by tests: a program that is recorded",
	"testdata/workloads":                       "run only by tests: programs that are captured",
	"testdata/workloads/run":                   "run only by tests: programs that are captured",
	"testdata/kernels/metal":                   "run only by tests: programs that are captured",
}

// functionMax is the largest number of lines of a function of the host tools.
const functionMax = 60

// isOfTarget reports whether a folder is a package of the target or is generated from its schema.
func isOfTarget(folder string) bool {
	_, listed := allowedImports[folder]
	return listed && folder != "boards/chips" // only mocks and host tools import this one
}

// hostFiles returns the paths of the sources of the host tools, without tests.
func hostFiles(t *testing.T) (list []string) {
	t.Helper()
	visitFiles(t, func(path string) {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
			!isOfTarget(filepath.Dir(path)) && exemptFolders[filepath.Dir(path)] == "" {
			list = append(list, path)
		}
	})
	if len(list) < 100 {
		t.Fatalf("%d sources of host tools were found, at least 100 expected", len(list))
	}
	return list
}

// TestFunctionsAreShort fails if a function of the host tools has more than functionMax lines.
// Tests are exempt, because they have tables.
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
