package ttsim

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/capture/record"
)

// eachFake runs a test on the fake of each board.
func eachFake(t *testing.T, test func(t *testing.T, d *Device)) {
	for board, library := range fakes(t) {
		t.Run(board, func(t *testing.T) { test(t, opened(t, library)) })
	}
}

func tlbWindow(size uint64, slot uint16) fbs.Window {
	return fbs.Window{Kind: gen.WindowKindTlb, Size: size, Slot: slot}
}

func mapped(t *testing.T, d *Device, w fbs.Window) *hal.Aperture {
	t.Helper()
	a, err := d.Map(w)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

// pointed is a Tlb window of 1 MiB at an address of a tile.
func pointed(t *testing.T, d *Device, x, y uint8, address uint64) *hal.Aperture {
	t.Helper()
	a := mapped(t, d, tlbWindow(1<<20, fbs.AnySlot))
	check(t, d, "point", d.ProgramWindow(a, unicast(x, y), address))
	return a
}

func unicast(x, y uint8) fbs.TileRoute {
	return fbs.TileRoute{X: x, Y: y, Ordering: boards.OrderingDefault}
}

func words(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// twoop runs the kernel d = relu(a + b - 100) on tile (1, 2) the way an image
// does: reset, load, release, poll, read.
func twoop(t *testing.T, d *Device, program []byte) {
	const n, flag, arguments, a, b, c, sum = 64, 0x10000, 0x10010, 0x20000, 0x21000, 0x22000,
		0x23000
	registers := pointed(t, d, 1, 2, softReset0&^0xfffff)
	l1 := pointed(t, d, 1, 2, 0)
	var left, right, want []uint32
	for i := range uint32(n) {
		left, right = append(left, 3*i), append(right, 50+i)
		want = append(want, uint32(max(0, int(3*i+50+i)-100)))
	}
	check(t, d, "hold", registers.Store(softReset0&0xfffff, 4, 0x47800))
	check(t, d, "program", l1.Copy(gen.OpcodeCopyIn, 0, 4, gen.AccessBulk, program))
	check(t, d, "flag", l1.Store(flag, 4, 0))
	check(t, d, "arguments", l1.Copy(gen.OpcodeCopyIn, arguments, 4, gen.AccessExact,
		words(n, a, b, c, sum)))
	check(t, d, "a", l1.Copy(gen.OpcodeCopyIn, a, 4, gen.AccessBulk, words(left...)))
	check(t, d, "b", l1.Copy(gen.OpcodeCopyIn, b, 8, gen.AccessExact, words(right...)))
	check(t, d, "release", registers.Store(softReset0&0xfffff, 4, 0x47000))
	for deadline := d.Now() + 1e6; ; {
		v, code := l1.Load(flag, 4)
		check(t, d, "poll", code)
		if v == 0x600df00d {
			break
		}
		if d.Now() > deadline {
			t.Fatal("the kernel does not end within 1 ms of the device's time")
		}
	}
	got := make([]byte, 4*n)
	check(t, d, "result", l1.Copy(gen.OpcodeCopyOut, sum, 4, gen.AccessBulk, got))
	if !bytes.Equal(got, words(want...)) {
		t.Errorf("result %x, want %x", got, words(want...))
	}
	check(t, d, "hold again", registers.Store(softReset0&0xfffff, 4, 0x47800))
}

func TestProgramRunsOnATile(t *testing.T) {
	eachFake(t, func(t *testing.T, d *Device) { twoop(t, d, words(1)) })
}

func TestProgramRunsOnTheVendorsSimulator(t *testing.T) {
	f, err := elf.Open("../../../testdata/kernels/twoop.elf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var program []byte
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			if program, err = io.ReadAll(p.Open()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, board := range []string{"wormhole", "blackhole"} {
		t.Run(board, func(t *testing.T) { twoop(t, opened(t, vendors(t, board)), program) })
	}
}

func TestIdentityIsTheLibrarys(t *testing.T) {
	ids := map[string]uint16{"wormhole": 0x401e, "blackhole": 0xb140}
	for board, library := range fakes(t) {
		got := opened(t, library).Identity()
		want := hal.Identity{Name: "ttsim:" + library, Address: got.Address, Vendor: 0x1e52,
			Device: ids[board], BarSizes: got.BarSizes}
		if got != want || got.BarSizes[0] != 512<<20 {
			t.Errorf("%s: %+v", board, got)
		}
	}
}

func TestWindowTakesItsSlotElseTheFirstFree(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	for _, c := range []struct {
		size uint64
		slot uint16
		want int
	}{
		{16 << 20, 170, 170},
		{16 << 20, 170, 166}, // taken
		{16 << 20, 185, 167}, // the kernel driver's
		{2 << 20, 3, 156},    // too small
		{1 << 20, 3, 3},
		{1 << 20, fbs.AnySlot, 0},
		{4096, fbs.AnySlot, 1},
	} {
		if got := mapped(t, d, tlbWindow(c.size, c.slot)).TLBWindow; got != c.want {
			t.Errorf("%#x bytes in slot %d: got slot %d, want %d", c.size, c.slot, got, c.want)
		}
	}
}

func TestMapSaysWhatDoesNotFit(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	for range 19 {
		mapped(t, d, tlbWindow(16<<20, fbs.AnySlot))
	}
	for want, w := range map[string]fbs.Window{
		"no TLB window of 0x1000000 bytes is free": tlbWindow(16<<20, fbs.AnySlot),
		"no TLB window of 0x2000000 bytes is free": tlbWindow(32<<20, fbs.AnySlot),
		"the device has no BAR 1": {Kind: gen.WindowKindBar, Bar: 1,
			Size: 4},
		"BAR 2 has 0x100000 bytes, but the window needs 0x8 bytes at offset " +
			"": {Kind: gen.WindowKindBar, Bar: 2,
			Offset: 0xffffc, Size: 8},
		"no address range left for 0x100000000 bytes": {Kind: gen.WindowKindHost, Size: 4 << 30},
	} {
		_, err := d.Map(w)
		var fault *hal.Fault
		if !errors.As(err, &fault) || !strings.Contains(fault.Reason, want) {
			t.Errorf("%+v: %v, want %q", w, err, want)
		}
	}
}

// A window of an image may be smaller than the hardware's, and then its
// address is a multiple of its own size only.
func TestSmallWindowReachesItsAddress(t *testing.T) {
	eachFake(t, func(t *testing.T, d *Device) {
		slot := map[uint16]uint16{0x401e: 166, 0xb140: 0}[d.Identity().Device]
		a := mapped(t, d, tlbWindow(1<<16, slot))
		check(t, d, "point", d.ProgramWindow(a, unicast(2, 3), 0x30000))
		check(t, d, "store", a.Store(0x10, 4, 0x1234))
		v, code := pointed(t, d, 2, 3, 0).Load(0x30010, 4)
		check(t, d, "load", code)
		if v != 0x1234 {
			t.Errorf("%#x at the address, want 0x1234", v)
		}
	})
}

func TestMulticastReachesEveryTile(t *testing.T) {
	eachFake(t, func(t *testing.T, d *Device) {
		a := mapped(t, d, tlbWindow(1<<20, fbs.AnySlot))
		rectangle := fbs.TileRoute{X: 2, Y: 3, XStart: 1, YStart: 2, Multicast: true,
			Ordering: boards.OrderingDefault}
		check(t, d, "point", d.ProgramWindow(a, rectangle, 0))
		check(t, d, "store", a.Store(8, 8, 0x1122334455667788))
		for _, tile := range [][2]uint8{{1, 2}, {2, 2}, {1, 3}, {2, 3}} {
			check(t, d, "point", d.ProgramWindow(a, unicast(tile[0], tile[1]), 0))
			if v, _ := a.Load(8, 8); v != 0x1122334455667788 {
				t.Errorf("tile %v: %#x", tile, v)
			}
		}
	})
}

func TestImpossibleTargetIsRefusedWithItsReason(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	a := mapped(t, d, tlbWindow(1<<20, fbs.AnySlot))
	check(t, d, "possible", d.ProgramWindow(a, unicast(1, 1), 1<<20))
	if code := d.ProgramWindow(a, unicast(64, 1), 0); code != hal.Refused ||
		!strings.Contains(d.Refusal(), "cannot point to") {
		t.Errorf("tile: %v: %q", code, d.Refusal())
	}
	if code := d.ProgramWindow(a, unicast(1, 1), 0x1000); code != hal.Refused {
		t.Errorf("address: %v", code)
	}
	if !d.Alive() {
		t.Error("the simulator is gone")
	}
}

func TestEveryWidthReachesItsBytes(t *testing.T) {
	eachFake(t, func(t *testing.T, d *Device) {
		a := pointed(t, d, 1, 2, 0)
		for _, width := range []uint8{1, 2, 4, 8} {
			check(t, d, "fill", a.Copy(gen.OpcodeCopyIn, 0, 8, gen.AccessBulk,
				bytes.Repeat([]byte{0xee}, 24)))
			value := 0x8877665544332211 & fbs.WidthMask(width)
			check(t, d, "store", a.Store(8, width, value))
			got := make([]byte, 24)
			check(t, d, "read", a.Copy(gen.OpcodeCopyOut, 0, 8, gen.AccessBulk, got))
			want := bytes.Repeat([]byte{0xee}, 24)
			copy(want[8:], []byte{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}[:width])
			if !bytes.Equal(got, want) {
				t.Errorf("width %d: %x, want %x", width, got, want)
			}
			if v, _ := a.Load(8, width); v != value {
				t.Errorf("width %d: loaded %#x, want %#x", width, v, value)
			}
		}
	})
}

// A Bar window may span several hardware windows, and no access may.
func TestBlockCopyStopsAtTheEndOfEachWindow(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	bar := mapped(t, d, fbs.Window{Kind: gen.WindowKindBar, Size: 512 << 20})
	for slot, tile := range []uint64{1 | 1<<6, 2 | 1<<6} {
		check(t, d, "configure", bar.Store(uint32(configs+8*uint64(slot)), 8, tile<<16))
	}
	data := make([]byte, 200_001) // more than one piece on either side
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	const start = 1<<20 - 99_990
	check(t, d, "copy in", bar.Copy(gen.OpcodeCopyIn, start, 8, gen.AccessBulk, data))
	got := make([]byte, len(data))
	check(t, d, "copy out", bar.Copy(gen.OpcodeCopyOut, start, 8, gen.AccessBulk, got))
	if !bytes.Equal(got, data) {
		t.Error("the data comes back changed")
	}
	second := make([]byte, len(data)-99_990)
	check(t, d, "second tile", pointed(t, d, 2, 1, 0).Copy(gen.OpcodeCopyOut, 0, 8, gen.AccessBulk,
		second))
	if !bytes.Equal(second, data[99_990:]) {
		t.Error("the second window's part is not at address 0 of its tile")
	}
}

func TestBlockCopyToRegistersIsOfWords(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	bar := mapped(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 64})
	check(t, d, "copy in", bar.Copy(gen.OpcodeCopyIn, 32, 4, gen.AccessBulk, words(1, 2, 3)))
	got := make([]byte, 12)
	check(t, d, "copy out", bar.Copy(gen.OpcodeCopyOut, 32, 4, gen.AccessBulk, got))
	if !bytes.Equal(got, words(1, 2, 3)) {
		t.Errorf("%x", got)
	}
}

func TestRefusalReachesTheCaller(t *testing.T) {
	eachFake(t, func(t *testing.T, d *Device) {
		bar := mapped(t, d, fbs.Window{Kind: gen.WindowKindBar, Size: 512 << 20})
		if d.Refusal() != "" {
			t.Errorf("refusal before any: %q", d.Refusal())
		}
		code := bar.Store(0x1f000000, 4, 0)
		if want := "[0] ERROR: Fake: write of 4 bytes at 0x11f000000"; code != hal.Refused ||
			d.Refusal() != want {
			t.Errorf("%v: %q, want %q", code, d.Refusal(), want)
		}
		if v, code := bar.Load(0, 4); code != hal.Refused || v != ^uint64(0) {
			t.Errorf("load after it: %#x, %v", v, code)
		}
		if d.Alive() {
			t.Error("still alive")
		}
	})
}

func TestRefusalInsideAClockReachesTheCaller(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	registers := pointed(t, d, 1, 2, softReset0&^0xfffff)
	check(t, d, "release", registers.Store(softReset0&0xfffff, 4, 0x47000))
	d.Sleep(5000)
	if _, code := registers.Load(softReset0&0xfffff, 4); code != hal.Refused ||
		!strings.Contains(d.Refusal(), "illegal instruction") {
		t.Errorf("%v: %q", code, d.Refusal())
	}
}

// The device finds what the host stored, and the host what the device stored,
// at the addresses that the regions of the iATU are aimed at.
func TestDeviceReachesHostWindows(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	first := mapped(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 1})
	second := mapped(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 0x1800})
	if first.BusAddress != 0x8_0000_0000 || second.BusAddress != 0x8_0000_2000 {
		t.Errorf("tiles see the windows at %#x and %#x", first.BusAddress, second.BusAddress)
	}
	bar := mapped(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 0x3200})
	for at, want := range map[uint64]uint64{0x1404: 0x88280000, 0x1408: 0x2000, 0x140c: 0,
		0x1410: 0x3fff, 0x1414: hostBus + 0x2000, 0x1418: 0} {
		if v, code := bar.Load(uint32(at), 4); v != want || code != hal.OK {
			t.Errorf("register %#x holds %#x, want %#x; %v", at, v, want, code)
		}
	}
	data := []byte("sixteen bytes...")
	check(t, d, "data", second.Copy(gen.OpcodeCopyIn, 0x17d8, 4, gen.AccessExact, data))
	check(t, d, "address", bar.Store(0, 4, hostBus+0x2000+0x17d8))
	check(t, d, "start", bar.Store(16, 4, 1))
	before := d.Now()
	got := make([]byte, 16)
	check(t, d, "result", second.Copy(gen.OpcodeCopyOut, 0x17e8, 8, gen.AccessExact, got))
	if string(got) != string(data) || d.Now() == before {
		t.Errorf("the device stored %q, in no time: %v", got, d.Now() == before)
	}
	check(t, d, "bulk in", second.Copy(gen.OpcodeCopyIn, 1, 4, gen.AccessBulk, data))
	check(t, d, "bulk out", second.Copy(gen.OpcodeCopyOut, 1, 4, gen.AccessBulk, got))
	if string(got) != string(data) {
		t.Errorf("in bulk: %q", got)
	}
	// the last words of the window
	check(t, d, "address", bar.Store(0, 4, hostBus+0x2000+0x2000-16))
	if code := bar.Store(16, 4, 1); code != hal.Refused ||
		!strings.Contains(d.Refusal(), "the device writes 16 bytes of host memory at 0x10004000") {
		t.Errorf("%v: %q", code, d.Refusal())
	}
	if _, code := second.Load(0, 4); code != hal.Refused {
		t.Errorf("after the end: %v", code)
	}
	if code := second.Store(0, 4, 0); code != hal.Refused {
		t.Errorf("after the end: %v", code)
	}
}

