package hal

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/fakekernel"
)

func TestDriverKeepsInterruptVectors(t *testing.T) {
	d := installFakeTT(t, &boards.Wormhole).openTT()
	expectFault(t, d.EnableVectors(gen.InterruptKindMsix, 1), NoDevice, "its driver keeps")
}

func TestOpenTTReportsTheIdentityAndMapsWindows(t *testing.T) {
	k := installFakeTT(t, &boards.Wormhole)
	d := k.openTT()
	if want := (Identity{Name: "tt:/dev/tenstorrent/0", Address: "0001:b3:1f.5", Vendor: 0x1e52,
		Device: 0x401e, BarSizes: boards.Wormhole.BarSizes}); d.Identity() != want {
		t.Errorf("identity %+v, want %+v", d.Identity(), want)
	}
	if !d.Alive() {
		t.Error("the device is not alive after Open")
	}
	for _, wc := range []bool{false, true} {
		w := fbs.Window{Kind: gen.WindowKindBar, Bar: 4, Offset: 0x1000, Size: 0x100}
		if wc {
			w.Flags = fbs.FlagWriteCombining
		}
		a := mustMap(t, d, w)
		a.Store(4, 4, 0xcafe)
		got := k.f.valueAt("resource4", 0x1004, 4)
		m := k.Mappings[len(k.Mappings)-1]
		if got != 0xcafe || m.WriteCombining != wc || a.BusAddress != 0 {
			t.Errorf("write-combining %v: the BAR has %#x, mapped %+v, bus address %#x; want "+
				"0xcafe, none", wc, got, m, a.BusAddress)
		}
	}
	if v, code := mustMap(t, d, fbs.Window{Kind: gen.WindowKindConfig, Size: 256}).Load(0,
		4); v != 0x401e1e52 || code != OK {
		t.Errorf("ids in configuration space: %#x, %v; want 0x401e1e52", v, code)
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenTTErrorNamesTheCause(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *fakeTT)
		code   Code
		words  []string
	}{
		"old driver": {
			func(k *fakeTT) { k.TT.API = 1 },
			NoDevice, []string{"has API 1, but this program needs API 2", "tt-kmd 2.0"},
		},
		"no directory in sysfs": {
			func(k *fakeTT) { os.RemoveAll(k.f.dir) },
			NoDevice, []string{"0001:b3:1f.5/modalias: no such file or directory"},
		},
		"all ones": {
			func(k *fakeTT) { k.f.patch("config", 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) },
			DeviceGone, []string{"tt-smi -r"},
		},
		"another replay": {
			func(k *fakeTT) { k.f.LockedByOther = true },
			NoDevice,
			[]string{"another replay has locked the device", "fuser -v /dev/tenstorrent/0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := installFakeTT(t, &boards.Wormhole)
			c.change(k)
			_, err := openAndAcquire("tt:/dev/tenstorrent/0")
			wantFault(t, "open", err, c.code, c.words...)
		})
	}
}

