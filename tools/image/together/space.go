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

const (
	kindBar  = iota + 1
	kindTile // NoC 0 coordinates; a DRAM bank is represented by its first tile
	// Management tile (ARC) of a device with tiles, accessed in any way; counts as one byte
	kindSystem
	kindUnknown // target of a TLB window that the image programs through registers
)

// space is an address space of a device. Devices with the same ids have the same spaces.
type space struct {
	vendor, device uint16
	deviceIndex    uint8 // distinguishes devices of one image; 0: not distinguished
	kind           uint8
	x, y           uint8 // coordinates of a tile; of a BAR, x is its number
}

func (s space) compare(other space) int {
	return cmp.Or(cmp.Compare(s.vendor, other.vendor), cmp.Compare(s.device, other.device),
		cmp.Compare(s.kind, other.kind),
		cmp.Compare(s.y, other.y), cmp.Compare(s.x, other.x),
		cmp.Compare(s.deviceIndex, other.deviceIndex))
}

// hasAddresses reports whether addresses in the space identify bytes.
func (s space) hasAddresses() bool { return s.kind == kindBar || s.kind == kindTile }

// anyDevice returns the space without the number of the device in its image, because another image
// may use any device with the same ids.
func (s space) anyDevice() space {
	s.deviceIndex = 0
	return s
}

func (s space) chip() *chips.Chip {
	if board := boards.FindByID(s.vendor, s.device); board != nil {
		return chips.ForBoard(board)
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

// isOnlyReset reports whether all spans are in the reset register of a tile's cores, which every
// image sets itself.
func (s space) isOnlyReset(list []span) bool {
	grid := s.chip().Grid
	return s.kind == kindTile && grid != nil && !slices.ContainsFunc(list, func(at span) bool {
		return at.first < grid.TensixReset.Address || at.last >= grid.TensixReset.Address+4
	})
}

// splitSetup separates spans that every program of the chip sets up: the reset registers of tiles,
// and Ethernet tiles.
func (s space) splitSetup(list []span) (own, setup []span) {
	grid := s.chip().Grid
	if s.kind == kindTile && grid != nil &&
		grid.Kind(chips.Tile{X: s.x, Y: s.y}) == chips.Ethernet {
		return nil, list
	}
	for i := range list {
		if s.isOnlyReset(list[i : i+1]) {
			setup = append(setup, list[i])
		} else {
			own = append(own, list[i])
		}
	}
	return own, setup
}

func (s space) String() string {
	switch s.kind {
	case kindBar:
		return fmt.Sprintf("BAR %d", s.x)
	case kindSystem:
		return "the ARC tile"
	case kindUnknown:
		return "an unknown place, through a TLB window that the image programs itself"
	}
	if grid := s.chip().Grid; grid != nil {
		return fmt.Sprintf("%s %d,%d", grid.Kind(chips.Tile{X: s.x, Y: s.y}), s.x, s.y)
	}
	return fmt.Sprintf("tile %d,%d", s.x, s.y)
}

type windowTarget struct {
	spaces    []space
	hostStart uint64 // addresses from this one on are host memory, which belongs to the image
}

func targetOf(view *fbs.View, c *fbs.Command) windowTarget {
	s := spaceOf(view, &view.Windows[c.Window])
	t, _ := boards.UnpackTileRoute(c.Mask)
	chip := s.chip()
	a := windowTarget{hostStart: math.MaxUint64}
	tiles, known := chip.Grid.ShownTiles(t)
	if !known {
		s.kind = kindUnknown
		a.spaces = []space{s}
	}
	for _, at := range tiles {
		home := chip.Grid.FirstTileOfBank(at)
		s.kind, s.x, s.y = kindTile, home.X, home.Y
		if kind := chip.Grid.Kind(at); kind == chips.ARC {
			s.kind, s.x, s.y = kindSystem, 0, 0
		} else if kind == chips.PCIe && chip.Outbound != nil {
			a.hostStart = chip.Outbound.NoCBase
		}
		a.spaces = append(a.spaces, s)
	}
	return a
}

func spaceOf(view *fbs.View, w *fbs.Window) space {
	t := &view.Devices[w.Device]
	return space{vendor: t.Vendor, device: t.Device, deviceIndex: w.Device}
}

// barSpaces returns the space of an access through a window that is not a TLB window. It returns
// nil for host memory and configuration space, which belong to the image, and for registers that
// configure TLB windows.
func barSpaces(view *fbs.View, w *fbs.Window, address uint64) []space {
	if w.Kind != gen.WindowKindBar {
		return nil
	}
	s := spaceOf(view, w)
	s.kind, s.x = kindBar, w.Bar
	board := s.chip().Board
	if board == nil || board.TLB == nil {
		return []space{s}
	}
	if _, _, configures := chips.SlotOfRegister(board.TLB, w.Bar, address); configures {
		return nil
	}
	s.kind, s.x = kindSystem, 0
	if rule := board.FindRule(w.Bar, address, 1); rule != nil && rule.IsMemory {
		s.kind = kindUnknown
	}
	return []space{s}
}

// areDistinct reports whether two lists of devices have certainly no device in common: all are
// given by address, and none occurs in both.
func areDistinct(a, b []string) bool {
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
