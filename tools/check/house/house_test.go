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

	"lightmetal/tools/check/effort"
)

const root = "../../.."

// allowedImports is the policy: the packages that each package of the target may import, and
// packages that it shares with hosts. Do not extend it only to make a build work.
var allowedImports = map[string]string{
	"fbs/gen": "github.com/google/flatbuffers/go strconv",
	"fbs": "lightmetal/boards lightmetal/fbs/gen github.com/google/flatbuffers/go " +
		"hash/crc32 strconv unicode/utf8 unsafe",
	"boards": "",
	// Only hal/mock and tools import this package.
	"boards/chips": "lightmetal/boards slices",
	"hal": "lightmetal/boards lightmetal/fbs lightmetal/fbs/gen golang.org/x/sys/unix strconv " +
		"sync sync/atomic time unsafe " + // sync for the state that VFIO functions share
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
		"sync/atomic unicode/utf8 unsafe",
}

// unsafeFiles are the files of the target that may import unsafe.
var unsafeFiles = []string{
	"fbs/flat.go", "fbs/layout.go", // structs read in place
	"hal/walk.go",                   // device memory and commands
	"hal/golang.go",                 // a function of Go's runtime
	"hal/walk_generic.go",           // tables of addresses, on architectures without assembly
	"hal/system_linux.go",           // structs of ioctls, raw system calls
	"hal/tt_ioctl_linux.go",         // sizes of structs
	"hal/vfio_ioctl_linux.go",       // sizes of structs
	"runtime/freeze.go",             // one system call
	"runtime/golang.go",             // a function of Go's runtime
	"runtime/seal.go",               // one system call
	"runtime/file.go",               // memory that replaces a file's
	"runtime/capi/calls.go",         // arguments of C functions
	"tools/lmrun/args/golang.go",    // a function of Go's runtime
	"tools/lmrun/faultlog/entry.go", // an entry as its bytes
	"tools/lmrun/ring.go",           // counters in shared memory
	"tools/lmrun/signal.go",         // one system call
	"tools/lmrun/files/alarm.go",    // timers
	"tools/lmrun/files/output.go",   // system calls with names at fixed addresses
}

// linkedModules are the modules that lmrun may link, except for the standard library and itself.
var linkedModules = []string{"github.com/google/flatbuffers/go", "golang.org/x/sys/unix"}

// heavySymbols are prefixes of symbols that lmrun must not link, because each costs size, work at
// the start, or reflection. The test checks the linker's result and not the imports, because
// package runtime/debug imports fmt and os.
var heavySymbols = []string{"fmt.", "reflect.Value.", "log.", "flag.", "encoding/", "context.",
	"net.", "regexp."}

// productTags are the tags of one product: arm64 with one backend. signatureFiles are files that
// lmrun uses only for signatures, and lminit always.
const productTags = "backend_vfio"

var signatureFiles = []string{"runtime/inspect.go", "tools/lmrun/files/read.go"}

// hostOnlyFiles are files in folders of the target that no target links: the oracle, which is the
// walk of other architectures, code that only host tools use, and mock devices.
var hostOnlyFiles = []string{"hal/walk_generic.go", "hal/walk_other.go", "boards/host.go",
	"runtime/host.go", "tools/lmrun/files/host.go", "runtime/capi/device_mock.go",
	"tools/lmrun/open_mock.go", "runtime/capi/export_mock.go"}

// positions has the positions of all files that parsePackage parses.
var positions = token.NewFileSet()

// parsePackage parses the Go files of a package's folder, without tests. The keys are paths from
// the root of the tree.
func parsePackage(t *testing.T, folder string) map[string]*ast.File {
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

// importsOf returns the import paths of a file.
func importsOf(file *ast.File) (list []string) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		list = append(list, path)
	}
	return list
}

func TestPackagesImportOnlyAllowedPackages(t *testing.T) {
	for folder, allowed := range allowedImports {
		for name, file := range parsePackage(t, folder) {
			for _, path := range importsOf(file) {
				if !slices.Contains(strings.Fields(allowed), path) {
					t.Errorf("%s imports %s, which allowedImports does not allow", name, path)
				}
			}
		}
	}
}

func TestOnlyListedFilesImportUnsafe(t *testing.T) {
	used := map[string]bool{}
	for folder := range allowedImports {
		for name, file := range parsePackage(t, folder) {
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

func TestTargetHasNoInitFunctions(t *testing.T) {
	for folder := range allowedImports {
		for name, file := range parsePackage(t, folder) {
			if slices.Contains(hostOnlyFiles, name) {
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
		if !strings.HasPrefix(path, "lightmetal/") && !slices.Contains(linkedModules, path) {
			t.Errorf("lmrun links package %s, which is not in linkedModules", path)
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
	effort.SkipShort(t)
	for _, symbol := range symbolsOf(t, "lmrun", "") {
		for _, prefix := range heavySymbols {
			if strings.HasPrefix(symbol, prefix) {
				t.Errorf("lmrun links %s, which heavySymbols bans (%s)", symbol, prefix)
			}
		}
	}
}

// TestTagsSelectBackends checks that a program that is built with tags backend_... links only those
// backends, and that a program without such a tag links all.
func TestTagsSelectBackends(t *testing.T) {
	effort.SkipShort(t)
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
					t.Errorf("backend %s is linked: %v; want only %s", backend, has, want)
				}
			}
		})
	}
}

// TestTargetLinksNoHostCode requires that neither lmrun with all backends nor lminit links the
// oracle or code that only host tools use.
func TestTargetLinksNoHostCode(t *testing.T) {
	effort.SkipShort(t)
	of := functionsOf(t, "hal/walk_generic.go", "boards/host.go", "runtime/host.go",
		"tools/lmrun/files/host.go")
	for _, program := range []string{"lmrun", "lminit"} {
		requireNotLinked(t, program, "", of)
	}
	for _, name := range []string{"hal.walkGeneric", "hal.(*Walk).executeCommand",
		"boards.TileRoute.Pack", "runtime.(*Replay).Aperture", "tools/lmrun/files.Create"} {
		if !of["lightmetal/"+name] {
			t.Errorf("%s is not declared in the files of host code that this test reads", name)
		}
	}
}

// TestProductLinksNothingForSignatures builds a product without the tag signed.
func TestProductLinksNothingForSignatures(t *testing.T) {
	effort.SkipShort(t)
	requireNotLinked(t, "lmrun", productTags, functionsOf(t, signatureFiles...))
}

// functionsOf returns the set of symbols of the functions in files.
func functionsOf(t *testing.T, files ...string) map[string]bool {
	t.Helper()
	of := map[string]bool{}
	for _, file := range files {
		folder := filepath.Dir(file)
		source := parsePackage(t, folder)[file]
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

// requireNotLinked requires that a program links none of the functions.
func requireNotLinked(t *testing.T, program, tags string, functions map[string]bool) {
	t.Helper()
	for _, symbol := range symbolsOf(t, program, tags) {
		if functions[symbol] {
			t.Errorf("%s links %s, which only hosts or signatures need", program, symbol)
		}
	}
}

// TestToolchainIsTheSameEverywhere requires that go.mod, build.sh and runtime/GO.md name the same
// version of Go.
func TestToolchainIsTheSameEverywhere(t *testing.T) {
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
		t.Logf("this test runs with %s; go.mod names %s", goruntime.Version(), toolchain)
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
