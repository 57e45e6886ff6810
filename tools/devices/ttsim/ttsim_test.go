package ttsim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/capture/record"
)

// runOnEachFake runs a test on the fake simulator of each board.
func runOnEachFake(t *testing.T, test func(t *testing.T, d *Device)) {
	for board, library := range fakeLibraries(t) {
		t.Run(board, func(t *testing.T) { test(t, openDevice(t, library)) })
	}
}

// tlbWindow returns a TLB window of an image, for a preferred slot.
func tlbWindow(size uint64, slot uint16) fbs.Window {
	return fbs.Window{Kind: gen.WindowKindTlb, Size: size, Slot: slot}
}

func mapWindow(t *testing.T, d *Device, w fbs.Window) *hal.Aperture {
	t.Helper()
	a, err := d.Map(w)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

// mapTileWindow maps a TLB window of 1 MiB and points it at an address of a tile.
func mapTileWindow(t *testing.T, d *Device, x, y uint8, address uint64) *hal.Aperture {
	t.Helper()
	a := mapWindow(t, d, tlbWindow(1<<20, fbs.AnySlot))
	requireOK(t, d, "point", d.ProgramWindow(a, unicast(x, y), address))
	return a
}

// unicast returns the route to one tile.
func unicast(x, y uint8) fbs.TileRoute {
	return fbs.TileRoute{X: x, Y: y, Ordering: boards.OrderingDefault}
}

// words returns the values as little-endian bytes.
func words(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// runTwoop runs the kernel d = relu(a + b - 100) on tile (1, 2) with the steps of an image: reset,
// load, release, poll, read.
func runTwoop(t *testing.T, d *Device, program []byte) {
	const n, flag, arguments, a, b, c, sum = 64, 0x10000, 0x10010, 0x20000, 0x21000, 0x22000,
		0x23000
	registers := mapTileWindow(t, d, 1, 2, softReset0&^0xfffff)
	l1 := mapTileWindow(t, d, 1, 2, 0)
	var left, right, want []uint32
	for i := range uint32(n) {
		left, right = append(left, 3*i), append(right, 50+i)
		want = append(want, uint32(max(0, int(3*i+50+i)-100)))
	}
	requireOK(t, d, "hold", mock.StoreAt(registers, softReset0&0xfffff, 4, 0x47800))
	requireOK(t, d, "program", mock.CopyAt(l1, gen.OpcodeCopyIn, 0, 4, gen.AccessBulk, program))
	requireOK(t, d, "flag", mock.StoreAt(l1, flag, 4, 0))
	requireOK(t, d, "arguments", mock.CopyAt(l1, gen.OpcodeCopyIn, arguments, 4, gen.AccessExact,
		words(n, a, b, c, sum)))
	requireOK(t, d, "a", mock.CopyAt(l1, gen.OpcodeCopyIn, a, 4, gen.AccessBulk, words(left...)))
	requireOK(t, d, "b", mock.CopyAt(l1, gen.OpcodeCopyIn, b, 8, gen.AccessExact, words(right...)))
	requireOK(t, d, "release", mock.StoreAt(registers, softReset0&0xfffff, 4, 0x47000))
	for deadline := d.Now() + 1e6; ; {
		v, code := mock.LoadAt(l1, flag, 4)
		requireOK(t, d, "poll", code)
		if v == 0x600df00d {
			break
		}
		if d.Now() > deadline {
			t.Fatal("the kernel does not end within 1 ms of the device's time")
		}
	}
	got := make([]byte, 4*n)
	requireOK(t, d, "result", mock.CopyAt(l1, gen.OpcodeCopyOut, sum, 4, gen.AccessBulk, got))
	if !bytes.Equal(got, words(want...)) {
		t.Errorf("result %x, want %x", got, words(want...))
	}
	requireOK(t, d, "hold again", mock.StoreAt(registers, softReset0&0xfffff, 4, 0x47800))
}

func TestProgramRunsOnATile(t *testing.T) {
	runOnEachFake(t, func(t *testing.T, d *Device) { runTwoop(t, d, words(1)) })
}

func TestProgramRunsOnTheVendorsSimulator(t *testing.T) {
	program := readKernel(t, "twoop")
	for _, board := range []string{"wormhole", "blackhole"} {
		t.Run(board, func(t *testing.T) {
			runTwoop(t, openDevice(t, vendorLibrary(t, board)), program)
		})
	}
}

func TestDeviceHasIdentityOfItsLibrary(t *testing.T) {
	ids := map[string]uint16{"wormhole": 0x401e, "blackhole": 0xb140}
	for board, library := range fakeLibraries(t) {
		got := openDevice(t, library).Identity()
		want := hal.Identity{Name: "ttsim:" + library, Address: got.Address, Vendor: 0x1e52,
			Device: ids[board], BarSizes: got.BarSizes}
		if got != want || got.BarSizes[0] != 512<<20 {
			t.Errorf("%s: identity %+v, want %+v with a BAR 0 of 512 MiB", board, got, want)
		}
	}
}

func TestWindowUsesItsSlotOrTheFirstFreeOne(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	for _, c := range []struct {
		size uint64
		slot uint16
		want int
	}{
		{16 << 20, 170, 170},
		{16 << 20, 170, 166}, // 170 is in use
		{16 << 20, 185, 167}, // 185 belongs to the kernel driver
		{2 << 20, 3, 156},    // 3 is too small
		{1 << 20, 3, 3},
		{1 << 20, fbs.AnySlot, 0},
		{4096, fbs.AnySlot, 1},
	} {
		if got := mapWindow(t, d, tlbWindow(c.size, c.slot)).TLBWindow; got != c.want {
			t.Errorf("%#x bytes in slot %d: got slot %d, want %d", c.size, c.slot, got, c.want)
		}
	}
}

func TestMapReportsWhyAWindowDoesNotFit(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	for range 19 {
		mapWindow(t, d, tlbWindow(16<<20, fbs.AnySlot))
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
			t.Errorf("Map(%+v): error %v, want %q", w, err, want)
		}
	}
}

// TestSmallWindowReachesItsAddress maps a window that is smaller than the TLB window, so its
// address is a multiple of its own size only.
func TestSmallWindowReachesItsAddress(t *testing.T) {
	runOnEachFake(t, func(t *testing.T, d *Device) {
		slot := map[uint16]uint16{0x401e: 166, 0xb140: 0}[d.Identity().Device]
		a := mapWindow(t, d, tlbWindow(1<<16, slot))
		requireOK(t, d, "point", d.ProgramWindow(a, unicast(2, 3), 0x30000))
		requireOK(t, d, "store", mock.StoreAt(a, 0x10, 4, 0x1234))
		v, code := mock.LoadAt(mapTileWindow(t, d, 2, 3, 0), 0x30010, 4)
		requireOK(t, d, "load", code)
		if v != 0x1234 {
			t.Errorf("%#x at the address, want 0x1234", v)
		}
	})
}

func TestMulticastReachesEveryTile(t *testing.T) {
	runOnEachFake(t, func(t *testing.T, d *Device) {
		a := mapWindow(t, d, tlbWindow(1<<20, fbs.AnySlot))
		rectangle := fbs.TileRoute{X: 2, Y: 3, XStart: 1, YStart: 2, Multicast: true,
			Ordering: boards.OrderingDefault}
		requireOK(t, d, "point", d.ProgramWindow(a, rectangle, 0))
		requireOK(t, d, "store", mock.StoreAt(a, 8, 8, 0x1122334455667788))
		for _, tile := range [][2]uint8{{1, 2}, {2, 2}, {1, 3}, {2, 3}} {
			requireOK(t, d, "point", d.ProgramWindow(a, unicast(tile[0], tile[1]), 0))
			if v, _ := mock.LoadAt(a, 8, 8); v != 0x1122334455667788 {
				t.Errorf("tile %v has %#x, want 0x1122334455667788", tile, v)
			}
		}
	})
}

func TestImpossibleTargetIsRefusedWithAReason(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	a := mapWindow(t, d, tlbWindow(1<<20, fbs.AnySlot))
	requireOK(t, d, "possible", d.ProgramWindow(a, unicast(1, 1), 1<<20))
	if code := d.ProgramWindow(a, unicast(64, 1), 0); code != hal.Refused ||
		!strings.Contains(d.Refusal(), "cannot point to") {
		t.Errorf("tile 64,1: code %v, refusal %q; want %v, \"cannot point to\"", code,
			d.Refusal(), hal.Refused)
	}
	if code := d.ProgramWindow(a, unicast(1, 1), 0x1000); code != hal.Refused {
		t.Errorf("address 0x1000: code %v, want %v", code, hal.Refused)
	}
	if !d.Alive() {
		t.Error("the simulator ended")
	}
}

func TestEveryWidthReachesItsBytes(t *testing.T) {
	runOnEachFake(t, func(t *testing.T, d *Device) {
		a := mapTileWindow(t, d, 1, 2, 0)
		for _, width := range []uint8{1, 2, 4, 8} {
			requireOK(t, d, "fill", mock.CopyAt(a, gen.OpcodeCopyIn, 0, 8, gen.AccessBulk,
				bytes.Repeat([]byte{0xee}, 24)))
			value := 0x8877665544332211 & fbs.WidthMask(width)
			requireOK(t, d, "store", mock.StoreAt(a, 8, width, value))
			got := make([]byte, 24)
			requireOK(t, d, "read", mock.CopyAt(a, gen.OpcodeCopyOut, 0, 8, gen.AccessBulk, got))
			want := bytes.Repeat([]byte{0xee}, 24)
			copy(want[8:], []byte{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}[:width])
			if !bytes.Equal(got, want) {
				t.Errorf("width %d: memory has %x, want %x", width, got, want)
			}
			if v, _ := mock.LoadAt(a, 8, width); v != value {
				t.Errorf("width %d: loaded %#x, want %#x", width, v, value)
			}
		}
	})
}

// TestBlockCopyIsSplitAtTheEndOfEachWindow copies through a BAR window that spans several TLB
// windows. No access may cross the end of a TLB window.
func TestBlockCopyIsSplitAtTheEndOfEachWindow(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	bar := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindBar, Size: 512 << 20})
	for slot, tile := range []uint64{1 | 1<<6, 2 | 1<<6} {
		requireOK(t, d, "configure", mock.StoreAt(bar, uint32(configs+8*uint64(slot)), 8, tile<<16))
	}
	data := make([]byte, 200_001) // more than one chunk on either side
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	const start = 1<<20 - 99_990
	requireOK(t, d, "copy in", mock.CopyAt(bar, gen.OpcodeCopyIn, start, 8, gen.AccessBulk, data))
	got := make([]byte, len(data))
	requireOK(t, d, "copy out", mock.CopyAt(bar, gen.OpcodeCopyOut, start, 8, gen.AccessBulk, got))
	if !bytes.Equal(got, data) {
		t.Error("the data read back differs from the data written")
	}
	second := make([]byte, len(data)-99_990)
	secondTile := mapTileWindow(t, d, 2, 1, 0)
	requireOK(t, d, "second tile", mock.CopyAt(secondTile, gen.OpcodeCopyOut, 0, 8, gen.AccessBulk,
		second))
	if !bytes.Equal(second, data[99_990:]) {
		t.Error("the second TLB window's part of the data is not at address 0 of its tile")
	}
}

