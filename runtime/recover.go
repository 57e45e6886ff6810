package runtime

import (
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// callAndRecover describes the panic of f, which may be a memory fault.
func callAndRecover(f func()) (recovered hal.Panic) {
	defer hal.Recover(hal.SetPanicOnFault(true), &recovered)
	f()
	return recovered
}

// runCatchingFaults returns hal.IO if the mapped file faulted, because it was truncated,
// hal.BusFault if a device faulted, or if the address is unknown, and hal.Internal for defects.
func (r *Replay) runCatchingFaults(sequence int) hal.Code {
	code, ended := r.executeAndRecover(sequence)
	payload := r.view.Payload
	switch {
	case ended.Cause == nil:
		return code
	case ended.FaultedIn(hal.AddressOf(payload), uint64(len(payload))):
		r.failureDetails = Result{FileTruncated: true}
		return hal.IO
	case ended.IsFault && (ended.Address == 0 || r.isDeviceFault(&ended)):
		return hal.BusFault
	}
	return hal.Internal
}

// executeAndRecover does not call callAndRecover: the analysis of what a run can call
// (tools/check/coverage/reach) cannot follow a function value.
func (r *Replay) executeAndRecover(sequence int) (code hal.Code, recovered hal.Panic) {
	defer hal.Recover(hal.SetPanicOnFault(true), &recovered)
	r.walk.Budget = r.budgetUs
	code = r.executeSequence(sequence)
	if code == hal.OK && r.budgetUs == budgetWithLimitUs {
		code = r.checkTimeLimit()
	}
	return code, recovered
}

// isDeviceFault also recognizes a Point, which accesses only registers of the device, and a Port,
// whose memory only the Port knows.
func (r *Replay) isDeviceFault(fault *hal.Panic) bool {
	c := r.walk.Next
	for i := range r.apertures {
		a := &r.apertures[i]
		address := r.windowAddresses[i]
		isInWindow := address != 0 && fault.FaultedIn(address, a.Size)
		isOfPort := a.Port != nil && int(c.Window) == i
		if isInWindow || isOfPort {
			return true
		}
	}
	return c.Opcode == gen.OpcodePoint
}
