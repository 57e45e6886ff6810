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

// mutantList collects the mutants of the target: the ways to break its code in one position each.
// It knows the packages of the runner and the functions that are linked into it.
type mutantList struct {
	packages map[string]goPackage // by import path
	symbols  string               // names of the functions in the runner, one in each line
	mutants  []mutant
}

// goPackage contains the fields that `go list -json` prints for a package.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// mutant describes one way to break the code. Its number is its index in mutantList.mutants plus 1.
type mutant struct {
	position, change string
}

const targetTags = "signed"

func newMutantList(root, folder string) (*mutantList, error) {
	l := &mutantList{packages: map[string]goPackage{}}
	runGo := func(arguments ...string) (out []byte, err error) {
		c := exec.Command("go", arguments...)
		c.Dir, c.Stderr = root, os.Stderr
		return c.Output()
	}
	out, err := runGo("list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "-tags",
		targetTags, "./tools/lmrun")
	for d := json.NewDecoder(bytes.NewReader(out)); err == nil; {
		var p goPackage
		if err = d.Decode(&p); err == nil {
			l.packages[p.ImportPath] = p
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	// without inlining, each function that is called has a symbol
	programPath := filepath.Join(folder, "plain")
	if _, err = runGo("build", "-tags", targetTags, "-gcflags=all=-l", "-o", programPath,
		"./tools/lmrun"); err == nil {
		out, err = runGo("tool", "nm", programPath)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 2 {
			l.symbols += "\n" + strings.Join(fields[2:], " ") + "\n"
		}
	}
	return l, err
}

// typesOf returns the types of the expressions in the files of a package. Type errors are ignored.
func (l *mutantList) typesOf(fileSet *token.FileSet, path string, files []*ast.File) *types.Info {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{},
		Uses: map[*ast.Ident]types.Object{}}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(l.packages[path].Export) }
	config := types.Config{Importer: importer.ForCompiler(fileSet, "gc", lookup),
		Error: func(error) {}}
	_, _ = config.Check(path, fileSet, files, info)
	return info
}

// mutantFinder finds the mutants of one file.
type mutantFinder struct {
	*editor
	*mutantList
	packagePath string
	info        *types.Info
	file        *ast.File
}

// findMutants adds the mutants of all declarations that have code in the runner: functions that are
// linked into it, and the initial values of variables.
func (b *mutantFinder) findMutants() {
	for _, declared := range b.file.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok && !b.isLinked(f) {
			continue
		}
		ast.Inspect(declared, b.mutateNode)
	}
}

// isLinked reports whether a function is part of the runner.
func (b *mutantFinder) isLinked(f *ast.FuncDecl) bool {
	name := f.Name.Name
	if f.Recv != nil {
		receiver := types.ExprString(f.Recv.List[0].Type)
		if strings.HasPrefix(receiver, "*") {
			receiver = "(" + receiver + ")"
		}
		name = receiver + "." + name
	}
	symbolPrefix := b.packagePath
	if symbolPrefix == "lightmetal/tools/lmrun" {
		symbolPrefix = "main"
	}
	return strings.Contains(b.symbols, "\n"+symbolPrefix+"."+name+"\n") ||
		strings.Contains(b.symbols, "\n"+symbolPrefix+"."+name+"[")
}

// mutateNode adds the mutants of a syntax node. It reports whether ast.Inspect visits the children.
func (b *mutantFinder) mutateNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ArrayType:
		return false // the length of an array must be a constant
	case *ast.KeyValueExpr:
		ast.Inspect(n.Value, b.mutateNode)
		return false // a key may have to be a constant
	case *ast.IfStmt:
		b.mutateCondition(n.Cond, onlyReturns(n))
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			for _, condition := range c.(*ast.CaseClause).List {
				if n.Tag == nil {
					b.mutateCondition(condition, false)
				}
			}
		}
	case *ast.ForStmt:
		if n.Cond != nil {
			b.mutateCondition(n.Cond, false)
		}
	case *ast.BlockStmt:
		b.mutateStatements(n.List)
	case *ast.CaseClause:
		b.mutateStatements(n.Body)
	case *ast.CallExpr:
		b.mutateArguments(n)
	}
	if e, ok := n.(ast.Expr); ok {
		b.mutateBound(e)
		return !b.mutateConstant(e)
	}
	return true
}

// onlyReturns reports whether an if statement has no else branch and its body only returns.
func onlyReturns(n *ast.IfStmt) bool {
	if len(n.Body.List) != 1 || n.Else != nil {
		return false
	}
	_, ok := n.Body.List[0].(*ast.ReturnStmt)
	return ok
}

