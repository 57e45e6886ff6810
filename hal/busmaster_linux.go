package hal

// A bus master reads and writes host memory by itself (DMA). A bit of the PCI command register
// enables it; error bits of the status register show failed transfers.

type busMasterState struct {
	enabledByProgram bool   // bus mastering is on, and Close must switch it off
	keptOnByDriver   bool   // a kernel driver keeps bus mastering on
	statusBeforeDMA  uint64 // PCI status register, perhaps with bits of old errors
}

// SetBusMaster implements Device. Switching off has an effect only after switching on.
func (d *device) SetBusMaster(on bool) error {
	if on {
		return d.startBusMaster()
	}
	if !d.busMaster.enabledByProgram {
		// Close calls SetBusMaster also for a user who may not write configuration space.
		return nil
	}
	return d.stopBusMaster()
}

func (d *device) startBusMaster() error {
	if !d.busMaster.keptOnByDriver {
		// Writing 1 clears a bit.
		d.config.Store(configStatusOffset, 2, configStatusDMAErrors)
	}
	// Error bits that stay set are old: dmaFailureCode ignores them.
	d.busMaster.statusBeforeDMA, _ = d.config.Load(configStatusOffset, 2)
	d.busMaster.enabledByProgram = true
	// Before the first transfer is possible.
	if err := d.programIATU(true); err != nil {
		return err
	}
	return d.setBusMasterBit(true)
}

func (d *device) stopBusMaster() error {
	err := d.setBusMasterBit(false)
	d.busMaster.enabledByProgram = err != nil // after an error, Close must try again
	if CodeOf(err) == DeviceGone {
		return err // a missing device has no registers to write
	}
	// The iATU comes last, when no transfer can use it any more.
	if e := d.programIATU(false); err == nil {
		err = e
	}
	return err
}

func (d *device) setBusMasterBit(on bool) error {
	if d.busMaster.keptOnByDriver {
		return nil
	}
	return d.setCommandRegisterBit(configCommandMasterBit, on)
}

// dmaFailureCode returns MasterOff, DMAFault for a new error bit, or OK. `header` is the first 8
// bytes of configuration space.
//
// A failed read of host memory sets an error bit, in devices that have such bits. A failed write
// sets none: writes are posted, without a response.
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
