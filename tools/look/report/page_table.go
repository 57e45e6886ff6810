package report

import (
	"slices"
	"strconv"
	"strings"
)

// cellColumns is how many characters of a cell a page shows, so that long names do not make a
// large page.
const cellColumns = 120

type pageTable struct {
	Title, Note string
	Columns     []pageColumn
	Rows        []pageRow
}

type pageColumn struct {
	Name  string
	Right bool // aligned to the right
}

type pageRow struct {
	Failed bool // the row names the command that failed
	Cells  []pageCell
}

// pageCell is a cell: Link is the address of a command's line, Share the percentage that a bar
// shows. Badge is a word after the text.
type pageCell struct {
	Column pageColumn
	Text   string
	Link   string
	Share  float64
	Badge  string
}

// pageTables prepares tables for the page. failed is the index of the failed command, -1: none.
func pageTables(tables []Table, listing *pageListing, failed int) (list []pageTable) {
	for _, t := range omitEmpty(tables) {
		list = append(list, newPageTable(&t, listing, failed))
	}
	return list
}

func newPageTable(t *Table, listing *pageListing, failed int) pageTable {
	page := pageTable{Title: t.Title, Note: t.Note}
	for _, name := range t.Columns {
		page.Columns = append(page.Columns,
			pageColumn{strings.TrimPrefix(name, ">"), strings.HasPrefix(name, ">")})
	}
	linked := slices.Index(t.Columns, t.commandColumn)
	for i, cells := range t.Rows {
		row := pageRow{}
		for j, text := range cells {
			cell := pageCell{Column: page.Columns[j], Text: shortenName(text, cellColumns)}
			if cell.Column.Name == "share" {
				cell.Share, _ = strconv.ParseFloat(strings.TrimSuffix(text, " %"), 64)
			}
			row.Cells = append(row.Cells, cell)
		}
		if linked >= 0 && i < len(t.commands) {
			row.Cells[linked].Link = listing.commandLink(t.commands[i])
			if row.Failed = int(t.commands[i]) == failed; row.Failed {
				row.Cells[linked].Badge = "failed"
			}
		}
		page.Rows = append(page.Rows, row)
	}
	return page
}
