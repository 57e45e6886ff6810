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
	mapTilesMax = 12 // rows of tiles; all further tiles share one row
	mapBoxesMax = 24 // boxes in a row
	mapLabelMax = 8  // in a row with more boxes, the boxes have no labels
)

// mapPicture shows the accessed ranges of each address space.
type mapPicture struct {
	Rows  []mapRow
	Notes []string
}

type mapRow struct {
	Name, Note string
	Between    string // first and last address, if the boxes have no labels
	Boxes      []mapBox
	More       bool // the space continues after the last box
}

// mapBox is an accessed range. Its width grows with the logarithm of the size, as far as a row has
// room, so that both a register of four bytes and a gigabyte of memory are visible.
type mapBox struct {
	Width            float64 // largest width, in pixels
	AfterGap         bool    // there is a gap before the box
	Area, Label, Tip string
	Parts            []trafficPart
}

// spaceGroup is a group of spaces of one device in which the same ranges are accessed. A group of
// tiles is one row of the picture.
type spaceGroup struct {
	Space
	areTiles bool
	count    int
	places   string // coordinates of all tiles of the group
}

func (r *Report) mapPicture() *mapPicture {
	p := &mapPicture{}
	groups := p.mergeSmallTiles(r.spaceGroups())
	closed := 0
	for i := range groups[:min(len(groups), mapRowsMax)] {
		closed += p.addRow(&groups[i], r.devicePrefix(groups[i].Device))
	}
	if len(groups) > mapRowsMax {
		p.Notes = append(p.Notes, fmt.Sprintf("Device memory: only the first %d of %d rows are "+
			"drawn.", mapRowsMax,
			len(groups)))
	}
	if closed > 0 {
		p.Notes = append(p.Notes,
			fmt.Sprintf("Device memory: a row has at most %d boxes, "+
				"so the %s smallest gaps between accessed ranges are drawn as accessed.",
				mapBoxesMax, countText(uint64(closed))))
	}
	return p
}

func (r *Report) spaceGroups() (groups []spaceGroup) {
	known := map[string]int{}
	for i := range r.Spaces {
		s := r.Spaces[i]
		key := fmt.Sprint(s.Device, s.Kind, strings.TrimSuffix(s.Name, coordinates(s.Name)),
			s.MergedGaps)
		for _, x := range s.Ranges {
			key += fmt.Sprintf(" %x-%x%s", x.First, x.Last, x.Area)
		}
		at, ok := known[key]
		if !ok || s.Kind != "tile" {
			known[key] = len(groups)
			s.Ranges = slices.Clone(s.Ranges)
			groups = append(groups, spaceGroup{Space: s, areTiles: s.Kind == "tile", count: 1,
				places: coordinates(s.Name)})
			continue
		}
		g := &groups[at]
		if g.count++; len(g.places) < 100 { // more is not shown
			g.places += " " + coordinates(s.Name)
		}
		g.Kind = strings.TrimSuffix(s.Name, " "+coordinates(s.Name))
		g.Traffic.add(s.Traffic, 1)
		for j := range s.Ranges {
			g.Ranges[j].Traffic.add(s.Ranges[j].Traffic, 1)
		}
	}
	return groups
}

// mergeSmallTiles makes one row of the tiles with the fewest bytes, if there are many tiles.
func (p *mapPicture) mergeSmallTiles(groups []spaceGroup) []spaceGroup {
	var tiles []*spaceGroup
	for i := range groups {
		if groups[i].areTiles {
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
		rest.MergedGaps += g.MergedGaps
		rest.Ranges = append(rest.Ranges, g.Ranges...)
		g.count = 0
	}
	rest.Name = fmt.Sprintf("%d further tiles", rest.count)
	rest.count = 1
	p.Notes = append(p.Notes,
		fmt.Sprintf("Device memory: the %d tiles with the most bytes have a row each, "+
			"and %s share one row.", mapTilesMax, rest.Name))
	return append(slices.DeleteFunc(groups, func(g spaceGroup) bool { return g.count == 0 }), rest)
}

// coordinates returns the end of the name of a tile, such as "1,2".
func coordinates(name string) string { return name[strings.LastIndex(name, " ")+1:] }

// addRow adds a row for a group of spaces. It returns the number of gaps that the row does not
// show.
func (p *mapPicture) addRow(g *spaceGroup, prefix string) int {
	set := rangeSet{list: g.Ranges, mergedGaps: g.MergedGaps}
	set.compact(mapBoxesMax)
	row := mapRow{Name: sanitize(g.Name), Note: sanitize(prefix) + g.Traffic.text()}
	if g.Size > 0 {
		row.Name += ", " + lmb.SizeText(g.Size)
	}
	if g.count > 1 {
		row.Name = fmt.Sprintf("%d × %s", g.count, g.Kind)
		row.Note = g.places + ": " + row.Note
	}
	for i := range set.list {
		r := &set.list[i]
		box := r.box(sanitize(prefix) + row.Name)
		box.AfterGap = r.First > 0 || i > 0
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
	return set.mergedGaps
}

func (r *Range) box(name string) mapBox {
	first, size := fmt.Sprintf("0x%x", r.First), lmb.SizeText(r.Bytes())
	box := mapBox{Area: r.Area, Label: first + ", " + size, Parts: r.Traffic.parts()}
	const glyph = 6.8 // width of a character of the label, in pixels
	box.Width = max(72+14*math.Log2(float64(r.Bytes())+1), glyph*float64(len(box.Label)))
	box.Tip = fmt.Sprintf("%s %s to 0x%x, %s: %s", name, first, r.Last, size, r.Traffic.text())
	if r.Area != "" {
		box.Tip += " (" + r.Area + ")"
	}
	return box
}
