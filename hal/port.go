package hal

// This file executes commands on windows that are not mapped memory.

import "lightmetal/fbs/gen"

// Port makes single accesses to a device that is not mapped memory: a mock, a
// simulator, or PCI configuration space. Offsets count from the start of the
// aperture. A store is complete when Store returns.
type Port interface {
	Load(offset uint64, width uint8) (uint64, Code)
	Store(offset uint64, width uint8, value uint64) Code
}

// ExecuteOnPort executes Next on the port of a, as Run does on mapped memory. It
// advances Next if the command is complete. If the port returns a code other than OK,
// ExecuteOnPort stops and returns it. lead is the window's offset in its BAR: bulk
// copies are aligned to addresses in the BAR.
//
// On configuration space only loads are possible, and the caller judges their value.
func (w *Walk) ExecuteOnPort(a *Aperture, lead uint64) (code Code) {
	if a.execute != nil {
		return a.execute(w, lead)
	}
	w.StopReason = Unhandled
	if w.Next.Opcode == gen.OpcodeExpect {
		w.StopReason = Loaded
		w.Got, code = a.Port.Load(uint64(w.Next.Offset), w.Next.Width)
	}
	return code
}