func TestBlockCopyToRegistersUsesWords(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	bar := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 64})
	requireOK(t, d, "copy in",
		mock.CopyAt(bar, gen.OpcodeCopyIn, 32, 4, gen.AccessBulk, words(1, 2, 3)))
	got := make([]byte, 12)
	requireOK(t, d, "copy out", mock.CopyAt(bar, gen.OpcodeCopyOut, 32, 4, gen.AccessBulk, got))
	if !bytes.Equal(got, words(1, 2, 3)) {
		t.Errorf("the registers have %x, want %x", got, words(1, 2, 3))
	}
}

func TestRefusalReachesTheCaller(t *testing.T) {
	runOnEachFake(t, func(t *testing.T, d *Device) {
		bar := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindBar, Size: 512 << 20})
		if d.Refusal() != "" {
			t.Errorf("refusal %q before an access was refused", d.Refusal())
		}
		code := mock.StoreAt(bar, 0x1f000000, 4, 0)
		if want := "[0] ERROR: Fake: write of 4 bytes at 0x11f000000"; code != hal.Refused ||
			d.Refusal() != want {
			t.Errorf("store: code %v, refusal %q, want %v, %q", code, d.Refusal(), hal.Refused,
				want)
		}
		if v, code := mock.LoadAt(bar, 0, 4); code != hal.Refused || v != ^uint64(0) {
			t.Errorf("load after the refusal: %#x, code %v, want all ones, %v", v, code,
				hal.Refused)
		}
		if d.Alive() {
			t.Error("the device is alive after the refusal")
		}
	})
}

