package hal

// A device may reject a command for an interrupt vector that is not enabled, as NVMe controllers
// do. Nothing handles the interrupts, because images poll. With VFIO, an interrupt can end the wait
// between two loads of a poll.

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

const capabilityControlMSIXCount = 0x7ff // PCI_MSIX_FLAGS_QSIZE: number of vectors - 1

// EnableVectors implements Device.
func (d *device) EnableVectors(kind gen.InterruptKind, count uint16) error {
	return d.backend.enableVectors(kind, uint64(count))
}

func (d *device) tooFewVectorsFault(has, needs uint64) error {
	return d.fault(WrongDevice, fbs.Text("has %d interrupt vectors of the kind that the image "+
		"declares, but the image needs %d", has, needs))
}

// The store that enables all vectors also masks them, so that no interrupt arrives. MSI has no such
// mask.
func (p *pciBackend) enableVectors(kind gen.InterruptKind, count uint64) error {
	d := p.dev
	if kind == gen.InterruptKindMsi {
		return d.fault(NoDevice, "cannot keep MSI interrupts away from the kernel"+p.vfioAdvice())
	}
	at, has := p.findCapability(capabilityMSIX), uint64(0)
	control, code := uint64(0), OK
	if at != 0 {
		at += capabilityControl
		control, code = d.config.Load(at, 2)
		has = control&capabilityControlMSIXCount + 1
	}
	if code == OK && has < count {
		return d.tooFewVectorsFault(has, count)
	}
	if code == OK {
		d.cleanups.addCleanup(func() error {
			d.config.storeBit(at, msixEnable|msixMaskAll, 0)
			return nil
		})
		code = d.config.Store(at, 2, control|msixEnable|msixMaskAll)
	}
	if code != OK {
		return d.fault(code, "cannot enable interrupt vectors; run as root and without kernel "+
			"lockdown")
	}
	return nil
}

// AwaitInterrupt implements InterruptWaiter. It waits again after a signal, as Go sends them.
func (d *device) AwaitInterrupt(nanoseconds int64) (isInterrupted bool) {
	end := d.Now() + nanoseconds
	for {
		milliseconds := (end - d.Now()) / 1_000_000
		if milliseconds <= 0 || d.interruptPoller == 0 {
			d.Sleep(end - d.Now())
			return false
		}
		if epollWait(d.interruptPoller, milliseconds) == 1 {
			return true
		}
	}
}

// All vectors write to one eventfd. The kernel disables the vectors when the device is closed.
func (v *vfioBackend) enableVectors(kind gen.InterruptKind, count uint64) error {
	d, index := v.dev, uint32(vfioMSIIndex)
	if kind == gen.InterruptKindMsix {
		index = vfioMSIXIndex
	}
	info := vfioIRQInfo{argsz: 16, index: index}
	err := ioctlStruct(d.config.fd, vfioDeviceGetIRQInfo, structPointer(&info),
		"VFIO_DEVICE_GET_IRQ_INFO", d.pciFunction.Address)
	if err != nil {
		return err
	}
	if has := uint64(info.count); has < count {
		return d.tooFewVectorsFault(has, count)
	}
	event, poller, err := syscalls.openEventPoller()
	d.cleanups.addFDCleanup(event)
	d.cleanups.addFDCleanup(poller)
	if err != nil {
		return syscallFault("eventfd", d.pciFunction.Address, err)
	}
	d.interruptPoller = poller
	request := new(vfioIRQSet) // a literal would add its 8 KB to the program
	request.flags, request.index = vfioIRQSetEventFD|vfioIRQSetTrigger, index
	request.argsz, request.count = vfioIRQSetSize+4*uint32(count), uint32(count)
	for i := range request.eventFDs {
		request.eventFDs[i] = int32(event)
	}
	available, err := syscalls.ioctl(d.config.fd, vfioDeviceSetIRQs, 0, structPointer(request))
	if available > 0 { // the kernel has enabled none, because it has only so many
		return d.fault(NoDevice, fbs.Text("the kernel has only %d interrupt vectors for it, but "+
			"the image needs %d", uint64(available), count))
	}
	return syscallFault("VFIO_DEVICE_SET_IRQS", d.pciFunction.Address, err)
}

func (t *ttBackend) enableVectors(gen.InterruptKind, uint64) error {
	return t.dev.fault(NoDevice, "its driver keeps the interrupt vectors; make the image without "+
		"them")
}
