package together

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Kinds of spaces.
const (
	bar      = iota + 1
	tile     // in NoC 0 coordinates; of DRAM, the first tile of its bank
	system   // the management tile of a device with tiles, by whatever way: taken for one byte
	anywhere // what an image aims by registers itself
)

// space is an address space of a device. Devices with the same ids are one.
type space struct {
	vendor, device uint16
	target         uint8 // tells devices of one image apart, 0 where that does not count
	kind           uint8
	x, y           uint8 // of a tile; the number of a BAR is x
}

func (s space) compare(other space) int {
	return cmp.Or(cmp.Compare(s.vendor, other.vendor), cmp.Compare(s.device, other.device),
		cmp.Compare(s.kind, other.kind),
		cmp.Compare(s.y, other.y), cmp.Compare(s.x, other.x), cmp.Compare(s.target, other.target))
}

// exact tells whether an address of a space says which bytes it is.
func (s space) exact() bool { return s.kind == bar || s.kind == tile }

// shared is the space without what tells devices of one image apart: another
// image may mean any of them.
func (s space) shared() space {
	s.target = 0
	return s
}

func (s space) chip() *chips.Chip {
	if board := boards.FindByID(s.vendor, s.device); board != nil {
		return chips.Of(board)
	}
	return &chips.Chip{}
}

// deviceText returns the PCI ids of the device, and the name of its board if it is known.
func (s space) deviceText() string {
	ids := fmt.Sprintf("%04x:%04x", s.vendor, s.device)
	if board := boards.FindByID(s.vendor, s.device); board != nil {
		return board.Name + " " + ids
	}
	return ids
}

// onlyReset tells whether nothing of a tile is meant but the register that holds
// its cores in reset, which every image sets for itself.
func (s space) onlyReset(list []span) bool {
	grid := s.chip().Grid
	return s.kind == tile && grid != nil && !slices.ContainsFunc(list, func(at span) bool {
		return at.first < grid.Reset.Address || at.last >= grid.Reset.Address+4
	})
}

func (s space) String() string {
	switch s.kind {
	case bar:
		return fmt.Sprintf("BAR %d", s.x)
	case system:
		return "the ARC tile"
	case anywhere:
		return "whatever it aims a window at by itself"
	}
	if grid := s.chip().Grid; grid != nil {
		return fmt.Sprintf("%s %d,%d", grid.Kind(chips.Tile{X: s.x, Y: s.y}), s.x, s.y)
	}
	return fmt.Sprintf("tile %d,%d", s.x, s.y)
}

// aim is where a movable window shows: spaces, and the address of its first byte.
type aim struct {
	spaces  []space
	address uint64
	host    uint64 // from this address on, host memory that is this image's own
}

// pointed aims a window.
func pointed(view *fbs.View, c *fbs.Command) aim {
	s := spaceOf(view, &view.Windows[c.Window])
	t, _ := boards.UnpackTileRoute(c.Mask)
	chip := s.chip()
	a := aim{address: c.Value, host: math.MaxUint64}
	tiles, known := chip.Grid.ShownTiles(t)
	if !known {
		s.kind = anywhere
		a.spaces = []space{s}
	}
	for _, at := range tiles {
		home := chip.Grid.FirstOfBank(at)
		s.kind, s.x, s.y = tile, home.X, home.Y
		if kind := chip.Grid.Kind(at); kind == chips.ARC {
			s.kind, s.x, s.y = system, 0, 0
		} else if kind == chips.PCIe && chip.Outbound != nil {
			a.host = chip.Outbound.NoCBase
		}
		a.spaces = append(a.spaces, s)
	}
	return a
}

func spaceOf(view *fbs.View, w *fbs.Window) space {
	t := &view.Devices[w.Device]
	return space{vendor: t.Vendor, device: t.Device, target: w.Device}
}

// inBar is the space of an access through a window that does not move; ok is
// false of host memory, configuration space and the configuration of windows,
// which are this image's own or are not stored to.
func inBar(view *fbs.View, w *fbs.Window, address uint64) (s space, ok bool) {
	s = spaceOf(view, w)
	s.kind, s.x = bar, w.Bar
	board := s.chip().Board
	if w.Kind != gen.WindowKindBar || board == nil || board.TLB == nil {
		return s, w.Kind == gen.WindowKindBar
	}
	s.kind, s.x = system, 0
	if rule := board.FindRule(w.Bar, address, 1); rule != nil && rule.IsMemory {
		s.kind = anywhere
	}
	_, _, configures := chips.SlotOfRegister(board.TLB, w.Bar, address)
	return s, !configures
}

// apart tells whether devices are certainly others: all of them named by
// address, and none twice.
func apart(a, b []string) bool {
	for _, name := range slices.Concat(a, b) {
		if !strings.HasPrefix(name, "tt:") && !strings.Contains(name, ".") {
			return false
		}
	}
	bare := func(name string) string { return name[strings.Index(name, ":")+1:] }
	return len(a) > 0 && len(b) > 0 && !slices.ContainsFunc(a, func(name string) bool {
		return slices.ContainsFunc(b, func(other string) bool {
			return bare(name) == bare(other) ||
				strings.HasPrefix(name, "tt:") != strings.HasPrefix(other, "tt:")
		})
	})
}
