package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommentsOfFunctionsBeginWithTheirNames checks the comment of each function outside of tests,
// so that a comment does not keep the former name of a function. A comment may begin with a word
// that is not a name, such as "A" or "These".
func TestCommentsOfFunctionsBeginWithTheirNames(t *testing.T) {
	checked := 0
	visitFiles(t, func(path string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		source, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(file) {
			return
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Doc == nil {
				continue
			}
			checked++
			first, _, _ := strings.Cut(function.Doc.Text(), " ")
			if !isNameOfOther(first, function.Name.Name) {
				continue
			}
			t.Errorf("%s: the comment of %s begins with %q", set.Position(function.Pos()),
				function.Name.Name, first)
		}
	})
	if checked < 1000 {
		t.Errorf("only %d comments were found, want at least 1000", checked)
	}
}

// isNameOfOther reports whether a comment's first word is a name, but not the function's: a word
// with a capital letter inside, as in camelCase.
func isNameOfOther(word, function string) bool {
	word = strings.TrimRight(word, ",:")
	if word == function || word == "" {
		return false
	}
	for _, letter := range word[1:] {
		if letter >= 'a' && letter <= 'z' {
			continue
		}
		return letter >= 'A' && letter <= 'Z' && strings.ToUpper(word) != word
	}
	return false
}
