package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Sizes in a picture, in pixels at the width it is drawn for.
const (
	pictureWidth = 1000.0
	labelWidth   = 190.0 // names of rows
	glyphWidth   = 6.7   // of the labels' font, which is a typewriter's
	nameGlyph    = 8.3   // of the names of rows, on the wide side
	noteGlyph    = 6.0   // of the notes below them
)

const (
	mapRowHeight = 62.0
	mapBoxTop    = 18.0
	mapBoxHeight = 24.0
	mapGap       = 20.0 // what is not touched
	mapRowsMax   = 40
	mapTilesMax  = 12 // rows of tiles that do not do the same
	mapBoxesMax  = 24 // in a row
)

// mapPicture shows what each address space has of touched ranges. Boxes grow
// with the logarithm of their size: four bytes of register and a gigabyte of
// memory are both to be seen.
type mapPicture struct {
	Width, Height float64
	Rows          []mapRow
	Notes         []string
}

type mapRow struct {
	Y             float64
	Name, Note    string
	Boxes         []mapBox
	Labels, Areas []label
	LineEnd       float64
}

type mapBox struct {
	X, Y, W, H float64
	Parts      []mapPart
	Tip        string
}

type mapPart struct {
	Y, H  float64
	Class string
}

type label struct {
	X, Y float64
	Text string
}

// spaceGroup is spaces of one target with the same ranges touched: many tiles
// that do the same are one row.
type spaceGroup struct {
	Space
	tiles bool
	count int
	where string // coordinates of all of them
}

func (r *Report) mapPicture() *mapPicture {
	p := &mapPicture{Width: pictureWidth}
	groups := p.fold(r.groups())
	closed := 0
	for i := range groups[:min(len(groups), mapRowsMax)] {
		closed += p.row(&groups[i], r.targetPrefix(groups[i].Target))
	}
	p.Height = float64(len(p.Rows)) * mapRowHeight
	if len(groups) > mapRowsMax {
		p.Notes = append(p.Notes, fmt.Sprintf("Device memory: %d of %d rows are drawn.", mapRowsMax, len(groups)))
	}
	if closed > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("Device memory: a row has at most %d boxes, so the %s smallest gaps between touched ranges are drawn as "+
			"touched.",
			mapBoxesMax, countText(uint64(closed))))
	}
	return p
}

func (r *Report) groups() (groups []spaceGroup) {
	known := map[string]int{}
	for i := range r.Spaces {
		s := r.Spaces[i]
		key := fmt.Sprint(s.Target, s.Kind, strings.TrimSuffix(s.Name, coordinates(s.Name)), s.Closed)
		for _, x := range s.Ranges {
			key += fmt.Sprintf(" %x-%x%s", x.First, x.Last, x.Area)
		}
		at, ok := known[key]
		if !ok || s.Kind != "tile" {
			known[key] = len(groups)
			s.Ranges = slices.Clone(s.Ranges)
			groups = append(groups, spaceGroup{Space: s, tiles: s.Kind == "tile", count: 1, where: coordinates(s.Name)})
			continue
		}
		g := &groups[at]
		if g.count++; len(g.where) < 100 { // more is not shown
			g.where += " " + coordinates(s.Name)
		}
		g.Kind = strings.TrimSuffix(s.Name, " "+coordinates(s.Name))
		g.Traffic.add(s.Traffic, 1)
		for j := range s.Ranges {
			g.Ranges[j].Traffic.add(s.Ranges[j].Traffic, 1)
		}
	}
	return groups
}

// fold makes one row of the tiles that get the least, where there are many.
func (p *mapPicture) fold(groups []spaceGroup) []spaceGroup {
	var tiles []*spaceGroup
	for i := range groups {
		if groups[i].tiles {
			tiles = append(tiles, &groups[i])
		}
	}
	if len(tiles) <= mapTilesMax+1 {
		return groups
	}
	slices.SortStableFunc(tiles, func(a, b *spaceGroup) int { return cmp.Compare(b.Traffic.total(), a.Traffic.total()) })
	rest := spaceGroup{Space: Space{Kind: "rest", Target: tiles[mapTilesMax].Target}}
	for _, g := range tiles[mapTilesMax:] {
		rest.count += g.count
		rest.Traffic.add(g.Traffic, 1)
		rest.Closed += g.Closed
		rest.Ranges = append(rest.Ranges, g.Ranges...)
		g.count = 0
	}
	rest.Name = fmt.Sprintf("%d further tiles", rest.count)
	rest.count = 1
	p.Notes = append(p.Notes, fmt.Sprintf("Device memory: the %d tiles with most bytes have a row each, %s have one together.", mapTilesMax, rest.Name))
	return append(slices.DeleteFunc(groups, func(g spaceGroup) bool { return g.count == 0 }), rest)
}