func TestRefusalDuringAClockReachesTheCaller(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	registers := mapTileWindow(t, d, 1, 2, softReset0&^0xfffff)
	requireOK(t, d, "release", mock.StoreAt(registers, softReset0&0xfffff, 4, 0x47000))
	d.Sleep(5000)
	if _, code := mock.LoadAt(registers, softReset0&0xfffff, 4); code != hal.Refused ||
		!strings.Contains(d.Refusal(), "illegal instruction") {
		t.Errorf("load: code %v, refusal %q; want %v, \"illegal instruction\"", code, d.Refusal(),
			hal.Refused)
	}
}

// TestDeviceReachesHostWindows requires that the device reads the data that the host stored, and
// the host the data that the device stored, at the addresses to which the regions of the iATU map.
func TestDeviceReachesHostWindows(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	first := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 1})
	second := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 0x1800})
	if first.BusAddress != 0x8_0000_0000 || second.BusAddress != 0x8_0000_2000 {
		t.Errorf("tiles see the windows at %#x and %#x", first.BusAddress, second.BusAddress)
	}
	bar := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 0x3200})
	for at, want := range map[uint64]uint64{0x1404: 0x88280000, 0x1408: 0x2000, 0x140c: 0,
		0x1410: 0x3fff, 0x1414: hostBus + 0x2000, 0x1418: 0} {
		if v, code := mock.LoadAt(bar, uint32(at), 4); v != want || code != hal.OK {
			t.Errorf("register %#x holds %#x, want %#x; %v", at, v, want, code)
		}
	}
	data := []byte("sixteen bytes...")
	requireOK(t, d, "data", mock.CopyAt(second, gen.OpcodeCopyIn, 0x17d8, 4, gen.AccessExact, data))
	requireOK(t, d, "address", mock.StoreAt(bar, 0, 4, hostBus+0x2000+0x17d8))
	requireOK(t, d, "start", mock.StoreAt(bar, 16, 4, 1))
	before := d.Now()
	got := make([]byte, 16)
	requireOK(t, d, "result",
		mock.CopyAt(second, gen.OpcodeCopyOut, 0x17e8, 8, gen.AccessExact, got))
	if string(got) != string(data) || d.Now() == before {
		t.Errorf("the device stored %q, want %q; time has passed: %v, want true", got, data,
			d.Now() != before)
	}
	requireOK(t, d, "bulk in", mock.CopyAt(second, gen.OpcodeCopyIn, 1, 4, gen.AccessBulk, data))
	requireOK(t, d, "bulk out", mock.CopyAt(second, gen.OpcodeCopyOut, 1, 4, gen.AccessBulk, got))
	if string(got) != string(data) {
		t.Errorf("bulk copies read back %q, want %q", got, data)
	}
	// The transfer starts in the last words of the window, and continues after its end.
	requireOK(t, d, "address", mock.StoreAt(bar, 0, 4, hostBus+0x2000+0x2000-16))
	if code := mock.StoreAt(bar, 16, 4, 1); code != hal.Refused ||
		!strings.Contains(d.Refusal(), "the device writes 16 bytes of host memory at 0x10004000") {
		t.Errorf("transfer after the end of the window: code %v, refusal %q, want %v", code,
			d.Refusal(), hal.Refused)
	}
	if _, code := mock.LoadAt(second, 0, 4); code != hal.Refused {
		t.Errorf("load after the refusal: code %v, want %v", code, hal.Refused)
	}
	if code := mock.StoreAt(second, 0, 4, 0); code != hal.Refused {
		t.Errorf("store after the refusal: code %v, want %v", code, hal.Refused)
	}
}

