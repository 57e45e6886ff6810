package metal

import (
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
)

// CoreCoord is the logical coordinates of a core. Logical coordinates count only the columns and
// rows of the grid that contain Tensix tiles, from (0, 0) on.
type CoreCoord struct{ X, Y int }

// CoreRange is a rectangle of cores, including both corners.
type CoreRange struct{ Start, End CoreCoord }

// CoreRangeSet is a list of rectangles that do not overlap.
type CoreRangeSet []CoreRange

// CoreSpec is a set of cores: a CoreCoord, a CoreRange or a CoreRangeSet.
type CoreSpec interface{ ranges() []CoreRange }

func (c CoreCoord) ranges() []CoreRange    { return []CoreRange{{c, c}} }
func (r CoreRange) ranges() []CoreRange    { return []CoreRange{r} }
func (s CoreRangeSet) ranges() []CoreRange { return s }

func (c CoreCoord) String() string { return fmt.Sprintf("(%d,%d)", c.X, c.Y) }

// compareCores compares cores for an order row by row.
func compareCores(a, b CoreCoord) int {
	if a.Y != b.Y {
		return a.Y - b.Y
	}
	return a.X - b.X
}

// grid contains the coordinates of the Tensix tiles and DRAM banks of a board.
type grid struct {
	board   *boards.Board
	columns []uint8      // NoC 0 x of each logical column
	rows    []uint8      // NoC 0 y of each logical row
	banks   []chips.Tile // coordinates of the DRAM banks for the host and kernels
}

func newGrid(b *boards.Board) grid {
	g := grid{board: b}
	for y, row := range chips.ForBoard(b).Grid.Rows {
		for x := range row {
			if chips.TileKind(row[x]) != chips.Tensix {
				continue
			}
			if !slices.Contains(g.columns, uint8(x)) {
				g.columns = append(g.columns, uint8(x))
			}
			if !slices.Contains(g.rows, uint8(y)) {
				g.rows = append(g.rows, uint8(y))
			}
		}
	}
	slices.Sort(g.columns)
	for _, bank := range chips.ForBoard(b).Grid.Banks {
		g.banks = append(g.banks, g.bankTile(bank))
	}
	return g
}

// bankTile returns coordinates of a DRAM bank that are valid on both networks and in TLB windows:
// the translated coordinates of its first tile if the board has them, otherwise the NoC 0
// coordinates.
func (g *grid) bankTile(bank chips.Bank) chips.Tile {
	for _, p := range chips.ForBoard(g.board).Grid.Pairs {
		if p.NoC0 == bank[0] {
			return p.Translated
		}
	}
	return bank[0]
}

// tile returns the coordinates of a core's tile on the network: the translated coordinates if the
// board has them, otherwise the NoC 0 coordinates. Translated coordinates skip rows that are fused
// off.
func (g *grid) tile(c CoreCoord) chips.Tile {
	t := chips.Tile{X: g.columns[c.X], Y: g.rows[c.Y]}
	tiles := chips.ForBoard(g.board).Grid
	x, y := slices.Index(tiles.NoC0Columns, t.X), slices.Index(tiles.NoC0Rows, t.Y)
	if x >= 0 && y >= 0 {
		t = chips.Tile{X: tiles.FirstTranslated + uint8(x), Y: tiles.FirstTranslated + uint8(y)}
	}
	return t
}

// core returns the core whose tile has the coordinates t. The result is false if t is not the tile
// of a core.
func (g *grid) core(t chips.Tile) (CoreCoord, bool) {
	t, ok := chips.ForBoard(g.board).Grid.TileAt(t.X, t.Y)
	c := CoreCoord{slices.Index(g.columns, t.X), slices.Index(g.rows, t.Y)}
	return c, ok && c.X >= 0 && c.Y >= 0
}

// target returns the route to the cores of a rectangle: a multicast if there is more than one core.
func (g *grid) target(r CoreRange) fbs.TileRoute {
	last := g.tile(r.End)
	t := unicast(last)
	if r.Start != r.End {
		first := g.tile(r.Start)
		t.Multicast, t.XStart, t.YStart = true, first.X, first.Y
	}
	return t
}

func unicast(t chips.Tile) fbs.TileRoute {
	return fbs.TileRoute{X: t.X, Y: t.Y, Ordering: boards.OrderingDefault}
}

// cores returns the cores of a CoreSpec, row by row. It fails if a core does not exist or occurs
// twice.
func (g *grid) cores(spec CoreSpec) []CoreCoord {
	if spec == nil || len(spec.ranges()) == 0 {
		refuse("the list of cores must not be empty")
	}
	var list []CoreCoord
	for _, r := range spec.ranges() {
		if r.Start.X < 0 || r.Start.Y < 0 || r.End.X >= len(g.columns) || r.End.Y >= len(g.rows) {
			refuse("the core range %v to %v is not on the board %s, which has the cores (0,0) "+
				"to (%d,%d)",
				r.Start, r.End, g.board.Name, len(g.columns)-1, len(g.rows)-1)
		}
		if r.Start.X > r.End.X || r.Start.Y > r.End.Y {
			refuse("core range %v to %v ends before it starts", r.Start, r.End)
		}
		for y := r.Start.Y; y <= r.End.Y; y++ {
			for x := r.Start.X; x <= r.End.X; x++ {
				list = append(list, CoreCoord{x, y})
			}
		}
	}
	slices.SortFunc(list, compareCores)
	for i := 1; i < len(list); i++ {
		if list[i] == list[i-1] {
			refuse("core %v occurs twice in the list of cores", list[i])
		}
	}
	return list
}

// rectangles returns rectangles that together contain exactly the given cores. The cores must be in
// row order, without duplicates. rectangles first combines adjacent cores of a row, and then
// adjacent rows with equal ranges.
func rectangles(cores []CoreCoord) (list []CoreRange) {
	for i := 0; i < len(cores); {
		n := 1
		for i+n < len(cores) && cores[i+n] == (CoreCoord{cores[i].X + n, cores[i].Y}) {
			n++
		}
		run := CoreRange{cores[i], cores[i+n-1]}
		i += n
		above := slices.IndexFunc(list, func(r CoreRange) bool {
			return r.Start.X == run.Start.X && r.End.X == run.End.X && r.End.Y == run.Start.Y-1
		})
		if above >= 0 {
			list[above].End = run.End
		} else {
			list = append(list, run)
		}
	}
	return list
}
