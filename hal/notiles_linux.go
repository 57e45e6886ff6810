//go:build notiles

package hal

// This file replaces the code for devices with tiles, in programs that are built with the tag
// `notiles`. Such a program cannot use TLB windows or outbound translation, and does not have the
// backend `tt`.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
)

type (
	// tlbWindows is empty, because programs with the build tag notiles do not use TLB windows.
	tlbWindows struct{}

	// outboundState contains only whether the device needs outbound translation. On such a device,
	// this program cannot map Host windows.
	outboundState struct{ isNeeded bool }
)

// initFromBoard finds the board of the device by its PCI ids, and sets d.outbound.isNeeded. A
// device needs outbound translation if and only if it has tiles, and therefore TLB windows.
func (d *device) initFromBoard() {
	board := boards.FindByID(d.pciFunction.Vendor, d.pciFunction.Device)
	d.outbound.isNeeded = board != nil && board.TLB != nil
}

// noTilesFault returns the Fault for a window that needs TLB windows or outbound translation.
func (d *device) noTilesFault() error {
	return d.fault(Usage, "this program was built with `-tags notiles` and cannot use tiles; "+
		"use a program built without that tag")
}

// mapTLBWindow returns a Fault, because this program does not use TLB windows.
func (d *device) mapTLBWindow(*fbs.Window) (*Aperture, error) { return nil, d.noTilesFault() }

// EncodePoint implements Device for the command Point. It always fails, because this program does
// not use TLB windows.
func (d *device) EncodePoint(*Aperture, fbs.TileRoute, uint64, *fbs.Command) (registers,
	windowBase uintptr, code Code) {
	return 0, 0, Refused
}

// ProgramWindow implements Device. It always fails, because this program does not use TLB windows.
func (d *device) ProgramWindow(*Aperture, fbs.TileRoute, uint64) Code { return Refused }

// needsIATU reports whether the device needs outbound translation. If it does, mapHostMem calls
// addIATURegion, and addIATURegion returns a Fault.
func (d *device) needsIATU() bool { return d.outbound.isNeeded }

// addIATURegion returns a Fault, because this program cannot program the outbound translation
// through which tiles reach host memory.
func (d *device) addIATURegion(bus, size, fixedNoC uint64) (noc uint64, err error) {
	return 0, d.noTilesFault()
}

// programIATU does nothing, because this program never programs an outbound translation.
func (d *device) programIATU(enable bool) error { return nil }

// dropIATUAperture does nothing, because this program never maps the registers of an iATU.
func (d *device) dropIATUAperture() {}
