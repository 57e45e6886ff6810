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

// target are the packages of what runs on one, entered those whose functions tell
// when they begin, and led those whose system calls are led through package kernel.
var (
	target = []string{"fbs", "boards", "hal", "runtime", "runtime/signed", "tools/lmrun/files",
		"tools/lmrun", "tools/lmrun/args"}
	entered = []string{"tools/lmrun", "tools/lmrun/files"}
	led     = []string{"hal", "runtime", "tools/lmrun/files", "tools/lmrun"}
)

const kernelImport = `lightmetal/tools/check/simulate/kernel`

// edit puts a text in the place of bytes of a file.
type edit struct {
	from, to int
	text     string
	order    int // of those at one place: less comes first
}

// seams are changed copies of sources, for go build -overlay.
type seams struct {
	root, folder string
	replace      map[string]string // path in the tree: path of the copy
	breaker      *breaker          // nil: nothing is to be broken but by past defects
}

// overlay writes changed sources into a folder, and gives the file that names
// them. Where places are to be broken, past defects are not.
func overlay(root, folder string, b *breaker) (path string, err error) {
	s := &seams{root, folder, map[string]string{}, b}
	for _, name := range target {
		if err := s.changeAll(name); err != nil {
			return "", err
		}
	}
	forget := filepath.Join(folder, "hal_forget.go")
	s.replace[filepath.Join(root, "hal", "forget.go")] = forget
	if err := os.WriteFile(forget, []byte(forgetful), 0o644); err != nil {
		return "", err
	}
	worlds, _ := filepath.Glob(filepath.Join(root, "tools/check/simulate/world", "*.go"))
	for _, file := range worlds {
		s.replace[filepath.Join(root, "tools/lmrun", "world_"+filepath.Base(file))] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": s.replace})
	path = filepath.Join(folder, "overlay.json")
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	return path, err
}

// forgetful lets the next world begin with nothing of a process that ended without
// giving it back.
const forgetful = `package hal

func Forget() { vfioShared.files, vfioShared.hasIOMMU = nil, false }
`

// changeAll changes the files of a package.
func (s *seams) changeAll(name string) error {
	paths, _ := filepath.Glob(filepath.Join(s.root, name, "*.go"))
	paths = slices.DeleteFunc(paths,
		func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	set, files, editors := token.NewFileSet(), []*ast.File{}, []*editor{}
	for _, path := range paths {
		relative := name + "/" + filepath.Base(path)
		if s.breaker != nil && !slices.Contains(s.breaker.packages["lightmetal/"+name].GoFiles,
			filepath.Base(path)) {
			continue // not built
		}
		source, err := os.ReadFile(path)
		if err == nil && s.breaker == nil {
			source, err = withPast(relative, source)
		}
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("%s as changed: %w", relative, err)
		}
		files, editors = append(files, file),
			append(editors, &editor{set: set, source: source, name: name, relative: relative})
	}
	var info *types.Info
	if s.breaker != nil {
		info = s.breaker.typed(set, "lightmetal/"+name, files)
	}
	for i, e := range editors {
		ast.Inspect(files[i], e.visit)
		if s.breaker != nil {
			(&breaks{e, s.breaker, "lightmetal/" + name, info, files[i]}).find()
		}
		if len(e.edits) == 0 && !bytes.Contains(e.source, []byte("simulated.Is(")) {
			continue
		}
		copied := filepath.Join(s.folder, strings.ReplaceAll(e.relative, "/", "_"))
		s.replace[filepath.Join(s.root, e.relative)] = copied
		if err := os.WriteFile(copied, e.apply(files[i]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// withPast puts past defects beside their mends.
func withPast(relative string, source []byte) ([]byte, error) {
	for _, p := range past {
		if p.File != relative {
			continue
		}
		if bytes.Count(source, []byte(p.Old)) != 1 {
			return nil, fmt.Errorf("%s: %q does not stand exactly once in %s: "+
				"change tools/check/simulate/past.go too", p.Name, p.Old, relative)
		}
		source = bytes.Replace(source, []byte(p.Old),
			[]byte(strings.ReplaceAll(p.New, "BROKEN", "simulated.Is("+strconv.Quote(p.Name)+")")),
			1)
	}
	return source, nil
}

// editor collects what is to change in one file.
type editor struct {
	set            *token.FileSet
	source         []byte
	name, relative string
	edits          []edit
}

func (e *editor) at(p token.Pos) int { return e.set.Position(p).Offset }

func (e *editor) put(at token.Pos, text string) {
	e.edits = append(e.edits, edit{e.at(at), e.at(at), text, 1 + len(e.edits)})
}

func (e *editor) text(n ast.Node) string { return string(e.source[e.at(n.Pos()):e.at(n.End())]) }

func (e *editor) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		e.function(n)
	case *ast.SelectorExpr:
		if of, ok := n.X.(*ast.Ident); ok && slices.Contains(led, e.name) &&
			slices.Contains(calls[of.Name], n.Sel.Name) {
			e.edits = append(e.edits, edit{e.at(of.Pos()), e.at(of.End()), "simulated", 1 << 30})
		}
	}
	return true
}

// calls are the functions, by their packages, that package kernel has, too.
var calls = map[string][]string{
	"unix": {"RawSyscall", "RawSyscall6", "Syscall", "Syscall6", "Open", "Openat", "Close", "Read",
		"Pread", "Ftruncate", "Fallocate", "Mlock", "MmapPtr", "IoctlSetPointerInt", "IoctlGetInt",
		"Readlink", "Fstat", "Mprotect", "EpollCreate1", "Prctl", "Exit"},
	"args": {"CommandLine"},
	"time": {"Since"},
}

func (e *editor) function(f *ast.FuncDecl) {
	if f.Body == nil || !slices.Contains(entered, e.name) {
		return
	}
	if e.name == "tools/lmrun" && f.Recv == nil && f.Name.Name == "main" {
		e.edits = append(e.edits, edit{e.at(f.Name.Pos()), e.at(f.Name.End()), "runner", 1 << 30})
	}
	e.put(f.Body.Lbrace+1, " simulated.Enter("+strconv.Quote(f.Name.Name)+");")
}

// apply gives the changed source.
func (e *editor) apply(file *ast.File) []byte {
	e.put(file.Name.End(), "; import simulated "+strconv.Quote(kernelImport))
	slices.SortFunc(e.edits, func(a, b edit) int { return cmp.Or(a.from-b.from, a.order-b.order) })
	var out bytes.Buffer
	at := 0
	for _, c := range e.edits {
		out.Write(e.source[at:c.from])
		out.WriteString(c.text)
		at = c.to
	}
	out.Write(e.source[at:])
	out.WriteString("\nvar _ = simulated.Is\n")
	for path, name := range map[string]string{"golang.org/x/sys/unix": "unix.EINVAL",
		"time": "time.Now", "lightmetal/tools/lmrun/args": "args.CommandLine"} {
		if bytes.Contains(e.source, []byte(strconv.Quote(path))) {
			out.WriteString("var _ = " + name + "\n")
		}
	}
	return out.Bytes()
}
