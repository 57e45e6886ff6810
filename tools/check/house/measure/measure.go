// Package measure counts what a reader has to understand of sources, however their
// lines are broken: statements, declared names, fields and rows of tables of Go,
// instructions of assembly, and statements of C. Comments are free. It also measures
// how dense the lines are, how long the functions, and how many words the comments have.
package measure

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// elementsPerRow is how many elements of a composite literal count as one: a row of a
// table.
const elementsPerRow = 4

// File counts a file by the ending of its name. Files of other languages have no
// statements.
func File(path string) (int, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	switch filepath.Ext(path) {
	case ".go":
		return Go(path, source)
	case ".s", ".S":
		return Assembly(source), nil
	case ".c", ".h":
		return C(source), nil
	}
	return 0, nil
}

// Go counts a Go source. The name is for messages.
func Go(name string, source []byte) (n int, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		n += weight(node)
		return true
	})
	return n, nil
}

// weight is what a node counts by itself, without what is below it.
func weight(node ast.Node) int {
	switch node := node.(type) {
	case *ast.BlockStmt, *ast.LabeledStmt, *ast.EmptyStmt, *ast.DeclStmt:
		return 0 // the statements and declarations in them count
	case *ast.FuncDecl, *ast.TypeSpec, *ast.ValueSpec, ast.Stmt:
		return 1
	case *ast.StructType:
		return len(node.Fields.List)
	case *ast.CompositeLit:
		return len(node.Elts) / elementsPerRow
	}
	return 0
}

// Assembly counts the instructions of a source: lines that are no comment, label or
// line of the preprocessor, and what follows a semicolon in them.
func Assembly(source []byte) (n int) {
	for line := range bytes.Lines(cComments.ReplaceAll(source, []byte(" "))) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[len(line)-1] != ':' {
			n += 1 + bytes.Count(line, []byte(";"))
		}
	}
	return n
}

var (
	cComments = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	// Comments, and strings, which may look like a comment or a statement.
	cSkipped = regexp.MustCompile(`(?s)"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//[^\n]*|/\*.*?\*/`)
	cLines   = regexp.MustCompile(`(?m)^[ \t]*#(?:.*\\\n)*.*$`)
	cTokens  = regexp.MustCompile(`\b(?:if|for|while|switch|case|default)\b|\)\s*\{|[(){};]`)
)

// C counts the statements of a source: semicolons outside of parentheses, functions,
// and what branches. It reads tokens and no grammar, and lines of the preprocessor are
// left out.
func C(source []byte) (n int) {
	text := cLines.ReplaceAll(cSkipped.ReplaceAll(source, []byte(" ")), nil)
	parentheses, braces := 0, 0
	for _, token := range cTokens.FindAllString(string(text), -1) {
		switch {
		case token == "(":
			parentheses++
		case token == ")":
			parentheses--
		case token == "{":
			braces++
		case token == "}":
			braces--
		case strings.HasSuffix(token, "{"): // after a parenthesis
			parentheses--
			if braces == 0 {
				n++ // a function
			}
			braces++
		case token == ";" && parentheses > 0: // of a for
		default:
			n++
		}
	}
	return n
}

// Density counts the lines of code of a source, and their characters without white space
// at either end. Empty lines and lines that are all comment do not count.
func Density(source []byte) (lines, characters int) {
	inComment := false
	for line := range bytes.Lines(source) {
		line = bytes.TrimSpace(line)
		opens := bytes.HasPrefix(line, []byte("/*"))
		switch {
		case len(line) == 0:
		case inComment || opens || bytes.HasPrefix(line, []byte("//")):
			inComment = (inComment || opens) && !bytes.Contains(line, []byte("*/"))
		default:
			lines++
			characters += utf8.RuneCount(line)
		}
	}
	return lines, characters
}

// Words counts the words of the comments of a Go source or assembly, and its lines of code.
// Directives, build constraints and single marks such as a dash are no words.
func Words(source []byte) (words, lines int) {
	code := wordSkipped.ReplaceAllFunc(source, func(text []byte) []byte {
		if text[0] != '/' {
			return text
		}
		if !directive.Match(text) {
			words += len(word.FindAll(text, -1))
		}
		return nil
	})
	for line := range bytes.Lines(code) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines++
		}
	}
	return words, lines
}

var (
	// Comments, and literals, which may look like a comment.
	wordSkipped = regexp.MustCompile("(?s)\"(?:\\\\.|[^\"\\\\])*\"|'(?:\\\\.|[^'\\\\])*'|`[^`]*`|" +
		`//[^\n]*|/\*.*?\*/`)
	directive = regexp.MustCompile(`^//(go:|line |export | ?\+build )`)
	word      = regexp.MustCompile(`[^\s]*[\pL\pN][^\s]*`)
)

// Function is a function of a Go source, with how many lines it has.
type Function struct {
	Name  string
	Lines int
}

// Functions returns the functions of a Go source that have a body. The name is for
// messages.
func Functions(name string, source []byte) (list []Function, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Body != nil {
			lines := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
			list = append(list, Function{f.Name.Name, lines})
		}
	}
	return list, nil
}

// Compiled lists the files of this module's own packages that go build compiles into a
// program for arm64 with these build tags, generated ones left out.
func Compiled(root, program, tags string) (paths []string, err error) {
	const format = `{{if and .Module .Module.Main}}{{$folder := .Dir}}` +
		`{{range .GoFiles}}{{$folder}}/{{.}}{{"\n"}}{{end}}` +
		`{{range .SFiles}}{{$folder}}/{{.}}{{"\n"}}{{end}}{{end}}`
	list := exec.Command("go", "list", "-deps", "-tags", tags, "-f", format, "./"+program)
	list.Dir = root
	list.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list of %s with tags %q: %w", program, tags, err)
	}
	for path := range strings.Lines(string(out)) {
		if path = strings.TrimSuffix(path, "\n"); path != "" {
			generated, err := IsGenerated(path)
			if err != nil {
				return nil, err
			}
			if !generated {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

var generatedMark = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// Product counts the statements of what go build compiles into a program for arm64 with
// these build tags, generated code left out.
func Product(root, program, tags string) (n int, err error) {
	paths, err := Compiled(root, program, tags)
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		count, err := File(path)
		if err != nil {
			return 0, err
		}
		n += count
	}
	return n, nil
}

// IsGenerated reports whether a file has the line that Go's tools go by.
func IsGenerated(path string) (bool, error) {
	source, err := os.ReadFile(path)
	return generatedMark.Match(source), err
}
