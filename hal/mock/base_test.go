package mock

import (
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// passiveDevice is a device that cannot be bus master.
type passiveDevice struct {
	hal.Device
	alive bool
}

func (s passiveDevice) Alive() bool { return s.alive }

func TestBaseDeviceDoesNothing(t *testing.T) {
	var base BaseDevice
	registers, tlbBase, code := base.EncodePoint(nil, *routeTo(1, 2), 0, nil)
	if registers != 0 || tlbBase != 0 || code != hal.OK ||
		base.AssignBusAddress(nil, nil) != nil || base.SetBusMaster(true) != nil ||
		base.Close() != nil || !base.Alive() || base.Diagnose() != hal.OK ||
		base.ProgramWindow(nil, *routeTo(1, 2), 0) != hal.Internal {
		t.Errorf("EncodePoint returned registers %#x, TLB window %#x, %v; or another method of "+
			"BaseDevice did something", registers, tlbBase, code)
	}
	alive, gone := GoneUnlessAlive(passiveDevice{alive: true}), GoneUnlessAlive(passiveDevice{})
	if alive != hal.OK || gone != hal.DeviceGone {
		t.Errorf("GoneUnlessAlive: %v if alive, %v if not; want %v and %v", alive, gone, hal.OK,
			hal.DeviceGone)
	}
}

// TestSingleAccessesOfMappedMemory stores and loads with each width, and copies, without a Port.
func TestSingleAccessesOfMappedMemory(t *testing.T) {
	memory := make([]byte, 64)
	a := hal.MappedAperture(memory, 16, 32, -1)
	const value = 0x8877665544332211
	for _, width := range []uint8{1, 2, 4, 8} {
		if code := StoreAt(&a, 8, width, value); code != hal.OK {
			t.Fatal(code)
		}
		got, code := LoadAt(&a, 8, width)
		if want := value & fbs.WidthMask(width); got != want || code != hal.OK {
			t.Errorf("width %d: %#x, %v; want %#x", width, got, code, want)
		}
	}
	data := make([]byte, 4)
	code := CopyAt(&a, gen.OpcodeCopyOut, 12, 4, gen.AccessExact, data)
	if code != hal.OK || string(data) != string(memory[28:32]) || data[3] != 0x88 {
		t.Errorf("CopyOut: %x, %v; want the upper half of %#x", data, code, uint64(value))
	}
	code = CopyAt(&a, gen.OpcodeCopyIn, 0, 4, gen.AccessExact, data)
	if code != hal.OK || string(data) != string(memory[16:20]) {
		t.Errorf("CopyIn: memory %x, %v; want %x", memory[16:20], code, data)
	}
}
