//go:build notiles

package hal

// A program that is built with the tag notiles cannot drive devices with tiles: it has no TLB
// windows, no outbound address translation, and no backend tt:.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
)

type (
	tlbWindows struct{} // empty, since this program has no TLB windows
	outbound   struct {
		hasTiles bool // the device has tiles, so this program cannot map its host memory
	}
)

// findBoard sets d.outbound.hasTiles: only the boards of devices with tiles have TLB windows.
func (d *device) findBoard() {
	board := boards.FindByID(d.function.Vendor, d.function.Device)
	d.outbound.hasTiles = board != nil && board.TLB != nil
}

// tilesFault returns the fault for a window of a device with tiles, which this program cannot map.
func (d *device) tilesFault() error {
	return d.fault(WrongDevice,
		"devices with tiles need a program that was built without `-tags notiles`")
}

// mapTLB returns a fault, since this program has no TLB windows.
func (d *device) mapTLB(*fbs.Window) (*Aperture, error) { return nil, d.tilesFault() }

// EncodeWindow implements Device. It always fails, since this program has no TLB windows.
func (d *device) EncodeWindow(*Aperture, fbs.TileRange, uint64, *fbs.Command) (registers,
	windowBase uintptr, code Code) {
	return 0, 0, Refused
}

// ProgramWindow implements Device. It always fails, since this program has no TLB windows.
func (d *device) ProgramWindow(*Aperture, fbs.TileRange, uint64) Code { return Refused }

// hasOutbound reports whether the device has tiles. Host windows of such a device are an error.
func (d *device) hasOutbound() bool { return d.outbound.hasTiles }

// addOutboundRegion returns a fault, since tiles could not reach the host memory without outbound
// address translation.
func (d *device) addOutboundRegion(_, _ uint64) (uint64, error) { return 0, d.tilesFault() }

// programOutbound does nothing: this program has no outbound address translation.
func (d *device) programOutbound(bool) error { return nil }

// unmapOutbound does nothing: this program has no outbound address translation.
func (d *device) unmapOutbound() {}
