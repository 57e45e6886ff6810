package hal

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

func (a *Aperture) Load(offset uint32, width uint8) (uint64, Code) {
	if a.Port != nil {
		return a.Port.Load(uint64(offset), width)
	}
	return a.executeOne(newLoadCommand(offset, width)), OK
}

// newLoadCommand returns an Expect that always stops the walk after its load: with the mask 0, its
// condition is never met.
func newLoadCommand(offset uint32, width uint8) fbs.Command {
	return fbs.Command{Opcode: gen.OpcodeExpect, Width: width, Mode: uint8(gen.ConditionEqual),
		Offset: offset, Value: 1}
}

func (a *Aperture) Store(offset uint32, width uint8, value uint64) Code {
	if a.Port != nil {
		return a.Port.Store(uint64(offset), width, value)
	}
	a.executeOne(fbs.Command{Opcode: gen.OpcodeWrite, Width: width, Offset: offset, Value: value})
	return OK
}

// Copy executes a CopyIn of `data` to the device, or a CopyOut that fills `data`.
func (a *Aperture) Copy(opcode gen.Opcode, offset uint64, width uint8, access gen.Access,
	data []byte) Code {
	list := [2]fbs.Command{{Opcode: opcode, Width: width, Mode: uint8(access),
		Offset: uint32(offset), Amount: uint32(len(data))}}
	address := AddressOf(data)
	w := Walk{Next: &list[0], Budget: int64(len(data)) + 1, WindowAddresses: &a.Base,
		BufferAddresses: &address}
	if a.Base == 0 {
		return w.ExecuteOnPort(a, 0)
	}
	w.Run()
	return OK
}
