package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// errorCalls are the functions whose text argument is the message of an error or a warning.
// Package fmt formats many messages.
var errorCalls = strings.Fields("failUsage With newFault Errorf New NewFault UsageError fail " +
	"commandFault Sprintf printLine Fprintf warn add")

// errorFields are the fields of errors that hold their message.
var errorFields = strings.Fields("Reason")

// message is the text of an error, with the verbs for its values.
type message struct {
	at   token.Pos
	text string
}

// messagesOf returns the messages of errors in a source: constant texts, and texts with values.
func messagesOf(file *ast.File) (list []message) {
	add := func(e ast.Expr) {
		if text := literalText(e); text != "" {
			list = append(list, message{e.Pos(), text})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if slices.Contains(errorCalls, calledName(n)) {
				for _, argument := range n.Args {
					add(argument)
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && slices.Contains(errorFields, key.Name) {
				add(n.Value)
			}
		}
		return true
	})
	return list
}

// calledName returns the name of the function or method that is called.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// literalText returns the constant parts of a text.
func literalText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		return literalText(e.X) + literalText(e.Y)
	case *ast.ParenExpr:
		return literalText(e.X)
	}
	return ""
}

// formatVerb matches a verb of package fmt, which is replaced by a value.
var formatVerb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[\d.*]*[a-zA-Z]`)

// TestMessagesAreShortAndPlain requires that an error of a tool has at most 160 characters without
// its values, and no phrase that readers did not understand.
func TestMessagesAreShortAndPlain(t *testing.T) {
	const most = 160
	read := 0
	visitFiles(t, func(path string) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "tools/check/") || strings.Contains(path, "testdata/") {
			return
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, path), nil,
			parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messagesOf(file) {
			read++
			line := set.Position(m.at).Line
			if n := utf8.RuneCountInString(formatVerb.ReplaceAllString(m.text, "")); n > most {
				t.Errorf("%s:%d: the message has %d characters, at most %d: %s", path, line, n,
					most, m.text)
			}
			for _, p := range phrases {
				if p.pattern.MatchString(m.text) {
					t.Errorf("%s:%d: the message has %q, use: %s: %s", path, line, p.name,
						p.instead, m.text)
				}
			}
		}
	})
	if read < 500 {
		t.Errorf("only %d messages were read, want at least 500", read)
	}
}