// TestHostWindowsHaveTheBusAddressesOfTheImage maps windows with fixed addresses of the PCIe tile.
func TestHostWindowsHaveTheBusAddressesOfTheImage(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	fixed := func(bus, size uint64) fbs.Window {
		return fbs.Window{Kind: gen.WindowKindHost, Flags: fbs.FlagFixedBus, Offset: bus,
			Size: size}
	}
	const first = 0x8_0010_0000
	a, b := mapWindow(t, d, fixed(first, 1)), mapWindow(t, d, fixed(first+0x1000, 0x1000))
	c := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 1})
	if a.BusAddress != first || b.BusAddress != first+0x1000 || c.BusAddress != first+0x3000 {
		t.Errorf("tiles see the windows at %#x, %#x and %#x", a.BusAddress, b.BusAddress,
			c.BusAddress)
	}
	bar := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 0x3200})
	for at, want := range map[uint64]uint64{0x1208: 0x10_0000, 0x1210: 0x10_0fff,
		0x1214: hostBus + 0x10_0000} {
		if v, code := mock.LoadAt(bar, uint32(at), 4); v != want || code != hal.OK {
			t.Errorf("register %#x holds %#x, want %#x; %v", at, v, want, code)
		}
	}
	for _, bus := range []uint64{0x8_0000_0000 - 0x1000, first, first + 0x1000, 1 << 60} {
		if _, err := d.Map(fixed(bus, 0x1000)); err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("cannot access 0x1000 bytes of host memory at bus address %#x", bus)) {
			t.Errorf("Map at bus address %#x: error %v, want \"cannot access\"", bus, err)
		}
	}
}

