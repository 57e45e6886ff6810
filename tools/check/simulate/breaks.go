package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// breaker knows what of the target can be broken: the files of its packages that
// are built, the types in them, and the functions that the program has.
type breaker struct {
	packages map[string]listed // by import path
	symbols  string            // a line each
	places   []Place
}

// listed is a package as go list has it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// Place is one that can be broken by its number, counted from 1.
type Place struct {
	Where, What string
}

const targetTags = "signed"

func newBreaker(root, folder string) (*breaker, error) {
	b := &breaker{packages: map[string]listed{}}
	run := func(arguments ...string) (out []byte, err error) {
		c := exec.Command("go", arguments...)
		c.Dir, c.Stderr = root, os.Stderr
		return c.Output()
	}
	out, err := run("list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "-tags",
		targetTags, "./tools/lmrun")
	for d := json.NewDecoder(bytes.NewReader(out)); err == nil; {
		var p listed
		if err = d.Decode(&p); err == nil {
			b.packages[p.ImportPath] = p
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	plain := filepath.Join(folder, "plain")
	if _, err = run("build", "-tags", targetTags, "-gcflags=all=-l", "-o", plain,
		"./tools/lmrun"); err == nil {
		out, err = run("tool", "nm", plain)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 2 {
			b.symbols += "\n" + strings.Join(fields[2:], " ") + "\n"
		}
	}
	return b, err
}

// typed is what is known of the types in the files of a package.
func (b *breaker) typed(set *token.FileSet, path string, files []*ast.File) *types.Info {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{},
		Uses: map[*ast.Ident]types.Object{}}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(b.packages[path].Export) }
	config := types.Config{Importer: importer.ForCompiler(set, "gc", lookup), Error: func(error) {}}
	_, _ = config.Check(path, set, files, info)
	return info
}

// breaks finds the places of one file.
type breaks struct {
	*editor
	*breaker
	path string // of the package
	info *types.Info
	file *ast.File
}

// find has places made in whatever runs: functions that the program has, and
// tables.
func (b *breaks) find() {
	for _, declared := range b.file.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && !b.linked(f) {
			continue
		}
		ast.Inspect(declared, b.visit)
	}
}

// linked tells whether a function is in the program.
func (b *breaks) linked(f *ast.FuncDecl) bool {
	name := f.Name.Name
	if f.Recv != nil {
		of := types.ExprString(f.Recv.List[0].Type)
		if strings.HasPrefix(of, "*") {
			of = "(" + of + ")"
		}
		name = of + "." + name
	}
	path := b.path
	if path == "lightmetal/tools/lmrun" {
		path = "main"
	}
	return strings.Contains(b.symbols, "\n"+path+"."+name+"\n") ||
		strings.Contains(b.symbols, "\n"+path+"."+name+"[")
}

func (b *breaks) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ArrayType:
		return false // its length is a constant
	case *ast.KeyValueExpr:
		ast.Inspect(n.Value, b.visit)
		return false // a key may have to be a constant
	case *ast.IfStmt:
		b.condition(n.Cond, returns(n))
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			for _, condition := range c.(*ast.CaseClause).List {
				if n.Tag == nil {
					b.condition(condition, false)
				}
			}
		}
	case *ast.ForStmt:
		if n.Cond != nil {
			b.condition(n.Cond, false)
		}
	case *ast.BlockStmt:
		b.statements(n.List)
	case *ast.CaseClause:
		b.statements(n.Body)
	case *ast.CallExpr:
		b.arguments(n)
	}
	if e, ok := n.(ast.Expr); ok {
		b.edge(e)
		return !b.constant(e)
	}
	return true
}

// returns tells whether all that an if does is to return.
func returns(n *ast.IfStmt) bool {
	if len(n.Body.List) != 1 || n.Else != nil {
		return false
	}
	_, ok := n.Body.List[0].(*ast.ReturnStmt)
	return ok
}

// place numbers a way to break something.
func (b *breaks) place(n ast.Node, kind string) string {
	where := fmt.Sprintf("%s:%d", b.relative, b.set.Position(n.Pos()).Line)
	b.places = append(b.places, Place{where, kind + " " +
		strings.Join(strings.Fields(b.text(n)), " ")})
	return strconv.Itoa(len(b.places))
}

