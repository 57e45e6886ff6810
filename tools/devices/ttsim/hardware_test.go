package ttsim

import (
	"bytes"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// TestDeviceAccessesAttachedMemory attaches two pages. A transfer across both must move data. A
// store to an address without memory must be ignored, and a load must return all ones.
func TestDeviceAccessesAttachedMemory(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	pages := map[uint64][]byte{0x7_0000_4000: make([]byte, pageSize),
		0x7_0000_5000: make([]byte, pageSize)}
	d.AttachHostMemory(func(address, size uint64) []byte {
		page, inside := pages[address&^(pageSize-1)], address%pageSize
		if page == nil || size > pageSize-inside {
			return nil
		}
		return page[inside:][:size]
	})
	bar := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 64})
	// The fake copies 16 bytes to the 16 bytes after them.
	copy(pages[0x7_0000_4000][pageSize-24:], "sixteen ")
	copy(pages[0x7_0000_4000][pageSize-16:], "bytes...")
	requireOK(t, d, "low half", mock.StoreAt(bar, 0, 4, 0x4fe8))
	requireOK(t, d, "high half", mock.StoreAt(bar, 4, 4, 7))
	requireOK(t, d, "start", mock.StoreAt(bar, 16, 4, 1))
	if got := string(pages[0x7_0000_4000][pageSize-8:]) +
		string(pages[0x7_0000_5000][:8]); got != "sixteen bytes..." {
		t.Errorf("the device stored %q, want \"sixteen bytes...\"", got)
	}
	requireOK(t, d, "low half", mock.StoreAt(bar, 0, 4, 0x5ff0))
	requireOK(t, d, "start, stored to nothing", mock.StoreAt(bar, 16, 4, 1))
	requireOK(t, d, "low half", mock.StoreAt(bar, 0, 4, 0x3ff8))
	requireOK(t, d, "start, half of it from nothing", mock.StoreAt(bar, 16, 4, 1))
	if got := pages[0x7_0000_4000][8:24]; !bytes.Equal(got, bytes.Repeat([]byte{0xff}, 16)) {
		t.Errorf("the device read % x from an address without memory, want all ones", got)
	}
}

// TestConfigurationsOfWindowsCanBeLoaded stores the configuration of a TLB window and loads it
// again through both BARs that have it, as a driver in the kernel does.
func TestConfigurationsOfWindowsCanBeLoaded(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	d.AsHardware()
	bar0 := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 0, Offset: 0x1fc00000,
		Size: 0x1000})
	bar4 := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 4, Offset: 0x1c00000,
		Size: 0x1000})
	requireOK(t, d, "all", mock.StoreAt(bar0, 8, 8, 0x0000_0040_0410_0002))
	for width, want := range map[uint8]uint64{4: 0x0410_0002, 8: 0x0000_0040_0410_0002} {
		for _, a := range []*hal.Aperture{bar0, bar4} {
			if got, code := mock.LoadAt(a, 8, width); got != want || code != hal.OK {
				t.Errorf("load of %d bytes: %#x, code %v, want %#x", width, got, code, want)
			}
		}
	}
}
