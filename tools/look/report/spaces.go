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
	Closed int     `json:"closed"` // gaps left out, so that there are no more ranges than this
}

// spacesMax bounds the spaces of a report. What goes to tiles beyond them is
// counted together.
const spacesMax = 4096

// spaceKey identifies a space.
type spaceKey struct {
	device    uint8
	kind      gen.WindowKind
	index     uint16 // BAR, or number of the host window
	tiles     rectangle
	multicast bool
	rest      bool // all that came after spacesMax
}

// rectangle is tiles from one corner to another, both of them in it.
type rectangle struct{ x0, y0, x1, y1 uint8 }

// space is a Space while it grows.
type space struct {
	key    spaceKey
	ranges rangeSet
	total  Traffic
}

// aim is what a window shows while the commands of a sequence are counted.
type aim struct {
	space   *space
	address uint64 // of the window's first byte
	key     spaceKey
}

func (a *analysis) addTraffic(w *aim, offset, size uint64, t Traffic) {
	w.space.total.add(t, 1)
	w.space.ranges.add(w.address+offset, w.address+offset+size-1, t)
	if w.space.key.rest {
		a.addToTiles(&w.key, t)
	}
}

// placeFixedWindow sets what a window that does not move shows.
func (a *analysis) placeFixedWindow(window int) {
	w := &a.view.Windows[window]
	key := spaceKey{device: w.Device, kind: w.Kind}
	address := uint64(0)
	switch w.Kind {
	case gen.WindowKindBar:
		key.index, address = uint16(w.Bar), w.Offset
	case gen.WindowKindHost:
		key.index = uint16(window)
	}
	a.aims[window] = aim{space: a.space(key), address: address, key: key}
}

func (a *analysis) space(key spaceKey) *space {
	s := a.spaces[key]
	if s == nil && len(a.spaces) >= spacesMax && !key.rest {
		return a.space(spaceKey{device: key.device, kind: key.kind, rest: true})
	}
	if s == nil {
		s = &space{key: key}
		a.spaces[key] = s
	}
	return s
}

// followPoint sets what a window shows after a Point.
func (a *analysis) followPoint(c *fbs.Command) {
	t, _ := boards.UnpackTileRoute(c.Mask)
	key := spaceKey{device: a.view.Windows[c.Window].Device, kind: gen.WindowKindTlb,
		multicast: t.Multicast}
	x, y := a.noc0(key.device, t.X, t.Y)
	key.tiles = rectangle{x, y, x, y}
	if t.Multicast {
		key.tiles.x0, key.tiles.y0 = a.noc0(key.device, t.XStart, t.YStart)
	}
	a.aims[c.Window] = aim{space: a.space(key), address: c.Value, key: key}
}

// noc0 translates coordinates to those of NoC 0; it returns unknown ones unchanged.
func (a *analysis) noc0(device, x, y uint8) (uint8, uint8) {
	if grid := a.grid(device); grid != nil {
		if t, ok := grid.TileAt(x, y); ok {
			return t.X, t.Y
		}
	}
	return x, y
}

func (a *analysis) grid(device uint8) *chips.Grid {
	if board := a.report.Devices[device].board; board != nil {
		return chips.Of(board).Grid
	}
	return nil
}

// addToTiles adds the traffic of a space to its tiles. A multicast counts on the Tensix
// tiles of its rectangle; on a device whose tiles are unknown it counts on none.
func (a *analysis) addToTiles(key *spaceKey, t Traffic) {
	r := key.tiles
	tiles := []chips.Tile{{X: r.x1, Y: r.y1}}
	if key.multicast {
		tiles, _ = a.grid(key.device).ShownTiles(boards.TileRoute{X: r.x1, Y: r.y1, XStart: r.x0,
			YStart: r.y0, Multicast: true})
	}
	for _, tile := range tiles {
		at := tileKey{key.device, tile.X, tile.Y}
		total := a.tiles[at]
		total.add(t, 1)
		a.tiles[at] = total
	}
}

