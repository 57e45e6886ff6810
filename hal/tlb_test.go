package hal

import (
	"fmt"
	"slices"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// tlbWindow returns a Tlb window that prefers the given slot.
func tlbWindow(size uint64, slot uint16) fbs.Window {
	return fbs.Window{Kind: gen.WindowKindTlb, Size: size, Slot: slot}
}

// pointTo does what a run does at a Point command.
func pointTo(d *device, a *Aperture, t fbs.TileRoute, address uint64) Code {
	list := [2]fbs.Command{{Opcode: gen.OpcodePoint, Index: 1}}
	registers, tlbBase, code := d.EncodePoint(a, t, address, &list[0])
	if code != OK {
		return code
	}
	windows := [2]uintptr{a.Base, registers}
	w := Walk{Next: &list[0], Budget: 1, WindowAddresses: &windows[0],
		TLBWindowBases: &tlbBase}
	w.Run()
	a.Base = windows[0]
	return OK
}

var tile = fbs.TileRoute{X: 3, Y: 5, NoC: 1, Ordering: boards.OrderingStrict}

// A Wormhole has 156 TLB windows of 1 MiB, 10 of 2 MiB and 20 of 16 MiB. Each TLB window has a
// register of 8 bytes; the first register is at 0x1fc00000 in BAR 0. In a TLB window of 2 MiB, the
// address field has 15 bits (tt-isa-documentation, WormholeB0/PCIExpressTile/TLBs.md).
func TestPointStoresTheConfigurationOfAWormhole(t *testing.T) {
	installFakeSysfs(t)
	f := addWormhole(t)
	d := f.open()
	for _, c := range []struct {
		slot  uint16
		size  uint64
		at    uint64 // offset of the TLB window in BAR 0
		shift int    // number of bits of the address field
	}{{0, mib, 0, 16}, {155, mib, 155 * mib, 16}, {157, 2 * mib, 158 * mib, 15},
		{184, 16 * mib, 0xb000000 + 18*16*mib, 12}} {
		t.Run(fmt.Sprint("slot ", c.slot), func(t *testing.T) {
			a := mustMap(t, d, tlbWindow(c.size, c.slot))
			if a.TLBWindow != int(c.slot) || a.Size != c.size || a.BusAddress != 0 {
				t.Fatalf("mapped slot %d, size %#x, bus address %#x; want slot %d, size %#x, no "+
					"bus address", a.TLBWindow, a.Size, a.BusAddress, c.slot, c.size)
			}
			address := 7 * c.size
			if code := pointTo(d, a, tile, address); code != OK {
				t.Fatal(code)
			}
			want := uint64(7) | uint64(3)<<c.shift | uint64(5)<<(c.shift+6) | 1<<(c.shift+24) |
				1<<(c.shift+26)
			register := f.readAt("resource0", 0x1fc00000+8*uint64(c.slot), 8)
			if got := loadLittleEndian(register); got != want {
				t.Errorf("slot %d: configuration %#x, want %#x", c.slot, got, want)
			}
			a.Store(uint32(c.size-4), 4, 0xcafe0000+uint64(c.slot))
			stored := 0xcafe0000 + uint64(c.slot)
			if got := f.valueAt("resource0", c.at+c.size-4, 4); got != stored {
				t.Errorf("slot %d: the window has %#x, want the stored %#x", c.slot, got, stored)
			}
		})
	}
	used := 0
	for _, b := range f.readAt("resource0", 0x1fc00000, 186*8) {
		if b != 0 {
			used++
		}
	}
	if used > 4*8 {
		t.Errorf("%d bytes of the configuration registers are not 0, want at most those of 4 slots",
			used)
	}
}

// A Blackhole has 202 TLB windows of 2 MiB, and after them TLB windows of 4 GiB in BAR 4. Each TLB
// window has three registers of 4 bytes (tt-kmd blackhole.c).
func TestPointStoresTheConfigurationOfABlackhole(t *testing.T) {
	installFakeSysfs(t)
	f := addBlackhole(t, 8*gib)
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
		{100, 2 * mib, [3]uint32{9, 3<<11 | 5<<17, 1<<3 | 1<<6 | 1<<9 | 5<<11}},
		// lowest bits of the fields: corners 32 (6 bits each), NoC 56, ordering 59, static VC 62
		// and 64
		{203, 4 * gib, [3]uint32{9, 3 | 5<<6 | 1<<24 | 1<<27 | 1<<30, 5}},
	} {
		t.Run(fmt.Sprint("slot ", c.slot), func(t *testing.T) {
			a := mustMap(t, d, tlbWindow(c.size, c.slot))
			if code := pointTo(d, a, vc, 9*c.size); code != OK {
				t.Fatal(code)
			}
			for i, want := range c.want {
				if got := uint32(f.valueAt("resource0",
					0x1fc00000+12*uint64(c.slot)+4*uint64(i), 4)); got != want {
					t.Errorf("slot %d, word %d: %#x, want %#x", c.slot, i, got, want)
				}
			}
			a.Store(16, 8, 0x1122334455667788)
		})
	}
	if got := f.valueAt("resource4", 4*gib+16, 8); got != 0x1122334455667788 {
		t.Errorf("window 203 has %#x, want 0x1122334455667788", got)
	}
	if got := f.valueAt("resource0", 200*mib+16, 8); got != 0x1122334455667788 {
		t.Errorf("window 100 has %#x, want 0x1122334455667788", got)
	}
}

