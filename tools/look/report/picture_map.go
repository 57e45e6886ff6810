package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"lightmetal/tools/image/lmb"
)

const (
	mapRowsMax  = 40
	mapTilesMax = 12 // rows of tiles that do not do the same
	mapBoxesMax = 24 // in a row
	mapLabelMax = 8  // boxes in a row that have a label each
)

// mapPicture shows what each address space has of touched ranges.
type mapPicture struct {
	Rows  []mapRow
	Notes []string
}

type mapRow struct {
	Name, Note string
	Between    string // first and last address, of a row whose boxes have no labels
	Boxes      []mapBox
	More       bool // the space continues after the last
}

// mapBox is a range. Boxes grow with the logarithm of their size, as far as a row has
// room: four bytes of register and a gigabyte of memory are both to be seen.
type mapBox struct {
	Width            float64 // at most, pixels
	Apart            bool    // something before it is not touched
	Area, Label, Tip string
	Parts            []trafficPart
}

// spaceGroup is spaces of one device with the same ranges touched: many tiles
// that do the same are one row.
type spaceGroup struct {
	Space
	tiles bool
	count int
	where string // coordinates of all of them
}

func (r *Report) mapPicture() *mapPicture {
	p := &mapPicture{}
	groups := p.fold(r.groups())
	closed := 0
	for i := range groups[:min(len(groups), mapRowsMax)] {
		closed += p.row(&groups[i], r.devicePrefix(groups[i].Device))
	}
	if len(groups) > mapRowsMax {
		p.Notes = append(p.Notes, fmt.Sprintf("Device memory: %d of %d rows are drawn.", mapRowsMax,
			len(groups)))
	}
	if closed > 0 {
		p.Notes = append(p.Notes,
			fmt.Sprintf("Device memory: a row has at most %d boxes, so the %s smallest gaps "+
				"between touched ranges are drawn as "+
				"touched.",
				mapBoxesMax, countText(uint64(closed))))
	}
	return p
}

func (r *Report) groups() (groups []spaceGroup) {
	known := map[string]int{}
	for i := range r.Spaces {
		s := r.Spaces[i]
		key := fmt.Sprint(s.Device, s.Kind, strings.TrimSuffix(s.Name, coordinates(s.Name)),
			s.Closed)
		for _, x := range s.Ranges {
			key += fmt.Sprintf(" %x-%x%s", x.First, x.Last, x.Area)
		}
		at, ok := known[key]
		if !ok || s.Kind != "tile" {
			known[key] = len(groups)
			s.Ranges = slices.Clone(s.Ranges)
			groups = append(groups, spaceGroup{Space: s, tiles: s.Kind == "tile", count: 1,
				where: coordinates(s.Name)})
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
	slices.SortStableFunc(tiles,
		func(a, b *spaceGroup) int { return cmp.Compare(b.Traffic.total(), a.Traffic.total()) })
	rest := spaceGroup{Space: Space{Kind: "rest", Device: tiles[mapTilesMax].Device}}
	for _, g := range tiles[mapTilesMax:] {
		rest.count += g.count
		rest.Traffic.add(g.Traffic, 1)
		rest.Closed += g.Closed
		rest.Ranges = append(rest.Ranges, g.Ranges...)
		g.count = 0
	}
	rest.Name = fmt.Sprintf("%d further tiles", rest.count)
	rest.count = 1
	p.Notes = append(p.Notes,
		fmt.Sprintf("Device memory: the %d tiles with most bytes have a row each, %s have one "+
			"together.", mapTilesMax, rest.Name))
	return append(slices.DeleteFunc(groups, func(g spaceGroup) bool { return g.count == 0 }), rest)
}

// coordinates is the end of a tile's name.
func coordinates(name string) string { return name[strings.LastIndex(name, " ")+1:] }

// row draws a space and returns the number of gaps that it left out.
func (p *mapPicture) row(g *spaceGroup, prefix string) int {
	set := rangeSet{list: g.Ranges, closed: g.Closed}
	set.compact(mapBoxesMax)
	row := mapRow{Name: plain(g.Name), Note: plain(prefix) + g.Traffic.text()}
	if g.Size > 0 {
		row.Name += ", " + lmb.SizeText(g.Size)
	}
	if g.count > 1 {
		row.Name = fmt.Sprintf("%d × %s", g.count, g.Kind)
		row.Note = g.where + ": " + row.Note
	}
	for i := range set.list {
		r := &set.list[i]
		box := r.box(plain(prefix) + row.Name)
		box.Apart = r.First > 0 || i > 0
		if i > 0 && r.Area == set.list[i-1].Area {
			box.Area = ""
		}
		row.Boxes = append(row.Boxes, box)
	}
	last := set.list[len(set.list)-1].Last
	if len(set.list) > mapLabelMax {
		row.Between = fmt.Sprintf("0x%x to 0x%x", set.list[0].First, last)
	}
	row.More = g.Size == 0 || last < g.Size-1
	p.Rows = append(p.Rows, row)
	return set.closed
}

func (r *Range) box(name string) mapBox {
	first, size := fmt.Sprintf("0x%x", r.First), lmb.SizeText(r.Bytes())
	box := mapBox{Area: r.Area, Label: first + ", " + size, Parts: r.Traffic.parts()}
	const glyph = 6.8 // pixels, of the label's font
	box.Width = max(72+14*math.Log2(float64(r.Bytes())+1), glyph*float64(len(box.Label)))
	box.Tip = fmt.Sprintf("%s %s to 0x%x, %s: %s", name, first, r.Last, size, r.Traffic.text())
	if r.Area != "" {
		box.Tip += " (" + r.Area + ")"
	}
	return box
}
