package importer

import (
	"fmt"
	"strings"
	"testing"

	"lightmetal/fbs/gen"
)

func TestLiftFindsTileAndAddress(t *testing.T) {
	text := mmiotrace(whDevice,
		whPoint(wh166Config, 3, 4, 0xff000000),
		access("W", 4, wh166+0xb121b0, 0x47800),
		whPoint(wh166Config, 3, 4, 0),
		access("R", 4, wh166+0x10000, 0x5),
	)
	image, report := mustImport(t, text, Options{Source: "a trace", Tool: "a tool"})
	checkCommands(t, image, `
point tlb0 (3,4) 0xffb00000
write tlb0+0x121b0 w4 0x47800
point tlb0 (3,4) 0x0
expect tlb0+0x10000 w4 0x5 mask 0xffffffff
`)
	wantSummary(t, report, "lift", "2 accesses through 1 TLB window became accesses to tiles; "+
		"2 configuration stores became 2 point commands")
	w := image.Windows[0]
	if len(image.Windows) != 1 || w.Kind != gen.WindowKindTlb || w.Slot != 166 || w.Size != 1<<20 {
		t.Errorf("windows %+v, want one TLB window of 1 MiB with slot 166", image.Windows)
	}
	target := image.Devices[0]
	if target.Board != "wormhole" || target.Vendor != 0x1e52 || target.Device != 0x401e ||
		target.Bars != [6]uint64{0: 512 << 20} {
		t.Errorf("device %+v, want wormhole with BAR 0 alone", target)
	}
	if o := image.Origin; o.Tool != "a tool" || o.Source != "a trace" || o.Time != 0 {
		t.Errorf("origin %+v, want source and tool of the options, and no time", o)
	}
}

// TestLiftedImageDoesNotDependOnTheWindow: images of one workload that was recorded through two
// windows differ only in the preferred slot.
func TestLiftedImageDoesNotDependOnTheWindow(t *testing.T) {
	record := func(base, config uint64) string {
		return mmiotrace(whDevice,
			whPoint(config, 1, 1, 0x1000000),
			access("W", 8, base, 0x11), access("W", 8, base+8, 0x22),
			access("R", 4, base+0x100, 0), access("R", 4, base+0x100, 1),
		)
	}
	a, _ := mustImport(t, record(wh166, wh166Config), Options{})
	b, _ := mustImport(t, record(wh167, wh167Config), Options{})
	if a.Windows[0].Slot != 166 || b.Windows[0].Slot != 167 {
		t.Errorf("slots %d and %d, want 166 and 167", a.Windows[0].Slot, b.Windows[0].Slot)
	}
	b.Windows[0].Slot = 166
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("images differ:\n%v\n%v", a, b)
	}
}

func TestLiftFollowsEveryKindOfWindow(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		slot             uint16
		size             uint64
	}{
		{"wormhole, 1 MiB", // address >> 20 in 16 bits, then x and y
			mmiotrace(whDevice, fmt.Sprintf("W 8 0x%x 0x%x", 0x1fc00000+8*3, 0x123|2<<16|7<<22),
				access("W", 4, 3<<20|0x40, 5)),
			"point tlb0 (2,7) 0x12300000\nwrite tlb0+0x40 w4 0x5\n", 3, 1 << 20},
		{"wormhole, 2 MiB", // address >> 21 in 15 bits
			mmiotrace(whDevice,
				fmt.Sprintf("W 8 0x%x 0x%x", 0x1fc00000+8*157, 0x7fd|2<<15|7<<21|1<<41),
				access("W", 4, 0x09c00000+2<<20+0x40, 5)),
			"point tlb0 (2,7) 0xffa00000 strict\nwrite tlb0+0x40 w4 0x5\n", 157, 1 << 20},
		{"blackhole, 4 GiB", // address >> 32 in 32 bits, configured by three stores
			mmiotrace(bhDevice, fmt.Sprintf("W 4 0x%x 0x0", 0x1fc00000+12*203),
				fmt.Sprintf("W 4 0x%x 0x%x", 0x1fc00000+12*203+4, 9|2<<6),
				fmt.Sprintf("W 4 0x%x 0x0", 0x1fc00000+12*203+8), "W 4 4:0x180000040 0x5"),
			"point tlb0 (9,2) 0x80000000\nwrite tlb0+0x40 w4 0x5\n", 203, 2 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			image, _ := mustImport(t, c.text, Options{})
			checkCommands(t, image, c.want)
			if w := image.Windows[0]; w.Slot != c.slot || w.Size != c.size {
				t.Errorf("window %+v, want slot %d and %d bytes", w, c.slot, c.size)
			}
		})
	}
	image, _ := mustImport(t, mmiotrace(bhDevice, "W 4 0x1fc00984 0x0", "W 4 0x1fc00988 0x89",
		"W 4 0x1fc0098c 0x0", "W 4 4:0x180000040 0x5"), Options{})
	if bars := image.Devices[0].Bars; bars != [6]uint64{0: 512 << 20} {
		t.Errorf("BARs %v, want BAR 0 alone, because windows in BAR 0 are sufficient", bars)
	}
}

