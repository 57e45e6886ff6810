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
	gridSideMax = 40 // tiles of a device that is not known, each way
	heatLevels  = 5
)

// gridPicture is the tiles of a device, coloured by the bytes that go to and
// come from each.
type gridPicture struct {
	Title  string
	Rows   [][]gridCell // from y = 0 and x = 0 on
	Legend []heat
	Kinds  string
}

type gridCell struct{ Class, Text, Tip string }

// heat is one colour of the picture.
type heat struct{ Class, Text string }

func (r *Report) gridPictures() (pictures []*gridPicture) {
	for i := range r.Devices {
		tiles := slices.DeleteFunc(slices.Clone(r.Tiles),
			func(t Tile) bool { return t.Device != i })
		rows := r.Devices[i].rows(tiles)
		if rows != nil {
			pictures = append(pictures, newGrid(r.Devices[i].text(), rows, tiles))
		}
	}
	return pictures
}

// rows returns the map of the device's tiles, nil if there is none to draw.
func (t *Device) rows(tiles []Tile) []string {
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
	levels := newLevels(tiles)
	g := &gridPicture{Title: title, Legend: levels.legend(), Kinds: kindsText(rows)}
	for y, kinds := range rows {
		var row []gridCell
		for x := range kinds {
			row = append(row, newCell(chips.Kind(kinds[x]), tileAt(tiles, x, y), x, y, levels))
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

func newCell(kind chips.Kind, t *Traffic, x, y int, levels levels) gridCell {
	name, letter, class := "tile", "", "none"
	if kind != ' ' {
		name, letter = kind.String(), strings.Trim(string(kind), ".")
	}
	if kind == chips.Router {
		class = "router"
	}
	place := fmt.Sprintf("%s %d,%d: ", name, x, y)
	if total := t.total(); total > 0 {
		return gridCell{fmt.Sprintf("heat%d", levels.of(total)), shortBytes(total),
			place + t.text()}
	}
	return gridCell{class, letter, place + "not touched"}
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
	seen := map[chips.Kind]bool{}
	for _, row := range rows {
		for _, c := range []byte(row) {
			kind := chips.Kind(c)
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
	return 1 + min(heatLevels-1,
		int(heatLevels*(math.Log(float64(bytes))-l.least)/(l.most-l.least)))
}

func (l levels) legend() (list []heat) {
	switch {
	case math.IsInf(l.least, 1):
		return nil
	case l.most <= l.least:
		return []heat{{fmt.Sprintf("heat%d", heatLevels),
			lmb.SizeText(uint64(math.Round(math.Exp(l.most))))}}
	}
	for level := range heatLevels {
		from := math.Exp(l.least + (l.most-l.least)*float64(level)/heatLevels)
		list = append(list, heat{fmt.Sprintf("heat%d", level+1),
			"from " + lmb.SizeText(uint64(math.Round(from)))})
	}
	return list
}
