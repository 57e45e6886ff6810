package report

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// Space is an address space that commands reach: a BAR, a tile or a rectangle
// of tiles, a host buffer, configuration space.
type Space struct {
	Device int    `json:"device"`
	Kind   string `json:"kind"` // bar, tile, multicast, host, config
	Name   string `json:"name"`
	Size   uint64 `json:"size"` // bytes, 0: not known
	Traffic
	Ranges []Range `json:"ranges"`
	// number of gaps that count as accessed, because the list of ranges is limited
	MergedGaps int `json:"closed"`
}

// spacesMax is the largest number of spaces of a report. The traffic of further tiles is counted
// together.
const spacesMax = 4096

type spaceKey struct {
	device    uint8
	kind      gen.WindowKind
	index     uint16 // BAR, or number of the host window
	tiles     rectangle
	multicast bool
	rest      bool // the space of all tiles beyond spacesMax
}

// rectangle is a rectangle of tiles: two opposite corners, both included.
type rectangle struct{ x0, y0, x1, y1 uint8 }

// space is an unfinished Space.
type space struct {
	key    spaceKey
	ranges rangeSet
	total  Traffic
}

// mapping is what a window maps while the commands of a sequence are counted.
type mapping struct {
	space *space
	key   spaceKey
}

func (a *analysis) addTraffic(w *mapping, e *lmb.Effect, t Traffic) {
	w.space.total.add(t, 1)
	w.space.ranges.add(e.Address, e.Address+e.Size-1, t)
	if w.space.key.rest {
		a.addToTiles(&w.key, t)
	}
}

// mapFixedWindow sets the mapping of a window that no Point can move.
func (a *analysis) mapFixedWindow(window int) {
	w := &a.view.Windows[window]
	key := spaceKey{device: w.Device, kind: w.Kind}
	switch w.Kind {
	case gen.WindowKindBar:
		key.index = uint16(w.Bar)
	case gen.WindowKindHost:
		key.index = uint16(window)
	}
	a.mappings[window] = mapping{a.findOrAddSpace(key), key}
}

func (a *analysis) findOrAddSpace(key spaceKey) *space {
	s := a.spaces[key]
	if s == nil && len(a.spaces) >= spacesMax && !key.rest {
		return a.findOrAddSpace(spaceKey{device: key.device, kind: key.kind, rest: true})
	}
	if s == nil {
		s = &space{key: key}
		a.spaces[key] = s
	}
	return s
}

// mapPointedWindow sets the mapping of a window after a Point.
func (a *analysis) mapPointedWindow(c *fbs.Command) {
	t, _ := boards.UnpackTileRoute(c.Mask)
	key := spaceKey{device: a.view.Windows[c.Window].Device, kind: gen.WindowKindTlb,
		multicast: t.Multicast}
	x, y := a.toNoC0(key.device, t.X, t.Y)
	key.tiles = rectangle{x, y, x, y}
	if t.Multicast {
		key.tiles.x0, key.tiles.y0 = a.toNoC0(key.device, t.XStart, t.YStart)
	}
	a.mappings[c.Window] = mapping{a.findOrAddSpace(key), key}
}

// toNoC0 translates coordinates to those of NoC 0. Unknown coordinates stay unchanged.
func (a *analysis) toNoC0(device, x, y uint8) (uint8, uint8) {
	if grid := a.gridOf(device); grid != nil {
		if t, ok := grid.TileAt(x, y); ok {
			return t.X, t.Y
		}
	}
	return x, y
}

func (a *analysis) gridOf(device uint8) *chips.Grid {
	if board := a.report.Devices[device].board; board != nil {
		return chips.ForBoard(board).Grid
	}
	return nil
}

// addToTiles adds the traffic of a space to its tiles. A multicast counts on the Tensix
// tiles of its rectangle; on a device whose tiles are unknown it counts on none.
func (a *analysis) addToTiles(key *spaceKey, t Traffic) {
	r := key.tiles
	tiles := []chips.Tile{{X: r.x1, Y: r.y1}}
	if key.multicast {
		tiles, _ = a.gridOf(key.device).ShownTiles(boards.TileRoute{X: r.x1, Y: r.y1, XStart: r.x0,
			YStart: r.y0, Multicast: true})
	}
	for _, tile := range tiles {
		at := tileKey{key.device, tile.X, tile.Y}
		total := a.tiles[at]
		total.add(t, 1)
		a.tiles[at] = total
	}
}

type tileKey struct{ device, x, y uint8 }

func (a *analysis) finishTiles() {
	for _, s := range a.spaces {
		if s.key.kind == gen.WindowKindTlb && !s.key.rest && s.total != (Traffic{}) {
			a.addToTiles(&s.key, s.total)
		}
	}
	a.report.Tiles = []Tile{}
	for key, t := range a.tiles {
		a.report.Tiles = append(a.report.Tiles,
			Tile{int(key.device), key.x, key.y, a.tileKindName(key, ""), t})
	}
	slices.SortFunc(a.report.Tiles, func(a, b Tile) int {
		return cmp.Or(a.Device-b.Device, int(a.Y)-int(b.Y), int(a.X)-int(b.X))
	})
}

// tileKindName returns the name of a tile's kind, or `unknown` if the kind is not known.
func (a *analysis) tileKindName(key tileKey, unknown string) string {
	if kind := a.tileKind(key); kind != 0 {
		return kind.String()
	}
	return unknown
}

