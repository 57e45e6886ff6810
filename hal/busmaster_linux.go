package hal

// This file switches bus mastering of a device on and off. A device that is a bus master can read
// and write host memory by itself (DMA). A bit of the PCI command register enables bus mastering.
// Error bits of the PCI status register show that a DMA transfer has failed.

// busMasterState is the state of a device's bus mastering.
type busMasterState struct {
	enabledByProgram bool   // this program has enabled bus mastering, and must disable it
	keptOnByDriver   bool   // a kernel driver keeps bus mastering on; this program leaves it on
	statusBeforeDMA  uint64 // PCI status register before DMA, perhaps with bits of old errors
}

// SetBusMaster implements Device. SetBusMaster(false) has an effect only after SetBusMaster(true).
func (d *device) SetBusMaster(on bool) error {
	if on {
		return d.startBusMaster()
	}
	if !d.busMaster.enabledByProgram {
		// Write no register. Close always calls SetBusMaster(false), and Close must also succeed
		// for a user who may not write configuration space.
		return nil
	}
	return d.stopBusMaster()
}

// startBusMaster clears the error bits of the status register, enables the outbound translation of
// a device with tiles, and switches bus mastering on.
func (d *device) startBusMaster() error {
	if !d.busMaster.keptOnByDriver {
		// Clear old error bits of the status register. Writing 1 to a bit clears the bit; writing 0
		// leaves the bit unchanged.
		d.config.Store(configStatusOffset, 2, configStatusDMAErrors)
	}
	// Save the error bits that are still set. dmaFailureCode ignores these old errors later.
	d.busMaster.statusBeforeDMA, _ = d.config.Load(configStatusOffset, 2)
	d.busMaster.enabledByProgram = true
	// Program the outbound translation before the first transfer is possible, because tiles access
	// the host memory of the image through this translation.
	if err := d.programIATU(true); err != nil {
		return err
	}
	return d.setBusMasterBit(true)
}

// stopBusMaster switches bus mastering off and then disables the outbound translation.
func (d *device) stopBusMaster() error {
	err := d.setBusMasterBit(false)
	d.busMaster.enabledByProgram = err != nil // after an error, Close must try again
	if CodeOf(err) == DeviceGone {
		return err // a missing device has no registers to write
	}
	// Disable the outbound translation last, when no transfer can use it any more.
	if e := d.programIATU(false); err == nil {
		err = e
	}
	return err
}

// setBusMasterBit switches bus mastering on or off, unless a kernel driver keeps it on.
func (d *device) setBusMasterBit(on bool) error {
	if d.busMaster.keptOnByDriver {
		return nil
	}
	return d.setCommandRegisterBit(configCommandMasterBit, on)
}

// dmaFailureCode returns the cause of a failed DMA transfer: MasterOff if bus mastering should be
// on but is off, DMAFault if the status register has a new error bit, and otherwise OK. `header` is
// the first 8 bytes of configuration space.
//
// A failed read of host memory sets an error bit, if the device implements the error bits. A failed
// write sets no bit: writes are posted, so the device receives no response to a write.
func (m *busMasterState) dmaFailureCode(header uint64) Code {
	switch {
	case !m.enabledByProgram:
	case header>>(8*configCommandOffset)&configCommandMasterBit == 0:
		return MasterOff
	case header>>(8*configStatusOffset)&configStatusDMAErrors&^m.statusBeforeDMA != 0:
		return DMAFault
	}
	return OK
}