// TestHostWindowsAreWhereTheImageNeedsThem places windows at fixed addresses of the PCIe tile.
func TestHostWindowsAreWhereTheImageNeedsThem(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	fixed := func(bus, size uint64) fbs.Window {
		return fbs.Window{Kind: gen.WindowKindHost, Flags: fbs.FlagFixedBus, Offset: bus,
			Size: size}
	}
	const first = 0x8_0010_0000
	a, b := mapped(t, d, fixed(first, 1)), mapped(t, d, fixed(first+0x1000, 0x1000))
	c := mapped(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 1})
	if a.BusAddress != first || b.BusAddress != first+0x1000 || c.BusAddress != first+0x3000 {
		t.Errorf("tiles see the windows at %#x, %#x and %#x", a.BusAddress, b.BusAddress,
			c.BusAddress)
	}
	bar := mapped(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 0x3200})
	for at, want := range map[uint64]uint64{0x1208: 0x10_0000, 0x1210: 0x10_0fff,
		0x1214: hostBus + 0x10_0000} {
		if v, code := bar.Load(uint32(at), 4); v != want || code != hal.OK {
			t.Errorf("register %#x holds %#x, want %#x; %v", at, v, want, code)
		}
	}
	for _, bus := range []uint64{0x8_0000_0000 - 0x1000, first, first + 0x1000, 1 << 60} {
		if _, err := d.Map(fixed(bus, 0x1000)); err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("cannot access 0x1000 bytes of host memory at bus address %#x", bus)) {
			t.Errorf("at %#x: %v", bus, err)
		}
	}
}

