//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// For the backend tt:, this file makes Tenstorrent's driver put cores back into reset when the
// process ends.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// RegisterExitCleanup implements ExitCleaner. The driver makes a single store when the process
// ends, which resets the cores of a single tile. RegisterExitCleanup chooses the first tile whose
// cores the image releases from reset. The cores of other tiles may go on running.
func (d *device) RegisterExitCleanup(view *fbs.View, target int) (note string, err error) {
	t, usesDriver := d.backend.(*tt)
	if !usesDriver {
		return "", nil
	}
	reset := view.Board(target).Reset
	tile, released := firstReleasedTile(view, target, reset)
	switch {
	case !released:
		return "", nil
	case !t.hasExitCleanup:
		return d.function.Name + ": if this process is killed, cores go on running; " +
			"tt-kmd 2.2 and later reset the cores of one tile\n", nil
	}
	c := ttCleanup{
		argsz:   32,
		enabled: 1,
		x:       tile.X,
		y:       tile.Y,
		noc:     tile.NoC,
		address: reset.Address,
		data:    uint64(reset.Mask),
	}
	return "", ioctlStruct(t.fd, ttSetNoCCleanup, structPointer(&c), "SET_NOC_CLEANUP", d.locator)
}

// firstReleasedTile returns the tile of the image's first Write or Modify that releases a core from
// reset. It ignores commands on windows that point to several tiles (multicast).
func firstReleasedTile(view *fbs.View, target int, reset boards.Reset) (tile fbs.TileRange,
	released bool) {
	lastPoints := make([]fbs.Command, len(view.Windows)) // last Point command of each window so far
	for i := range view.Commands {
		c := &view.Commands[i]
		point := &lastPoints[c.Window]
		stored := uint64(0) // mask of the bits that the command stores
		switch c.Opcode {
		case gen.OpcodePoint:
			*point = *c
		case gen.OpcodeWrite:
			stored = fbs.WidthMask(c.Width)
		case gen.OpcodeModify:
			stored = c.Mask
		}
		clears := stored&^c.Value&uint64(reset.Mask) != 0
		atRegister := point.Value+uint64(c.Offset) == reset.Address
		ofTarget := int(view.Windows[c.Window].Device) == target
		if clears && atRegister && ofTarget && point.Opcode != 0 {
			if tile, _ = boards.UnpackTileRange(point.Mask); !tile.Multicast {
				return tile, true
			}
		}
	}
	return fbs.TileRange{}, false
}