func TestDriverAllocatesAndProgramsWindows(t *testing.T) {
	for _, c := range []struct {
		board *boards.Board
		size  uint64
		wc    bool
		slot  int
		start uint64 // offset of the TLB window in BAR 0
	}{
		{&boards.Wormhole, mib, false, 0, 0},
		{&boards.Wormhole, 0x10000, true, 1, mib},
		{&boards.Wormhole, 2 * mib, false, 156, 156 * mib},
		{&boards.Blackhole, 2 * mib, true, 0, 0},
	} {
		t.Run(fmt.Sprint(c.board.Name, " slot ", c.slot), func(t *testing.T) {
			k := installFakeTT(t, c.board)
			d := k.openTT()
			if c.slot == 1 {
				mustMap(t, d, tlbWindow(mib, fbs.AnySlot))
			}
			w := tlbWindow(c.size, 7)
			if c.wc {
				w.Flags = fbs.FlagWriteCombining
			}
			a := mustMap(t, d, w)
			if a.TLBWindow != c.slot || a.Size != c.size {
				t.Errorf("%s: mapped slot %d, %#x bytes; want slot %d, %#x bytes", c.board.Name,
					a.TLBWindow, a.Size, c.slot, c.size)
			}
			window := d.tlb.windows[a.TLBWindow].Size
			address := 9*window + window - c.size
			to := tile
			to.Multicast, to.XStart, to.YStart = c.wc, boolToUint8(c.wc), 2*boolToUint8(c.wc)
			if code := d.ProgramWindow(a, to, address); code != OK {
				t.Fatal(code)
			}
			want := fakekernel.TTWindowConfig{Window: uint32(c.slot), Address: 9 * window, XEnd: 3,
				YEnd: 5, XStart: uint16(to.XStart), YStart: uint16(to.YStart), NoC: 1,
				Multicast: boolToUint8(c.wc), Ordering: 1}
			if !slices.Equal(k.f.Programmed, []fakekernel.TTWindowConfig{want}) {
				t.Errorf("%s: programmed %+v, want %+v", c.board.Name, k.f.Programmed, want)
			}
			a.Store(4, 4, 0xbeef)
			stored := k.f.readAt("resource0", c.start+window-c.size+4, 4)
			m := k.Mappings[len(k.Mappings)-1]
			if got := loadLittleEndian(stored); got != 0xbeef || m.WriteCombining != c.wc {
				t.Errorf("%s: BAR 0 has %#x where 0xbeef was stored, mapped %+v; want "+
					"write-combining %v", c.board.Name, got, m, c.wc)
			}
			backend := d.backend.(*ttBackend)
			request := structPointer(&backend.configureTLBRequest)
			fakeAllocations := testing.AllocsPerRun(10, func() {
				_, _ = syscalls.ioctl(backend.fd, ProgramWindowRequest, 0, request)
			})
			n := testing.AllocsPerRun(10, func() { d.ProgramWindow(a, to, address) })
			if n > fakeAllocations && !underRace { // the race detector allocates by chance
				t.Errorf("%s: ProgramWindow: %v allocations, %v of them by the fake kernel",
					c.board.Name, n, fakeAllocations)
			}
		})
	}
}

