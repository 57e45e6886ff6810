package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"lightmetal/boards/chips"
)

const (
	gridCellHeight = 34.0
	gridCellWidth  = 54.0
	gridMargin     = 24.0 // coordinates
	gridSideMax    = 40   // tiles of a device that is not known, each way
	heatLevels     = 5
)

// gridPicture is the tiles of a device, coloured by the bytes that go to and
// come from each.
type gridPicture struct {
	Title         string
	Width, Height float64
	Cells         []gridCell
	Columns, Rows []label
	Legend        []heat
	Kinds         string
}

type gridCell struct {
	X, Y, W, H float64
	Class      string
	Letter     string
	Text       string
	Tip        string
}

// Half is where the middle of the cell is from its left.
func (c gridCell) Half() string { return pixels(c.W / 2) }

// heat is one colour of the picture.
type heat struct{ Class, Text string }

func (r *Report) gridPictures() (pictures []*gridPicture) {
	for i := range r.Targets {
		tiles := slices.DeleteFunc(slices.Clone(r.Tiles), func(t Tile) bool { return t.Target != i })
		rows := r.Targets[i].rows(tiles)
		if rows != nil {
			pictures = append(pictures, newGrid(r.Targets[i].text(), rows, tiles))
		}
	}
	return pictures
}

// rows is the map of the target's tiles, nil where there is none to draw.
func (t *Target) rows(tiles []Tile) []string {
	if t.board != nil && chips.Of(t.board).Grid != nil {
		return chips.Of(t.board).Grid.Rows
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

func newGrid(title string, rows []string, tiles []Tile) *gridPicture {
	columns := len(rows[0])
	width := min(gridCellWidth, (pictureWidth-gridMargin)/float64(columns))
	g := &gridPicture{Title: title, Width: gridMargin + width*float64(columns), Height: gridMargin + gridCellHeight*float64(len(rows))}
	for x := range columns {
		g.Columns = append(g.Columns, label{gridMargin + width*(float64(x)+0.5), gridMargin - 8, fmt.Sprint(x)})
	}
	levels := newLevels(tiles)
	g.Legend = levels.legend()
	for y := range rows {
		top := gridMargin + gridCellHeight*float64(y)
		g.Rows = append(g.Rows, label{gridMargin - 8, top + gridCellHeight/2 + 4, fmt.Sprint(y)})
		for x := range columns {
			cell := gridCell{X: gridMargin + width*float64(x) + 1, Y: top + 1, W: width - 2, H: gridCellHeight - 2}
			cell.fill(chips.Kind(rows[y][x]), tileAt(tiles, x, y), x, y, levels)
			g.Cells = append(g.Cells, cell)
		}
	}
	g.Kinds = kindsText(rows)
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

func (c *gridCell) fill(kind chips.Kind, t *Traffic, x, y int, levels levels) {
	name := "tile"
	if kind != ' ' {
		name = kind.String()
		c.Letter = strings.Trim(string(kind), ".")
	}
	c.Class = "none"
	if kind == chips.Router {
		c.Class = "router"
	}
	c.Tip = fmt.Sprintf("%s %d,%d: not touched", name, x, y)
	if total := t.total(); total > 0 {
		c.Class = fmt.Sprintf("heat%d", levels.of(total))
		c.Text = shortBytes(total)
		c.Tip = fmt.Sprintf("%s %d,%d: %s", name, x, y, t.text())
	}
}

// shortBytes fits a cell: "3.2K".
func shortBytes(n uint64) string {
	number, unit, _ := strings.Cut(bytesText(n), " ")
	return number + strings.TrimSuffix(strings.TrimSuffix(unit, "iB"), "B")
}

func kindsText(rows []string) string {
	var names []string
	seen := map[chips.Kind]bool{}
	for _, row := range rows {
		for _, c := range []byte(row) {
			kind := chips.Kind(c)
			if kind != ' ' && kind != chips.Router && !seen[kind] {
				seen[kind] = true
				names = append(names, fmt.Sprintf("%c %s", kind, strings.TrimSuffix(kind.String(), " tile")))
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, " · ")
}

// levels splits the logarithm of bytes between the least and the most.
type levels struct{ least, most float64 }

func newLevels(tiles []Tile) levels {
	l := levels{math.Inf(1), 0}
	for i := range tiles {
		if n := tiles[i].Traffic.total(); n > 0 {
			l.least, l.most = min(l.least, math.Log(float64(n))), max(l.most, math.Log(float64(n)))
		}
	}
	return l
}

func (l levels) of(bytes uint64) int {
	if l.most <= l.least {
		return heatLevels
	}
	return 1 + min(heatLevels-1, int(heatLevels*(math.Log(float64(bytes))-l.least)/(l.most-l.least)))
}

func (l levels) legend() (list []heat) {
	switch {
	case math.IsInf(l.least, 1):
		return nil
	case l.most <= l.least:
		return []heat{{fmt.Sprintf("heat%d", heatLevels), bytesText(uint64(math.Round(math.Exp(l.most))))}}
	}
	for level := range heatLevels {
		from := math.Exp(l.least + (l.most-l.least)*float64(level)/heatLevels)
		list = append(list, heat{fmt.Sprintf("heat%d", level+1), "from " + bytesText(uint64(math.Round(from)))})
	}
	return list
}
