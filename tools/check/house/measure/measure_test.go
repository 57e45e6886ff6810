package measure

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestStatementsOfGoDoNotDependOnLines(t *testing.T) {
	for _, c := range []struct {
		source string
		want   int
	}{
		{"", 0},
		{"// Nothing.\n", 0},
		{"import \"fmt\"\n", 0},
		{"var a, b = 1, 2\nconst c = 3\n", 2},
		{"const (\n\ta = iota\n\tb\n)\n", 2},
		{"type t struct {\n\ta, b int\n\tc string // why\n}\n", 3},
		{"func f() {}\n", 1},
		{"func f() {\n\tx := 1\n\tif x > 0 {\n\t\treturn\n\t}\n}\n", 4},
		{"func f() { x := 1; if x > 0 { return } }\n", 4},
		{"func f() { if x := 1; x > 0 { return } }\n", 4},
		{"func f() { var x int; _ = x }\n", 3},
		{"func f() { for i := 0; i < 3; i++ { g(); } }\n", 5},
		{"func f(x int) { switch x { case 1: g(); default: h() } }\n", 6},
		{"func f() { go func() { g() }() }\n", 3},
		{"func f() {\nagain:\n\tgoto again\n}\n", 2},
		{"var table = []int{1, 2, 3, 4, 5, 6, 7, 8}\n", 3},
		{"var table = []int{\n\t1,\n\t2,\n\t3,\n}\n", 1},
	} {
		t.Run(c.source, func(t *testing.T) {
			got, err := Go("x.go", []byte("package p\n"+c.source))
			if err != nil || got != c.want {
				t.Errorf("%d statements, want %d; error: %v", got, c.want, err)
			}
		})
	}
	if _, err := Go("x.go", []byte("package")); err == nil {
		t.Error("Go(\"package\") returned no error, want a syntax error")
	}
}

func TestInstructionsOfAssemblyAreCounted(t *testing.T) {
	const source = `// A comment.
#include "textflag.h"

/* more
   of it */
TEXT ·f(SB), NOSPLIT, $0
again:
	MOVD $1, R0 // why
	MOVD R0, R1; ADD R1, R2
	B again
`
	if got := Assembly([]byte(source)); got != 5 {
		t.Errorf("%d instructions, want 5: TEXT, two moves, an addition and a branch", got)
	}
}

func TestStatementsOfCAreCounted(t *testing.T) {
	for _, c := range []struct {
		source string
		want   int
	}{
		{"// a; b;\n/* if (x) y; */\n", 0},
		{"#define TWICE(x) \\\n\t(x); (x);\nint a;\n", 1},
		{"struct s { int a; char *b; };\n", 3},
		{"int f(void)\n{\n\treturn 1;\n}\n", 2},
		{"int f(void) { for (int i = 0; i < 3; i++) { g(\";\"); } }\n", 3},
		{"int f(void) { if (x) g(); else h(); }\n", 4},
		{"int f(int x) { switch (x) { case ';': return 1; default: return 2; } }\n", 6},
	} {
		t.Run(c.source, func(t *testing.T) {
			if got := C([]byte(c.source)); got != c.want {
				t.Errorf("%d statements, want %d", got, c.want)
			}
		})
	}
}

func TestDensityCountsLinesOfCode(t *testing.T) {
	tests := []struct {
		name, source      string
		lines, characters int
	}{
		{"empty", "", 0, 0},
		{"comments and blanks", "// a\n\n/* b\nc */\n\t// d\n", 0, 0},
		{"white space at either end", "\t\tx := 1 \n}\n", 2, 7},
		{"comment after code", "x // y\n", 1, 6},
		{"characters of two bytes", "ü\n", 1, 1},
		{"code after a block", "/* a */\nb\n", 1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lines, characters := Density([]byte(test.source))
			if lines != test.lines || characters != test.characters {
				t.Errorf("%d lines of %d characters, want %d of %d", lines, characters,
					test.lines, test.characters)
			}
		})
	}
}

func TestWordsOfCommentsAreCounted(t *testing.T) {
	tests := []struct {
		name, source string
		words, lines int
	}{
		{"empty", "", 0, 0},
		{"alone and after code", "// Two words.\n\nx := 1 // one\n}\n", 3, 2},
		{"marks", "// a - b, 3: `c`\n", 4, 0},
		{"block over lines", "/* a\n b */\nx /* c */ y\n", 3, 1},
		{"in a string", "x := \"http://a b\" + `\n// c\n` + \"\\\"//d\"\n", 0, 3},
		{"directives", "//go:build a && b\n//go:linkname f g\n//export f\n// +build a\n", 0, 0},
		{"quotation marks of assembly", "MOVD $1, R0 // don't\nRET // can't\n", 2, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			words, lines := Words([]byte(test.source))
			if words != test.words || lines != test.lines {
				t.Errorf("%d words and %d lines, want %d and %d", words, lines, test.words,
					test.lines)
			}
		})
	}
}

func TestFunctionsAreListedWithTheirLength(t *testing.T) {
	source := "package p\n\nfunc short() {}\n\nfunc declared()\n\nfunc (t) long() {\n\tf()\n}\n"
	got, err := Functions("x.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if want := []Function{{"short", 1}, {"long", 3}}; !slices.Equal(got, want) {
		t.Errorf("functions %v, want %v", got, want)
	}
	if _, err := Functions("x.go", []byte("package")); err == nil {
		t.Error("Functions(\"package\") returned no error, want a syntax error")
	}
}

func TestTagsSelectTheCompiledFiles(t *testing.T) {
	all, err := Compiled("../../../..", "tools/lmrun", "")
	if err != nil {
		t.Fatal(err)
	}
	signed, err := Compiled("../../../..", "tools/lmrun", "signed")
	if err != nil {
		t.Fatal(err)
	}
	has := func(paths []string, suffix string) bool {
		ends := func(path string) bool { return strings.HasSuffix(path, suffix) }
		return slices.ContainsFunc(paths, ends)
	}
	wanted := []string{"/hal/walk_arm64.s", "/runtime/replay.go", "/tools/lmrun/main.go"}
	for _, suffix := range wanted {
		if !has(all, suffix) {
			t.Errorf("%s is not among the compiled files", suffix)
		}
	}
	for _, suffix := range []string{"_test.go", "_amd64.s", "/runtime/signed/signed.go"} {
		if has(all, suffix) {
			t.Errorf("%s is among the compiled files", suffix)
		}
	}
	if has(all, "/fbs/gen/Image.go") || !has(signed, "/runtime/signed/signed.go") {
		t.Error("generated code is listed, or a file that the tag signed adds is not listed")
	}
	if _, err := Compiled("../../../..", "tools/nothing", ""); err == nil {
		t.Error("Compiled returned no error for a program that does not exist")
	}
}

func TestFilesAreCountedByTheirExtension(t *testing.T) {
	folder := t.TempDir()
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"a.go": {"package a\nvar b int\n", 1}, "a.s": {"\tRET\n", 1}, "a.h": {"int a;\n", 1},
		"a.sh": {"echo a\n", 0},
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := File(path); err != nil || got != c.want {
			t.Errorf("%s: %d statements, want %d; error %v", name, got, c.want, err)
		}
	}
	if _, err := File(filepath.Join(folder, "none.go")); err == nil {
		t.Error("File returned no error for a file that does not exist")
	}
}
