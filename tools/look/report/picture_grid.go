package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/tools/image/lmb"
)

const (
	gridSideMax = 40 // limit of rows and of columns, if the board is unknown
	heatLevels  = 5
)

// gridPicture shows the tiles of a device, each coloured by the number of bytes of its traffic.
type gridPicture struct {
	Title  string
	Rows   [][]gridCell // from y = 0 and x = 0 on
	Legend []legendEntry
	Kinds  string
}

type gridCell struct{ Class, Text, Tip string }

// legendEntry explains one colour of a picture.
type legendEntry struct{ Class, Text string }

func (r *Report) gridPictures() (pictures []*gridPicture) {
	for i := range r.Devices {
		tiles := slices.DeleteFunc(slices.Clone(r.Tiles),
			func(t Tile) bool { return t.Device != i })
		rows := r.Devices[i].tileRows(tiles)
		if rows != nil {
			pictures = append(pictures, newGridPicture(r.Devices[i].text(), rows, tiles))
		}
	}
	return pictures
}

// tileRows returns a string for each row of tiles, with a letter for the kind of each tile. It
// returns nil if there is nothing to draw.
func (t *Device) tileRows(tiles []Tile) []string {
	if t.board != nil && chips.ForBoard(t.board).Grid != nil {
		return chips.ForBoard(t.board).Grid.Rows
	}
	columns, lines := 0, 0
	for _, tile := range tiles {
		columns, lines = max(columns, int(tile.X)+1), max(lines, int(tile.Y)+1)
	}
	if len(tiles) == 0 || columns > gridSideMax || lines > gridSideMax {
		return nil
	}
	return slices.Repeat([]string{strings.Repeat(" ", columns)}, lines)
}

func newGridPicture(title string, rows []string, tiles []Tile) *gridPicture {
	levels := newHeatScale(tiles)
	g := &gridPicture{Title: title, Legend: levels.legend(), Kinds: kindsText(rows)}
	for y, kinds := range rows {
		var row []gridCell
		for x := range kinds {
			row = append(row,
				newGridCell(chips.TileKind(kinds[x]), tileAt(tiles, x, y), x, y, levels))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func tileAt(tiles []Tile, x, y int) *Traffic {
	for i := range tiles {
		if int(tiles[i].X) == x && int(tiles[i].Y) == y {
			return &tiles[i].Traffic
		}
	}
	return &Traffic{}
}

func newGridCell(kind chips.TileKind, t *Traffic, x, y int, levels heatScale) gridCell {
	name, letter, class := "tile", "", "none"
	if kind != ' ' {
		name, letter = kind.String(), strings.Trim(string(kind), ".")
	}
	if kind == chips.Router {
		class = "router"
	}
	place := fmt.Sprintf("%s %d,%d: ", name, x, y)
	if total := t.total(); total > 0 {
		return gridCell{fmt.Sprintf("heat%d", levels.level(total)), shortBytes(total),
			place + t.text()}
	}
	return gridCell{class, letter, place + "not accessed"}
}

// shortBytes returns a rounded size that fits a cell: "3.2K".
func shortBytes(n uint64) string {
	value, unit := float64(n), 0
	for value >= 1024 {
		value /= 1024
		unit++
	}
	return lmb.ThreeDigits(value) + [...]string{"", "K", "M", "G", "T", "P", "E"}[unit]
}

func kindsText(rows []string) string {
	var names []string
	seen := map[chips.TileKind]bool{}
	for _, row := range rows {
		for _, c := range []byte(row) {
			kind := chips.TileKind(c)
			if kind != ' ' && kind != chips.Router && !seen[kind] {
				seen[kind] = true
				names = append(names, fmt.Sprintf("%c %s", kind,
					strings.TrimSuffix(kind.String(), " tile")))
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, " · ")
}

// heatScale maps numbers of bytes to levels, by their logarithm. The logarithms from least to most
// are divided into heatLevels equal parts.
type heatScale struct{ least, most float64 }

func newHeatScale(tiles []Tile) heatScale {
	l := heatScale{math.Inf(1), 0}
	for i := range tiles {
		if n := tiles[i].Traffic.total(); n > 0 {
			l.least, l.most = min(l.least, math.Log(float64(n))), max(l.most, math.Log(float64(n)))
		}
	}
	return l
}

func (l heatScale) level(bytes uint64) int {
	if l.most <= l.least {
		return heatLevels
	}
	return 1 + min(heatLevels-1,
		int(heatLevels*(math.Log(float64(bytes))-l.least)/(l.most-l.least)))
}

func (l heatScale) legend() (list []legendEntry) {
	switch {
	case math.IsInf(l.least, 1):
		return nil
	case l.most <= l.least:
		return []legendEntry{{fmt.Sprintf("heat%d", heatLevels),
			lmb.SizeText(uint64(math.Round(math.Exp(l.most))))}}
	}
	for level := range heatLevels {
		from := math.Exp(l.least + (l.most-l.least)*float64(level)/heatLevels)
		list = append(list, legendEntry{fmt.Sprintf("heat%d", level+1),
			"from " + lmb.SizeText(uint64(math.Round(from)))})
	}
	return list
}
