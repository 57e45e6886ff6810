package hal

import "lightmetal/fbs/gen"

// Port is a range that is not mapped: of a mock, a simulator, or configuration space.
type Port interface {
	// Load returns the value of width bytes at an offset.
	Load(offset uint64, width uint8) (uint64, Code)

	// Store stores the lowest width bytes of value, and returns when the store is complete.
	Store(offset uint64, width uint8, value uint64) Code
}

// ExecuteOnPort executes w.Next through the aperture's port, with the effect of Run on mapped
// memory. A code other than OK is the port's. Bulk copies are aligned relative to the BAR, in which
// the window begins at barOffset.
//
// On configuration space it executes only the load of an Expect, and stops with StopLoaded.
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