func boolToUint8(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func TestDriverRejectsWindowsThatItCannotProgram(t *testing.T) {
	with := func(change func(*fbs.TileRoute)) fbs.TileRoute {
		to := tile
		change(&to)
		return to
	}
	vc := func(channel uint8) fbs.TileRoute {
		return with(func(t *fbs.TileRoute) { t.StaticVCPlusOne = channel })
	}
	far := with(func(t *fbs.TileRoute) { t.X = 64 })
	for name, c := range map[string]struct {
		board   *boards.Board
		target  fbs.TileRoute
		address uint64
		want    Code
	}{
		"a tile":                   {&boards.Wormhole, tile, 0, OK},
		"x of 7 bits":              {&boards.Wormhole, far, 0, Refused},
		"window over a 1 MiB line": {&boards.Wormhole, tile, 0xf8000, Refused},
		"channel 0, which the driver does not set on Wormhole": {
			&boards.Wormhole, vc(1), 0, Refused},
		"channel 0, which the driver sets on Blackhole": {&boards.Blackhole, vc(1), 0, OK},
		"channel 1": {&boards.Blackhole, vc(2), 0, Refused},
	} {
		t.Run(name, func(t *testing.T) {
			k := installFakeTT(t, c.board)
			d := k.openTT()
			a := mustMap(t, d, tlbWindow(0x10000, fbs.AnySlot))
			code := d.ProgramWindow(a, c.target, c.address)
			var programmed []fakekernel.TTWindowConfig
			if c.want == OK {
				programmed = []fakekernel.TTWindowConfig{{XEnd: 3, YEnd: 5, NoC: 1, Ordering: 1,
					VC: c.target.StaticVCPlusOne}}
			}
			if code != c.want || !slices.Equal(k.f.Programmed, programmed) {
				t.Errorf("ProgramWindow: %v, want %v; the driver programmed %+v, want %+v", code,
					c.want, k.f.Programmed, programmed)
			}
		})
	}
	k := installFakeTT(t, &boards.Wormhole)
	d := k.openTT()
	a := mustMap(t, d, tlbWindow(mib, fbs.AnySlot))
	if code := d.ProgramWindow(a, with(func(t *fbs.TileRoute) { t.NoC = 0 }), mib); code != OK {
		t.Fatal(code)
	}
	base := a.Base
	delete(k.f.ReservedWindows, 0)
	if code := d.ProgramWindow(a, tile, 0); code != Refused || a.Base != base {
		t.Errorf("ProgramWindow of a window that the program has not reserved: %v, want %v, and "+
			"the same base", code, Refused)
	}
	k.f.Gone = true
	if code := d.ProgramWindow(a, tile, 0); code != DeviceGone {
		t.Errorf("ProgramWindow of a device that was reset: %v, want %v", code, DeviceGone)
	}
	unmapped := NewAperture(newRecordingPort(), mib, 9)
	if code := d.ProgramWindow(&unmapped, tile, 0); code != Internal {
		t.Errorf("ProgramWindow of a window that is not mapped: %v, want %v", code, Internal)
	}
}

func TestMapFailsIfTheDriverHasNoFreeWindow(t *testing.T) {
	k := installFakeTT(t, &boards.Wormhole)
	d := k.openTT()
	for range 19 { // TLB windows of 16 MiB; the driver itself uses the last of the 20
		mustMap(t, d, tlbWindow(16*mib, fbs.AnySlot))
	}
	_, err := d.Map(tlbWindow(16*mib, fbs.AnySlot))
	wantFault(t, "used up", err, NoDevice, "no TLB window of 0x1000000 bytes is free")
	for range 10 {
		mustMap(t, d, tlbWindow(2*mib, fbs.AnySlot))
	}
	_, err = d.Map(tlbWindow(2*mib, fbs.AnySlot))
	wantFault(t, "used up", err, NoDevice, "no TLB window of 0x200000 bytes is free")
	_, err = d.Map(tlbWindow(32*mib, fbs.AnySlot))
	wantFault(t, "too large", err, NoDevice, "is free")
	if a := mustMap(t, d, tlbWindow(mib, fbs.AnySlot)); a.TLBWindow != 0 {
		t.Errorf("first window of 1 MiB: slot %d, want 0", a.TLBWindow)
	}
	syscalls.ioctl = func(_ int, _, _ uintptr, argument unsafe.Pointer) (int, error) {
		(*ttAllocateTLBRequest)(argument).window = 185
		return 0, nil
	}
	_, err = d.Map(tlbWindow(mib, fbs.AnySlot))
	wantFault(t, "another size", err, Internal, "TLB window 185, whose size is not 0x100000 bytes")
	d.tlb.layout = nil
	_, err = d.Map(tlbWindow(mib, fbs.AnySlot))
	wantFault(t, "no windows", err, WrongDevice, "no TLB windows")
}

func TestHostMemoryIsPinnedForTheNoC(t *testing.T) {
	k := installFakeTT(t, &boards.Wormhole)
	d := k.openTT()
	a, b := mustMap(t, d, hostWindow(1)), mustMap(t, d, hostWindow(0x2000))
	if a.BusAddress != 0x8_0000_0000 || b.BusAddress != 0x8_0000_1000 ||
		uintptr(k.VFIO.AllDMA[1].Address) != b.Base ||
		k.VFIO.AllDMA[1].Size != 0x2000 {
		t.Errorf("windows at %#x and %#x, pinned %+v; want 0x800000000 and 0x800001000",
			a.BusAddress, b.BusAddress, k.VFIO.AllDMA)
	}
	if err := d.AssignBusAddress(a, d); err != nil {
		t.Error(err)
	}
	wantFault(t, "a mock", d.AssignBusAddress(a, passiveDevice{}), Usage,
		"tt:/dev/tenstorrent/0 cannot reach memory of mock:still", "vfio:")
	k.Fail("ioctl fa07", unix.EINVAL)
	_, err := d.Map(hostWindow(3 << 20))
	wantFault(t, "huge pages", err, NoDevice, "0x300000 bytes",
		"not physically contiguous, even in huge pages", "hugepagesz=2M hugepages=4")
	k.Fail("mmap huge", unix.ENOMEM)
	_, err = d.Map(hostWindow(3 << 20))
	wantFault(t, "ordinary pages", err, NoDevice, "0x300000 bytes", "not physically contiguous",
		"echo 4 > "+hugePagePool)
	k.Calls = nil
	d.Close()
	if k.callIndex("close "+ttNode) > k.callIndex("munmap") {
		t.Errorf("Close unmaps memory before it closes the file, which unpins the memory: %q",
			k.Calls)
	}
}

func TestDriverKeepsBusMasteringOn(t *testing.T) {
	k := installFakeTT(t, &boards.Wormhole)
	k.f.SetCommand(6)
	k.f.patch("config", configStatusOffset, 0, 0x10)
	d := k.openTT()
	if err := d.SetBusMaster(true); err != nil || k.f.Command() != 6 || d.Diagnose() != OK {
		t.Errorf("SetBusMaster(true): %v, command register %#x, Diagnose %v; want 6 and OK", err,
			k.f.Command(), d.Diagnose())
	}
	k.f.patch("config", configStatusOffset, 0, 0x30)
	if code := d.Diagnose(); code != DMAFault {
		t.Errorf("Diagnose after a new error bit: %v, want %v", code, DMAFault)
	}
	err := d.SetBusMaster(false)
	if err != nil || k.f.Command() != 6 || d.Diagnose() != OK {
		t.Errorf("SetBusMaster(false): %v, command register %#x, Diagnose %v; want 6 and OK", err,
			k.f.Command(), d.Diagnose())
	}
}

// wormholeImage returns an image for two Wormholes. The first has window 0, a Bar window, and
// windows 1 and 2, Tlb windows. The second has window 3, a Tlb window.
func wormholeImage(commands ...fbs.Command) *fbs.View {
	wormhole := fbs.DeviceInfo{DeviceT: gen.DeviceT{Vendor: 0x1e52, Device: 0x401e}}
	return &fbs.View{Devices: []fbs.DeviceInfo{wormhole, wormhole}, Commands: commands,
		Windows: []fbs.Window{{Kind: gen.WindowKindBar}, {Kind: gen.WindowKindTlb},
			{Kind: gen.WindowKindTlb}, {Kind: gen.WindowKindTlb, Device: 1}}}
}

func pointCommand(window uint16, address uint64, tile fbs.TileRoute) fbs.Command {
	tile.Ordering = boards.OrderingDefault
	return fbs.Command{Opcode: gen.OpcodePoint, Window: window, Value: address, Mask: tile.Pack()}
}

// resetStoreCommand returns a command that stores to the reset register of the tile that the window
// is pointed at. The window must be pointed at address 0xffb00000.
func resetStoreCommand(window uint16, value uint64) fbs.Command {
	return fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: window, Offset: 0x121b0,
		Value: value}
}

