//go:build !(notiles || backend_pci || backend_vfio || backend_tt)

package hal

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

const giga = 1 << 30

func addWormhole(t testing.TB) *fakeFunction {
	return addFunction(t, "0000:01:00.0", 0x1e52, 0x401e,
		map[int]uint64{0: 512 * mega, 2: mega, 4: 32 * mega})
}

func addBlackhole(t testing.TB, bar4 uint64) *fakeFunction {
	return addFunction(t, "0000:02:00.0", 0x1e52, 0xb140,
		map[int]uint64{0: 512 * mega, 2: mega, 4: bar4})
}

func tlb(size uint64, slot uint16) fbs.Window {
	return fbs.Window{Kind: gen.WindowKindTlb, Size: size, Slot: slot}
}

// pointTo points the aperture a at an address of the tiles t, as a run does at a Point command.
func pointTo(d *device, a *Aperture, t fbs.TileRoute, address uint64) Code {
	list := [2]fbs.Command{{Opcode: gen.OpcodePoint, Index: 1}}
	registers, home, code := d.EncodePoint(a, t, address, &list[0])
	if code != OK {
		return code
	}
	windows := [2]uintptr{a.Base, registers}
	w := Walk{Next: &list[0], StopAt: &list[1], WindowAddresses: &windows[0],
		TLBWindowBases: &home}
	w.Run()
	a.Base = windows[0]
	return OK
}

var tile = fbs.TileRoute{X: 3, Y: 5, NoC: 1, Ordering: boards.OrderingStrict}

// A Wormhole has 156 TLB windows of 1 MiB, 10 of 2 MiB and 20 of 16 MiB. Each has a register of 8
// bytes; the first register is at 0x1fc00000 in BAR 0. In a TLB window of 2 MiB, the address field
// has 15 bits (tt-isa-documentation, WormholeB0/PCIExpressTile/TLBs.md).
func TestPointStoresTheConfigurationOfAWormhole(t *testing.T) {
	fakeSysfs(t)
	f := addWormhole(t)
	d := f.open()
	for _, c := range []struct {
		slot  uint16
		size  uint64
		at    uint64 // offset of the TLB window in BAR 0
		shift int    // number of bits of the address field
	}{{0, mega, 0, 16}, {155, mega, 155 * mega, 16}, {157, 2 * mega, 158 * mega, 15},
		{184, 16 * mega, 0xb000000 + 18*16*mega, 12}} {
		t.Run(fmt.Sprint("slot ", c.slot), func(t *testing.T) {
			a := f.must(d.Map(tlb(c.size, c.slot)))
			if a.TLBWindow != int(c.slot) || a.Size != c.size || a.BusAddress != 0 {
				t.Fatalf("slot %d, size %#x, bus %#x", a.TLBWindow, a.Size, a.BusAddress)
			}
			address := 7 * c.size
			if code := pointTo(d, a, tile, address); code != OK {
				t.Fatal(code)
			}
			want := uint64(7) | uint64(3)<<c.shift | uint64(5)<<(c.shift+6) | 1<<(c.shift+24) |
				1<<(c.shift+26)
			register := f.at("resource0", 0x1fc00000+8*uint64(c.slot), 8)
			if got := loadLittleEndian(register); got != want {
				t.Errorf("slot %d: configuration %#x, want %#x", c.slot, got, want)
			}
			a.Store(uint32(c.size-4), 4, 0xcafe0000+uint64(c.slot))
			stored := 0xcafe0000 + uint64(c.slot)
			if got := loadLittleEndian(f.at("resource0", c.at+c.size-4, 4)); got != stored {
				t.Errorf("slot %d: the window holds %#x", c.slot, got)
			}
		})
	}
	used := 0
	for _, b := range f.at("resource0", 0x1fc00000, 186*8) {
		if b != 0 {
			used++
		}
	}
	if used > 4*8 {
		t.Errorf("%d bytes of the registers are set", used)
	}
}

// A Blackhole has 202 TLB windows of 2 MiB, and after them TLB windows of 4 GiB in BAR 4. Each has
// three registers of 4 bytes (tt-kmd blackhole.c).
func TestPointStoresTheConfigurationOfABlackhole(t *testing.T) {
	fakeSysfs(t)
	f := addBlackhole(t, 8*giga)
	d := f.open()
	vc := tile
	vc.StaticVCPlusOne = 1 + 5
	for _, c := range []struct {
		slot uint16
		size uint64
		want [3]uint32
	}{
		// lowest bits of the fields: corners 43 (6 bits each), NoC 67, ordering 70, static VC 73
		// and 75
		{100, 2 * mega, [3]uint32{9, 3<<11 | 5<<17, 1<<3 | 1<<6 | 1<<9 | 5<<11}},
		// lowest bits of the fields: corners 32 (6 bits each), NoC 56, ordering 59, static VC 62
		// and 64
		{203, 4 * giga, [3]uint32{9, 3 | 5<<6 | 1<<24 | 1<<27 | 1<<30, 5}},
	} {
		t.Run(fmt.Sprint("slot ", c.slot), func(t *testing.T) {
			a := f.must(d.Map(tlb(c.size, c.slot)))
			if code := pointTo(d, a, vc, 9*c.size); code != OK {
				t.Fatal(code)
			}
			for i, want := range c.want {
				if got := uint32(loadLittleEndian(f.at("resource0",
					0x1fc00000+12*uint64(c.slot)+4*uint64(i), 4))); got != want {
					t.Errorf("slot %d, word %d: %#x, want %#x", c.slot, i, got, want)
				}
			}
			a.Store(16, 8, 0x1122334455667788)
		})
	}
	if got := loadLittleEndian(f.at("resource4", 4*giga+16, 8)); got != 0x1122334455667788 {
		t.Errorf("window 203 holds %#x", got)
	}
	if got := loadLittleEndian(f.at("resource0", 200*mega+16, 8)); got != 0x1122334455667788 {
		t.Errorf("window 100 holds %#x", got)
	}
}