func (b *breaks) around(n ast.Node, before, after string) {
	b.put(n.Pos(), before)
	b.edits = append(b.edits, edit{b.at(n.End()), b.at(n.End()), after, -len(b.edits)})
}

// condition can be the opposite, and one that leads to a return never true.
func (b *breaks) condition(n ast.Expr, returns bool) {
	b.around(n, "simulated.Not("+b.place(n, "not")+", ", ")")
	if returns {
		b.around(n, "simulated.Never("+b.place(n, "never")+", ", ")")
	}
}

// statements can be left out.
func (b *breaks) statements(list []ast.Stmt) {
	for _, n := range list {
		switch s := n.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt:
		default:
			continue
		}
		b.around(n, "if !simulated.Left("+b.place(n, "without")+") { ", " }")
	}
}

// edge lets a comparison of order hold at its limit, or not.
func (b *breaks) edge(n ast.Expr) {
	c, ok := n.(*ast.BinaryExpr)
	if !ok || b.info.Types[n].Value != nil || !quiet(c.X) || !quiet(c.Y) {
		return
	}
	equal := "(" + b.text(c.X) + ") == (" + b.text(c.Y) + ")"
	switch c.Op {
	case token.LSS, token.GTR, token.LEQ, token.GEQ:
		b.around(n, "simulated.Edge("+b.place(n, "edge of")+", ", ", "+equal+")")
	}
}

// quiet tells whether an expression does nothing and can be taken twice.
func quiet(e ast.Expr) bool {
	is := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name, plain := n.Fun.(*ast.Ident)
			is = is && plain &&
				slices.Contains([]string{"len", "int", "int64", "uint64", "uint32", "uintptr"},
					name.Name)
		case *ast.FuncLit:
			is = false
		case *ast.UnaryExpr:
			is = is && n.Op != token.ARROW
		}
		return is
	})
	return is
}

// constant can be one more, or the other truth. It tells whether e is one.
func (b *breaks) constant(e ast.Expr) bool {
	known := b.info.Types[e]
	if known.Value == nil {
		return false
	}
	basic, ok := known.Type.Underlying().(*types.Basic)
	switch {
	case !ok:
	case basic.Info()&types.IsBoolean != 0:
		b.around(e, "simulated.Not("+b.place(e, "not")+", ", ")")
	case basic.Info()&types.IsInteger != 0 && basic.Info()&types.IsUntyped == 0 &&
		b.named(known.Type) != "":
		b.around(e, "simulated.Next["+b.named(known.Type)+"]("+b.place(e, "one more than")+", ",
			")")
	}
	return true
}

// named is a type as this file writes it, empty where it does not.
func (b *breaks) named(t types.Type) string {
	missing := false
	name := types.TypeString(t, func(p *types.Package) string {
		if p.Path() == b.path {
			return ""
		}
		for _, i := range b.file.Imports {
			if i.Path.Value == strconv.Quote(p.Path()) && i.Name == nil {
				return p.Name()
			}
		}
		missing = true
		return ""
	})
	if missing {
		return ""
	}
	return name
}

// arguments of one type that stand side by side can be taken for each other.
func (b *breaks) arguments(n *ast.CallExpr) {
	if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "append" || n.Ellipsis.IsValid() {
		return
	}
	for i := 0; i+1 < len(n.Args); i++ {
		x, y := n.Args[i], n.Args[i+1]
		tx, ty := b.info.Types[x], b.info.Types[y]
		if tx.Value != nil || ty.Value != nil || tx.Type == nil || ty.Type == nil || tx.IsType() ||
			ty.IsType() || !types.Identical(tx.Type, ty.Type) || !quiet(x) || !quiet(y) {
			continue
		}
		number := b.place(n, fmt.Sprintf("swapped %d and %d of", i+1, i+2))
		b.around(x, "simulated.One("+number+", ", ", "+b.text(y)+")")
		b.around(y, "simulated.One("+number+", ", ", "+b.text(x)+")")
		i++
	}
}
