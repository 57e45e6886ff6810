package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Layout of text for a terminal: lines of at most 100 columns, and colors. Text for a file or a
// pipe stays as it is.

// screen is a terminal that a safeWriter writes to.
type screen struct {
	columns  int    // longer lines are wrapped
	colors   bool   // false if NO_COLOR is set, see https://no-color.org
	verbatim bool   // do not wrap: the text is data, such as JSON or a listing
	isError  bool   // the text is that of an error
	line     []byte // the line that is not complete yet
}

// columnsMax is the width of lines on a wider terminal: longer lines are hard to read.
const columnsMax = 100

// columnsMin is the least width for which lines are wrapped at spaces.
const columnsMin = 40

// screenOf returns the screen for a file that is a terminal, or nil if the file is not a terminal.
func screenOf(file *os.File) *screen {
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return nil
	}
	s := &screen{columns: columnsMax}
	if size.Col != 0 {
		s.columns = max(columnsMin, min(int(size.Col), columnsMax))
	}
	s.colors = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// layOut returns the complete lines of what was written so far, as the terminal gets them.
func (s *screen) layOut(data []byte) []byte {
	s.line = append(s.line, data...)
	var out bytes.Buffer
	for {
		line, rest, complete := bytes.Cut(s.line, []byte("\n"))
		if !complete {
			return out.Bytes()
		}
		out.WriteString(s.paint(s.wrap(string(line))) + "\n")
		s.line = bytes.Clone(rest)
	}
}

// finish returns the last line, which has no line feed.
func (s *screen) finish() []byte {
	line := s.paint(s.wrap(string(s.line)))
	s.line = nil
	return []byte(line)
}

// keyColumn matches the first column of lines such as those of lm info.
var keyColumn = regexp.MustCompile(`^ *\S+(?: \S+)? {2,}`)

// wrap breaks a line at spaces. Further lines are indented: below the text that follows a first
// column, or deeper than the line.
func (s *screen) wrap(line string) string {
	if s.verbatim || utf8.RuneCountInString(line) <= s.columns {
		return line
	}
	indent := len(line) - len(strings.TrimLeft(line, " ")) + 4
	if key := keyColumn.FindString(line); key != "" && len(key) < s.columns/2 {
		indent = utf8.RuneCountInString(key)
	}
	var out strings.Builder
	for utf8.RuneCountInString(line) > s.columns {
		at := lastSpace(line, indent, s.columns)
		if at < 0 {
			break // one long word, such as a path
		}
		out.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[at:], " ")
	}
	return out.String() + line
}

// lastSpace returns where a line can be broken so that it has at most a number of columns, or, if
// its first word is longer, after that word. It returns -1 if there is no space after indent.
func lastSpace(line string, indent, columns int) int {
	at, column := -1, 0
	for i, r := range line {
		if r == ' ' && column > indent {
			if column > columns && at >= 0 {
				break
			}
			at = i
			if column > columns {
				break
			}
		}
		column++
	}
	return at
}

// The escape sequences of colors (ECMA-48, Select Graphic Rendition).
const (
	red     = "\x1b[31m"
	green   = "\x1b[32m"
	yellow  = "\x1b[33m"
	noColor = "\x1b[0m"
)

// paintedWords are the beginnings of lines that have a color.
var paintedWords = []struct{ word, color string }{
	{"lm: warning:", yellow}, {"done:", green}, {"ok ", green}, {"FAILED", red},
	{"missing ", red}, {"warning ", yellow},
}

// paint colors the word that a line begins with, if it says how something ended.
func (s *screen) paint(line string) string {
	if !s.colors || s.verbatim {
		return line
	}
	if s.isError && strings.HasPrefix(line, "lm:") {
		return red + "lm:" + noColor + line[len("lm:"):]
	}
	for _, p := range paintedWords {
		if strings.HasPrefix(line, p.word) {
			return p.color + p.word + noColor + line[len(p.word):]
		}
	}
	return line
}
