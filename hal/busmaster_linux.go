package hal

// Bus mastering is the bit of the command register that lets a device transfer data by itself.
// The status register has bits for such transfers that failed.

// busMaster is the state of a device's bus mastering.
type busMaster struct {
	on          bool   // SetBusMaster switched it on
	keptOn      bool   // a kernel driver lets its device master the bus all the time
	staleStatus uint64 // bits of the status register that were set before and cannot be cleared
}

// SetBusMaster implements Device. Bits of the status register that are set before the device
// masters the bus, and that cannot be cleared, do not count as failed transfers later.
func (d *device) SetBusMaster(on bool) error {
	if on {
		return d.startBusMaster()
	}
	if !d.busMaster.on {
		return nil // a user without write access to configuration space can load and close
	}
	return d.stopBusMaster()
}

func (d *device) startBusMaster() error {
	if !d.busMaster.keptOn {
		// Clear the error bits: a one clears, a zero has no effect.
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

func (d *device) stopBusMaster() error {
	err := d.setBusMasterBit(false)
	d.busMaster.on = err != nil // if it did not stop, Close tries again
	if CodeOf(err) == DeviceGone {
		return err // its registers no longer answer
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

// diagnose returns MasterOff or DMAFault if the first 8 bytes of configuration space say so of a
// device that masters the bus. A device notes in its status register that a read of its own was
// aborted, if it implements those bits. It never learns that a posted write was blocked.
func (m *busMaster) diagnose(header uint64) Code {
	switch {
	case !m.on:
	case header>>(8*configCommand)&configCommandMaster == 0:
		return MasterOff
	case header>>(8*configStatus)&configStatusDMA&^m.staleStatus != 0:
		return DMAFault
	}
	return OK
}
