package hal

import "lightmetal/fbs/gen"

// Port carries single accesses to a device that is not mapped memory: a mock,
// a simulator, PCI configuration space. Offsets are from the start of the
// aperture the port belongs to. A store is complete when Store returns.
type Port interface {
	Load(offset uint64, width uint8) (uint64, Code)
	Store(offset uint64, width uint8, value uint64) Code
}

// On carries out Next on the port of an aperture, as Run does on mapped memory,
// and goes on to the command behind it where nothing is left to look at. lead is
// where the window begins in its BAR: bulk copies are aligned there. A code of
// the port's that is not OK ends the command.
func (w *Walk) ExecuteOnPort(a *Aperture, lead uint64) (code Code) {
	if a.execute != nil {
		return a.execute(w, lead)
	}
	if w.StopReason = Unhandled; w.Next.Opcode == gen.OpcodeExpect {
		w.StopReason = Loaded
		w.Got, code = a.Port.Load(uint64(w.Next.Offset), w.Next.Width)
	}
	return code
}
