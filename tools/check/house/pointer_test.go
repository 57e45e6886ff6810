package house

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

// addressNumbers are the functions that may convert a pointer to a number outside a system call's
// arguments, with the reason why this is safe.
var addressNumbers = map[string]string{
	"fbs/flat.go RootTable": "checks the alignment, and keeps no number",
	"hal/walk.go NextIndex": "subtracts two addresses, and keeps no number",
	"hal/walk.go AddressOf": "for tables of a Walk; the caller keeps the memory, which is never " +
		"on a stack",
	"runtime/seal.go prepareMemoryFault": "compares the position in a span, and keeps no number",
	"tools/lmrun/files/output.go nameAddress": "names in memory that hal.Mmap mapped, which " +
		"does not move",
}

// systemCalls are the functions whose arguments Go keeps alive and does not move until the call
// returns, if the conversion is in the argument list (package unsafe, rule 4).
var systemCalls = []string{"Syscall", "Syscall6", "RawSyscall", "RawSyscall6"}

// TestPointersBecomeNumbersInSystemCallsOnly checks each uintptr(pointer) of the target's packages.
// A number does not keep memory alive, so the kernel might read or write memory that was freed or
// moved.
func TestPointersBecomeNumbersInSystemCallsOnly(t *testing.T) {
	found, inCalls := map[string]bool{}, 0
	for folder := range allowedImports {
		files := parsePackage(t, folder)
		types := typesOf(files)
		for name, file := range files {
			for _, declaration := range file.Decls {
				declaredPlace := name
				if f, ok := declaration.(*ast.FuncDecl); ok {
					declaredPlace += " " + f.Name.Name
				} else if v, ok := declaration.(*ast.GenDecl); ok && v.Tok == token.VAR {
					declaredPlace += " " + v.Specs[0].(*ast.ValueSpec).Names[0].Name
				}
				allowed := argumentsOfSystemCalls(declaration)
				for _, conversion := range pointersAsNumbers(declaration, types) {
					switch {
					case allowed[conversion]:
						inCalls++
					case addressNumbers[declaredPlace] != "":
						found[declaredPlace] = true
					default:
						where := positions.Position(conversion.Pos())
						t.Errorf("%v: uintptr(pointer) outside a system call's arguments", where)
					}
				}
			}
		}
	}
	if len(found) != len(addressNumbers) {
		t.Errorf("addressNumbers has %v, of which only these are needed: %v", addressNumbers, found)
	}
	if inCalls < 5 {
		t.Errorf("only %d conversions in system calls were found, want at least 5", inCalls)
	}
}

// argumentsOfSystemCalls returns the expressions that are arguments of system calls.
func argumentsOfSystemCalls(in ast.Node) map[ast.Expr]bool {
	arguments := map[ast.Expr]bool{}
	ast.Inspect(in, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok &&
				slices.Contains(systemCalls, f.Sel.Name) {
				for _, argument := range call.Args {
					arguments[argument] = true
				}
			}
		}
		return true
	})
	return arguments
}

// pointersAsNumbers returns the conversions of an unsafe.Pointer to uintptr.
func pointersAsNumbers(in ast.Node, known map[ast.Expr]types.TypeAndValue) (list []ast.Expr) {
	ast.Inspect(in, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 {
			to, ok := call.Fun.(*ast.Ident)
			from := known[call.Args[0]].Type
			if ok && to.Name == "uintptr" && from == types.Typ[types.UnsafePointer] {
				list = append(list, call)
			}
		}
		return true
	})
	return list
}

// typesOf returns the types of the expressions in a package. Types of other packages are unknown.
func typesOf(files map[string]*ast.File) map[ast.Expr]types.TypeAndValue {
	known := map[ast.Expr]types.TypeAndValue{}
	check := types.Config{Importer: noImports{}, Error: func(error) {}, FakeImportC: true}
	all := slices.Collect(maps.Values(files))
	_, _ = check.Check("p", positions, all, &types.Info{Types: known})
	return known
}

// noImports is an importer for which all packages except unsafe are empty.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	p := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	p.MarkComplete()
	return p, nil
}