func TestHostWindowsAreAsManyAsTheIATUHasRegions(t *testing.T) {
	d := opened(t, fakes(t)["blackhole"])
	for range 16 {
		mapped(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 1})
	}
	if _, err := d.Map(fbs.Window{Kind: gen.WindowKindHost, Size: 1}); err == nil ||
		!strings.Contains(err.Error(), "no address range left for 0x1 bytes") {
		t.Error(err)
	}
}

func TestDeviceMayNotTouchOtherHostMemory(t *testing.T) {
	d := opened(t, fakes(t)["blackhole"])
	bar := mapped(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 64})
	check(t, d, "low half", bar.Store(0, 4, 0x5000))
	check(t, d, "high half", bar.Store(4, 4, 7))
	code := bar.Store(16, 4, 1)
	if code != hal.Refused || !strings.Contains(d.Refusal(),
		"the device reads 16 bytes of host memory at 0x700005000") {
		t.Errorf("%v: %q", code, d.Refusal())
	}
}

func TestKilledSimulatorIsAGoneDevice(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	a := pointed(t, d, 1, 1, 0)
	if err := d.process.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	code := hal.OK
	for i := 0; code == hal.OK && i < 1_000_000; i++ { // the signal takes its time
		_, code = a.Load(0, 4)
	}
	if code != hal.DeviceGone || d.Refusal() != "the simulator's process ended: signal: killed" ||
		d.Alive() {
		t.Errorf("%v: %q", code, d.Refusal())
	}
}

