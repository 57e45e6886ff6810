package hal

// This file executes commands on windows that are not mapped into this process.

import "lightmetal/fbs/gen"

// Port is an address range that is not mapped into this process: a range of a mock or of a
// simulator, or PCI configuration space.
type Port interface {
	// Load returns the value of `width` bytes at an offset from the start of the range.
	Load(offset uint64, width uint8) (uint64, Code)

	// Store stores the lowest `width` bytes of `value` at an offset from the start of the
	// range. The store must be complete when Store returns.
	Store(offset uint64, width uint8, value uint64) Code
}

// ExecuteOnPort executes the command w.Next through the port of the aperture `a`. The effect is the
// same as that of Run on mapped memory: ExecuteOnPort advances w.Next if the command is complete,
// and otherwise sets w.StopReason. If the port returns a code other than OK, ExecuteOnPort stops
// and returns that code. barOffset is the offset of the window in its BAR. Bulk copies are aligned
// relative to the BAR.
//
// On configuration space, ExecuteOnPort executes only the load of an Expect command. Then it stops
// with the reason StopLoaded, and the caller must check the condition.
func (w *Walk) ExecuteOnPort(a *Aperture, barOffset uint64) (code Code) {
	if a.executeCommand != nil {
		return a.executeCommand(w, barOffset)
	}
	w.StopReason = StopBeforeNext
	if w.Next.Opcode == gen.OpcodeExpect {
		w.StopReason = StopLoaded
		w.Got, code = a.Port.Load(uint64(w.Next.Offset), w.Next.Width)
	}
	return code
}
