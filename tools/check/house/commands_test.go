package house

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"testing"
)

// executable matches types by which a caller could hand over commands, or what
// executes them.
var executable = regexp.MustCompile(`\b(Command|CommandT|Walk|Pointer|uintptr)\b`)

// TestReplayExportsNoCommands: no exported field, function or method of package
// runtime has a type by which commands come in without verification.
func TestReplayExportsNoCommands(t *testing.T) {
	looked := 0
	look := func(name string, of ast.Expr) {
		looked++
		if text := types.ExprString(of); executable.MatchString(text) {
			t.Errorf("%s is exported with type %s, by which commands pass the verifier", name, text)
		}
	}
	for _, file := range sources(t, "runtime") {
		for _, declared := range file.Decls {
			switch d := declared.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					look(d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					lookAtSpec(d.Tok, spec, look)
				}
			}
		}
	}
	if looked < 30 {
		t.Errorf("only %d exported types were found, at least 30 expected", looked)
	}
}

// lookAtSpec calls look for each exported variable, type, and field of a struct.
func lookAtSpec(kind token.Token, spec ast.Spec, look func(name string, of ast.Expr)) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if kind == token.VAR && name.IsExported() && s.Type != nil {
				look(name.Name, s.Type)
			}
		}
	case *ast.TypeSpec:
		structure, isStruct := s.Type.(*ast.StructType)
		if !isStruct && s.Name.IsExported() {
			look(s.Name.Name, s.Type)
		}
		for i := 0; isStruct && i < len(structure.Fields.List); i++ {
			f := structure.Fields.List[i]
			for _, name := range f.Names {
				if name.IsExported() {
					look(s.Name.Name+"."+name.Name, f.Type)
				}
			}
			if len(f.Names) == 0 {
				look(s.Name.Name, f.Type) // embedded, with all its methods
			}
		}
	}
}
