package hal

// This file is part of the backend tt. It makes Tenstorrent's driver put cores of the device back
// into reset when this process ends.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// RegisterExitCleanup implements ExitCleaner. When this process ends, the driver can make one
// store, which puts the cores of one tile into reset. RegisterExitCleanup requests this store for
// the first tile whose cores the image releases from reset. The cores of other tiles may keep
// running. With backends other than tt, RegisterExitCleanup does nothing.
func (d *device) RegisterExitCleanup(view *fbs.View, deviceIndex int) (note string, err error) {
	if hasTT {
		if t, usesDriver := d.backend.(*ttBackend); usesDriver {
			return t.registerExitCleanup(view, deviceIndex)
		}
	}
	return "", nil
}

func (t *ttBackend) registerExitCleanup(view *fbs.View, deviceIndex int) (note string, err error) {
	reset := view.Board(deviceIndex).Reset
	tile, released := firstTileOutOfReset(view, deviceIndex, reset)
	switch {
	case !released:
		return "", nil
	case !t.driverHasExitCleanup:
		return t.dev.pciFunction.Name + ": if this process is killed, cores go on running; " +
			"tt-kmd 2.2 and later can reset the cores of one tile\n", nil
	}
	c := ttExitCleanupRequest{
		argsz:   32,
		enabled: 1,
		x:       tile.X,
		y:       tile.Y,
		noc:     tile.NoC,
		address: reset.Address,
		data:    uint64(reset.Mask),
	}
	return "", ioctlStruct(t.fd, ttSetNoCCleanup, structPointer(&c), "SET_NOC_CLEANUP",
		t.dev.locator)
}

// firstTileOutOfReset searches the image for the first Write or Modify command that releases a core
// from reset, and returns the tile of that core. A command releases a core if it stores 0 to the
// core's bit in the reset register. firstTileOutOfReset ignores commands on windows that show
// several tiles (multicast).
func firstTileOutOfReset(view *fbs.View, deviceIndex int, reset boards.ResetRegister) (
	tile fbs.TileRoute, released bool) {
	lastPoints := make([]fbs.Command, len(view.Windows)) // most recent Point command of each window
	for i := range view.Commands {
		c := &view.Commands[i]
		point := &lastPoints[c.Window]
		stored := uint64(0) // mask of the register bits that the command sets or clears
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
		ofDevice := int(view.Windows[c.Window].Device) == deviceIndex
		if clears && atRegister && ofDevice && point.Opcode != 0 {
			if tile, _ = boards.UnpackTileRoute(point.Mask); !tile.Multicast {
				return tile, true
			}
		}
	}
	return fbs.TileRoute{}, false
}
