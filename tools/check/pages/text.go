package pages

// This file reads what people read in a page: its links and its sentences.

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// Link is a link of a page to another place in the tree.
type Link struct {
	Line   int
	Target string // as written, relative to the page
	Path   string // from the top folder
	Anchor string // without #, may be empty
}

var markdownLink = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)

// Links returns the links of a page that lead to places in the tree. page is its path from the top
// folder root.
func Links(root, page string) (list []Link, err error) {
	lines, err := prose(filepath.Join(root, page))
	for _, line := range lines {
		for _, match := range markdownLink.FindAllStringSubmatch(line.text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(match[1], "#")
			link := Link{Line: line.number, Target: match[1], Path: page, Anchor: anchor}
			if file != "" {
				link.Path = path.Join(path.Dir(page), file)
			}
			list = append(list, link)
		}
	}
	return list, err
}

// Anchors returns the anchors of a page's headings, as GitHub makes them.
func Anchors(file string) (list []string, err error) {
	lines, err := prose(file)
	for _, line := range lines {
		if strings.HasPrefix(line.text, "#") {
			list = append(list, anchor(strings.TrimLeft(line.text, "# ")))
		}
	}
	return list, err
}

// anchor returns the anchor of a heading: letters, digits and dashes, blanks as dashes.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// Sentence is a sentence of a page, or a cell of a table.
type Sentence struct {
	Line int // on which its paragraph begins
	Text string
}

// sentenceEnd matches the end of a sentence inside a paragraph.
var sentenceEnd = regexp.MustCompile(`([.!?]["')*]*) +([A-Z"'(*\[` + "`" + `])`)

// Sentences returns the sentences of a page, without headings, commands and fences. A link counts
// as its text.
func Sentences(file string) (list []Sentence, err error) {
	lines, err := prose(file)
	paragraph, start := "", 0
	end := func() {
		text := markdownLink.ReplaceAllStringFunc(paragraph, func(link string) string {
			return link[1:strings.Index(link, "](")]
		})
		text = sentenceEnd.ReplaceAllString(text, "$1\n$2")
		for sentence := range strings.SplitSeq(text, "\n") {
			if sentence = strings.TrimSpace(sentence); sentence != "" {
				list = append(list, Sentence{start, sentence})
			}
		}
		paragraph = ""
	}
	for _, line := range lines {
		text := strings.TrimSpace(line.text)
		cells := strings.HasPrefix(text, "|")
		item := strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "* ") ||
			numbered.MatchString(text)
		if text == "" || cells || item || strings.HasPrefix(text, "#") {
			end()
		}
		switch {
		case strings.HasPrefix(text, "#"):
		case cells:
			for cell := range strings.SplitSeq(strings.Trim(text, "|"), " | ") {
				paragraph, start = cell, line.number
				end()
			}
		default:
			if paragraph == "" {
				start = line.number
			}
			paragraph += " " + text
		}
	}
	end()
	return list, err
}

var numbered = regexp.MustCompile(`^\d+\. `)

// proseLine is a line of a page outside of fences that is no command.
type proseLine struct {
	number int
	text   string
}

func prose(file string) (list []proseLine, err error) {
	text, err := os.ReadFile(file)
	fenced := false
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			line = ""
		}
		if fenced || strings.HasPrefix(line, "    ") {
			line = ""
		}
		list = append(list, proseLine{i + 1, line})
	}
	return list, err
}
