package house

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/tools/check/house/measure"
)

// visitTargetFiles calls f with the path and text of each source that runs on a target: without
// generated code, tests, mocks, and code that only hosts use.
func visitTargetFiles(t *testing.T, f func(path string, source []byte)) {
	t.Helper()
	visitFiles(t, func(path string) {
		s := folderSet(path)
		if s == nil || s.name != targetSet && s.name != lminitSet ||
			strings.Contains(path, "/testdata/") || strings.HasSuffix(path, "_test.go") {
			return
		}
		isGenerated, err := measure.IsGenerated(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if !isGenerated {
			f(path, source)
		}
	})
}

// bannedNames are identifiers that were renamed because they do not say what they name.
var bannedNames = strings.Fields("odd through gave taken aside settle patience remember engage " +
	"own look show translate held broken forget beside vanished mine food hopeless errand " +
	"mishap foretold bury wounds notHost")

// bannedMethods must not be names of methods, including methods of interfaces.
var bannedMethods = strings.Fields("Alone Reach Master Aim")

// declaredName is an identifier that a file declares for its package: a function, method, field,
// or a variable, constant or type of the package.
type declaredName struct {
	name     string
	isMethod bool
	at       token.Pos
}

// declaredNames returns the names that a file declares. Locals and parameters do not count.
func declaredNames(file *ast.File) (names []declaredName) {
	add := func(isMethod bool, identifiers ...*ast.Ident) {
		for _, i := range identifiers {
			names = append(names, declaredName{i.Name, isMethod, i.Pos()})
		}
	}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			add(d.Recv != nil, d.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					add(false, s.Names...)
				case *ast.TypeSpec:
					add(false, s.Name)
				}
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, field := range n.Fields.List {
				add(false, field.Names...)
			}
		case *ast.InterfaceType:
			for _, method := range n.Methods.List {
				add(true, method.Names...)
			}
		}
		return true
	})
	return names
}

// isBanned reports whether a declared name is one of bannedNames or bannedMethods.
func isBanned(n declaredName) bool {
	return slices.Contains(bannedNames, n.name) ||
		n.isMethod && slices.Contains(bannedMethods, n.name)
}

// TestTargetDeclaresNoBannedName prevents that names are used again after they were replaced.
func TestTargetDeclaresNoBannedName(t *testing.T) {
	read := 0
	visitTargetFiles(t, func(path string, source []byte) {
		if filepath.Ext(path) != ".go" {
			return
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		names := declaredNames(file)
		read += len(names)
		for _, n := range names {
			if isBanned(n) {
				t.Errorf("%v: declares %s; name it after what it does or returns",
					set.Position(n.at), n.name)
			}
		}
	})
	if read < 1000 {
		t.Errorf("only %d names were read, want at least 1000", read)
	}
}

// phrases are expressions that readers of the code did not understand, or that have a plainer
// word. A space matches any white space, line ends included; case does not matter.
var phrases = []struct {
	name    string
	pattern *regexp.Regexp
	instead string
}{
	{"stand-in", phrase(`\bstand-?ins?\b`), "mock"},
	{"lane", phrase(`\blanes?\b`), "backend"},
	{"gives", phrase(`\bgives\b`), "returns, provides"},
	{"tells", phrase(`\btells\b`), "reports, prints, shows"},
	{"is told", phrase(toldNotApart), "is called, receives"},
	{"holds against", phrase(`\b(holds?|held|holding)\b[^.;]*\bagainst\b`), "compares with"},
	{"carries out", phrase(`\bcarr(y|ies|ied|ying)( \S+){0,3} out\b`), "executes"},
	{"anew", phrase(`\banew\b`), "again"},
	{"is none", phrase(`\bis none\b`), "does not exist, is not a"},
	{"of none", phrase(`\bof none\b`), "without"},
	{"nobody", phrase(`(^|[.:;!?] |\b(that|which|if|where) )nobody\b`), "name the subject"},
	{"meant by", phrase(`\bmeant by\b`), "means"},
	{"as ever", phrase(`\bas ever\b`), "as usual, unchanged"},
	{"comes to be", phrase(`\b(comes?|came) to be\b`), "becomes"},
	{"The parameter", phrase(`(^|[.!?] )the parameter\b`), "its name in the sentence"},
	{"Therefore", phrase(`(^|[.!?] )therefore\b`), "so, or the reason first"},
}

// toldNotApart leaves out "told apart".
const toldNotApart = `\b(is|are|was|were|be|been|being) told(\W*$|[.,;:)]| [^a]| a[^p])`

// phrase compiles the pattern of a phrase.
func phrase(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + strings.ReplaceAll(pattern, " ", `\s+`))
}