func TestLiftRejectsWithLineNumber(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"never configured", mmiotrace(whDevice, whPoint(wh166Config, 1, 1, 0),
			access("R", 4, wh167, 1)),
			"line 4: load through TLB window 167, but no earlier line of the trace points the " +
				"window to a tile; record from the start of the program"},
		{"half configured", mmiotrace(whDevice, access("W", 4, wh166Config, 0x41000),
			access("W", 4, wh166, 1)),
			"line 4: store through TLB window 166, but no earlier line of the trace points the " +
				"window to a tile; record from the start of the program"},
		{"two thirds configured", mmiotrace(bhDevice, "W 4 0x1fc00000 0x0",
			"W 4 0x1fc00004 0x40800", "R 4 0x0 0x0"),
			"line 5: load through TLB window 0, but no earlier line of the trace points the " +
				"window to a tile; record from the start of the program"},
		{"kernel's window", mmiotrace(whDevice, access("R", 4, 0x1e000000, 1)),
			"line 3: load through TLB window 185: images must not use this window, " +
				"because it belongs to the kernel driver"},
		{"kernel's window, other BAR", mmiotrace(whDevice, "R 4 4:0x10 0x1"),
			"line 3: load through TLB window 185: images must not use this window, " +
				"because it belongs to the kernel driver"},
		{"kernel's configuration", mmiotrace(whDevice, "W 8 0x1fc005c8 0x0"),
			"line 3: store at a register of TLB window 185: images must not use this window, " +
				"because it belongs to the kernel driver"},
		{"linked", mmiotrace(whDevice, access("W", 8, wh166Config, 0x41000|1<<40), "MARK 1.5 x",
			access("W", 4, wh166, 1)),
			"line 3: TLB window 166 has the unsupported configuration 0x10000041000: linked, " +
				"reserved or unknown bits are set"},
		{"ordering 3", mmiotrace(whDevice, access("W", 8, wh166Config, 0x41000|3<<38),
			access("W", 4, wh166, 1)),
			"line 3: TLB window 166 has the unsupported configuration 0xc000041000: linked, " +
				"reserved or unknown bits are set"},
		{"stream header", mmiotrace(bhDevice, "W 4 0x1fc00000 0x0", "W 4 0x1fc00004 0x40800",
			"W 4 0x1fc00008 0x400", "W 4 0x0 0x0"),
			"line 5: TLB window 0 has the unsupported configuration 0x0 0x40800 0x400: linked, " +
				"reserved or unknown bits are set"},
		{"narrow configuration", mmiotrace(whDevice, access("W", 2, wh166Config, 0x1)),
			"line 3: store of 2 bytes to the registers of TLB window 166: each store must have " +
				"4 or 8 bytes, in the registers of one window"},
		{"wide configuration", mmiotrace(bhDevice, "W 8 0x1fc00000 0x0"),
			"line 3: store of 8 bytes to the registers of TLB window 0: each store must have " +
				"4 bytes, in the registers of one window"},
		{"load of many tiles", mmiotrace(whDevice, whMulticast(wh166Config, 1, 1, 4, 2, 0),
			access("R", 4, wh166, 1)),
			"line 4: load through TLB window 166, which points to several tiles: a load needs " +
				"one tile"},
		{"nothing there", mmiotrace(whDevice, "R 4 0x1f000000 0x1"),
			"line 3: load of 4 bytes at BAR 0 + 0x1f000000: board wormhole has no rule that " +
				"allows access there"},
	} {
		t.Run(c.name, func(t *testing.T) { wantError(t, c.text, Options{}, c.want) })
	}
}

func TestBarLargerThanTheBoardsKeepsItsRecordedSize(t *testing.T) {
	device := "PCIDEV 0018 1af41110 b 100000000 0 20000000c 0 0 0 0 100 0 4000000 0 0 0 0 "
	image, _ := mustImport(t, mmiotrace(device, "W 8 2:0x2fffff8 0x5"), Options{})
	if bars := image.Devices[0].Bars; bars != [6]uint64{2: 64 << 20} ||
		image.Windows[0].Size != 64<<20 {
		t.Errorf("BARs %x, window %+v; want the recorded 64 MiB of BAR 2", bars, image.Windows[0])
	}
}

// TestMemoryIsRecognizedByTileAndAddress: whether an access is to memory depends on the target of
// the window, not on the window. Stores to memory become a bulk copy.
func TestMemoryIsRecognizedByTileAndAddress(t *testing.T) {
	for _, c := range []struct {
		name          string
		x, y, address uint64
		memory        bool
	}{
		{"L1 of a Tensix tile", 1, 1, 0, true},
		{"the same, translated", 18, 18, 0, true},
		{"registers of a Tensix tile", 1, 1, 0xff000000, false},
		{"DRAM", 0, 0, 0x70000000, true},
		{"router", 0, 2, 0, false},
		{"no tile", 12, 12, 0, false},
	} {
		text := mmiotrace(whDevice, whPoint(wh166Config, c.x, c.y, c.address),
			access("W", 4, wh166, 1), access("W", 4, wh166+4, 2))
		image, _ := mustImport(t, text, Options{})
		if bulk := strings.Contains(imageText(image), "bulk"); bulk != c.memory {
			t.Errorf("%s: treated as memory: %v, want %v", c.name, bulk, c.memory)
		}
	}
}

func TestMemoryMustBeMemoryInEveryTileOfARectangle(t *testing.T) {
	for _, c := range []struct {
		x1, y1 uint64
		memory bool
	}{{4, 2, true}, {4, 6, false}} { // row 6 is Ethernet, which has less L1
		text := mmiotrace(whDevice, whMulticast(wh166Config, 1, 1, c.x1, c.y1, 0),
			access("W", 4, wh166+0x100000, 1), access("W", 4, wh166+0x100004, 2))
		image, _ := mustImport(t, text, Options{})
		if bulk := strings.Contains(imageText(image), "bulk"); bulk != c.memory {
			t.Errorf("rectangle (1,1) to (%d,%d): treated as memory: %v, want %v", c.x1, c.y1, bulk,
				c.memory)
		}
	}
}
