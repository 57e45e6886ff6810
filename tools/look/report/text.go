package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lightmetal/fbs"
	"lightmetal/tools/image/english"
)

// countText formats a number with separated thousands.
func countText(n uint64) string { return english.Number(n) }

// emptyIfZero formats a number, and returns an empty cell for 0.
func emptyIfZero(n uint64, text func(uint64) string) string {
	if n == 0 {
		return ""
	}
	return text(n)
}

// shareText formats a part of a whole in percent.
func shareText(part, whole float64) string {
	if whole <= 0 {
		return ""
	}
	return strconv.FormatFloat(100*part/whole, 'f', 1, 64) + " %"
}

// sanitize replaces control characters in a name from a file and cuts it after 255 bytes. The
// result can be shown in a line of a terminal, a page or a trace.
func sanitize(name string) string {
	name = strings.Map(func(r rune) rune {
		if fbs.IsHidden(r) || r == utf8.RuneError || unicode.Is(unicode.Cf, r) || r == 0xfffe ||
			r == 0xffff {
			return '\ufffd'
		}
		return r
	}, name)
	const bytesMax = 255
	if len(name) > bytesMax {
		cut := bytesMax
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut]
	}
	return name
}

// shortenName cuts a name after limit characters and marks the cut.
func shortenName(name string, limit int) string {
	count := 0
	for at := range name {
		if count == limit {
			return name[:at] + "…"
		}
		count++
	}
	return name
}

// Table is a table with a title. Columns whose name starts with ">" are aligned to the right.
type Table struct {
	Title   string
	Note    string
	Columns []string
	Rows    [][]string

	// For a table in which each row names a command, so that a page can link to it:
	commandColumn string   // name of the column that names the command
	commands      []uint32 // index of the command in the image, by row
}

func (t *Table) addRow(cells ...string) { t.Rows = append(t.Rows, cells) }

// addCommandRow adds a row that names a command, by its index in the image.
func (t *Table) addCommandRow(command uint32, cells ...string) {
	t.addRow(cells...)
	t.commands = append(t.commands, command)
}

// write prints a filled table for a terminal.
func (t *Table) write(w io.Writer) {
	fmt.Fprintf(w, "\n%s", t.Title)
	if t.Note != "" {
		fmt.Fprintf(w, " (%s)", t.Note)
	}
	fmt.Fprintln(w)
	widths := t.widths()
	header := make([]string, len(t.Columns))
	for i, name := range t.Columns {
		header[i] = strings.TrimPrefix(name, ">")
	}
	t.writeLine(w, header, widths)
	for _, row := range t.Rows {
		t.writeLine(w, row, widths)
	}
}

// widths returns the number of characters of each column; it is 0 for a column without text.
func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for _, row := range t.Rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for i, name := range t.Columns {
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(strings.TrimPrefix(name, ">")))
		}
	}
	return widths
}

func (t *Table) writeLine(w io.Writer, cells []string, widths []int) {
	var b strings.Builder
	for i, cell := range cells {
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if strings.HasPrefix(t.Columns[i], ">") {
			cell = space + cell
		} else {
			cell += space
		}
		b.WriteString("  " + cell)
	}
	fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
}
