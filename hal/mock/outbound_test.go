package mock

import (
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
)

// TestTilesReachMemoryThroughTheAddressTranslation of memory outside, and nothing of it
// while no region does.
func TestTilesReachMemoryThroughTheAddressTranslation(t *testing.T) {
	for _, b := range []*boards.Board{&boards.Wormhole, &boards.Blackhole} {
		d, o := New(b), b.Outbound
		var asked uint64
		d.AttachHostMemory(func(bus, size uint64) []byte {
			asked = bus
			return make([]byte, size)
		})
		aim := func(region int, offset, size, bus uint64) {
			o.ProgramRegion(region, offset, size, bus, func(register uint64, value uint32) {
				if code := d.storeAt(Place{Bar: o.Bar, Address: register}, 4,
					uint64(value)); code != hal.OK {
					t.Fatal(code)
				}
			})
		}
		reach := func(offset, size, want uint64) {
			t.Helper()
			asked = 0
			if got := d.host.Bytes(o.NoCBase+offset, size); asked != want ||
				(got != nil) != (want != 0) {
				t.Errorf("%s: %d bytes at %#x are %d bytes at %#x of the bus, want %#x", b.Name,
					size, offset, len(got), asked, want)
			}
		}
		reach(0, 4, 0)
		aim(3, 0x4000, 0x2000, 0x12_3456_7000)
		aim(0, 0, 0x1000, 0x8000)
		reach(0x5ff0, 16, 0x12_3456_8ff0)
		reach(0x5ff0, 17, 0)
		reach(0x3fff, 2, 0)
		reach(0xffc, 4, 0x8ffc)
		reach(0x1000, 4, 0)
		aim(3, 0, 0, 0)
		reach(0x4000, 4, 0)
	}
}
