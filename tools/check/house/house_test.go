package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../../.."

// imports is the policy: what each package of the target world, and of the
// host world where it matters, may import. It is not to be relaxed to make a
// build work.
var imports = map[string]string{
	"fbs/gen": "github.com/google/flatbuffers/go strconv",
	"fbs": "lightmetal/boards lightmetal/fbs/gen github.com/google/flatbuffers/go " +
		"hash/crc32 strconv unicode/utf8 unsafe",
	"boards": "",
	// which hal/mock and tools alone use
	"boards/chips": "lightmetal/boards slices",
	"hal": "lightmetal/boards lightmetal/fbs lightmetal/fbs/gen golang.org/x/sys/unix strconv " +
		"sync sync/atomic time unsafe " + // sync for what all VFIO functions of a process share
		"runtime/debug", // with -tags nolinkname only
	"runtime": "lightmetal/boards lightmetal/fbs lightmetal/fbs/gen lightmetal/hal " +
		"github.com/google/flatbuffers/go " +
		// runtime/debug with -tags nolinkname only
		"golang.org/x/sys/unix math runtime runtime/debug slices strconv sync/atomic time unsafe",
	"runtime/report": "lightmetal/fbs lightmetal/fbs/gen lightmetal/hal lightmetal/runtime " +
		"math/bits",
	// with -tags signed only
	"runtime/signed": "lightmetal/fbs lightmetal/hal crypto/ed25519 crypto/sha512 strings",
	"runtime/capi": "C lightmetal/boards lightmetal/boards/chips lightmetal/fbs " +
		"lightmetal/fbs/gen lightmetal/hal lightmetal/hal/mock lightmetal/runtime " +
		"lightmetal/runtime/report " +
		// hal/mock and boards/chips with -tags mock only
		"lightmetal/runtime/signed golang.org/x/sys/unix runtime sync sync/atomic unsafe",
	"tools/lmrun": "lightmetal/boards/chips lightmetal/fbs lightmetal/fbs/gen lightmetal/hal " +
		"lightmetal/hal/mock lightmetal/runtime lightmetal/runtime/report " +
		"lightmetal/runtime/signed " +
		"lightmetal/tools/lmrun/files lightmetal/tools/lmrun/args " +
		"lightmetal/tools/lmrun/faultlog golang.org/x/sys/unix strconv " +
		"strings sync/atomic time unsafe", // time for the date of a recorded failure
	"tools/lmrun/faultlog": "lightmetal/fbs lightmetal/runtime unsafe",
	// os with -tags nolinkname only
	"tools/lmrun/args": "lightmetal/hal lightmetal/runtime os strings unsafe",
	"tools/lminit": "lightmetal/hal lightmetal/tools/lmrun/files lightmetal/tools/lmrun/args " +
		"golang.org/x/sys/unix math os os/signal path/filepath runtime slices strconv " +
		"strings syscall time",
	"tools/lmrun/files": "lightmetal/fbs lightmetal/hal golang.org/x/sys/unix strconv strings " +
		"unicode/utf8 unsafe",
}

// unsafeFiles are the files of the target world that may import unsafe.
var unsafeFiles = []string{
	"fbs/flat.go", "fbs/layout.go", // structs read in place
	"hal/walk.go",                   // device memory and commands
	"hal/golang.go",                 // a function of Go's runtime
	"hal/oracle.go",                 // tables of addresses, where there is no assembly
	"hal/system_linux.go",           // structs of ioctls, system calls that Go is not told of
	"hal/tt_ioctl_linux.go",         // sizes of structs
	"hal/vfio_ioctl_linux.go",       // sizes of structs
	"runtime/freeze.go",             // one system call
	"runtime/golang.go",             // a function of Go's runtime
	"runtime/seal.go",               // one system call
	"runtime/file.go",               // memory in the place of a file's
	"runtime/capi/calls.go",         // what C hands over
	"tools/lmrun/args/golang.go",    // a function of Go's runtime
	"tools/lmrun/faultlog/entry.go", // an entry as its bytes
	"tools/lmrun/ring.go",           // counters in shared memory
	"tools/lmrun/signal.go",         // one system call
	"tools/lmrun/files/output.go",   // system calls with names that lie still
}

// linked is what lmrun may link beyond the standard library and itself.
var linked = []string{"github.com/google/flatbuffers/go", "golang.org/x/sys/unix"}

// heavy are starts of symbols that a target does without: each costs size,
// start-up work or reflection. Package runtime/debug imports fmt and os, so the
// linker's result counts, not the imports.
var heavy = []string{"fmt.", "reflect.Value.", "log.", "flag.", "encoding/", "context.", "net.",
	"regexp."}

// productTags are the tags of one product: arm64 with one backend. notLinked are
// files that lmrun uses for signatures alone and lminit always.
const productTags = "backend_vfio"

var notLinked = []string{"runtime/inspect.go", "tools/lmrun/files/read.go"}

// never are files in their folders that no target links: the oracle, which is the
// walk of other architectures, what only host tools use, and mock devices.
var never = []string{"hal/oracle.go", "hal/walk_noasm.go", "boards/host.go", "runtime/host.go",
	"tools/lmrun/files/host.go", "runtime/capi/device_mock.go", "tools/lmrun/open_mock.go",
	"runtime/capi/export_mock.go"}

// positions are those of all that sources parses.
var positions = token.NewFileSet()

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
		file, err := parser.ParseFile(positions, path, nil, parser.ParseComments)
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
		t.Fatalf("%s has no Go source", folder)
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
					t.Errorf("%s imports %s, which the table of imports does not allow", name, path)
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
					t.Errorf("%s imports unsafe and is not in unsafeFiles", name)
				}
			}
		}
	}
	for _, name := range unsafeFiles {
		if !used[name] {
			t.Errorf("%s is in unsafeFiles and does not import unsafe; remove it", name)
		}
	}
}