func TestPointStoresTheLowestWordFirstAndReadsTheLastBack(t *testing.T) {
	fakeSysfs(t)
	f := addBlackhole(t, 4*giga)
	d := f.open()
	a := f.must(d.Map(tlb(2*mega, 3)))
	if code := pointTo(d, a, tile, 0); code != OK {
		t.Fatal(code)
	}
	list := [2]fbs.Command{{Opcode: gen.OpcodePoint, Index: 1}}
	_, home, _ := d.EncodePoint(a, tile, 0, &list[0])
	tape, windows := newTape(), [2]uintptr{}
	w := Walk{Next: &list[0], WindowAddresses: &windows[0], TLBWindowBases: &home}
	w.programWindow(tape)
	want := []touch{{36, 4, true}, {40, 4, true}, {44, 4, true}, {44, 4, false}}
	if !slices.Equal(tape.touches, want) {
		t.Errorf("accesses %+v, want %+v", tape.touches, want)
	}
}

func TestWriteCombiningWindowsAreProgrammedThroughTheUncachedMapping(t *testing.T) {
	fakeSysfs(t)
	f := addWormhole(t)
	d := f.open()
	w := tlb(mega, 1)
	w.Flags = fbs.FlagWriteCombining
	a := f.must(d.Map(w))
	if code := pointTo(d, a, tile, 0); code != OK {
		t.Fatal(code)
	}
	copyBulk(a, 0, "data")
	if got := f.at("resource0_wc", mega, 4); string(got) != "data" {
		t.Errorf("resource0_wc holds %q", got)
	}
	if loadLittleEndian(f.at("resource0", 0x1fc00008, 8)) == 0 ||
		loadLittleEndian(f.at("resource0_wc", 0x1fc00008, 8)) != 0 {
		t.Error("the configuration is not in resource0 alone")
	}
}

// A Tlb window of an image may be smaller than the TLB window of the device. Addresses are then
// multiples of the smaller size.
func TestAnApertureMovesInsideALargerHardwareWindow(t *testing.T) {
	fakeSysfs(t)
	f := addWormhole(t)
	d := f.open()
	a := f.must(d.Map(tlb(0x10000, 2)))
	for _, address := range []uint64{0x330000, 0, 0xf0000, 0x100000} {
		if code := pointTo(d, a, tile, address); code != OK {
			t.Fatal(code)
		}
		if got := loadLittleEndian(f.at("resource0", 0x1fc00010, 8)) & 0xffff; got != address>>20 {
			t.Errorf("address %#x: the window is at megabyte %d", address, got)
		}
		a.Store(0xfffc, 4, address|1)
		at := 2*mega + address%mega + 0xfffc
		if got := loadLittleEndian(f.at("resource0", at, 4)); got != address|1 {
			t.Errorf("address %#x: loaded %#x", address, got)
		}
	}
	if a.Size != 0x10000 {
		t.Errorf("size %#x", a.Size)
	}
}

func TestPointRefusesWhatTheDeviceCannotExpress(t *testing.T) {
	fakeSysfs(t)
	f := addWormhole(t)
	d := f.open()
	a := f.must(d.Map(tlb(0x10000, 2)))
	corner, far, disordered := tile, tile, tile
	corner.XStart = 1
	far.X = 64
	disordered.Ordering = 0
	for name, c := range map[string]struct {
		target  fbs.TileRoute
		address uint64
	}{
		"start corner of a unicast": {corner, 0},
		"x of 7 bits":               {far, 0},
		"no ordering":               {disordered, 0},
		"37-bit address":            {tile, 1 << 36},
		"aperture over the end":     {tile, 0xf8000},
	} {
		t.Run(name, func(t *testing.T) {
			if code := pointTo(d, a, c.target, c.address); code != Refused {
				t.Errorf("code %v, want %v", code, Refused)
			}
		})
	}
	if got := loadLittleEndian(f.at("resource0", 0x1fc00010, 8)); got != 0 {
		t.Errorf("a refused Point stored %#x", got)
	}
	bar := f.must(d.Map(fbs.Window{Kind: gen.WindowKindBar, Size: 4096}))
	free := NewAperture(newTape(), mega, 9)
	none := NewAperture(newTape(), mega, 1000)
	for _, a := range []*Aperture{bar, &free, &none} {
		if code := pointTo(d, a, tile, 0); code != Internal {
			t.Errorf("EncodePoint of slot %d, which is not mapped: %v", a.TLBWindow, code)
		}
	}
	if code := d.ProgramWindow(a, tile, 0); code != Internal {
		t.Errorf("ProgramWindow of a window that registers program: %v", code)
	}
}

