package hal

// This file executes commands on the windows of an image that are not mapped memory.

import "lightmetal/fbs/gen"

// Port makes single accesses to a range that is not mapped memory: the range belongs to a
// mock, to a simulator, or to PCI configuration space. Offsets are in bytes, relative to
// the start of the aperture. A store must be complete when Store returns.
type Port interface {
	Load(offset uint64, width uint8) (uint64, Code)
	Store(offset uint64, width uint8, value uint64) Code
}

// ExecuteOnPort executes the command Next on the port of a, as Run executes commands on
// mapped memory. It advances Next if the command is complete. If the port returns a code
// other than OK, ExecuteOnPort stops and returns that code. barOffset is the offset of the
// window in its BAR: bulk copies are aligned relative to the start of the BAR.
//
// On configuration space ExecuteOnPort executes only an Expect. It makes the load and
// always stops with Loaded; the caller must evaluate the condition.
func (w *Walk) ExecuteOnPort(a *Aperture, barOffset uint64) (code Code) {
	if a.execute != nil {
		return a.execute(w, barOffset)
	}
	w.StopReason = Unhandled
	if w.Next.Opcode == gen.OpcodeExpect {
		w.StopReason = Loaded
		w.Got, code = a.Port.Load(uint64(w.Next.Offset), w.Next.Width)
	}
	return code
}