// clocks gives the simulator's clock: the fake prints it when it refuses.
func clocks(t *testing.T, d *Device) (n int64) {
	t.Helper()
	bar := mapped(t, d, fbs.Window{Kind: gen.WindowKindBar, Size: 512 << 20})
	bar.Store(0x1f000000, 4, 0)
	if _, err := fmt.Sscanf(d.Refusal(), "[%d]", &n); err != nil {
		t.Fatalf("%q: %v", d.Refusal(), err)
	}
	return n
}

func TestTimePassesWithLoadsAndSleeps(t *testing.T) {
	for _, c := range []struct {
		name        string
		do          func(d *Device, a *hal.Aperture)
		clocks, now int64
	}{
		{"nothing", func(d *Device, a *hal.Aperture) {}, 0, 0},
		{"store", func(d *Device, a *hal.Aperture) { a.Store(0, 4, 0) }, 0, 0},
		{"load", func(d *Device, a *hal.Aperture) { a.Load(0, 4) }, 1, 1000},
		{"loads of two addresses", func(d *Device, a *hal.Aperture) { a.Load(0, 4); a.Load(4, 4) },
			2, 2000},
		{"loads of one address", func(d *Device, a *hal.Aperture) {
			for range 10 {
				a.Load(0, 4)
			}
		}, 1 + 2 + 4 + 8 + 16 + 32 + 4*64, 10_000},
		{"loads of one address with a store between",
			func(d *Device, a *hal.Aperture) { a.Load(0, 4); a.Store(0, 4, 0); a.Load(0, 4) }, 2,
			2000},
		{"loads of one address with a sleep between",
			func(d *Device, a *hal.Aperture) { a.Load(0, 4); d.Sleep(100); a.Load(0, 4) }, 102,
			2100},
		{"loads of one address with a copy between", func(d *Device, a *hal.Aperture) {
			a.Load(0, 4)
			a.Copy(gen.OpcodeCopyOut, 8, 4, gen.AccessBulk, make([]byte, 4))
			a.Load(0, 4)
		}, 2, 2000},
		{"sleep", func(d *Device, a *hal.Aperture) { d.Sleep(2500) }, 2500, 2500},
		{"no sleep", func(d *Device, a *hal.Aperture) { d.Sleep(0); d.Sleep(-1) }, 0, 0},
		{"long sleep", func(d *Device, a *hal.Aperture) { d.Sleep(5e9) }, 1_000_000, 5e9},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := opened(t, fakes(t)["wormhole"])
			c.do(d, pointed(t, d, 1, 1, 0))
			if got := d.Now(); got != c.now {
				t.Errorf("now %d ns, want %d", got, c.now)
			}
			if got := clocks(t, d); got != c.clocks {
				t.Errorf("%d clocks, want %d", got, c.clocks)
			}
		})
	}
}