func TestHostWindowsAreLimitedByRegionsOfTheIATU(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["blackhole"])
	for range 16 {
		mapWindow(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 1})
	}
	if _, err := d.Map(fbs.Window{Kind: gen.WindowKindHost, Size: 1}); err == nil ||
		!strings.Contains(err.Error(), "at most 16 windows of host memory") {
		t.Errorf("17th window: error %v, want \"at most 16 windows of host memory\"", err)
	}
}

func TestDeviceCannotAccessOtherHostMemory(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["blackhole"])
	bar := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 64})
	requireOK(t, d, "low half", mock.StoreAt(bar, 0, 4, 0x5000))
	requireOK(t, d, "high half", mock.StoreAt(bar, 4, 4, 7))
	code := mock.StoreAt(bar, 16, 4, 1)
	if code != hal.Refused || !strings.Contains(d.Refusal(),
		"the device reads 16 bytes of host memory at 0x700005000") {
		t.Errorf("code %v, refusal %q; want %v, \"the device reads 16 bytes of host memory\"", code,
			d.Refusal(), hal.Refused)
	}
}

func TestDeviceIsGoneAfterItsSimulatorIsKilled(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	a := mapTileWindow(t, d, 1, 1, 0)
	if err := d.process.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	code := hal.OK
	for i := 0; code == hal.OK && i < 1_000_000; i++ { // the signal takes its time
		_, code = mock.LoadAt(a, 0, 4)
	}
	if code != hal.DeviceGone || d.Refusal() != "the simulator's process ended: signal: killed" ||
		d.Alive() {
		t.Errorf("code %v, refusal %q, alive %v; want %v, \"signal: killed\", false", code,
			d.Refusal(), d.Alive(), hal.DeviceGone)
	}
}

