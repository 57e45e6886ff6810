package runtime

import "lightmetal/hal"

// faultDelay is the time, in nanoseconds, that news of a DMA that went wrong
// may take: an IOMMU's driver writes it to the kernel's log from a thread.
const faultDelay = 5_000_000

// Diagnose says what is wrong with the devices, whatever the commands saw: OK,
// DeviceGone, and of those that master the bus MasterOff or DMAFault. Where one
// masters the bus it waits for news, and is for the end of a run.
func (r *Replay) Diagnose() hal.Code { return r.diagnose(true) }

func (r *Replay) diagnose(wait bool) hal.Code {
	var waits hal.BusMaster
	for i, device := range r.devices {
		bus := r.masters[i]
		if bus == nil && !device.Alive() {
			return hal.DeviceGone
		}
		if bus == nil {
			continue
		}
		if code := bus.Diagnose(); code != hal.OK {
			return code
		}
		waits = bus
	}
	if !wait || waits == nil {
		return hal.OK
	}
	waits.Sleep(faultDelay)
	return r.diagnose(false)
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