func TestTLBWindowsAreChosen(t *testing.T) {
	fakeSysfs(t)
	f := addWormhole(t)
	d := f.open()
	for i, c := range []struct {
		size uint64
		slot uint16
		want int
	}{
		{mega, 5, 5},                 // the preferred one
		{mega, 5, 0},                 // 5 is in use: the first free one
		{mega, fbs.AnySlot, 1},       // no preference: the next free one
		{4096, fbs.AnySlot, 2},       // smaller than every TLB window
		{2 * mega, 5, 156},           // 5 is too small
		{16 * mega, 185, 166},        // the kernel driver uses 185
		{16 * mega, 184, 184},        // the kernel driver does not use 184
		{mega, 186, 3},               // 186 does not exist
		{mega, 170, 170},             // larger than needed, but preferred
		{3 * mega, fbs.AnySlot, 167}, // no TLB window has this size
	} {
		a := f.must(d.Map(tlb(c.size, c.slot)))
		if a.TLBWindow != c.want || a.Size != c.size {
			t.Errorf("window %d: slot %d, want %d; size %#x", i, a.TLBWindow, c.want, a.Size)
		}
	}
	for range 20 - 1 - 4 {
		f.must(d.Map(tlb(16*mega, fbs.AnySlot)))
	}
	_, err := d.Map(tlb(16*mega, fbs.AnySlot))
	wantFault(t, "all in use", err, NoDevice, "no TLB window of 0x1000000 bytes is free")
	_, err = d.Map(tlb(32*mega, fbs.AnySlot))
	wantFault(t, "too large", err, NoDevice, "no TLB window of 0x2000000 bytes is free")
}

// Firmware may make BAR 4 smaller than the device supports. The TLB windows after its end are then
// not used.
func TestWindowsOutsideASmallerBarAreNotUsed(t *testing.T) {
	fakeSysfs(t)
	f := addBlackhole(t, 4*giga)
	d := f.open()
	if a := f.must(d.Map(tlb(4*giga, 205))); a.TLBWindow != 202 {
		t.Errorf("slot %d", a.TLBWindow)
	}
	_, err := d.Map(tlb(4*giga, fbs.AnySlot))
	wantFault(t, "second", err, NoDevice, "is free")
}

func TestRegistersOutsideTheBarAreAFault(t *testing.T) {
	fakeSysfs(t)
	f := addFunction(t, "0000:01:00.0", 0x1e52, 0x401e, map[int]uint64{0: 256 * mega})
	d := f.open()
	for range 2 {
		_, err := d.Map(tlb(mega, 0))
		wantFault(t, "registers", err, WrongDevice, "BAR 0 has 0x10000000 bytes",
			"at offset 0x1fc00000")
	}
}

func TestPointDoesNotAllocate(t *testing.T) {
	for _, board := range []*boards.Board{&boards.Wormhole, &boards.Blackhole} {
		fakeSysfs(t)
		f := addFunction(t, "0000:01:00.0", board.Vendor, board.Device,
			map[int]uint64{0: board.BarSizes[0]})
		d := f.open()
		a := f.must(d.Map(tlb(mega, 0)))
		if n := testing.AllocsPerRun(10, func() { pointTo(d, a, tile, 5*mega) }); n != 0 {
			t.Errorf("%s: %v allocations", board.Name, n)
		}
	}
}

// TestProgramWithoutTilesIsBuiltAndRun runs the tests of notiles_test.go, which need the tag.
func TestProgramWithoutTilesIsBuiltAndRun(t *testing.T) {
	// The go command reuses an old test result unless a file that the test has opened has changed.
	for _, file := range []string{"notiles_linux.go", "notiles_test.go", "tt_none.go",
		"../boards/all_notiles.go"} {
		if _, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	// If this test runs under emulation, build the other tests for the machine that emulates.
	host, err := exec.Command("go", "env", "GOHOSTARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, tags := range []string{"notiles", "notiles,backend_pci", "notiles,backend_vfio"} {
		t.Run(tags, func(t *testing.T) {
			run := exec.Command("go", "test", "-tags", tags, "-run", "TestNoTiles", "-v", ".")
			run.Env = append(os.Environ(), "GOARCH="+strings.TrimSpace(string(host)))
			text, err := run.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			wanted := "--- PASS: TestNoTilesNames"
			if !strings.Contains(string(text), wanted) {
				t.Errorf("no %q in\n%s", wanted, text)
			}
		})
	}
}

func BenchmarkPoint(b *testing.B) {
	fakeSysfs(b)
	f := addWormhole(b)
	d := f.open()
	a := f.must(d.Map(tlb(mega, 0)))
	for i := range b.N {
		pointTo(d, a, tile, uint64(i%1024)*mega)
	}
}
