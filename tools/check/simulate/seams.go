package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// targetPackages are the packages of the runner whose sources the overlay edits. Functions of
// tracedPackages call kernel.EnterFunction when they begin. In redirectedPackages, package kernel
// executes the system calls.
var (
	targetPackages = []string{"fbs", "boards", "hal", "runtime", "runtime/signed",
		"tools/lmrun/files", "tools/lmrun", "tools/lmrun/args"}
	tracedPackages     = []string{"tools/lmrun", "tools/lmrun/files"}
	redirectedPackages = []string{"hal", "runtime", "tools/lmrun/files", "tools/lmrun"}
)

const kernelPath = `lightmetal/tools/check/simulate/kernel`

// edit replaces a range of bytes of a file by a text.
type edit struct {
	from, to int
	text     string
	order    int // edits at the same position are applied in ascending order
}

// overlayBuilder writes edited copies of sources for `go build -overlay`.
type overlayBuilder struct {
	root, folder string
	replacements map[string]string // path of a source: path of its edited copy
	mutants      *mutantList       // nil: the copies contain past defects instead of mutants
	forWorlds    bool              // the runner runs in worlds, and not on this machine
}

// writeOverlay writes edited sources into a folder and returns the path of the overlay's JSON file.
// The sources contain mutants, or the past defects if mutants is nil.
func writeOverlay(root, folder string, mutants *mutantList, forWorlds bool) (path string,
	err error) {
	s := &overlayBuilder{root, folder, map[string]string{}, mutants, forWorlds}
	for _, packageFolder := range targetPackages {
		if err := s.rewritePackage(packageFolder); err != nil {
			return "", err
		}
	}
	if forWorlds {
		if err := s.addWorlds(); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": s.replacements})
	path = filepath.Join(folder, "overlay.json")
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	return path, err
}

// addWorlds adds the worlds to the runner.
func (s *overlayBuilder) addWorlds() error {
	worlds, _ := filepath.Glob(filepath.Join(s.root, "tools/check/simulate/world", "*.go"))
	for _, file := range worlds {
		s.replacements[filepath.Join(s.root, "tools/lmrun", "world_"+filepath.Base(file))] = file
	}
	resetFile := filepath.Join(s.folder, "hal_reset.go")
	s.replacements[filepath.Join(s.root, "hal", "reset_simulate.go")] = resetFile
	return os.WriteFile(resetFile, []byte(resetSource), 0o644)
}

// resetSource is a function added to package hal. A world that ends early does not release the
// shared state of its process, so the next world resets it.
const resetSource = `package hal

func ResetSharedState() { vfioShared.files, vfioShared.hasIOMMU = nil, false }
`

// rewritePackage writes edited copies of the files of a package.
func (s *overlayBuilder) rewritePackage(packageFolder string) error {
	paths, _ := filepath.Glob(filepath.Join(s.root, packageFolder, "*.go"))
	paths = slices.DeleteFunc(paths,
		func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	fileSet, files, editors := token.NewFileSet(), []*ast.File{}, []*editor{}
	for _, path := range paths {
		relativePath := packageFolder + "/" + filepath.Base(path)
		if s.mutants != nil && !slices.Contains(
			s.mutants.packages["lightmetal/"+packageFolder].GoFiles, filepath.Base(path)) {
			continue // excluded from the build
		}
		source, err := os.ReadFile(path)
		if err == nil && s.mutants == nil {
			source, err = addPastDefects(relativePath, source)
		}
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fileSet, path, source, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("edited copy of %s: %w", relativePath, err)
		}
		files, editors = append(files, file),
			append(editors, &editor{fileSet: fileSet, source: source, packageFolder: packageFolder,
				relativePath: relativePath})
	}
	var info *types.Info
	if s.mutants != nil {
		info = s.mutants.typesOf(fileSet, "lightmetal/"+packageFolder, files)
	}
	for i, e := range editors {
		if s.forWorlds {
			ast.Inspect(files[i], e.redirectCalls)
		}
		if s.mutants != nil {
			(&mutantFinder{e, s.mutants, "lightmetal/" + packageFolder, info,
				files[i]}).findMutants()
		}
		if len(e.edits) == 0 && !bytes.Contains(e.source, []byte("simulated.HasDefect(")) {
			continue
		}
		copyPath := filepath.Join(s.folder, strings.ReplaceAll(e.relativePath, "/", "_"))
		s.replacements[filepath.Join(s.root, e.relativePath)] = copyPath
		if err := os.WriteFile(copyPath, e.editedSource(files[i]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// addPastDefects inserts the past defects of a file into its source.
func addPastDefects(relativePath string, source []byte) ([]byte, error) {
	for _, p := range pastDefects {
		if p.file != relativePath {
			continue
		}
		if bytes.Count(source, []byte(p.old)) != 1 {
			return nil, fmt.Errorf("%s: %q is not exactly once in %s; "+
				"adapt tools/check/simulate/past.go", p.name, p.old, relativePath)
		}
		isActive := "simulated.HasDefect(" + strconv.Quote(p.name) + ")"
		text := strings.ReplaceAll(p.new, "BROKEN", isActive)
		source = bytes.Replace(source, []byte(p.old), []byte(text), 1)
	}
	return source, nil
}

// editor collects the edits of one file.
type editor struct {
	fileSet                     *token.FileSet
	source                      []byte
	packageFolder, relativePath string
	edits                       []edit
}

func (e *editor) offset(p token.Pos) int { return e.fileSet.Position(p).Offset }

func (e *editor) insert(at token.Pos, text string) {
	e.edits = append(e.edits, edit{e.offset(at), e.offset(at), text, 1 + len(e.edits)})
}

func (e *editor) sourceOf(n ast.Node) string {
	return string(e.source[e.offset(n.Pos()):e.offset(n.End())])
}

// redirectCalls edits the functions and system calls of a file. ast.Inspect calls it.
func (e *editor) redirectCalls(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		e.editFunction(n)
	case *ast.SelectorExpr:
		if packageName, ok := n.X.(*ast.Ident); ok &&
			slices.Contains(redirectedPackages, e.packageFolder) &&
			slices.Contains(redirectedCalls[packageName.Name], n.Sel.Name) {
			e.edits = append(e.edits, edit{e.offset(packageName.Pos()), e.offset(packageName.End()),
				"simulated", 1 << 30})
		}
	}
	return true
}

// redirectedCalls are the functions, by package, that package kernel replaces.
var redirectedCalls = map[string][]string{
	"unix": {"RawSyscall", "RawSyscall6", "Syscall", "Syscall6", "Open", "Openat", "Close", "Read",
		"Pread", "Ftruncate", "Fallocate", "Mlock", "MmapPtr", "IoctlSetPointerInt", "IoctlGetInt",
		"Readlink", "Fstat", "Mprotect", "EpollCreate1", "Prctl", "Exit"},
	"args": {"CommandLine"},
	"time": {"Since"},
}

// editFunction inserts the call of EnterFunction, and renames the main function of the runner.
func (e *editor) editFunction(f *ast.FuncDecl) {
	if f.Body == nil || !slices.Contains(tracedPackages, e.packageFolder) {
		return
	}
	if e.packageFolder == "tools/lmrun" && f.Recv == nil && f.Name.Name == "main" {
		e.edits = append(e.edits, edit{e.offset(f.Name.Pos()), e.offset(f.Name.End()), "runner",
			1 << 30})
	}
	e.insert(f.Body.Lbrace+1, " simulated.EnterFunction("+strconv.Quote(f.Name.Name)+");")
}

// editedSource returns the source with all edits applied.
func (e *editor) editedSource(file *ast.File) []byte {
	e.insert(file.Name.End(), "; import simulated "+strconv.Quote(kernelPath))
	slices.SortFunc(e.edits, func(a, b edit) int { return cmp.Or(a.from-b.from, a.order-b.order) })
	var out bytes.Buffer
	copied := 0
	for _, c := range e.edits {
		out.Write(e.source[copied:c.from])
		out.WriteString(c.text)
		copied = c.to
	}
	out.Write(e.source[copied:])
	out.WriteString("\nvar _ = simulated.HasDefect\n")
	for path, name := range map[string]string{"golang.org/x/sys/unix": "unix.EINVAL",
		"time": "time.Now", "lightmetal/tools/lmrun/args": "args.CommandLine"} {
		if bytes.Contains(e.source, []byte(strconv.Quote(path))) {
			out.WriteString("var _ = " + name + "\n")
		}
	}
	return out.Bytes()
}
