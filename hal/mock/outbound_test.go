package mock

import (
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
)

// The tiles reach only host memory that an enabled region of the address translation covers.
func TestTilesReachMemoryThroughTheAddressTranslation(t *testing.T) {
	for _, b := range []*boards.Board{&boards.Wormhole, &boards.Blackhole} {
		d, o := New(b), b.Outbound
		var busAddress uint64
		d.AttachHostMemory(func(bus, size uint64) []byte {
			busAddress = bus
			return make([]byte, size)
		})
		programRegion := func(region int, offset, size, bus uint64) {
			o.ProgramRegion(region, offset, size, bus, func(register uint64, value uint32) {
				if code := d.storeAt(Place{Bar: o.Bar, Address: register}, 4,
					uint64(value)); code != hal.OK {
					t.Fatal(code)
				}
			})
		}
		expectAccess := func(offset, size, want uint64) {
			t.Helper()
			busAddress = 0
			if got := d.host.Bytes(o.NoCBase+offset, size); busAddress != want ||
				(got != nil) != (want != 0) {
				t.Errorf("%s: %d bytes at %#x are %d bytes at %#x of the bus, want %#x", b.Name,
					size, offset, len(got), busAddress, want)
			}
		}
		expectAccess(0, 4, 0)
		programRegion(3, 0x4000, 0x2000, 0x12_3456_7000)
		programRegion(0, 0, 0x1000, 0x8000)
		expectAccess(0x5ff0, 16, 0x12_3456_8ff0)
		expectAccess(0x5ff0, 17, 0)
		expectAccess(0x3fff, 2, 0)
		expectAccess(0xffc, 4, 0x8ffc)
		expectAccess(0x1000, 4, 0)
		programRegion(3, 0, 0, 0)
		expectAccess(0x4000, 4, 0)
	}
}
