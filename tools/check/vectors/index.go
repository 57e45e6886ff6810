package main

// This file makes the index: for each sentence of FORMAT.md, the vectors that show it.

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"lightmetal/tools/check/vectors/vector"
)

// sentence is a sentence or a row of a table of FORMAT.md.
type sentence struct {
	section string // number of its section, such as "6.1"
	text    string
}

// unnumbered is the section of sentences that add no rules: those after a heading without a number.
const unnumbered = "example"

var (
	heading     = regexp.MustCompile(`^#+ ([0-9.]+?)\.? `)
	endOfPhrase = regexp.MustCompile("([.:;]) (?:[A-Z`*]|an End)")
	listMark    = regexp.MustCompile(`^(-|[0-9]+\.) `)
)

// readSentences returns the sentences of a page.
func readSentences(page string) (list []sentence) {
	page, _, _ = strings.Cut(page, "\n## Appendix") // an example, which adds no rules
	section, paragraph := "", ""
	flush := func() {
		for _, text := range split(paragraph) {
			list = append(list, sentence{section, text})
		}
		paragraph = ""
	}
	isCode := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		number := heading.FindStringSubmatch(line)
		isRow := strings.HasPrefix(line, "|")
		switch {
		case line == "```":
			flush()
			isCode = !isCode
		case number != nil:
			flush()
			section = number[1]
		case section != "" && strings.HasPrefix(line, "## "):
			flush()
			section = unnumbered
		case strings.HasPrefix(line, "#") || line == "" || strings.HasPrefix(line, "|--"):
			flush()
		case isRow || isCode:
			flush()
			cells := strings.TrimSpace(strings.Trim(line, "|"))
			list = append(list, sentence{section, strings.Join(strings.Fields(cells), " ")})
		case listMark.MatchString(line):
			flush()
			paragraph = listMark.ReplaceAllString(line, "")
		default:
			paragraph = strings.TrimSpace(paragraph + " " + line)
		}
	}
	flush()
	return list
}

// split returns the sentences of a paragraph.
func split(paragraph string) (list []string) {
	for paragraph != "" {
		end := len(paragraph)
		for _, at := range endOfPhrase.FindAllStringSubmatchIndex(paragraph, -1) {
			if paragraph[at[2]] == '.' {
				end = at[3]
				break
			}
		}
		list = append(list, strings.TrimSpace(paragraph[:end]))
		paragraph = strings.TrimSpace(paragraph[end:])
	}
	return list
}

// find returns the index of the sentence that contains a text, or an error.
func find(sentences []sentence, text string) (int, error) {
	found := -1
	for i, s := range sentences {
		if !strings.Contains(s.text, strings.TrimSpace(text)) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("%q occurs in two sentences of FORMAT.md", text)
		}
		found = i
	}
	if found < 0 {
		return 0, fmt.Errorf("no sentence of FORMAT.md contains %q", text)
	}
	return found, nil
}

// resolve replaces the beginnings of sentences in vectors by the sentences, and returns the vectors
// of each sentence.
func resolve(sentences []sentence, vectors []*vector.Vector) (map[int][]string, error) {
	shown := map[int][]string{}
	var errs []error
	for _, v := range vectors {
		for i, text := range v.Sentences {
			at, err := find(sentences, text)
			if err != nil {
				errs = append(errs, fmt.Errorf("vector %s: %w", v.Name, err))
				continue
			}
			v.Sentences[i] = sentences[at].section + " " + sentences[at].text
			shown[at] = append(shown[at], v.Name)
		}
	}
	return shown, errors.Join(errs...)
}

// readFormat returns the sentences of FORMAT.md.
func readFormat(path string) ([]sentence, error) {
	page, err := os.ReadFile(path)
	return readSentences(string(page)), err
}

// vectorsPrefix begins the lines of the index that list vectors.
const vectorsPrefix = "    "

// newIndex returns the text of the index.
func newIndex(sentences []sentence, shown map[int][]string) string {
	var b strings.Builder
	b.WriteString("# For each sentence of fbs/FORMAT.md: its section, and below it its vectors.\n" +
		"# tools/check/vectors writes this file. A test fails if a sentence that requires\n" +
		"# something has no vector here.\n")
	for i, s := range sentences {
		if len(shown[i]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s %s\n%s%s\n", s.section, s.text, vectorsPrefix,
			strings.Join(shown[i], ", "))
	}
	return b.String()
}
