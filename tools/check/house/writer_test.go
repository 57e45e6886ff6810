package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writingFunctions are the functions that open, create, rename or write files, by package. Packages
// unix and syscall also have the flags that open a file for more than reading.
var writingFunctions = map[string][]string{
	"os": {"Create", "CreateTemp", "WriteFile", "Rename", "OpenFile", "Truncate", "Link",
		"Symlink", "CopyFS"},
	"unix": {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "Creat", "Rename", "Renameat",
		"Renameat2", "Truncate", "Link", "Linkat"},
	"syscall": {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "Creat", "Rename", "Renameat",
		"Truncate", "Link"},
	"ioutil": {"WriteFile", "TempFile"},
}

// notOutputs are the files that write something other than an output, with the reason.
var notOutputs = map[string]string{
	"tools/lmrun/ring.go":              "memory shared with another process",
	"tools/lmrun/faults.go":            "a ring of entries, each written in place",
	"tools/lmrun/watchdog.go":          "a device",
	"tools/lmrun/prepare.go":           "files of sysfs",
	"tools/lminit/prepare.go":          "files of sysfs",
	"tools/check/guest/machine.go":     "drives of a machine, in a separate folder",
	"tools/check/guest/bare.go":        "flash of a machine, in a separate folder",
	"tools/check/guest/coverage.go":    "the trace of a machine, while it runs",
	"tools/capture/recorder/space.go":  "the memory of a traced program",
	"tools/capture/recorder/access.go": "flags of another program's descriptors",
	"tools/check/fakekernel":           "files of a fake machine, in a separate folder",
	"tools/check/golden":               "golden files of tests",
	"tools/check/simulate/seams.go":    "temporary sources of one build",
	"tools/check/simulate/world":       "folders that are removed with their worlds",
	"tools/ship/bootimage/image.go":    "a new folder that is renamed when it is complete",
}

// fileWrites returns the identifiers of a source that are in writingFunctions.
func fileWrites(file *ast.File) (list []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			p, ok := s.X.(*ast.Ident)
			if ok && slices.Contains(writingFunctions[p.Name], s.Sel.Name) {
				list = append(list, p.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	return list
}

// TestLmPrintsOnlyThroughTerminal requires that lm prints all text with terminal.go, which escapes
// control characters and handles errors of standard output.
func TestLmPrintsOnlyThroughTerminal(t *testing.T) {
	past := []string{"os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println"}
	for name, file := range parsePackage(t, "tools/lm") {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			mayPrint := name == "tools/lm/main.go" || name == "tools/lm/terminal.go"
			if ok && !mayPrint && printsUnescaped(call) {
				t.Errorf("%s formats text for stdout or stderr itself; "+
					"printLine of terminal.go escapes line feeds", name)
			}
			if s, ok := n.(*ast.SelectorExpr); ok {
				if p, ok := s.X.(*ast.Ident); ok && slices.Contains(past, p.Name+"."+s.Sel.Name) &&
					name != "tools/lm/main.go" {
					t.Errorf("%s has %s.%s; write to stdout and stderr of terminal.go", name,
						p.Name, s.Sel.Name)
				}
			}
			return true
		})
	}
}

// printsUnescaped reports whether call is fmt.Fprintf or fmt.Fprintln to lm's stdout or stderr, or
// to the result of the function tell, which returns one of them.
func printsUnescaped(call *ast.CallExpr) bool {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "Fprintf" && function.Sel.Name != "Fprintln" {
		return false
	}
	to := call.Args[0]
	if chosen, ok := to.(*ast.CallExpr); ok {
		to = chosen.Fun
	}
	name, ok := to.(*ast.Ident)
	return ok && slices.Contains([]string{"stdout", "stderr", "tell"}, name.Name)
}

// TestToolsWriteFilesThroughOnePackage checks that every tool writes through tools/lmrun/files,
// which handles devices, links, modes, failures and full disks. Programs that only tests run inside
// of a guest are exempt.
func TestToolsWriteFilesThroughOnePackage(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(filepath.Join(root, "tools"),
		func(path string, entry fs.DirEntry, err error) error {
			name, _ := filepath.Rel(root, path)
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (name == "tools/lmrun/files" ||
				name == "tools/check/guest/inside" || entry.Name() == "testdata"):
				return fs.SkipDir
			case entry.IsDir() || !strings.HasSuffix(name, ".go") ||
				strings.HasSuffix(name, "_test.go") || notOutputs[name] != "" ||
				notOutputs[filepath.Dir(name)] != "":
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			seen++
			for _, function := range fileWrites(file) {
				t.Errorf("%s writes with %s; write with tools/lmrun/files", name, function)
			}
			return nil
		})
	if err != nil || seen < 50 {
		t.Errorf("%d sources were read, at least 50 expected; error: %v", seen, err)
	}
}
