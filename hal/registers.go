package hal

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Registers are those that aim a device's windows, mapped, from the first
// window's on. What is stored to one window's is a list of commands.
type Registers struct {
	base  uintptr
	count int // stores, each as wide as the first
	list  [registersMax + 4]fbs.Command
}

// registersMax is how many stores aim a window at most.
const registersMax = 3

// NewRegisters has count registers a window, of width bytes each, in a mapped
// aperture. The first fence keeps earlier stores from landing where the window
// points next, the load shows that the registers have taken the configuration,
// and the last fence keeps later accesses behind it.
func NewRegisters(a Aperture, width uint8, count int) Registers {
	r := Registers{base: a.base, count: count}
	r.list[0].Opcode = gen.OpcodeFence
	for i := range count {
		r.list[1+i] = fbs.Command{Opcode: gen.OpcodeWrite, Width: width}
	}
	r.list[1+count] = unheld(0, width)
	r.list[2+count].Opcode = gen.OpcodeFence
	return r
}

// Aim stores value, and mask where they have more than eight bytes, to the
// registers at an offset.
func (r *Registers) Aim(offset uint32, value, mask uint64) {
	stores := r.list[1 : 1+r.count]
	for i := range stores {
		c := &stores[i]
		c.Offset = offset + uint32(i)*uint32(c.Width)
		c.Value = value & fbs.WidthMask(c.Width)
		value, mask = value>>32|mask<<32, mask>>32
	}
	r.list[1+r.count].Offset = stores[len(stores)-1].Offset
	w := Walk{Next: &r.list[0], Stop: &r.list[3+r.count], Windows: &r.base}
	w.Run()
	w.Next = after(w.Next)
	w.Run()
}

// fence makes what comes before it reach device and memory before what follows.
func fence() {
	list := [2]fbs.Command{{Opcode: gen.OpcodeFence}}
	w := Walk{Next: &list[0], Stop: &list[1]}
	w.Run()
}