// tileKey is a tile of a device.
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
			Tile{int(key.device), key.x, key.y, a.kind(key, ""), t})
	}
	slices.SortFunc(a.report.Tiles, func(a, b Tile) int {
		return cmp.Or(a.Device-b.Device, int(a.Y)-int(b.Y), int(a.X)-int(b.X))
	})
}

// kind is what a tile is, or a word in its place where that is not known.
func (a *analysis) kind(key tileKey, unknown string) string {
	if kind := a.kindOf(key); kind != 0 {
		return kind.String()
	}
	return unknown
}

func (a *analysis) kindOf(key tileKey) chips.Kind {
	grid := a.grid(key.device)
	if grid == nil || int(key.y) >= len(grid.Rows) || int(key.x) >= len(grid.Rows[key.y]) {
		return 0
	}
	return grid.Kind(chips.Tile{X: key.x, Y: key.y})
}

// finishSpaces lists the spaces that were accessed: by device, and of each the BARs, then
// tiles, then host memory.
func (a *analysis) finishSpaces() {
	order := make([]*space, 0, len(a.spaces))
	for _, s := range a.spaces {
		if s.total != (Traffic{}) {
			order = append(order, s)
		}
	}
	slices.SortFunc(order,
		func(p, q *space) int { return bytes.Compare(p.key.order(), q.key.order()) })
	a.report.Spaces = []Space{}
	for _, s := range order {
		s.ranges.compact(rangesShown)
		for i := range s.ranges.list {
			s.ranges.list[i].Area = a.area(&s.key, &s.ranges.list[i])
		}
		a.report.Spaces = append(a.report.Spaces, Space{
			Device: int(s.key.device), Kind: s.key.word(), Name: a.spaceName(&s.key),
			Size:    a.spaceSize(&s.key),
			Traffic: s.total, Ranges: s.ranges.list, Closed: s.ranges.closed,
		})
	}
}

// order returns the sort key of a space: by device, tiles before rectangles, those beyond
// spacesMax last, rows from the top.
func (k *spaceKey) order() []byte {
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

// word is the kind of space as reports have it.
func (k *spaceKey) word() string {
	switch {
	case k.kind != gen.WindowKindTlb:
		return lower(gen.EnumNamesWindowKind[k.kind])
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
	return fmt.Sprintf("%s %d,%d", a.kind(tileKey{k.device, k.tiles.x1, k.tiles.y1}, "tile"),
		k.tiles.x1, k.tiles.y1)
}

func (a *analysis) spaceSize(k *spaceKey) uint64 {
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

// area is what the board calls the place of a range, empty where that is no
// one thing.
func (a *analysis) area(k *spaceKey, r *Range) string {
	board := a.report.Devices[k.device].board
	switch {
	case board == nil || k.rest:
		return ""
	case k.kind == gen.WindowKindBar:
		return barArea(board, uint8(k.index), r)
	case k.kind == gen.WindowKindTlb && chips.Of(board).Grid != nil:
		return tileArea(chips.Of(board).Grid, a.kindOf(tileKey{k.device, k.tiles.x1, k.tiles.y1}),
			r)
	}
	return ""
}

func barArea(board *boards.Board, bar uint8, r *Range) string {
	if t := board.TLB; t != nil {
		if _, _, ok := chips.SlotOfRegister(t, bar, r.First); ok {
			return "window configuration"
		}
	}
	for _, s := range chips.Of(board).Status {
		if s.Bar == bar && s.Offset == r.First && r.Bytes() <= 4 {
			return s.Name
		}
	}
	if rule := board.FindRule(bar, r.First, r.Bytes()); rule != nil {
		return rule.Name
	}
	return ""
}

func tileArea(grid *chips.Grid, kind chips.Kind, r *Range) string {
	if (kind == chips.Tensix || kind == chips.Ethernet) && r.First == grid.Reset.Address &&
		r.Bytes() <= 4 {
		return "soft reset"
	}
	if m := grid.FindMemory(kind, r.First, r.Bytes()); m != nil {
		return m.Name
	}
	if reg := grid.FindRegister(kind, r.First); reg != nil && r.Bytes() <= 4*reg.Count {
		return reg.Name
	}
	return ""
}
