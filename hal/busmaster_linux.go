package hal

// Bus mastering lets a device transfer data by itself. A bit of the PCI command register switches
// it on. Bits of the PCI status register show that such a transfer has failed.

// busMaster is the state of a device's bus mastering.
type busMaster struct {
	on          bool   // SetBusMaster(true) has been called and not been undone
	keptOn      bool   // a kernel driver keeps bus mastering on all the time
	staleStatus uint64 // status register when bus mastering was switched on; these bits are old
}

// SetBusMaster implements Device. SetBusMaster(false) without a SetBusMaster(true) before it does
// nothing.
func (d *device) SetBusMaster(on bool) error {
	if on {
		return d.startBusMaster()
	}
	if !d.busMaster.on {
		// Store nothing: a user without write access to configuration space can also call Close.
		return nil
	}
	return d.stopBusMaster()
}

// startBusMaster records the old error bits of the status register, programs the outbound
// translation and switches bus mastering on.
func (d *device) startBusMaster() error {
	if !d.busMaster.keptOn {
		// Clear the error bits: a stored one clears a bit, and a zero does not change a bit. A bit
		// that stays set is in staleStatus, and diagnoseHeader ignores it.
		d.config.Store(configStatus, 2, configStatusDMA)
	}
	d.busMaster.staleStatus, _ = d.config.Load(configStatus, 2)
	d.busMaster.on = true
	// Show the image's host memory to the tiles before the first transfer is possible.
	if err := d.programOutbound(true); err != nil {
		return err
	}
	return d.setBusMasterBit(true)
}

// stopBusMaster switches bus mastering off and then disables the outbound translation.
func (d *device) stopBusMaster() error {
	err := d.setBusMasterBit(false)
	d.busMaster.on = err != nil // after a failure, Close tries again
	if CodeOf(err) == DeviceGone {
		return err // the registers of the translation do not answer either
	}
	// Disable the translation after the last transfer.
	if e := d.programOutbound(false); err == nil {
		err = e
	}
	return err
}

// setBusMasterBit switches bus mastering on or off, unless a kernel driver keeps it on.
func (d *device) setBusMasterBit(on bool) error {
	if d.busMaster.keptOn {
		return nil
	}
	return d.setCommandBit(configCommandMaster, on)
}

// diagnoseHeader returns the cause of a failure: MasterOff if bus mastering should be on but is
// off, DMAFault if the status register has a new error bit, else OK. header is the first 8 bytes of
// configuration space. A device whose read of memory was aborted sets an error bit, if it
// implements those bits. No bit shows that a posted write was blocked.
func (m *busMaster) diagnoseHeader(header uint64) Code {
	switch {
	case !m.on:
	case header>>(8*configCommand)&configCommandMaster == 0:
		return MasterOff
	case header>>(8*configStatus)&configStatusDMA&^m.staleStatus != 0:
		return DMAFault
	}
	return OK
}
