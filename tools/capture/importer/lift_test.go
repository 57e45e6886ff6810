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

// TestLargeWindowBecomesPages: a large window becomes pages of the smallest window's size. A point
// comes before the first access to each page.
func TestLargeWindowBecomesPages(t *testing.T) {
	text := mmiotrace(whDevice,
		whPoint(wh166Config, 3, 4, 0),
		access("W", 4, wh166+0xffffc, 1), access("W", 4, wh166+0x100000, 2),
		access("W", 4, wh166+0x100004, 3), access("W", 4, wh166+0x20, 4),
	)
	image, _ := mustImport(t, text, Options{Without: []string{"coalesce", "fence"}})
	checkCommands(t, image, `
point tlb0 (3,4) 0x0
write tlb0+0xffffc w4 0x1
point tlb0 (3,4) 0x100000
write tlb0+0x0 w4 0x2
write tlb0+0x4 w4 0x3
point tlb0 (3,4) 0x0
write tlb0+0x20 w4 0x4
`)
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

func TestConfigurationInPartsTakesEffectWhenUsed(t *testing.T) {
	low := func(x, y, address uint64) uint64 { return (address>>24 | x<<12 | y<<18) & 0xffffffff }
	text := mmiotrace(whDevice,
		// Both halves, the upper one first: strict ordering (bit 38).
		access("W", 4, wh166Config+4, 0x40), access("W", 4, wh166Config, low(1, 1, 0)),
		access("W", 4, wh166, 1),
		// Only the lower half changes.
		access("W", 4, wh166Config, low(2, 2, 0)),
		access("W", 4, wh166, 2),
		// Configured twice before an access: the first configuration had no effect.
		access("W", 4, wh166Config, low(3, 3, 0)), access("W", 4, wh166Config+4, 0x0),
		access("W", 4, wh166Config, low(4, 4, 0)),
		access("W", 4, wh166, 3),
		// Never used.
		access("W", 4, wh166Config, low(5, 5, 0)),
	)
	image, report := mustImport(t, text, Options{})
	checkCommands(t, image, `
point tlb0 (1,1) 0x0 strict
write tlb0+0x0 w4 0x1
point tlb0 (2,2) 0x0 strict
write tlb0+0x0 w4 0x2
point tlb0 (4,4) 0x0
write tlb0+0x0 w4 0x3
`)
	wantSummary(t, report, "lift", "3 accesses through 1 TLB window became accesses to tiles; "+
		"7 configuration stores became 3 point commands; "+
		"1 TLB window without an access after the last configuration")
}

func TestPointIsPlacedWhereTheWindowWasConfigured(t *testing.T) {
	text := mmiotrace(whDevice, whPoint(wh166Config, 1, 1, 0), "MARK 1.5 go",
		access("W", 4, wh166, 1))
	image, _ := mustImport(t, text, Options{})
	checkCommands(t, image, "\npoint tlb0 (1,1) 0x0\nmark go\nwrite tlb0+0x0 w4 0x1\n")
}

func TestAccessesOutsideWindowsStayInTheBar(t *testing.T) {
	text := mmiotrace(whDevice, "R 4 0x1ff30060 0x1", whPoint(wh166Config, 1, 1, 0),
		access("W", 4, wh166, 1), "W 4 0x1ff30060 0x2",
		"R 8 "+fmt.Sprintf("0x%x", wh166Config)+" 0x41000")
	image, report := mustImport(t, text, Options{})
	checkCommands(t, image, `
expect bar0+0x1ff30060 w4 0x1 mask 0xffffffff
point tlb0 (1,1) 0x0
write tlb0+0x0 w4 0x1
write bar0+0x1ff30060 w4 0x2
`)
	want := "1 access through 1 TLB window became accesses to tiles; " +
		"1 configuration store became 1 point command; " +
		"2 accesses outside TLB windows; 1 load of configuration registers dropped"
	wantSummary(t, report, "lift", want)
}

// TestConfigurationThroughTheOtherBarIsFollowed: BAR 4 of Wormhole maps the upper end of BAR 0,
// which contains the configuration of windows. A store through BAR 4 moves the window too.
func TestConfigurationThroughTheOtherBarIsFollowed(t *testing.T) {
	text := mmiotrace(whDevice,
		whPoint(wh166Config, 1, 1, 0), access("W", 4, wh166, 1),
		fmt.Sprintf("W 8 4:0x%x 0x%x", wh166Config-0x1e000000, 2<<12|2<<18),
		access("W", 4, wh166, 2),
	)
	image, _ := mustImport(t, text, Options{})
	checkCommands(t, image, "\npoint tlb0 (1,1) 0x0\nwrite tlb0+0x0 w4 0x1\npoint tlb0 (2,2) 0x0\n"+
		"write tlb0+0x0 w4 0x2\n")
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

// TestWithoutLiftStoresThroughTLBWindowsAreRejected: an image may set the target of a window only
// by point commands. Loads of the BAR are imported.
func TestWithoutLiftStoresThroughTLBWindowsAreRejected(t *testing.T) {
	without := Options{Without: []string{"lift"}}
	wantError(t, mmiotrace(whDevice, whPoint(wh166Config, 1, 1, 0), access("W", 8, wh166, 1)),
		without,
		"line 3: store of 8 bytes at BAR 0 + 0x1fc00530: images must not store there (window "+
			"configuration); remove --without lift: the pass lift turns such stores into point "+
			"commands")
	wantError(t, mmiotrace(whDevice, access("W", 8, wh166, 1)), without,
		"line 3: store of 8 bytes at BAR 0 + 0xb000000: images must not store there (windows); "+
			"remove --without lift: the pass lift turns such stores into point commands")
	image, report := mustImport(t, mmiotrace(whDevice, access("R", 4, wh167, 3)), without)
	checkCommands(t, image, "\nexpect bar0+0xc000000 w4 0x3 mask 0xffffffff\n")
	if passSummary(report, "lift") != "" {
		t.Errorf("the report has the pass lift, which is off:\n%s", report)
	}
}

// TestForbiddenRegistersAndTilesAreRejectedWithLineNumber: images may only load some registers, and
// must not reach some tiles through a window.
func TestForbiddenRegistersAndTilesAreRejectedWithLineNumber(t *testing.T) {
	wantError(t, mmiotrace(whDevice, "W 4 0x1ff30078 0x200000"), Options{},
		"line 3: store of 4 bytes at BAR 0 + 0x1ff30078: images must not store there (PCIe "+
			"sideband)")
	wantError(t, mmiotrace(whDevice, whPoint(wh166Config, 0, 3, 0), access("R", 4, wh166+4, 2)),
		Options{},
		"line 4: load through TLB window 166 at 0x4 of tile (0,3): this window also covers 0x0 to "+
			"0xffffffffffffffff of the PCIe tile (use a host window for host memory), which "+
			"images must not access; --omit-management leaves out such accesses of driver "+
			"libraries")
	wantError(t, mmiotrace(whDevice, whMulticast(wh166Config, 0, 0, 9, 11, 0),
		access("W", 4, wh166, 2)), Options{},
		"line 4: store through TLB window 166 at 0x0 of tile (9,11): this window also covers 0x0 "+
			"to 0xffffffffffffffff of the PCIe tile (use a host window for host memory), which "+
			"images must not access")
}

// TestManagementAccessesAreLeftOut imports loads of the ARC and PCIe tiles through a window, and
// accesses to registers of the ARC in a BAR. The last access through the window is to a core.
func TestManagementAccessesAreLeftOut(t *testing.T) {
	trace := mmiotrace(whDevice, "W 4 0x1ff30074 0xaa11", "R 4 0x1ff30078 0x0",
		whPoint(wh166Config, 0, 10, 0x8_8000_0000), access("R", 4, wh166+0x301d0, 0x1000_0100),
		whPoint(wh166Config, 0, 3, 0), access("R", 4, wh166+4, 2),
		whPoint(wh166Config, 1, 1, 0), access("R", 4, wh166+0x20, 3))
	image, report := mustImport(t, trace, Options{OmitManagement: true})
	checkCommands(t, image, "\npoint tlb0 (1,1) 0x0\nexpect tlb0+0x20 w4 0x3 mask 0xffffffff\n")
	if text := passSummary(report, "lift"); !strings.Contains(text,
		"4 accesses left out by --omit-management") {
		t.Errorf("summary of the pass lift: %s; want 4 accesses left out", text)
	}
	wantError(t, mmiotrace(whDevice, "W 4 0x1fd00000 0x1"), Options{OmitManagement: true},
		"line 3: store of 4 bytes at BAR 0 + 0x1fd00000: board wormhole has no rule that allows "+
			"access there")
}

func TestBarBeyond4GiBHasSeveralWindows(t *testing.T) {
	image, _ := mustImport(t, mmiotrace(bhDevice, "R 4 4:0x180000040 0x5", "R 4 4:0x40 0x6"),
		Options{Without: []string{"lift"}})
	checkCommands(t, image,
		"\nexpect bar4+0x100000000+0x80000040 w4 0x5 mask 0xffffffff\nexpect bar4+0x40 w4 0x6 "+
			"mask 0xffffffff\n")
}

func TestBarLargerThanTheBoardsKeepsItsRecordedSize(t *testing.T) {
	device := "PCIDEV 0018 1af41110 b 100000000 0 20000000c 0 0 0 0 100 0 4000000 0 0 0 0 "
	image, _ := mustImport(t, mmiotrace(device, "W 8 2:0x2fffff8 0x5"), Options{})
	if bars := image.Devices[0].Bars; bars != [6]uint64{2: 64 << 20} ||
		image.Windows[0].Size != 64<<20 {
		t.Errorf("BARs %x, window %+v; want the recorded 64 MiB of BAR 2", bars, image.Windows[0])
	}
}

func TestDropRemovesPointsThatChangeNothing(t *testing.T) {
	text := mmiotrace(whDevice,
		whPoint(wh166Config, 1, 1, 0), access("W", 4, wh166, 1),
		whPoint(wh166Config, 1, 1, 0), access("W", 4, wh166+4, 2), // the same point again
		whPoint(wh166Config, 2, 2, 0), access("R", 4, wh166, 0), // part of a poll
		whPoint(wh166Config, 1, 1, 0), access("R", 4, wh166, 1),
		whPoint(wh166Config, 2, 2, 0), access("R", 4, wh166, 1),
		whPoint(wh166Config, 2, 2, 0), access("R", 4, wh166, 1),
	)
	image, report := mustImport(t, text, Options{})
	checkCommands(t, image, `
point tlb0 (1,1) 0x0
copyin bulk tlb0+0x0 w4 0100000002000000
fence
expect tlb0+0x0 w4 0x1 mask 0xffffffff
point tlb0 (2,2) 0x0
poll tlb0+0x0 w4 0x1 mask 0xffffffff for 1000000 us
poll tlb0+0x0 w4 0x1 mask 0xffffffff for 1000000 us
`)
	wantSummary(t, report, "drop", "4 of 6 point commands dropped, "+
		"because they have no effect")
	image, _ = mustImport(t, text, Options{Without: []string{"drop"}})
	// The sixth point belongs to a load that became part of a poll.
	if n := strings.Count(imageText(image), "point"); n != 5 {
		t.Errorf("%d points without the pass drop, want 5", n)
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
