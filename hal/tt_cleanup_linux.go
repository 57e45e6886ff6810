//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// Cores that go back into reset when the process ends, by Tenstorrent's driver.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// RegisterExitCleanup implements ExitCleaner. The driver makes one store, and so resets cores of
// one tile: the first that the image releases from reset. Others may have been put into reset
// before.
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
		return d.function.Name + ": cores that run when this process is killed go on running; " +
			"tt-kmd 2.2 and later put those of one tile back into reset\n", nil
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

// firstReleasedTile returns the tile of the first store that releases a core from reset, through
// a window that shows this tile alone.
func firstReleasedTile(view *fbs.View, target int, reset boards.Reset) (tile fbs.TileRange,
	released bool) {
	points := make([]fbs.Command, len(view.Windows)) // the last Point command of each window
	for i := range view.Commands {
		c := &view.Commands[i]
		point := &points[c.Window]
		stored := uint64(0) // bits that the command stores
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