func TestCoresGoBackIntoResetWhenTheProcessEnds(t *testing.T) {
	const at, running, inReset = 0xffb00000, 0x47000, 0x47800
	bits := func(value, mask uint64) fbs.Command {
		return fbs.Command{Opcode: gen.OpcodeModify, Width: 4, Window: 1, Offset: 0x121b0,
			Value: value, Mask: mask}
	}
	one, two := fbs.TileRoute{X: 1, Y: 2}, fbs.TileRoute{X: 3, Y: 3, NoC: 1}
	several := fbs.TileRoute{X: 2, Y: 2, XStart: 1, YStart: 1, Multicast: true}
	point, pointTwo := pointCommand(1, at, one), pointCommand(2, at, two)
	runOne, runTwo := resetStoreCommand(1, running), resetStoreCommand(2, running)
	resetOne := resetStoreCommand(1, inReset)
	elsewhere := resetStoreCommand(1, 1)
	elsewhere.Offset = 0x21b4
	delay := fbs.Command{Opcode: gen.OpcodeDelay, Amount: 1}
	for name, test := range map[string]struct {
		commands []fbs.Command
		want     fbs.TileRoute // X is 0 if the driver is to make no store
	}{
		"no store to the register": {
			[]fbs.Command{point, delay, elsewhere, resetStoreCommand(0, running)}, fbs.TileRoute{}},
		"a window that is pointed later": {
			[]fbs.Command{runOne, point}, fbs.TileRoute{}},
		"the first of two": {
			[]fbs.Command{point, pointTwo, runOne, runTwo}, one},
		"the first is put into reset": {
			[]fbs.Command{point, pointTwo, resetOne, runTwo}, two},
		"put into reset only": {
			[]fbs.Command{point, resetOne}, fbs.TileRoute{}},
		"a bit that is no core's": {
			[]fbs.Command{point, bits(0, 0x80000000)}, fbs.TileRoute{}},
		"one core of several": {
			[]fbs.Command{point, bits(0, 0x800)}, one},
		"several tiles at once": {
			[]fbs.Command{pointCommand(1, at, several), runOne}, fbs.TileRoute{}},
		"a window that was moved away": {
			[]fbs.Command{point, pointCommand(1, 0, one), runOne}, fbs.TileRoute{}},
		"a tile of another device": {
			[]fbs.Command{pointCommand(3, at, one), resetStoreCommand(3, running)},
			fbs.TileRoute{}},
		"pointed at the register itself": {
			[]fbs.Command{pointCommand(1, 0xffb121b0, one)}, fbs.TileRoute{}},
	} {
		t.Run(name, func(t *testing.T) {
			k := installFakeTT(t, &boards.Wormhole)
			note, err := k.openTT().RegisterExitCleanup(wormholeImage(test.commands...), 0)
			want := fakekernel.TTCleanup{X: test.want.X, Y: test.want.Y, NoC: test.want.NoC,
				Address: 0xffb121b0, Data: inReset}
			got := fakekernel.TTCleanup{}
			if k.f.Cleanup != nil {
				got = *k.f.Cleanup
			}
			if test.want.X == 0 {
				want = fakekernel.TTCleanup{}
			}
			if got != want || note != "" || err != nil {
				t.Errorf("the driver received %+v, want %+v; note %q, error %v", got, want, note,
					err)
			}
		})
	}
}