func TestPointStoresTheLowestWordFirstAndReadsTheLastBack(t *testing.T) {
	installFakeSysfs(t)
	f := addBlackhole(t, 4*gib)
	d := f.open()
	a := mustMap(t, d, tlbWindow(2*mib, 3))
	if code := pointTo(d, a, tile, 0); code != OK {
		t.Fatal(code)
	}
	list := [2]fbs.Command{{Opcode: gen.OpcodePoint, Index: 1}}
	_, tlbBase, _ := d.EncodePoint(a, tile, 0, &list[0])
	port, windows := newRecordingPort(), [2]uintptr{}
	w := Walk{Next: &list[0], WindowAddresses: &windows[0], TLBWindowBases: &tlbBase}
	w.programWindow(port)
	want := []deviceAccess{{36, 4, true}, {40, 4, true}, {44, 4, true}, {44, 4, false}}
	if !slices.Equal(port.accesses, want) {
		t.Errorf("accesses %+v, want %+v", port.accesses, want)
	}
}

func TestWriteCombiningWindowsAreProgrammedThroughTheUncachedMapping(t *testing.T) {
	installFakeSysfs(t)
	f := addWormhole(t)
	d := f.open()
	w := tlbWindow(mib, 1)
	w.Flags = fbs.FlagWriteCombining
	a := mustMap(t, d, w)
	if code := pointTo(d, a, tile, 0); code != OK {
		t.Fatal(code)
	}
	copyBulk(a, 0, "data")
	if got := f.readAt("resource0_wc", mib, 4); string(got) != "data" {
		t.Errorf("resource0_wc has %q, want \"data\"", got)
	}
	if f.valueAt("resource0", 0x1fc00008, 8) == 0 ||
		f.valueAt("resource0_wc", 0x1fc00008, 8) != 0 {
		t.Error("the configuration is missing in resource0, or is also in resource0_wc")
	}
}

// A Tlb window of an image may be smaller than the TLB window of the device. The address of a Point
// is then a multiple of the smaller size.
func TestAnApertureMovesInsideALargerHardwareWindow(t *testing.T) {
	installFakeSysfs(t)
	f := addWormhole(t)
	d := f.open()
	a := mustMap(t, d, tlbWindow(0x10000, 2))
	for _, address := range []uint64{0x330000, 0, 0xf0000, 0x100000} {
		if code := pointTo(d, a, tile, address); code != OK {
			t.Fatal(code)
		}
		register := f.readAt("resource0", 0x1fc00010, 8)
		if got := loadLittleEndian(register) & 0xffff; got != address>>20 {
			t.Errorf("address %#x: the TLB window shows megabyte %d, want %d", address, got,
				address>>20)
		}
		a.Store(0xfffc, 4, address|1)
		at := 2*mib + address%mib + 0xfffc
		if got := f.valueAt("resource0", at, 4); got != address|1 {
			t.Errorf("address %#x: the file has %#x, want the stored %#x", address, got, address|1)
		}
	}
	if a.Size != 0x10000 {
		t.Errorf("size of the window %#x, want 0x10000", a.Size)
	}
}

