package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/tools/check/guest/scenario"
)

// targetDirs are the directories whose sources have the messages of the programs in guests.
var targetDirs = []string{"../../../fbs", "../../../hal", "../../../runtime",
	"../../../boards", "../../lmrun", "../../lminit"}

// formatVerb matches a verb in a format of fbs.AppendText, such as %d.
var formatVerb = regexp.MustCompile(`%[a-z]`)

// textsOfTarget returns the texts of all string literals of the target, split at the verbs of
// formats.
func textsOfTarget(t *testing.T) (texts []string) {
	t.Helper()
	collect := func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				texts = append(texts, formatVerb.Split(text, -1)...)
			}
		}
		return true
	}
	for _, dir := range targetDirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" ||
				strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err == nil {
				ast.Inspect(file, collect)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// valuePattern matches a value between the texts of a message: a number, a window, an opcode, a
// path, or the name of a sequence in the images of scenarios.
var valuePattern = regexp.MustCompile(`^(0x[0-9a-f]+|\d+|w\d+|(expect|compare|copy)\.\d|` +
	`/[\w./-]+|main|init|frame|safe|unmet|waits|differs-(early|late))$`)

// isMessage reports whether a text can be a part of a message of the target. It can if it consists
// of texts of the target and values. It may start and end in the middle of such a text.
func isMessage(text string, texts []string) bool {
	if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, text) }) {
		return true
	}
	// reached[i] is true if text[:i] consists of texts and values.
	reached := make([]bool, len(text)+1)
	reached[0] = true
	for at := range text {
		if !reached[at] {
			continue
		}
		rest := text[at:]
		for _, s := range texts {
			switch {
			case s == "":
			case strings.HasPrefix(rest, s):
				reached[at+len(s)] = true
			case strings.HasPrefix(s, rest):
				return true
			}
			for cut := range len(s) {
				if at == 0 && cut > 0 && strings.HasPrefix(rest, s[cut:]) {
					reached[len(s)-cut] = true
				}
			}
		}
		for end := 1; end <= len(rest); end++ {
			if valuePattern.MatchString(rest[:end]) {
				reached[at+end] = true
			}
		}
	}
	return reached[len(text)]
}

// expectedTexts returns the texts that lmrun must print in a step.
func expectedTexts(s scenario.Step) []string {
	switch s.Words[0] {
	case "lmrun", "answered":
		return s.Words[2:3]
	case "ends":
		return s.Words[2:]
	}
	return nil
}

// TestMessagesOfScenariosAreInTheTarget finds messages that have changed in the target but not in
// scenarios, without booting a guest.
func TestMessagesOfScenariosAreInTheTarget(t *testing.T) {
	texts := textsOfTarget(t)
	count := 0
	for _, s := range allScenarios(t).Scenarios {
		for _, step := range s.Steps {
			for _, text := range expectedTexts(step) {
				if count++; !isMessage(text, texts) {
					t.Errorf("%s: no message of the target has %q", step.Place, text)
				}
			}
		}
	}
	if count < 30 {
		t.Errorf("only %d messages in all scenarios, want at least 30", count)
	}
	for _, changed := range []string{"device lost", "expect failed: init, order 18",
		"bus mastering is gone: main, command 1"} {
		if isMessage(changed, texts) {
			t.Errorf("isMessage accepted %q, which no message of the target has", changed)
		}
	}
}