func TestCleanupIsHandedToTheDriver(t *testing.T) {
	point := pointCommand(1, 0xffb00000, tile)
	image, imageWithoutReset := wormholeImage(point, resetStoreCommand(1, 0)), wormholeImage(point)
	k := installFakeTT(t, &boards.Wormhole)
	k.TT.Minor = 1
	d := k.openTT()
	// The note must be one line, because the next device may add its own note.
	if note, err := d.RegisterExitCleanup(image, 0); !strings.Contains(note,
		"go on running; tt-kmd 2.2") || strings.Index(note, "\n") != len(note)-1 || err != nil {
		t.Errorf("tt-kmd 2.1: note %q, error %v; want a note of one line", note, err)
	}
	if note, err := d.RegisterExitCleanup(imageWithoutReset, 0); note != "" || err != nil {
		t.Errorf("tt-kmd 2.1, nothing to clean up: note %q, error %v; want none", note, err)
	}
	if note, err := addEdu(t).open().RegisterExitCleanup(image, 0); note != "" || err != nil {
		t.Errorf("a backend without Tenstorrent's driver: note %q, error %v; want none", note, err)
	}
}

// Close withdraws only the request for the full clock. The tiles must keep their power until the
// driver has made the store that RegisterExitCleanup requests, when the file is closed.
func TestFullClockIsRequestedAndReleased(t *testing.T) {
	k := installFakeTT(t, &boards.Wormhole)
	d := k.openTT()
	if !slices.Equal(k.f.PowerRequests, []uint16{0x7fff}) {
		t.Errorf("power requests after Open: %#x, want [0x7fff]", k.f.PowerRequests)
	}
	k.Calls = nil
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(k.f.PowerRequests, []uint16{0x7fff, 0x7ffe}) ||
		k.callIndex("ioctl fa0f") > k.callIndex("close "+ttNode) {
		t.Errorf("power requests after Close: %#x, want [0x7fff 0x7ffe], the last before the file "+
			"is closed: %q", k.f.PowerRequests, k.Calls)
	}
}

