//go:build notiles

package hal

// A program that was built with the tag notiles drives no devices with tiles: it has no TLB
// windows, no outbound translation, and not the backend tt:.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
)

type (
	tlbWindows struct{}
	outbound   struct{ hasTiles bool }
)

// findTileParts notes whether the device is one with tiles.
func (d *device) findTileParts() {
	board := boards.FindByID(d.function.Vendor, d.function.Device)
	d.outbound.hasTiles = board != nil && board.TLB != nil
}

// tilesFault returns the fault of a window that this program cannot map.
func (d *device) tilesFault() error {
	return d.fault(WrongDevice,
		"this program was built with -tags notiles, for devices without tiles; build it without")
}

func (d *device) mapTLB(*fbs.Window) (*Aperture, error) { return nil, d.tilesFault() }

// EncodeWindow implements Device.
func (d *device) EncodeWindow(*Aperture, fbs.TileRange, uint64, *fbs.Command) (registers,
	home uintptr, code Code) {
	return 0, 0, Refused
}

// ProgramWindow implements Device.
func (d *device) ProgramWindow(*Aperture, fbs.TileRange, uint64) Code { return Refused }

func (d *device) hasOutbound() bool { return d.outbound.hasTiles }

// addOutboundRegion refuses host memory that tiles could not reach.
func (d *device) addOutboundRegion(_, _ uint64) (uint64, error) { return 0, d.tilesFault() }

func (d *device) programOutbound(bool) error { return nil }

func (d *device) unmapOutbound() {}
