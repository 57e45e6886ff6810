package runtime

import "lightmetal/hal"

// faultDelay is the time, in nanoseconds, that news of a DMA that went wrong
// may take: an IOMMU's driver writes it to the kernel's log from a thread.
const faultDelay = 5_000_000

// Diagnose says what is wrong with the devices, whatever the commands saw: OK,
// DeviceGone, and of those that master the bus MasterOff or DMAFault. Where one
// masters the bus it waits for news, and is for the end of a run.
func (r *Replay) Diagnose() hal.Code {
	code := r.diagnose()
	for _, bus := range r.masters {
		if bus != nil && code == hal.OK {
			bus.Sleep(faultDelay)
			return r.diagnose()
		}
	}
	return code
}

func (r *Replay) diagnose() hal.Code {
	for i, device := range r.devices {
		code := hal.OK
		if bus := r.masters[i]; bus != nil {
			code = bus.Diagnose()
		} else if !device.Alive() {
			code = hal.DeviceGone
		}
		if code != hal.OK {
			return code
		}
	}
	return hal.OK
}

// Rest stops devices from mastering the bus. Closing them does so too; a sealed
// process cannot close anything.
func (r *Replay) Rest() (err error) {
	for _, bus := range r.masters {
		if bus != nil {
			if e := bus.Master(false); err == nil {
				err = e
			}
		}
	}
	return err
}
