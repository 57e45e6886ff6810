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

// targetFolders have the messages of the programs that run in guests.
var targetFolders = []string{"../../../fbs", "../../../hal", "../../../runtime",
	"../../../boards", "../../lmrun", "../../lminit"}

// verb is where a format of fbs.AppendText has a value.
var verb = regexp.MustCompile(`%[a-z]`)

// targetTexts are the texts in the strings of the target, without the values in formats.
func targetTexts(t *testing.T) (texts []string) {
	t.Helper()
	collect := func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				texts = append(texts, verb.Split(text, -1)...)
			}
		}
		return true
	}
	for _, folder := range targetFolders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
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

// value is what stands between the texts of a message: a number, a path, or a sequence of the
// images of scenarios.
var value = regexp.MustCompile(`^(0x[0-9a-f]+|\d+|w\d+|(expect|compare|copy)\.\d|/[\w./-]+|` +
	`main|init|frame|safe)$`)

// isMessage reports whether a text can be a part of a message of the target: it consists of
// texts of the target and values. The first may begin, and the last end, in the middle of a text.
func isMessage(text string, texts []string) bool {
	if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, text) }) {
		return true
	}
	reached := make([]bool, len(text)+1) // by texts and values, from the start
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
			if value.MatchString(rest[:end]) {
				reached[at+end] = true
			}
		}
	}
	return reached[len(text)]
}

// quotedTexts are what lmrun must say in a step.
func quotedTexts(s scenario.Step) []string {
	switch s.Words[0] {
	case "lmrun", "answered":
		return s.Words[2:3]
	case "ends":
		return s.Words[2:]
	}
	return nil
}

// TestMessagesOfScenariosAreInTheTarget: a message that has changed is found here, before a guest
// misses it.
func TestMessagesOfScenariosAreInTheTarget(t *testing.T) {
	texts := targetTexts(t)
	count := 0
	for _, s := range allScenarios(t) {
		for _, step := range s.Steps {
			for _, text := range quotedTexts(step) {
				if count++; !isMessage(text, texts) {
					t.Errorf("%s: %q is in no message of the target", step.Place, text)
				}
			}
		}
	}
	if count < 30 {
		t.Errorf("%d messages in all scenarios", count)
	}
	tables := slices.Concat(filesThatFail, onSharedMemory, onController, onBusMaster, driven)
	for _, c := range tables {
		// The Go runtime prints panics.
		if c.words != "panic: " && !isMessage(c.words, texts) {
			t.Errorf("%s %s: %q is in no message of the target", c.answers, c.flags, c.words)
		}
	}
	for _, changed := range []string{"device lost", "expect failed: init, order 18",
		"bus mastering is gone: main, command 1"} {
		if isMessage(changed, texts) {
			t.Errorf("%q, which no program says, passes for a message", changed)
		}
	}
}
