package house

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"testing"
)

// commandType matches types with which a caller could pass commands, or code that executes them.
var commandType = regexp.MustCompile(`\b(Command|CommandT|Walk|Pointer|uintptr)\b`)

// TestReplayExportsNoCommands requires that no exported field, function or method of package
// runtime has a type with which a caller could pass unverified commands.
func TestReplayExportsNoCommands(t *testing.T) {
	checked := 0
	checkType := func(name string, of ast.Expr) {
		checked++
		if text := types.ExprString(of); commandType.MatchString(text) {
			t.Errorf("%s is exported with type %s, which lets commands bypass the verifier", name,
				text)
		}
	}
	for _, file := range parsePackage(t, "runtime") {
		for _, declared := range file.Decls {
			switch d := declared.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					checkType(d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					checkSpec(d.Tok, spec, checkType)
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d exported types were found, at least 30 expected", checked)
	}
}

// checkSpec calls checkType for each exported variable, type, and field of a struct.
func checkSpec(kind token.Token, spec ast.Spec, checkType func(name string, of ast.Expr)) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if kind == token.VAR && name.IsExported() && s.Type != nil {
				checkType(name.Name, s.Type)
			}
		}
	case *ast.TypeSpec:
		structure, isStruct := s.Type.(*ast.StructType)
		if !isStruct && s.Name.IsExported() {
			checkType(s.Name.Name, s.Type)
		}
		for i := 0; isStruct && i < len(structure.Fields.List); i++ {
			f := structure.Fields.List[i]
			for _, name := range f.Names {
				if name.IsExported() {
					checkType(s.Name.Name+"."+name.Name, f.Type)
				}
			}
			if len(f.Names) == 0 {
				checkType(s.Name.Name, f.Type) // an embedded field exports all its methods
			}
		}
	}
}