// readClocks returns the number of clocks that the simulator has executed. It makes the fake refuse
// an access, because a refusal has this number.
func readClocks(t *testing.T, d *Device) (n int64) {
	t.Helper()
	bar := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindBar, Size: 512 << 20})
	mock.StoreAt(bar, 0x1f000000, 4, 0)
	if _, err := fmt.Sscanf(d.Refusal(), "[%d]", &n); err != nil {
		t.Fatalf("no number of clocks in the refusal %q: %v", d.Refusal(), err)
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
		{"store", func(d *Device, a *hal.Aperture) { mock.StoreAt(a, 0, 4, 0) }, 0, 0},
		{"load", func(d *Device, a *hal.Aperture) { mock.LoadAt(a, 0, 4) }, 1, 1000},
		{"loads of two addresses", func(d *Device, a *hal.Aperture) {
			mock.LoadAt(a, 0, 4)
			mock.LoadAt(a, 4, 4)
		}, 2, 2000},
		{"loads of one address", func(d *Device, a *hal.Aperture) {
			for range 10 {
				mock.LoadAt(a, 0, 4)
			}
		}, 1 + 2 + 4 + 8 + 16 + 32 + 4*64, 10_000},
		{"loads of one address with a store between", func(d *Device, a *hal.Aperture) {
			mock.LoadAt(a, 0, 4)
			mock.StoreAt(a, 0, 4, 0)
			mock.LoadAt(a, 0, 4)
		}, 2, 2000},
		{"loads of one address with a sleep between", func(d *Device, a *hal.Aperture) {
			mock.LoadAt(a, 0, 4)
			d.Sleep(100)
			mock.LoadAt(a, 0, 4)
		}, 102, 2100},
		{"loads of one address with a copy between", func(d *Device, a *hal.Aperture) {
			mock.LoadAt(a, 0, 4)
			mock.CopyAt(a, gen.OpcodeCopyOut, 8, 4, gen.AccessBulk, make([]byte, 4))
			mock.LoadAt(a, 0, 4)
		}, 2, 2000},
		{"sleep", func(d *Device, a *hal.Aperture) { d.Sleep(2500) }, 2500, 2500},
		{"no sleep", func(d *Device, a *hal.Aperture) { d.Sleep(0); d.Sleep(-1) }, 0, 0},
		{"long sleep", func(d *Device, a *hal.Aperture) { d.Sleep(5e9) }, 1_000_000, 5e9},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openDevice(t, fakeLibraries(t)["wormhole"])
			c.do(d, mapTileWindow(t, d, 1, 1, 0))
			if got := d.Now(); got != c.now {
				t.Errorf("now %d ns, want %d", got, c.now)
			}
			if got := readClocks(t, d); got != c.clocks {
				t.Errorf("%d clocks, want %d", got, c.clocks)
			}
		})
	}
}

func TestConfigurationSpaceIsLoadedAndStored(t *testing.T) {
	runOnEachFake(t, func(t *testing.T, d *Device) {
		c := mapWindow(t, d, fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
		requireOK(t, d, "store", mock.StoreAt(c, 4, 2, 0x0106))
		requireOK(t, d, "store of a byte", mock.StoreAt(c, 5, 1, 0x05))
		for _, l := range []struct {
			offset uint64
			width  uint8
			want   uint64
		}{{0, 2, 0x1e52}, {2, 2, uint64(d.Identity().Device)}, {1, 1, 0x1e}, {4, 4, 0x0506}} {
			if v, code := mock.LoadAt(c, uint32(l.offset), l.width); v != l.want || code != hal.OK {
				t.Errorf("%d bytes at %d: %#x, %v, want %#x", l.width, l.offset, v, code, l.want)
			}
		}
		if code := mock.StoreAt(c, 0x40, 4, 0); code != hal.Refused {
			t.Errorf("store to an offset without a register: code %v, want %v", code, hal.Refused)
		}
	})
}

func TestOpenReportsWhatIsWrong(t *testing.T) {
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
		{"another library", compileLibrary(t, "empty", file("empty.c", "int nothing;\n")),
			"libttsim_init"},
		{"unknown chip", compileLibrary(t, "unknown", fakeSource, "-DIDS=0xfeed1e52"),
			"an unknown board with the PCI ids 1e52:feed"},
		{"library that ends at once", compileLibrary(t, "ends",
			file("ends.c",
				"#include <stdlib.h>\n__attribute__((constructor)) void f(void) { _Exit(3); }\n")),
			"ended without a message: exit status 3"},
		{"main without ChildMain", compileLibrary(t, "quits",
			file("quits.c",
				"#include <stdlib.h>\n__attribute__((constructor)) void f(void) { _Exit(0); }\n")),
			"main must call ttsim.ChildMain first"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(Prefix + c.library)
			var fault *hal.Fault
			if !errors.As(err, &fault) || fault.Code != hal.NoDevice ||
				!strings.Contains(fault.Reason, c.want) {
				t.Errorf("Open: error %v, want code %v and %q", err, hal.NoDevice, c.want)
			}
		})
	}
}

