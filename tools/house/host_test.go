package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// notHost are the folders that are no host tools, and why.
var notHost = map[string]string{
	"fbs":                              "the target's, or made from the schema",
	"boards":                           "the target's",
	"hal":                              "the target's, its oracle and its test doubles beside it",
	"runtime":                          "the target's",
	"runtime/capi":                     "the target's",
	"runtime/report":                   "the target's",
	"runtime/signed":                   "the target's",
	"tools/lmrun":                      "the target's",
	"tools/lmrun/args":                 "the target's",
	"tools/lminit":                     "the target's",
	"tools/files":                      "the target's",
	"fbs/gen":                          "made from the schema",
	"tools/guest":                      "what only tests run: machines",
	"tools/guest/inside":               "what only tests run: programs inside of the machines",
	"tools/coverage":                   "what only tests run: which instructions machines reached",
	"tools/coverage/corpus":            "what only tests run: images for machines",
	"tools/coverage/reach":             "what only tests run: which functions a run reaches",
	"tools/coverage/trace":             "what only tests run: which instructions machines reached",
	"tools/pages":                      "what only tests run: the commands of pages",
	"tools/simulate":                   "what only tests run: a simulated world",
	"tools/simulate/images":            "what only tests run: images at random",
	"tools/simulate/kernel":            "what only tests run: a simulated world",
	"tools/simulate/world":             "what only tests run: a simulated world",
	"tools/lmb/lmbtest":                "what only tests run: helpers",
	"tools/recorder/testdata/patterns": "what only tests run: a program that is recorded",
	"testdata/workloads":               "what only tests run: programs that are captured",
	"testdata/workloads/run":           "what only tests run: programs that are captured",
	"testdata/kernels/metal":           "what only tests run: programs that are captured",
}

// later are the files and folders that `lm serve` and `lm record` came with.
var later = []string{"tools/vfiouser/", "tools/lm/serve.go", "tools/recorder/", "tools/lm/record.go"}

// The lines that the host tools have come down to and may not exceed again, and
// in the names what is wanted.
const (
	linesOfHost  = 32_614 // 21,500
	linesOfLater = 7_329
)

// What a function, a file and a line have at most.
const (
	functionMax = 60
	fileMax     = 400
	columnsMax  = 150
)

// hostFiles are the sources of the host tools, tests left out.
func hostFiles(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if entry.IsDir() && (name == "build" || name != "." && strings.HasPrefix(entry.Name(), ".")) {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && notHost[filepath.Dir(name)] == "" {
			list = append(list, name)
		}
		return nil
	})
	if err != nil || len(list) < 100 {
		t.Fatalf("%d sources, %v", len(list), err)
	}
	return list
}

// TestHostToolsComeDown counts what somebody has to read who carries the host
// tools on, each line once.
func TestHostToolsComeDown(t *testing.T) {
	host, added := 0, 0
	folders := map[string]int{}
	for _, name := range hostFiles(t) {
		n := countLines(t, filepath.Join(root, name))
		if slices.ContainsFunc(later, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			added += n
			continue
		}
		host += n
		folders[filepath.Dir(name)] += n
	}
	for folder, why := range notHost {
		t.Logf("left out: %s, %s", folder, why)
	}
	for folder, n := range folders {
		t.Logf("%5d %s", n, folder)
	}
	t.Logf("host tools: %d lines; what lm serve and lm record added: %d", host, added)
	if host > linesOfHost || added > linesOfLater {
		t.Errorf("host tools have %d lines, more than %d, or what lm serve and lm record added %d, more than %d", host, linesOfHost, added, linesOfLater)
	}
}

// TestFunctionsAndFilesFitInTheHead holds the sources of the host tools to
// lengths that are read at once. Tests have their tables in them and are left out.
func TestFunctionsAndFilesFitInTheHead(t *testing.T) {
	for _, name := range hostFiles(t) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range tooLong(t, name, string(text)) {
			t.Error(what)
		}
	}
}

// tooLong names what of a source is longer than it may be.
func tooLong(t *testing.T, name, text string) (found []string) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if n := len(lines) - 1; n > fileMax {
		found = append(found, fmt.Sprintf("%s has %d lines, more than %d", name, n, fileMax))
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > columnsMax {
			found = append(found, fmt.Sprintf("%s:%d has %d columns, more than %d", name, i+1, n, columnsMax))
		}
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok {
			if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > functionMax {
				found = append(found, fmt.Sprintf("%s: %s has %d lines, more than %d", name, f.Name.Name, n, functionMax))
			}
		}
	}
	return found
}
