package hal

// This file switches bus mastering of a device on and off. A device that is a bus master can read
// and write host memory by itself (DMA). A bit of the PCI command register enables bus mastering.
// Error bits of the PCI status register show that a DMA transfer has failed.

// busMasterState is the state of a device's bus mastering.
type busMasterState struct {
	isOn            bool   // this program has enabled bus mastering, and has not disabled it again
	keptOnByDriver  bool   // a kernel driver keeps bus mastering on; do not change it here
	statusBeforeDMA uint64 // PCI status before this program enabled DMA; may have old error bits
}

// SetBusMaster implements Device. SetBusMaster(false) does nothing unless SetBusMaster(true) was
// called before.
func (d *device) SetBusMaster(on bool) error {
	if on {
		return d.startBusMaster()
	}
	if !d.busMaster.isOn {
		// Do not write the command register: Close also calls SetBusMaster(false), and must succeed
		// for a user without write access to configuration space.
		return nil
	}
	return d.stopBusMaster()
}

// startBusMaster clears the error bits of the status register, enables the outbound translation of
// a device with tiles, and switches bus mastering on.
func (d *device) startBusMaster() error {
	if !d.busMaster.keptOnByDriver {
		// Clear old error bits. In this register, writing a one clears a bit, and writing a zero
		// leaves a bit unchanged.
		d.config.Store(configStatusOffset, 2, configStatusDMAErrors)
	}
	// Save the error bits that are still set, so that diagnoseHeader can ignore these old errors.
	d.busMaster.statusBeforeDMA, _ = d.config.Load(configStatusOffset, 2)
	d.busMaster.isOn = true
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
	d.busMaster.isOn = err != nil // if the call failed, Close must try again
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
	return d.setCommandBit(configCommandMasterBit, on)
}

// diagnoseHeader returns the cause of a failed DMA transfer: MasterOff if bus mastering should be
// on but is off, DMAFault if the status register has a new error bit, and otherwise OK. `header` is
// the first 8 bytes of configuration space.
//
// If a read of host memory fails, a device that implements the error bits sets one of them. If a
// write of host memory is blocked, the device sets no bit. Writes are posted, so the device
// receives no response to them.
func (m *busMasterState) diagnoseHeader(header uint64) Code {
	switch {
	case !m.isOn:
	case header>>(8*configCommandOffset)&configCommandMasterBit == 0:
		return MasterOff
	case header>>(8*configStatusOffset)&configStatusDMAErrors&^m.statusBeforeDMA != 0:
		return DMAFault
	}
	return OK
}
