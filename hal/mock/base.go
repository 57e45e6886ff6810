package mock

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// BaseDevice implements methods of hal.Device, for mocks that embed it: as a device that has no TLB
// windows and no DMA, is always present, and has nothing to release.
type BaseDevice struct{}

// EncodePoint returns no registers, so that the caller calls ProgramWindow, which a mock with TLB
// windows defines itself.
func (BaseDevice) EncodePoint(*hal.Aperture, fbs.TileRoute, uint64, *fbs.Command) (
	registers, windowBase uintptr, code hal.Code) {
	return 0, 0, hal.OK
}

// ProgramWindow returns Internal.
func (BaseDevice) ProgramWindow(*hal.Aperture, fbs.TileRoute, uint64) hal.Code {
	return hal.Internal
}

// AssignBusAddress keeps the bus address.
func (BaseDevice) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }

func (BaseDevice) SetBusMaster(bool) error { return nil }

func (BaseDevice) EnableVectors(gen.InterruptKind, uint16) error { return nil }

// Alive returns true.
func (BaseDevice) Alive() bool { return true }

// Diagnose returns OK.
func (BaseDevice) Diagnose() hal.Code { return hal.OK }

func (BaseDevice) Close() error { return nil }

// GoneUnlessAlive returns OK if the device is alive, otherwise DeviceGone. It serves as Diagnose of
// a mock that can be removed.
func GoneUnlessAlive(d hal.Device) hal.Code {
	if !d.Alive() {
		return hal.DeviceGone
	}
	return hal.OK
}

// LoadAt returns the value of width bytes at an offset of an aperture of any device.
func LoadAt(a *hal.Aperture, offset uint32, width uint8) (uint64, hal.Code) {
	if a.Port != nil {
		return a.Port.Load(uint64(offset), width)
	}
	// With the mask 0, the condition is never met, so that the walk always stops after the load.
	w := walkOne(a, fbs.Command{Opcode: gen.OpcodeExpect, Width: width,
		Mode: uint8(gen.ConditionEqual), Offset: offset, Value: 1})
	return w.Got, hal.OK
}

// StoreAt stores the lowest width bytes of value at an offset of an aperture of any device. If the
// aperture is mapped, the store may reach the device later.
func StoreAt(a *hal.Aperture, offset uint32, width uint8, value uint64) hal.Code {
	if a.Port != nil {
		return a.Port.Store(uint64(offset), width, value)
	}
	walkOne(a, fbs.Command{Opcode: gen.OpcodeWrite, Width: width, Offset: offset, Value: value})
	return hal.OK
}

func walkOne(a *hal.Aperture, c fbs.Command) hal.Walk {
	list := [2]fbs.Command{c}
	w := hal.Walk{Next: &list[0], Budget: 1, WindowAddresses: &a.Base}
	w.Run()
	return w
}

// CopyAt executes one command on an aperture of any device: a CopyIn of `data`, or a CopyOut that
// fills `data`.
func CopyAt(a *hal.Aperture, opcode gen.Opcode, offset uint64, width uint8, access gen.Access,
	data []byte) hal.Code {
	list := [2]fbs.Command{{Opcode: opcode, Width: width, Mode: uint8(access),
		Offset: uint32(offset), Amount: uint32(len(data))}}
	address := hal.AddressOf(data)
	w := hal.Walk{Next: &list[0], Budget: int64(len(data)) + 1, WindowAddresses: &a.Base,
		BufferAddresses: &address}
	if a.Port != nil {
		return w.ExecuteOnPort(a, 0)
	}
	w.Run()
	return hal.OK
}
