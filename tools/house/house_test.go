package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// imports is the policy: what each package of the target world, and of the
// host world where it matters, may import. It is not to be relaxed to make a
// build work.
var imports = map[string]string{
	"fbs/gen": "github.com/google/flatbuffers/go strconv",
	"fbs":     "lightmetal/fbs/gen github.com/google/flatbuffers/go hash/crc32 math strconv unicode/utf8 unsafe",
	"boards":  "lightmetal/fbs lightmetal/fbs/gen",
	"hal":     "lightmetal/boards lightmetal/fbs lightmetal/fbs/gen golang.org/x/sys/unix strconv sync/atomic time unsafe",
	"runtime": "lightmetal/boards lightmetal/fbs lightmetal/fbs/gen lightmetal/hal github.com/google/flatbuffers/go " +
		"golang.org/x/sys/unix math runtime runtime/debug strconv unsafe",
	"runtime/signed": "lightmetal/fbs lightmetal/hal crypto/ed25519 crypto/sha512 strings", // with -tags signed only
	"tools/lmrun": "lightmetal/fbs lightmetal/fbs/gen lightmetal/hal lightmetal/runtime lightmetal/runtime/signed " +
		"golang.org/x/sys/unix strconv strings sync/atomic syscall unsafe",
}

// unsafeFiles are the files of the target world that may import unsafe.
var unsafeFiles = []string{
	"fbs/flat.go", "fbs/layout.go", "fbs/verify_commands.go", // structs read in place
	"hal/access_generic.go", // device memory
	"runtime/seal.go",       // one system call
	"tools/lmrun/ring.go",   // counters in shared memory
}

// linked is what lmrun may link beyond the standard library and itself.
var linked = []string{"github.com/google/flatbuffers/go", "golang.org/x/sys/unix"}

// heavy are starts of symbols that a target does without: each costs size,
// start-up work or reflection. Package runtime/debug imports fmt and os, so the
// linker's result counts, not the imports.
var heavy = []string{"fmt.", "reflect.Value.", "log.", "flag.", "encoding/", "context.", "net.", "regexp."}

// Lines of the target world: what is wanted, and what it may not exceed again.
const (
	targetLinesGoal = 3000
	targetLinesMax  = 5900
)

// sources parses the Go files, tests left out, of a package's folder.
func sources(t *testing.T, folder string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	if len(files) == 0 {
		t.Fatalf("no source in %s", folder)
	}
	return files
}

func importsOf(file *ast.File) (list []string) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		list = append(list, path)
	}
	return list
}

func TestImportsRunOneWay(t *testing.T) {
	for folder, allowed := range imports {
		for name, file := range sources(t, folder) {
			for _, path := range importsOf(file) {
				if !slices.Contains(strings.Fields(allowed), path) {
					t.Errorf("%s imports %s", name, path)
				}
			}
		}
	}
}

func TestUnsafeStandsInNamedFiles(t *testing.T) {
	used := map[string]bool{}
	for folder := range imports {
		for name, file := range sources(t, folder) {
			if slices.Contains(importsOf(file), "unsafe") {
				used[name] = true
				if !slices.Contains(unsafeFiles, name) {
					t.Errorf("%s imports unsafe", name)
				}
			}
		}
	}
	for _, name := range unsafeFiles {
		if !used[name] {
			t.Errorf("%s is listed and does not import unsafe", name)
		}
	}
}

func TestTargetDoesNothingBeforeMain(t *testing.T) {
	for folder := range imports {
		for name, file := range sources(t, folder) {
			for _, declaration := range file.Decls {
				if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s has an init function", name)
				}
			}
		}
	}
}

func TestRunnerLinksTwoDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "lightmetal/tools/lmrun").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if !strings.HasPrefix(path, "lightmetal/") && !slices.Contains(linked, path) {
			t.Errorf("lmrun links %s", path)
		}
	}
}

func TestRunnerLinksNothingHeavy(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "lmrun")
	build := exec.Command("go", "build", "-o", binary, "lightmetal/tools/lmrun")
	build.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	symbols, err := exec.Command("go", "tool", "nm", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(symbols), "lightmetal/runtime.") {
		t.Fatal("the symbols are not those of lmrun")
	}
	for _, line := range strings.Split(string(symbols), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		for _, prefix := range heavy {
			if strings.HasPrefix(fields[2], prefix) {
				t.Errorf("lmrun links %s", fields[2])
			}
		}
	}
}

// TestTargetIsReadInAnAfternoon counts the lines somebody has to read to know
// all that runs on a target. Generated code is left out.
func TestTargetIsReadInAnAfternoon(t *testing.T) {
	lines := 0
	for folder := range imports {
		if folder == "fbs/gen" {
			continue
		}
		for name := range sources(t, folder) {
			lines += countLines(t, filepath.Join(root, name))
		}
		assembly, _ := filepath.Glob(filepath.Join(root, folder, "*.s"))
		for _, path := range assembly {
			lines += countLines(t, path)
		}
	}
	t.Logf("%d lines, goal %d", lines, targetLinesGoal)
	if lines > targetLinesMax {
		t.Errorf("the target world has %d lines, more than %d", lines, targetLinesMax)
	}
}

func countLines(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}