// phraseExceptions are places where the words of a phrase have their plain meaning.
var phraseExceptions = []struct{ file, text, reason string }{}

// excerpt is a comment or a string literal of a source.
type excerpt struct {
	line int
	text string
}

// excerptsOfGo returns the texts of a Go source. Adjacent line comments are one text, so that a
// phrase may span lines.
func excerptsOfGo(source []byte) (texts []excerpt) {
	var s scanner.Scanner
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(source))
	s.Init(file, source, nil, scanner.ScanComments)
	lastLine := -1 // last line of the previous comment, or -1 if code followed
	for {
		pos, kind, literal := s.Scan()
		line := file.Line(pos)
		switch {
		case kind == token.EOF:
			return texts
		case kind == token.COMMENT:
			text := strings.TrimPrefix(literal, "//")
			if line == lastLine+1 && strings.HasPrefix(literal, "//") {
				texts[len(texts)-1].text += "\n" + text
			} else {
				texts = append(texts, excerpt{line, text})
			}
			lastLine = line
		case kind == token.STRING:
			if text, err := strconv.Unquote(literal); err == nil {
				texts = append(texts, excerpt{line, text})
			}
			lastLine = -1
		case kind != token.SEMICOLON || literal == ";":
			lastLine = -1
		}
	}
}

var commentsOfC = regexp.MustCompile(`(?s)(?:[ \t]*//[^\n]*\n?)+|/\*.*?\*/`)

// marksOfC matches the characters that begin the lines of a comment, or end it.
var marksOfC = regexp.MustCompile(`(?m)^[ \t]*(//|/?\*+/?)|\*/`)

// excerptsOfC returns the comments of a C header or of assembly.
func excerptsOfC(source []byte) (texts []excerpt) {
	for _, at := range commentsOfC.FindAllIndex(source, -1) {
		line := 1 + strings.Count(string(source[:at[0]]), "\n")
		text := marksOfC.ReplaceAllString(string(source[at[0]:at[1]]), "")
		texts = append(texts, excerpt{line, text})
	}
	return texts
}

// finding is a phrase in a file.
type finding struct {
	line          int
	text, instead string
}

// findPhrases returns the phrases in texts.
func findPhrases(texts []excerpt) (found []finding) {
	for _, e := range texts {
		text := strings.TrimSpace(e.text)
		skipped := strings.Count(e.text[:strings.Index(e.text, text)], "\n")
		for _, p := range phrases {
			for _, at := range p.pattern.FindAllStringIndex(text, -1) {
				from, to := max(0, at[0]-30), min(len(text), at[1]+30)
				around := strings.Join(strings.Fields(text[from:to]), " ")
				line := e.line + skipped + strings.Count(text[:at[0]], "\n")
				found = append(found, finding{line, around, p.name + ": write " + p.instead})
			}
		}
	}
	return found
}

// excerptsOf returns the texts of a source of the target, none for other files.
func excerptsOf(path string, source []byte) []excerpt {
	switch filepath.Ext(path) {
	case ".go":
		return excerptsOfGo(source)
	case ".s", ".h":
		return excerptsOfC(source)
	}
	return nil
}

