package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryLinkResolves checks that each link points to a file or folder of the tree, and to one of
// its headings.
func TestEveryLinkResolves(t *testing.T) {
	links := 0
	for _, page := range allPages(t) {
		list, err := Links(root, page)
		if err != nil {
			t.Fatal(err)
		}
		links += len(list)
		for _, l := range list {
			file := filepath.Join(root, l.Path)
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s:%d: the file of link (%s) does not exist", page, l.Line, l.Target)
				continue
			}
			if l.Anchor == "" {
				continue
			}
			anchors, err := Anchors(file)
			if err != nil || !slices.Contains(anchors, l.Anchor) {
				t.Errorf("%s:%d: the heading of link (%s) does not exist; headings are %q, "+
					"error %v", page, l.Line, l.Target, anchors, err)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were read, want at least 100", links)
	}
}

// TestEveryPageIsReachedFromTheFrontPage checks that links lead from README.md to every page.
func TestEveryPageIsReachedFromTheFrontPage(t *testing.T) {
	reached := []string{"README.md"}
	for i := 0; i < len(reached); i++ {
		if !strings.HasSuffix(reached[i], ".md") {
			continue
		}
		links, err := Links(root, reached[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if !slices.Contains(reached, l.Path) {
				reached = append(reached, l.Path)
			}
		}
	}
	for _, page := range allPages(t) {
		if !slices.Contains(reached, page) {
			t.Errorf("no links lead from README.md to %s", page)
		}
	}
}

// pageName matches the name of a page between backticks, with the letter before it.
var pageName = regexp.MustCompile("(.?)`([A-Za-z0-9_./-]+\\.md)`")

// TestPagesThatAreNamedAreLinks checks that each name of a page is a link, so that a reader need
// not search for the page.
func TestPagesThatAreNamedAreLinks(t *testing.T) {
	for _, page := range allPages(t) {
		lines, err := prose(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			for _, match := range pageName.FindAllStringSubmatch(line.text, -1) {
				if match[1] != "[" && match[2] != page {
					t.Errorf("%s:%d: `%s` is not a link", page, line.number, match[2])
				}
			}
		}
	}
}

// longSentence is the number of words above which a sentence is reported. Rows of tables that list
// tests are exempt.
const longSentence = 35

// TestLongSentencesAreReported prints long sentences (go test -v). It fails only if it reads too
// few sentences.
func TestLongSentencesAreReported(t *testing.T) {
	sentences, long := 0, 0
	for _, page := range allPages(t) {
		list, err := Sentences(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		sentences += len(list)
		for _, s := range list {
			if words := len(strings.Fields(s.Text)); words > longSentence &&
				strings.Count(s.Text, ".Test") < 2 {
				long++
				t.Logf("%s:%d: %d words: %s", page, s.Line, words, s.Text)
			}
		}
	}
	t.Logf("%d of %d sentences have more than %d words", long, sentences, longSentence)
	if sentences < 1000 {
		t.Errorf("only %d sentences were read, want at least 1000", sentences)
	}
}

// TestSentencesSpanLinesCellsAndItems checks that a sentence may span lines, that cells of tables
// and items of lists are sentences, and that commands and code blocks are ignored.
func TestSentencesSpanLinesCellsAndItems(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.md")
	text := "# Title. Two\n\nOne, of\ntwo lines. A [link. Here](a.md) ends. " +
		"It is 1.2 of `x.md`.\n\n    command. Not this\n\n" +
		"- An item\n  goes on.\n- Another. End\n\n| a b | c. D |\n|---|---|\n\n" +
		"```\nNot. This\n```\nLast?\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := Sentences(file)
	var got []string
	for _, s := range list {
		if !strings.Contains(s.Text, "---") {
			got = append(got, s.Text)
		}
	}
	want := []string{"One, of two lines.", "A link.", "Here ends.", "It is 1.2 of `x.md`.",
		"- An item goes on.", "- Another.", "End", "a b", "c.", "D", "Last?"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("sentences %q, want %q; error %v", got, want, err)
	}
}

// TestOutputIsComparedLineByLine checks that lines are compared in order, and that "..." matches
// any text.
func TestOutputIsComparedLineByLine(t *testing.T) {
	for _, c := range []struct {
		name, out string
		shown     []string
		ok        bool
	}{
		{"equal", "a\nb\n", []string{"a", "b"}, true},
		{"lines left out", "a\nb\nc\n", []string{"a", "...", "c"}, true},
		{"a time", "took 86.6 us", []string{"took ... us"}, true},
		{"another order", "a\nb\n", []string{"b", "a"}, false},
		{"part of a line", "done: main", []string{"done"}, false},
		{"a dot is a dot", "axc", []string{"a.c"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := checkOutput(c.out, c.shown); (err == nil) != c.ok {
				t.Errorf("error %v, want equal output: %t", err, c.ok)
			}
		})
	}
}