func TestConfigurationSpace(t *testing.T) {
	eachFake(t, func(t *testing.T, d *Device) {
		c := mapped(t, d, fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
		check(t, d, "store", c.Store(4, 2, 0x0106))
		check(t, d, "store of a byte", c.Store(5, 1, 0x05))
		for _, l := range []struct {
			offset uint64
			width  uint8
			want   uint64
		}{{0, 2, 0x1e52}, {2, 2, uint64(d.Identity().Device)}, {1, 1, 0x1e}, {4, 4, 0x0506}} {
			if v, code := c.Load(uint32(l.offset), l.width); v != l.want || code != hal.OK {
				t.Errorf("%d bytes at %d: %#x, %v, want %#x", l.width, l.offset, v, code, l.want)
			}
		}
		if code := c.Store(0x40, 4, 0); code != hal.Refused {
			t.Errorf("store where nothing is: %v", code)
		}
	})
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ name, library, want string }{
		{"no file", "/nowhere/libttsim.so", "the file of the simulator library does not exist"},
		{"no library", file("text.so", "hello\n"), "ERROR: "},
		{"another library", compiled(t, "empty", file("empty.c", "int nothing;\n")),
			"libttsim_init"},
		{"unknown chip", compiled(t, "unknown", fakeSource, "-DIDS=0xfeed1e52"),
			"an unknown board with the PCI ids 1e52:feed"},
		{"library that ends at once", compiled(t, "ends",
			file("ends.c",
				"#include <stdlib.h>\n__attribute__((constructor)) void f(void) { _Exit(3); }\n")),
			"ended without a message: exit status 3"},
		{"main without ChildMain", compiled(t, "quits",
			file("quits.c",
				"#include <stdlib.h>\n__attribute__((constructor)) void f(void) { _Exit(0); }\n")),
			"main must call ttsim.ChildMain first"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(Prefix + c.library)
			var fault *hal.Fault
			if !errors.As(err, &fault) || fault.Code != hal.NoDevice ||
				!strings.Contains(fault.Reason, c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestChildThatForgotChildMainIsToldSo(t *testing.T) {
	t.Setenv(childVariable, "/some/library.so")
	_, err := Open(Prefix + fakes(t)["wormhole"])
	if err == nil || !strings.Contains(err.Error(), "ChildMain") {
		t.Error(err)
	}
}

func TestCloseEndsTheProcess(t *testing.T) {
	d, err := Open(Prefix + fakes(t)["wormhole"])
	if err != nil {
		t.Fatal(err)
	}
	a := pointed(t, d, 1, 1, 0)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if state := d.process.cmd.ProcessState; state == nil || !state.Success() {
		t.Errorf("the child's state is %v", state)
	}
	if err := d.Close(); err != nil {
		t.Error("second time:", err)
	}
	if code := a.Store(0, 4, 0); code != hal.DeviceGone {
		t.Errorf("store to a closed device: %v", code)
	}
}

// The recorder is a library like any other, so a replay can be recorded.
func TestReplayCanBeRecorded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.record")
	t.Setenv("LM_RECORD_LIBRARY", fakes(t)["wormhole"])
	t.Setenv("LM_RECORD_FILE", file)
	d := opened(t, compiled(t, "librecord", "../../capture/record/shim/record.c"))
	check(t, d, "store", pointed(t, d, 1, 1, 0).Store(8, 2, 0x1234))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := record.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	last := c.Records[len(c.Records)-1]
	if last.Kind != record.BarWrite || last.Offset != 8 ||
		!bytes.Equal(last.Data, []byte{0x34, 0x12}) {
		t.Errorf("%+v", last)
	}
}

func TestSeveralDevicesAtOnce(t *testing.T) {
	library := fakes(t)["blackhole"]
	first, second := opened(t, library), opened(t, library)
	a, b := pointed(t, first, 1, 2, 0), pointed(t, second, 1, 2, 0)
	check(t, first, "store", a.Store(0, 4, 1))
	check(t, second, "store", b.Store(0, 4, 2))
	if v, _ := a.Load(0, 4); v != 1 {
		t.Errorf("the first device holds %d", v)
	}
}

func TestAccessDoesNotAllocate(t *testing.T) {
	d := opened(t, fakes(t)["wormhole"])
	a := pointed(t, d, 1, 1, 0)
	data, block := make([]byte, 256), a.Port.(hal.BlockPort)
	n := testing.AllocsPerRun(100, func() {
		a.Store(0, 4, 1)
		a.Load(0, 4)
		block.CopyIn(0, data)
		block.CopyOut(0, data)
		d.Sleep(10)
		d.ProgramWindow(a, fbs.TileRoute{X: 1, Y: 1, Ordering: boards.OrderingDefault}, 0)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