// TestTextsOfTheTargetArePlain looks for the phrases in the comments and messages of the target.
func TestTextsOfTheTargetArePlain(t *testing.T) {
	used, read := map[int]bool{}, 0
	visitTargetFiles(t, func(path string, source []byte) {
		texts := excerptsOf(path, source)
		read += len(texts)
		for _, f := range findPhrases(texts) {
			if i := exceptionFor(path, f.text); i >= 0 {
				used[i] = true
				continue
			}
			t.Errorf("%s:%d: %q (%s)", path, f.line, f.text, f.instead)
		}
	})
	if read < 2000 {
		t.Errorf("only %d comments and strings were read, want at least 2000", read)
	}
	for i, e := range phraseExceptions {
		if !used[i] {
			t.Errorf("%s has no phrase in %q; remove the exception", e.file, e.text)
		}
		if e.reason == "" {
			t.Errorf("%s: the exception for %q has no reason", e.file, e.text)
		}
	}
}

// exceptionFor returns the index of the exception for a finding, -1 if it has none.
func exceptionFor(path, text string) int {
	for i, e := range phraseExceptions {
		if e.file == path && strings.Contains(text, e.text) {
			return i
		}
	}
	return -1
}

func TestPhrasesAreFound(t *testing.T) {
	tests := []struct {
		name, source string
		want         int
	}{
		{"plain", "// Load maps the file.\nvar x = \"seed must not be 0\"\n", 0},
		{"message", "var x = \"the device tells nothing\"\n", 1},
		{"raw string", "var x = `a stand-in for it`\n", 1},
		{"name and not a word", "var gives, lane_tells int\n", 0},
		{"over two lines", "// The image is held by the loader\n// against the device.\n", 1},
		{"in two comments", "// It is held.\n\n// Protected against loss.\n", 0},
		{"in two sentences", "// It holds. A guard against loss.\n", 0},
		{"carried out", "// Commands that are carried out, and carries them out.\n", 2},
		{"carry without out", "// It carries data without a copy.\n", 0},
		{"nobody as the subject", "// Nobody reads it. A field that\n// nobody sets.\n", 2},
		{"user nobody", "// It runs as the user nobody.\n", 0},
		{"comment after code", "var a int // comes to be 1\n", 1},
		{"told", "// Load is told. What is told to it; it was\n// told a number.\n", 3},
		{"told apart", "// Names cannot be told apart before.\n", 0},
		{"parameter", "// Load copies n bytes.\n// The parameter `n` is a number.\n", 1},
		{"parameters of the kernel", "// It passes the parameter mode.\n", 0},
		{"therefore", "// It waits. Therefore, it is slow.\n\n// Therefore it waits.\n", 2},
		{"therefore inside", "// It waits; therefore it is slow.\n", 0},
		{"lanes", "// Lanes: one of none is as ever meant by them.\n", 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found := findPhrases(excerptsOfGo([]byte("package p\n\n" + test.source)))
			if len(found) != test.want {
				t.Errorf("%d phrases found, want %d: %v", len(found), test.want, found)
			}
		})
	}
	t.Run("comments of C and assembly", func(t *testing.T) {
		const source = "/* It is\n * told. */\nint gives;\n// Made\n// anew.\n"
		found := findPhrases(excerptsOfC([]byte(source)))
		if len(found) != 2 || found[0].line != 1 || found[1].line != 5 {
			t.Errorf("found %v, want one in line 1 and one in line 5", found)
		}
	})
}

func TestBannedNamesAreFound(t *testing.T) {
	const source = `package p

type look struct{ own, kept int }

type device interface{ Aim() }

var mine, yours int

func (l *look) Reach(odd int) { gave := odd; _ = gave }

func Master() {}
`
	file := parseSource(t, source)
	var found []string
	for _, n := range declaredNames(file) {
		if isBanned(n) {
			found = append(found, n.name)
		}
	}
	slices.Sort(found)
	if want := "Aim Reach look mine own"; strings.Join(found, " ") != want {
		t.Errorf("banned names found: %q, want %q", found, want)
	}
}