func TestMissingCallOfChildMainIsReported(t *testing.T) {
	t.Setenv(childVariable, "/some/library.so")
	_, err := Open(Prefix + fakeLibraries(t)["wormhole"])
	if err == nil || !strings.Contains(err.Error(), "ChildMain") {
		t.Errorf("Open: error %v, want one that names ChildMain", err)
	}
}

func TestCloseEndsTheProcess(t *testing.T) {
	d, err := Open(Prefix + fakeLibraries(t)["wormhole"])
	if err != nil {
		t.Fatal(err)
	}
	a := mapTileWindow(t, d, 1, 1, 0)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if state := d.process.cmd.ProcessState; state == nil || !state.Success() {
		t.Errorf("state of the child process %v, want exit status 0", state)
	}
	if err := d.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if code := mock.StoreAt(a, 0, 4, 0); code != hal.DeviceGone {
		t.Errorf("store to a closed device: code %v, want %v", code, hal.DeviceGone)
	}
}

// TestReplayCanBeRecorded opens the recorder as the simulator's library. The recorder forwards the
// calls to the fake.
func TestReplayCanBeRecorded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.record")
	t.Setenv("LM_RECORD_LIBRARY", fakeLibraries(t)["wormhole"])
	t.Setenv("LM_RECORD_FILE", file)
	d := openDevice(t, compileLibrary(t, "librecord", "../../capture/record/shim/record.c"))
	requireOK(t, d, "store", mock.StoreAt(mapTileWindow(t, d, 1, 1, 0), 8, 2, 0x1234))
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
		t.Errorf("last record %+v, want the store of 0x1234 at offset 8", last)
	}
}

func TestSeveralDevicesAtOnce(t *testing.T) {
	library := fakeLibraries(t)["blackhole"]
	first, second := openDevice(t, library), openDevice(t, library)
	a, b := mapTileWindow(t, first, 1, 2, 0), mapTileWindow(t, second, 1, 2, 0)
	requireOK(t, first, "store", mock.StoreAt(a, 0, 4, 1))
	requireOK(t, second, "store", mock.StoreAt(b, 0, 4, 2))
	if v, _ := mock.LoadAt(a, 0, 4); v != 1 {
		t.Errorf("the first device has %d, want 1", v)
	}
}

func TestAccessDoesNotAllocate(t *testing.T) {
	d := openDevice(t, fakeLibraries(t)["wormhole"])
	a := mapTileWindow(t, d, 1, 1, 0)
	data, block := make([]byte, 256), a.Port.(hal.BlockPort)
	n := testing.AllocsPerRun(100, func() {
		mock.StoreAt(a, 0, 4, 1)
		mock.LoadAt(a, 0, 4)
		block.CopyIn(0, data)
		block.CopyOut(0, data)
		d.Sleep(10)
		d.ProgramWindow(a, fbs.TileRoute{X: 1, Y: 1, Ordering: boards.OrderingDefault}, 0)
	})
	if n != 0 {
		t.Errorf("%v allocations for each run, want 0", n)
	}
}