func TestTargetDoesNothingBeforeMain(t *testing.T) {
	for folder := range imports {
		for name, file := range sources(t, folder) {
			if slices.Contains(never, name) {
				continue
			}
			for _, declaration := range file.Decls {
				if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil &&
					f.Name.Name == "init" {
					t.Errorf("%s has an init function", name)
				}
			}
		}
	}
}

func TestRunnerLinksTwoDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f",
		"{{if not .Standard}}{{.ImportPath}}{{end}}", "lightmetal/tools/lmrun").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if !strings.HasPrefix(path, "lightmetal/") && !slices.Contains(linked, path) {
			t.Errorf("lmrun links package %s, which is not in linked", path)
		}
	}
}

// symbolsOf builds a program for arm64 and returns the names of its symbols.
func symbolsOf(t *testing.T, name, tags string) []string {
	text, err := exec.Command("go", "tool", "nm", buildProgram(t, name, tags)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "lightmetal/hal.") {
		t.Fatalf("go tool nm lists no function of package hal in %s", name)
	}
	var symbols []string
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) >= 3 {
			symbols = append(symbols, fields[2])
		}
	}
	return symbols
}

func TestRunnerLinksNothingHeavy(t *testing.T) {
	for _, symbol := range symbolsOf(t, "lmrun", "") {
		for _, prefix := range heavy {
			if strings.HasPrefix(symbol, prefix) {
				t.Errorf("lmrun links %s, of a package that is too large for a target", symbol)
			}
		}
	}
}

// TestTagsPickBackends checks that a program built with tags backend_... links those backends
// and no other, and without any such tag links all.
func TestTagsPickBackends(t *testing.T) {
	backends := []string{"pci", "vfio", "tt"}
	for tags, want := range map[string]string{"": "pci vfio tt", "backend_pci": "pci",
		"backend_vfio": "vfio", "backend_tt": "tt", "backend_pci,backend_tt": "pci tt"} {
		t.Run("tags "+tags, func(t *testing.T) {
			symbols := symbolsOf(t, "lmrun", tags)
			for _, backend := range backends {
				method := "lightmetal/hal.(*" + backend + "Backend)."
				has := slices.ContainsFunc(symbols,
					func(s string) bool { return strings.HasPrefix(s, method) })
				if has != slices.Contains(strings.Fields(want), backend) {
					t.Errorf("backend %s is linked: %v; wanted are: %s", backend, has, want)
				}
			}
		})
	}
}

// TestNoTargetLinksTheHostsPart: nothing of the oracle, or of what host tools
// alone use, is in a runner with all backends or in what starts it.
func TestNoTargetLinksTheHostsPart(t *testing.T) {
	of := functionsOf(t, "hal/oracle.go", "boards/host.go", "runtime/host.go",
		"tools/lmrun/files/host.go")
	for _, program := range []string{"lmrun", "lminit"} {
		linksNoneOf(t, program, "", of)
	}
	for _, name := range []string{"hal.walkGeneric", "hal.(*Walk).executeCommand",
		"boards.TileRoute.Pack", "runtime.(*Replay).Aperture", "tools/lmrun/files.Create"} {
		if !of["lightmetal/"+name] {
			t.Errorf("%s is not declared where this test looks for it", name)
		}
	}
}

// TestProductLinksNothingForSignatures unless it has the tag signed.
func TestProductLinksNothingForSignatures(t *testing.T) {
	linksNoneOf(t, "lmrun", productTags, functionsOf(t, notLinked...))
}

// functionsOf returns the symbols of the functions in files.
func functionsOf(t *testing.T, files ...string) map[string]bool {
	t.Helper()
	of := map[string]bool{}
	for _, file := range files {
		folder := filepath.Dir(file)
		source := sources(t, folder)[file]
		if source == nil {
			t.Fatalf("%s does not exist; name its functions' new file in this test", file)
		}
		for _, declaration := range source.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil {
				of["lightmetal/"+folder+"."+f.Name.Name] = true
			} else if ok {
				receiver := types.ExprString(f.Recv.List[0].Type)
				if receiver[0] == '*' {
					receiver = "(" + receiver + ")"
				}
				of["lightmetal/"+folder+"."+receiver+"."+f.Name.Name] = true
			}
		}
	}
	return of
}

func linksNoneOf(t *testing.T, program, tags string, functions map[string]bool) {
	t.Helper()
	for _, symbol := range symbolsOf(t, program, tags) {
		if functions[symbol] {
			t.Errorf("%s links %s, which belongs to hosts or to signatures", program, symbol)
		}
	}
}

// TestToolchainIsTheOneThatWasTried: go.mod, build.sh and the page of what is
// relied on name one Go.
func TestToolchainIsTheOneThatWasTried(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, rest, _ := strings.Cut(read("go.mod"), "\ntoolchain ")
	toolchain, _, _ := strings.Cut(rest, "\n")
	for name, mark := range map[string]string{"build.sh": "go_tried=" + toolchain + "\n",
		"runtime/GO.md": "**" + toolchain + "**"} {
		if toolchain == "" || !strings.Contains(read(name), mark) {
			t.Errorf("%s does not name %q, the toolchain of go.mod", name, toolchain)
		}
	}
	if goruntime.Version() != toolchain {
		t.Logf("this is %s, not %s", goruntime.Version(), toolchain)
	}
}

// parseSource parses the text of a file.
func parseSource(t *testing.T, text string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