// The driver removes the mappings when another program resets the device.
func TestAccessAfterAResetByAnotherProgramIsABusError(t *testing.T) {
	k := installFakeTT(t, &boards.Wormhole)
	d := k.openTT()
	a := mustMap(t, d, tlbWindow(mib, fbs.AnySlot))
	if err := os.Truncate(k.f.BarFile(0), 0); err != nil {
		t.Fatal(err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if fault := catchFault(func() { a.Load(0, 4) }); fault == nil {
		t.Error("a load after the reset raised no bus error")
	}
}

// ENOTTY for an ioctl that the file does not support shows that the call has reached the kernel.
func TestIoctlsReachTheKernel(t *testing.T) {
	fd, err := realSyscalls.open("/dev/null", unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer realSyscalls.close(fd)
	if _, err := ioctl(fd, unix.TCGETS, 0, structPointer(&unix.Termios{})); err != unix.ENOTTY {
		t.Errorf("ioctl with a struct: %v, want %v", err, unix.ENOTTY)
	}
	if _, err := ioctl(fd, unix.TCSBRK, 1, nil); err != unix.ENOTTY {
		t.Errorf("ioctl with a value: %v, want %v", err, unix.ENOTTY)
	}
	pipe := make([]int, 2)
	if err := unix.Pipe(pipe); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	unix.Write(pipe[1], []byte("four"))
	var waiting int32
	if result, err := ioctl(pipe[0], unix.TIOCINQ, 0, structPointer(&waiting)); err != nil ||
		result != 0 || waiting != 4 {
		t.Errorf("TIOCINQ: %d bytes wait, result %d, %v; want 4, 0", waiting, result, err)
	}
	if _, err := Mmap(pipe[0], 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err != unix.ENODEV {
		t.Errorf("Mmap of a pipe: %v, want %v", err, unix.ENODEV)
	}
	data := make([]byte, 8)
	if n, err := realSyscalls.read(pipe[0], data); n != 4 || err != nil ||
		!strings.HasPrefix(string(data), "four") {
		t.Errorf("read from a pipe: %d, %q, %v; want 4 bytes, \"four\"", n, data, err)
	}
}

// resettingTT is a fake kernel whose driver resets the device (tt-kmd 2.4.1 and later). The device
// clears the command register after configuration space was read readsLeft times.
type resettingTT struct {
	*fakeTT
	inReset           bool     // the device is between reset and post-reset
	requests          []uint32 // flags of the requests
	fails             bool     // the driver cannot begin a reset
	isOff             bool     // after a reset has begun, the device does not answer
	readsLeft         int
	failingOpens      int          // opens of the file that fail during a reset (hot-plug)
	openedBeforeReset map[int]bool // files that were opened before a reset
}

func (k *resettingTT) open(path string, flags int) (int, error) {
	if path == ttNode && k.inReset && k.failingOpens > 0 {
		k.failingOpens--
		return -1, unix.ENOENT
	}
	fd, err := k.Open(path, flags)
	delete(k.openedBeforeReset, fd)
	return fd, err
}

func (k *resettingTT) pread(fd int, data []byte, offset int64) (int, error) {
	if k.inReset {
		if k.readsLeft--; k.readsLeft == 0 {
			k.f.SetCommand(0)
		}
	}
	return k.Pread(fd, data, offset)
}

func (k *resettingTT) ioctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	isAllowed := !k.inReset || request == ttGetDeviceInfo || request == ttResetDevice
	switch {
	case k.openedBeforeReset[fd] || !isAllowed:
		return -1, unix.ENODEV
	case request != ttResetDevice:
		return k.Ioctl(fd, request, value, argument)
	}
	if err := k.Begin("ioctl fa06"); err != nil {
		return -1, err
	}
	r := (*ttResetRequest)(argument)
	if r.outputCapacity != 8 {
		return -1, unix.EINVAL
	}
	k.requests = append(k.requests, r.flags)
	r.size, r.result = 8, 0
	switch {
	case r.flags == ttResetASIC && !k.fails:
		k.inReset, k.openedBeforeReset = true, map[int]bool{}
		for fd := range k.OpenFiles {
			k.openedBeforeReset[fd] = true
		}
		if k.f.SetCommand(ttResetMarkerBit); k.isOff {
			k.f.SetCommand(0xffff)
		}
	case r.flags == ttResetEnd && k.inReset && k.f.Command()&ttResetMarkerBit == 0:
		k.inReset = false
		k.f.SetCommand(configCommandMemoryBit)
	default:
		r.result = 1
	}
	return 0, nil
}

func TestDriverResetsADeviceAndSetsItUpAgain(t *testing.T) {
	old := ttResetPollsMax
	defer func() { ttResetPollsMax = old }()
	ttResetPollsMax = 5
	both := []uint32{ttResetASIC, ttResetEnd}
	failing := func(call string, errno unix.Errno) func(*resettingTT) {
		return func(k *resettingTT) { k.Fail(call, errno) }
	}
	for name, test := range map[string]struct {
		prepare func(*resettingTT)
		code    Code
		text    string // part of the error
		resets  []uint32
	}{
		"a reset":      {func(*resettingTT) {}, OK, "", both},
		"reset begun":  {func(k *resettingTT) { k.inReset = true }, OK, "", both},
		"file returns": {func(k *resettingTT) { k.failingOpens = 2 }, OK, "", both},
		"file is gone": {func(k *resettingTT) { k.failingOpens = 100 }, NoDevice, ttNode, both[:1]},
		"the driver cannot": {
			func(k *resettingTT) { k.fails = true }, DeviceGone, "cannot reset", both[:1],
		},
		"the device hangs": {
			func(k *resettingTT) { k.readsLeft = 1000 }, DeviceGone, "cannot reset", both,
		},
		"stays off the bus": {
			func(k *resettingTT) { k.isOff, k.readsLeft = true, 1000 },
			DeviceGone, "cannot reset", both,
		},
		"an older driver": {failing("ioctl fa06", unix.EINVAL), NoDevice, "RESET_DEVICE", nil},
		"no such file":    {failing("open "+ttNode, unix.ENOENT), NoDevice, ttNode, nil},
		"no device any more": {
			failing("ioctl fa00", unix.ENODEV), NoDevice, "GET_DEVICE_INFO", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := &resettingTT{fakeTT: installFakeTT(t, &boards.Wormhole), readsLeft: 3}
			syscalls.open, syscalls.pread, syscalls.ioctl = k.open, k.pread, k.ioctl
			test.prepare(k)
			err := ResetThroughDriver(ttNode)
			hasText := err == nil || strings.Contains(err.Error(), test.text)
			if CodeOf(err) != test.code || !hasText {
				t.Errorf("error %v, want %v with %q", err, test.code, test.text)
			}
			if !slices.Equal(k.requests, test.resets) {
				t.Errorf("reset requests %v, want %v", k.requests, test.resets)
			}
			if err == nil && (k.inReset || k.f.Command() != configCommandMemoryBit) {
				t.Errorf("after the reset: still in reset %v, command register %#x, want %#x",
					k.inReset, k.f.Command(), configCommandMemoryBit)
			}
		})
	}
}
