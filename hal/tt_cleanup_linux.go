package hal

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// RegisterExitCleanup implements ExitCleaner. At the end of this process, the driver can make only
// one store, which puts the cores of one tile into reset. The cores of other tiles may keep
// running. Other backends than tt do nothing.
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

// firstTileOutOfReset returns the tile of the first Write or Modify that releases a core from
// reset: that stores 0 to the core's bit in the reset register. It ignores multicasts.
func firstTileOutOfReset(view *fbs.View, deviceIndex int, reset boards.ResetRegister) (
	tile fbs.TileRoute, released bool) {
	lastPoints := make([]fbs.Command, len(view.Windows)) // of each window
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
		ofDevice := int(view.Windows[c.Window].Device) == deviceIndex
		if clears && atRegister && ofDevice && point.Opcode != 0 {
			if tile, _ = boards.UnpackTileRoute(point.Mask); !tile.Multicast {
				return tile, true
			}
		}
	}
	return fbs.TileRoute{}, false
}