// addMutant adds a mutant that changes n, and returns its number. The parameter kind names the
// change.
func (b *mutantFinder) addMutant(n ast.Node, kind string) string {
	position := fmt.Sprintf("%s:%d", b.relativePath, b.fileSet.Position(n.Pos()).Line)
	b.mutants = append(b.mutants, mutant{position, kind + " " +
		strings.Join(strings.Fields(b.sourceOf(n)), " ")})
	return strconv.Itoa(len(b.mutants))
}

// wrap inserts text before and after n.
func (b *mutantFinder) wrap(n ast.Node, before, after string) {
	b.insert(n.Pos(), before)
	b.edits = append(b.edits, edit{b.offset(n.End()), b.offset(n.End()), after, -len(b.edits)})
}

// mutateCondition adds a mutant that negates a condition. If the condition leads to a return, it
// adds a second mutant, in which the condition is never true.
func (b *mutantFinder) mutateCondition(n ast.Expr, onlyReturns bool) {
	b.wrap(n, "simulated.Negate("+b.addMutant(n, "negated")+", ", ")")
	if onlyReturns {
		b.wrap(n, "simulated.NeverTrue("+b.addMutant(n, "never true")+", ", ")")
	}
}

// mutateStatements adds mutants that omit one statement each.
func (b *mutantFinder) mutateStatements(list []ast.Stmt) {
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
		b.wrap(n, "if !simulated.IsOmitted("+b.addMutant(n, "omitted")+") { ", " }")
	}
}

// mutateBound adds a mutant that inverts an ordering comparison if its operands are equal: it
// replaces < by <=, for example.
func (b *mutantFinder) mutateBound(n ast.Expr) {
	c, ok := n.(*ast.BinaryExpr)
	if !ok || b.info.Types[n].Value != nil || !isRepeatable(c.X) || !isRepeatable(c.Y) {
		return
	}
	equal := "(" + b.sourceOf(c.X) + ") == (" + b.sourceOf(c.Y) + ")"
	switch c.Op {
	case token.LSS, token.GTR, token.LEQ, token.GEQ:
		b.wrap(n, "simulated.ToggleIfEqual("+b.addMutant(n, "inverted if equal")+", ",
			", "+equal+")")
	}
}

// isRepeatable reports whether an expression has no side effects, so that it can be evaluated
// twice.
func isRepeatable(e ast.Expr) bool {
	repeatable := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name, isIdent := n.Fun.(*ast.Ident)
			repeatable = repeatable && isIdent &&
				slices.Contains([]string{"len", "int", "int64", "uint64", "uint32", "uintptr"},
					name.Name)
		case *ast.FuncLit:
			repeatable = false
		case *ast.UnaryExpr:
			repeatable = repeatable && n.Op != token.ARROW
		}
		return repeatable
	})
	return repeatable
}

// mutateConstant adds a mutant that adds 1 to an integer constant, or negates a boolean constant.
// It reports whether e is a constant.
func (b *mutantFinder) mutateConstant(e ast.Expr) bool {
	value := b.info.Types[e]
	if value.Value == nil {
		return false
	}
	basic, ok := value.Type.Underlying().(*types.Basic)
	switch {
	case !ok:
	case basic.Info()&types.IsBoolean != 0:
		b.wrap(e, "simulated.Negate("+b.addMutant(e, "negated")+", ", ")")
	case basic.Info()&types.IsInteger != 0 && basic.Info()&types.IsUntyped == 0 &&
		b.typeName(value.Type) != "":
		number := b.addMutant(e, "incremented")
		b.wrap(e, "simulated.Increment["+b.typeName(value.Type)+"]("+number+", ", ")")
	}
	return true
}

// typeName returns a type's name as it can be written in this file, or "" if the file does not
// import the package of the type.
func (b *mutantFinder) typeName(t types.Type) string {
	missing := false
	name := types.TypeString(t, func(p *types.Package) string {
		if p.Path() == b.packagePath {
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

// mutateArguments adds mutants that swap two adjacent arguments of the same type.
func (b *mutantFinder) mutateArguments(n *ast.CallExpr) {
	if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "append" || n.Ellipsis.IsValid() {
		return
	}
	for i := 0; i+1 < len(n.Args); i++ {
		x, y := n.Args[i], n.Args[i+1]
		typeX, typeY := b.info.Types[x], b.info.Types[y]
		if typeX.Value != nil || typeY.Value != nil || typeX.Type == nil || typeY.Type == nil ||
			typeX.IsType() || typeY.IsType() || !types.Identical(typeX.Type, typeY.Type) ||
			!isRepeatable(x) || !isRepeatable(y) {
			continue
		}
		number := b.addMutant(n, fmt.Sprintf("arguments %d and %d swapped in", i+1, i+2))
		b.wrap(x, "simulated.Swap("+number+", ", ", "+b.sourceOf(y)+")")
		b.wrap(y, "simulated.Swap("+number+", ", ", "+b.sourceOf(x)+")")
		i++
	}
}
