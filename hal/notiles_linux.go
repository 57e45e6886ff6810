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

	// outboundTranslation stores only whether the device has tiles. If the device has tiles,
	// mapping a Host window is an error.
	outboundTranslation struct{ hasTiles bool }
)

// applyBoard finds the board of the device by its PCI ids. It sets d.outbound.hasTiles if the board
// has TLB windows, because every board with tiles has TLB windows, and no other board has them.
func (d *device) applyBoard() {
	board := boards.FindByID(d.pciFunction.Vendor, d.pciFunction.Device)
	d.outbound.hasTiles = board != nil && board.TLB != nil
}

// noTilesFault returns the Fault for a window that needs TLB windows or outbound translation.
func (d *device) noTilesFault() error {
	return d.fault(Usage, "this program was built with `-tags notiles` and cannot use tiles; "+
		"use a program that was built without it")
}

// mapTLB returns a Fault, because this program does not use TLB windows.
func (d *device) mapTLB(*fbs.Window) (*Aperture, error) { return nil, d.noTilesFault() }

// EncodeWindow implements Device. It always fails, because this program does not use TLB windows.
func (d *device) EncodeWindow(*Aperture, fbs.TileRoute, uint64, *fbs.Command) (registers,
	windowBase uintptr, code Code) {
	return 0, 0, Refused
}

// ProgramWindow implements Device. It always fails, because this program does not use TLB windows.
func (d *device) ProgramWindow(*Aperture, fbs.TileRoute, uint64) Code { return Refused }

// mustProgramIATU reports whether the device has tiles. If it has tiles, mapHostMem calls
// addIATURegion, and addIATURegion returns a Fault.
func (d *device) mustProgramIATU() bool { return d.outbound.hasTiles }

// addIATURegion returns a Fault, because this program cannot program the outbound translation
// through which tiles reach host memory.
func (d *device) addIATURegion(bus, size, fixedNoC uint64) (noc uint64, err error) {
	return 0, d.noTilesFault()
}

// programIATU does nothing, because this program never programs an outbound translation.
func (d *device) programIATU(enable bool) error { return nil }

// clearIATURegisters does nothing, because this program maps no registers of an outbound
// translation.
func (d *device) clearIATURegisters() {}
