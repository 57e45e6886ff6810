package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// entered are the packages whose functions tell when they begin, led those whose
// system calls are led through package kernel, and breakable the files of which
// places can be broken by their number.
var (
	entered   = []string{"tools/lmrun", "tools/files"}
	led       = []string{"hal", "runtime", "tools/files", "tools/lmrun"}
	breakable = []string{"fbs/pass.go", "fbs/tables.go", "fbs/view.go", "fbs/flat.go", "hal/port.go", "runtime/file.go", "runtime/load.go", "runtime/replay.go", "runtime/freeze.go",
		"tools/lmrun/main.go", "tools/lmrun/frames.go", "tools/lmrun/stream.go", "tools/lmrun/ring.go", "tools/lmrun/watchdog.go", "tools/lmrun/report.go", "tools/files/output.go"}
)

const kernelImport = `lightmetal/tools/simulate/kernel`

// edit puts a text in the place of bytes of a file.
type edit struct {
	from, to int
	text     string
}

// Place is one that can be broken by its number, counted from 1.
type Place struct {
	Where, What string
}

// seams are changed copies of sources, for go build -overlay.
type seams struct {
	root    string
	replace map[string]string // path in the tree: path of the copy
	places  []Place
}

// overlay writes changed sources into a folder, and gives the file that names them.
func overlay(root, folder string) (path string, places []Place, err error) {
	s := &seams{root: root, replace: map[string]string{}}
	sources := map[string][]string{}
	for _, name := range append(slices.Clone(led), "fbs") {
		files, _ := filepath.Glob(filepath.Join(root, name, "*.go"))
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				sources[name] = append(sources[name], file)
			}
		}
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range sources {
			if !yield(name) {
				return
			}
		}
	}) {
		for _, file := range sources[name] {
			if err := s.change(name, file, folder); err != nil {
				return "", nil, err
			}
		}
	}
	worlds, _ := filepath.Glob(filepath.Join(root, "tools/simulate/world", "*.go"))
	for _, file := range worlds {
		s.replace[filepath.Join(root, "tools/lmrun", "world_"+filepath.Base(file))] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": s.replace})
	path = filepath.Join(folder, "overlay.json")
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	return path, s.places, err
}

// change writes the changed copy of one file.
func (s *seams) change(name, path, folder string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	relative := name + "/" + filepath.Base(path)
	for _, p := range past {
		if p.File == relative {
			if bytes.Count(source, []byte(p.Old)) != 1 {
				return fmt.Errorf("%s: %q is not once in %s: tools/simulate/past.go is to follow", p.Name, p.Old, relative)
			}
			source = bytes.Replace(source, []byte(p.Old), []byte(strings.ReplaceAll(p.New, "BROKEN", "simulated.Is("+strconv.Quote(p.Name)+")")), 1)
		}
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("%s as changed: %w", relative, err)
	}
	e := &editor{set: set, source: source, s: s, name: name, relative: relative}
	ast.Inspect(file, e.visit)
	if len(e.edits) == 0 && !bytes.Contains(source, []byte("simulated.Is(")) {
		return nil
	}
	copied := filepath.Join(folder, strings.ReplaceAll(relative, "/", "_"))
	s.replace[path] = copied
	return os.WriteFile(copied, e.apply(file), 0o644)
}

// editor collects what is to change in one file.
type editor struct {
	set            *token.FileSet
	source         []byte
	s              *seams
	name, relative string
	edits          []edit
}

func (e *editor) at(p token.Pos) int { return e.set.Position(p).Offset }

func (e *editor) put(at token.Pos, text string) {
	e.edits = append(e.edits, edit{e.at(at), e.at(at), text})
}

func (e *editor) text(n ast.Node) string { return string(e.source[e.at(n.Pos()):e.at(n.End())]) }

func (e *editor) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		e.function(n)
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(led, e.name) && slices.Contains(calls, f.Sel.Name) {
			if of, ok := f.X.(*ast.Ident); ok && of.Name == "unix" {
				e.edits = append(e.edits, edit{e.at(of.Pos()), e.at(of.End()), "simulated"})
			}
		}
	}
	if slices.Contains(breakable, e.relative) {
		e.breakable(n)
	}
	return true
}

// calls are the functions of package unix that package kernel has, too.
var calls = []string{"RawSyscall", "RawSyscall6", "Syscall", "Syscall6", "Open", "Close", "Read", "Pread", "Ftruncate", "Fallocate", "Mlock", "MmapPtr", "IoctlSetPointerInt", "IoctlGetInt"}

func (e *editor) function(f *ast.FuncDecl) {
	if f.Body == nil || !slices.Contains(entered, e.name) {
		return
	}
	if e.name == "tools/lmrun" && f.Recv == nil && f.Name.Name == "main" {
		e.edits = append(e.edits, edit{e.at(f.Name.Pos()), e.at(f.Name.End()), "runner"})
	}
	e.put(f.Body.Lbrace+1, " simulated.Enter();")
}

// breakable makes conditions that can be the opposite and statements that can be
// left out.
func (e *editor) breakable(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		e.condition(n.Cond)
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			for _, condition := range c.(*ast.CaseClause).List {
				if n.Tag == nil {
					e.condition(condition)
				}
			}
		}
	case *ast.BlockStmt:
		e.statements(n.List)
	case *ast.CaseClause:
		e.statements(n.Body)
	}
}

func (e *editor) place(n ast.Node, kind string) string {
	where := fmt.Sprintf("%s:%d", e.relative, e.set.Position(n.Pos()).Line)
	e.s.places = append(e.s.places, Place{where, kind + " " + strings.Join(strings.Fields(e.text(n)), " ")})
	return strconv.Itoa(len(e.s.places))
}

func (e *editor) condition(n ast.Expr) {
	if strings.Contains(e.text(n), "simulated.") {
		return
	}
	e.put(n.Pos(), "simulated.Not("+e.place(n, "not")+", ")
	e.put(n.End(), ")")
}

func (e *editor) statements(list []ast.Stmt) {
	for _, n := range list {
		switch s := n.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt:
		default:
			continue
		}
		e.put(n.Pos(), "if !simulated.Left("+e.place(n, "without")+") { ")
		e.put(n.End(), " }")
	}
}

// apply gives the changed source.
func (e *editor) apply(file *ast.File) []byte {
	e.put(file.Name.End(), "; import simulated "+strconv.Quote(kernelImport))
	slices.SortStableFunc(e.edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	at := 0
	for _, c := range e.edits {
		out.Write(e.source[at:c.from])
		out.WriteString(c.text)
		at = c.to
	}
	out.Write(e.source[at:])
	out.WriteString("\nvar _ = simulated.Is\n")
	if bytes.Contains(e.source, []byte(`"golang.org/x/sys/unix"`)) {
		out.WriteString("var _ = unix.EINVAL\n")
	}
	return out.Bytes()
}