func TestPointRejectsWhatTheDeviceCannotExpress(t *testing.T) {
	installFakeSysfs(t)
	f := addWormhole(t)
	d := f.open()
	a := mustMap(t, d, tlbWindow(0x10000, 2))
	corner, far, unordered := tile, tile, tile
	corner.XStart = 1
	far.X = 64
	unordered.Ordering = 0
	for name, c := range map[string]struct {
		target  fbs.TileRoute
		address uint64
	}{
		"start corner of a unicast": {corner, 0},
		"x of 7 bits":               {far, 0},
		"no ordering":               {unordered, 0},
		"37-bit address":            {tile, 1 << 36},
		"window over a 1 MiB line":  {tile, 0xf8000},
	} {
		t.Run(name, func(t *testing.T) {
			if code := pointTo(d, a, c.target, c.address); code != Refused {
				t.Errorf("code %v, want %v", code, Refused)
			}
		})
	}
	if got := f.valueAt("resource0", 0x1fc00010, 8); got != 0 {
		t.Errorf("a rejected Point stored %#x, want nothing", got)
	}
	bar := mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Size: 4096})
	unmapped := NewAperture(newRecordingPort(), mib, 9)
	noSuchSlot := NewAperture(newRecordingPort(), mib, len(d.tlb.windows))
	for _, a := range []*Aperture{bar, &unmapped, &noSuchSlot} {
		if code := pointTo(d, a, tile, 0); code != Internal {
			t.Errorf("EncodePoint of slot %d, which is not mapped: %v, want %v", a.TLBWindow, code,
				Internal)
		}
	}
	if code := d.ProgramWindow(a, tile, 0); code != Internal {
		t.Errorf("ProgramWindow of a window that registers program: %v, want %v", code, Internal)
	}
}

func TestMapChoosesATLBWindow(t *testing.T) {
	installFakeSysfs(t)
	f := addWormhole(t)
	d := f.open()
	for i, c := range []struct {
		size uint64
		slot uint16
		want int
	}{
		{mib, 5, 5},                 // the preferred one
		{mib, 5, 0},                 // 5 is in use: the first free one
		{mib, fbs.AnySlot, 1},       // no preference: the next free one
		{4096, fbs.AnySlot, 2},      // smaller than every TLB window
		{2 * mib, 5, 156},           // 5 is too small
		{16 * mib, 185, 166},        // the kernel driver uses 185
		{16 * mib, 184, 184},        // the kernel driver does not use 184
		{mib, 186, 3},               // 186 does not exist
		{mib, 170, 170},             // larger than needed, but preferred
		{3 * mib, fbs.AnySlot, 167}, // no TLB window has this size
	} {
		a := mustMap(t, d, tlbWindow(c.size, c.slot))
		if a.TLBWindow != c.want || a.Size != c.size {
			t.Errorf("window %d: slot %d, size %#x; want slot %d, size %#x", i, a.TLBWindow, a.Size,
				c.want, c.size)
		}
	}
	for range 20 - 1 - 4 {
		mustMap(t, d, tlbWindow(16*mib, fbs.AnySlot))
	}
	_, err := d.Map(tlbWindow(16*mib, fbs.AnySlot))
	wantFault(t, "all in use", err, NoDevice, "no TLB window of 0x1000000 bytes is free")
	_, err = d.Map(tlbWindow(32*mib, fbs.AnySlot))
	wantFault(t, "too large", err, NoDevice, "no TLB window of 0x2000000 bytes is free")
}

// Firmware may make BAR 4 smaller than the device supports. The TLB windows after its end are then
// not used.
func TestWindowsOutsideASmallerBarAreNotUsed(t *testing.T) {
	installFakeSysfs(t)
	f := addBlackhole(t, 4*gib)
	d := f.open()
	if a := mustMap(t, d, tlbWindow(4*gib, 205)); a.TLBWindow != 202 {
		t.Errorf("slot %d, want 202", a.TLBWindow)
	}
	_, err := d.Map(tlbWindow(4*gib, fbs.AnySlot))
	wantFault(t, "second", err, NoDevice, "is free")
}

func TestRegistersOutsideTheBarAreAFault(t *testing.T) {
	installFakeSysfs(t)
	f := addFunction(t, "0000:01:00.0", 0x1e52, 0x401e, map[int]uint64{0: 256 * mib})
	d := f.open()
	for range 2 {
		_, err := d.Map(tlbWindow(mib, 0))
		wantFault(t, "registers", err, WrongDevice, "BAR 0 has 0x10000000 bytes",
			"at offset 0x1fc00000")
	}
}

func TestPointDoesNotAllocate(t *testing.T) {
	for _, board := range []*boards.Board{&boards.Wormhole, &boards.Blackhole} {
		installFakeSysfs(t)
		f := addFunction(t, "0000:01:00.0", board.Vendor, board.Device,
			map[int]uint64{0: board.BarSizes[0]})
		d := f.open()
		a := mustMap(t, d, tlbWindow(mib, 0))
		if n := testing.AllocsPerRun(10, func() { pointTo(d, a, tile, 5*mib) }); n != 0 {
			t.Errorf("%s: Point: %v allocations, want 0", board.Name, n)
		}
	}
}

func BenchmarkPoint(b *testing.B) {
	installFakeSysfs(b)
	f := addWormhole(b)
	d := f.open()
	a := mustMap(b, d, tlbWindow(mib, 0))
	for i := range b.N {
		pointTo(d, a, tile, uint64(i%1024)*mib)
	}
}
