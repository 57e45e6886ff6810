package ttsim

import (
	"bytes"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// TestDeviceReachesMemoryOutside of this process, in pieces that lie anywhere,
// and nothing where there is none.
func TestDeviceReachesMemoryOutside(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	pages := map[uint64][]byte{0x7_0000_4000: make([]byte, pageSize),
		0x7_0000_5000: make([]byte, pageSize)}
	d.AttachHostMemory(func(address, size uint64) []byte {
		page, inside := pages[address&^(pageSize-1)], address%pageSize
		if page == nil || size > pageSize-inside {
			return nil
		}
		return page[inside:][:size]
	})
	bar := mapped(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 64})
	// The fake copies 16 bytes to the 16 behind them.
	copy(pages[0x7_0000_4000][pageSize-24:], "sixteen ")
	copy(pages[0x7_0000_4000][pageSize-16:], "bytes...")
	check(t, d, "low half", bar.Store(0, 4, 0x4fe8))
	check(t, d, "high half", bar.Store(4, 4, 7))
	check(t, d, "start", bar.Store(16, 4, 1))
	if got := string(pages[0x7_0000_4000][pageSize-8:]) +
		string(pages[0x7_0000_5000][:8]); got != "sixteen bytes..." {
		t.Errorf("the device stored %q", got)
	}
	check(t, d, "low half", bar.Store(0, 4, 0x5ff0))
	check(t, d, "start, stored to nothing", bar.Store(16, 4, 1))
	check(t, d, "low half", bar.Store(0, 4, 0x3ff8))
	check(t, d, "start, half of it from nothing", bar.Store(16, 4, 1))
	if got := pages[0x7_0000_4000][8:24]; !bytes.Equal(got, bytes.Repeat([]byte{0xff}, 16)) {
		t.Errorf("memory that is not there reads % x", got)
	}
}

// TestRegistersOfWindowsCanBeLoadedByAKernel: as they were stored, by either
// BAR that shows them.
func TestRegistersOfWindowsCanBeLoadedByAKernel(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	d.AsHardware()
	bar := mapped(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 0, Offset: 0x1fc00000,
		Size: 0x1000})
	also := mapped(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 4, Offset: 0x1c00000,
		Size: 0x1000})
	check(t, d, "all", bar.Store(8, 8, 0x0000_0040_0410_0002))
	for width, want := range map[uint8]uint64{4: 0x0410_0002, 8: 0x0000_0040_0410_0002} {
		for _, a := range []*hal.Aperture{bar, also} {
			if got, code := a.Load(8, width); got != want || code != hal.OK {
				t.Errorf("%d bytes: %#x, %v", width, got, code)
			}
		}
	}
}