// coordinates is the end of a tile's name.
func coordinates(name string) string { return name[strings.LastIndex(name, " ")+1:] }

// fitted is a text no longer than the names of rows may be.
func fitted(text string, glyph float64) string {
	glyphs := int((labelWidth - 6) / glyph)
	if len([]rune(text)) <= glyphs {
		return text
	}
	return shortened(text, glyphs)
}

// row draws a space and gives the number of gaps that closed in it.
func (p *mapPicture) row(g *spaceGroup, prefix string) int {
	set := rangeSet{list: g.Ranges, closed: g.Closed}
	set.compact(mapBoxesMax)
	row := mapRow{Y: float64(len(p.Rows)) * mapRowHeight, Name: plain(g.Name), Note: plain(prefix) + g.Traffic.text()}
	if g.Size > 0 {
		row.Name += ", " + bytesText(g.Size)
	}
	if g.count > 1 {
		row.Name = fmt.Sprintf("%d × %s", g.count, g.Kind)
		row.Note = g.where + ": " + row.Note
	}
	full := plain(prefix) + row.Name
	row.Name, row.Note = fitted(row.Name, nameGlyph), fitted(row.Note, noteGlyph)
	widths := boxWidths(set.list)
	x := labelWidth
	var used, usedAreas float64
	for i := range set.list {
		r := &set.list[i]
		if r.First > 0 || i > 0 {
			x += mapGap
		}
		row.box(r, x, widths[i], full)
		row.place(&row.Labels, &used, x, mapBoxTop+mapBoxHeight+13, widths[i], fmt.Sprintf("0x%x", r.First), bytesText(r.Bytes()))
		if i == 0 || r.Area != set.list[i-1].Area {
			row.place(&row.Areas, &usedAreas, x, mapBoxTop-5, widths[i], r.Area, "")
		}
		x += widths[i]
	}
	row.LineEnd = x
	if last := set.list[len(set.list)-1].Last; g.Size == 0 || last < g.Size-1 {
		row.LineEnd += mapGap
	}
	p.Rows = append(p.Rows, row)
	return set.closed
}

// boxWidths has no row wider than the picture.
func boxWidths(list []Range) []float64 {
	widths := make([]float64, len(list))
	total := 0.0
	for i := range list {
		widths[i] = 16 * (1 + math.Log2(float64(list[i].Bytes())+1))
		total += widths[i]
	}
	room := pictureWidth - labelWidth - mapGap*float64(len(list)+1)
	if total > room {
		for i := range widths {
			widths[i] *= room / total
		}
	}
	return widths
}

func (row *mapRow) box(r *Range, x, width float64, name string) {
	box := mapBox{X: x, Y: row.Y + mapBoxTop, W: width, H: mapBoxHeight}
	box.Tip = fmt.Sprintf("%s 0x%x to 0x%x, %s: %s", name, r.First, r.Last, bytesText(r.Bytes()), r.Traffic.text())
	if r.Area != "" {
		box.Tip += " (" + r.Area + ")"
	}
	y, all := box.Y, float64(r.Traffic.total())
	parts := r.Traffic.parts()
	least := mapBoxHeight / 6
	for _, part := range parts {
		h := least + (mapBoxHeight-least*float64(len(parts)))*float64(part.bytes)/all
		box.Parts = append(box.Parts, mapPart{y, h, part.class})
		y += h
	}
	row.Boxes = append(row.Boxes, box)
}

// place puts a label at x unless another is in the way, with its second part
// where the box is wide enough for both.
func (row *mapRow) place(labels *[]label, used *float64, x, y, width float64, text, more string) {
	if both := text + ", " + more; more != "" && glyphWidth*float64(len(both)) < width {
		text = both
	}
	length := glyphWidth * float64(len(text))
	x = min(x, pictureWidth-length)
	if text == "" || x < *used {
		return
	}
	*used = x + length + glyphWidth
	*labels = append(*labels, label{x, row.Y + y, text})
}