func (a *analysis) tileKind(key tileKey) chips.TileKind {
	grid := a.gridOf(key.device)
	if grid == nil || int(key.y) >= len(grid.Rows) || int(key.x) >= len(grid.Rows[key.y]) {
		return 0
	}
	return grid.Kind(chips.Tile{X: key.x, Y: key.y})
}

// finishSpaces lists the spaces that were accessed: by device, and of each the BARs, then
// tiles, then host memory.
func (a *analysis) finishSpaces() {
	for _, s := range a.spaces {
		if s.total != (Traffic{}) {
			a.accessed = append(a.accessed, s)
		}
	}
	slices.SortFunc(a.accessed,
		func(p, q *space) int { return bytes.Compare(p.key.sortKey(), q.key.sortKey()) })
	a.report.Spaces = []Space{}
	for _, s := range a.accessed {
		s.ranges.compact(rangesReportedMax)
		for i := range s.ranges.list {
			s.ranges.list[i].Area = a.areaName(&s.key, &s.ranges.list[i])
		}
		a.report.Spaces = append(a.report.Spaces, Space{
			Device: int(s.key.device), Kind: s.key.kindName(), Name: a.spaceName(&s.key),
			Size:    a.spaceBytes(&s.key),
			Traffic: s.total, Ranges: s.ranges.list, MergedGaps: s.ranges.mergedGaps,
		})
	}
}

// sortKey returns the sort key of a space: by device, tiles before rectangles, those beyond
// spacesMax last, rows from the top.
func (k *spaceKey) sortKey() []byte {
	late := byte(0)
	switch {
	case k.rest:
		late = 2
	case k.multicast:
		late = 1
	}
	t := &k.tiles
	return []byte{k.device, byte(k.kind), late, byte(k.index >> 8), byte(k.index), t.y1, t.x1, t.y0,
		t.x0}
}

// kindName returns the kind of a space as it is called in reports.
func (k *spaceKey) kindName() string {
	switch {
	case k.kind != gen.WindowKindTlb:
		return lowercase(gen.EnumNamesWindowKind[k.kind])
	case k.multicast:
		return "multicast"
	}
	return "tile"
}

func (a *analysis) spaceName(k *spaceKey) string {
	switch {
	case k.rest:
		return "further tiles"
	case k.kind == gen.WindowKindBar:
		return fmt.Sprintf("BAR %d", k.index)
	case k.kind == gen.WindowKindHost:
		if name := a.report.Windows[k.index].Name; name != "" {
			return "host memory " + name
		}
		return fmt.Sprintf("host memory of window %d", k.index)
	case k.kind == gen.WindowKindConfig:
		return "configuration space"
	case k.multicast:
		return fmt.Sprintf("tiles %d,%d to %d,%d", k.tiles.x0, k.tiles.y0, k.tiles.x1, k.tiles.y1)
	}
	kind := a.tileKindName(tileKey{k.device, k.tiles.x1, k.tiles.y1}, "tile")
	return fmt.Sprintf("%s %d,%d", kind, k.tiles.x1, k.tiles.y1)
}

func (a *analysis) spaceBytes(k *spaceKey) uint64 {
	switch k.kind {
	case gen.WindowKindBar:
		return a.view.Devices[k.device].MinBarSizes()[k.index]
	case gen.WindowKindHost:
		return a.view.Windows[k.index].Size
	case gen.WindowKindConfig:
		return 4096
	}
	return 0
}

// areaName returns the board's name of the memory or register at a range. It returns an empty
// string if there is no such name.
func (a *analysis) areaName(k *spaceKey, r *Range) string {
	board := a.report.Devices[k.device].board
	switch {
	case board == nil || k.rest:
		return ""
	case k.kind == gen.WindowKindBar:
		return barArea(board, uint8(k.index), r)
	case k.kind == gen.WindowKindTlb && chips.ForBoard(board).Grid != nil:
		tile := tileKey{k.device, k.tiles.x1, k.tiles.y1}
		return tileArea(chips.ForBoard(board).Grid, a.tileKind(tile), r)
	}
	return ""
}

func barArea(board *boards.Board, bar uint8, r *Range) string {
	if t := board.TLB; t != nil {
		if _, _, ok := chips.SlotOfRegister(t, bar, r.First); ok {
			return "window configuration"
		}
	}
	for _, s := range chips.ForBoard(board).StatusRegisters {
		if s.Bar == bar && s.Offset == r.First && r.Bytes() <= 4 {
			return s.Name
		}
	}
	if rule := board.FindRule(bar, r.First, r.Bytes()); rule != nil {
		return rule.Name
	}
	return ""
}

func tileArea(grid *chips.Grid, kind chips.TileKind, r *Range) string {
	if (kind == chips.Tensix || kind == chips.Ethernet) && r.First == grid.TensixReset.Address &&
		r.Bytes() <= 4 {
		return "soft reset"
	}
	if m := grid.FindMemory(kind, r.First, r.Bytes()); m != nil {
		return m.Name
	}
	if reg := grid.FindRegisterRange(kind, r.First); reg != nil && r.Bytes() <= 4*reg.Count {
		return reg.Name
	}
	return ""
}
