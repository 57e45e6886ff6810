//go:build !(notiles || backend_pci || backend_vfio || backend_tt)

package hal

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// fakeTT imitates Tenstorrent's driver with one device (tt-kmd 2.x, chardev.c, memory.c, tlb.c).
// The file of the device contains the BARs and, at other offsets, the TLB windows.
type fakeTT struct {
	*fakeKernel
	f                 *fakeFunction
	board             *boards.Board
	file              string
	api               uint32 // version of the driver's interface
	bars              []ttMapping
	device            ttDeviceInfo
	reservedWindows   map[uint32]bool // numbers of the reserved TLB windows
	programmed        []ttConfigureTLBRequest
	pins              []ttPinRequest
	nextNoCAddress    uint64 // address on the NoC of the next pinned memory
	lockedByOther     bool   // another program has acquired the lock
	cleanup           ttExitCleanupRequest
	resetByOther      bool // another program has reset the device
	reset             bool // the device is between reset and post-reset
	resets            []uint32
	resetFails        bool         // the driver cannot begin a reset
	hangs             bool         // a reset that has begun does not end
	isOff             bool         // after a reset has begun, the device does not answer
	readsLeft         int          // reads of configuration space until a reset has ended
	unplugs           int          // opens of the file that fail during a reset (hot-plug)
	openedBeforeReset map[int]bool // files that were opened before a reset
	lockAcquired      bool         // this program has acquired the lock
	minor             uint8
	powers            []uint16 // ttPowerRequest.flags of each request, in order
	openedForAppend   bool     // the program has opened the file with O_APPEND
}

const (
	ttNode     = "/dev/tenstorrent/0"
	ttCombined = 1 << 35 // distance from the uncached TLB windows to the write-combining ones
	ttWindows  = 1 << 34 // offset of the first TLB window in the file
)

// installFakeTT makes package hal call a fake kernel with Tenstorrent's driver and one device of
// the board, until the test ends.
func installFakeTT(t testing.TB, board *boards.Board) *fakeTT {
	installFakeSysfs(t)
	f := addFunction(t, "0001:b3:1f.5", board.Vendor, board.Device, nil)
	f.bind("tenstorrent")
	k := &fakeTT{
		fakeKernel: installFakeKernel(t), f: f, board: board, api: 2, minor: 2,
		reservedWindows: map[uint32]bool{},
		nextNoCAddress:  0x8_0000_0000,
		device: ttDeviceInfo{outSize: 20, vendor: board.Vendor, device: board.Device,
			busDevFn: 0xb3<<8 | 0x1f<<3 | 5, domain: 1},
	}
	for i, bar := range []int{0, 0, 2, 2, 4, 4} {
		size := board.BarSizes[bar]
		if size > 0 {
			k.bars = append(k.bars, ttMapping{id: uint32(i + 1), base: uint64(i) << 30, size: size})
		}
	}
	k.fakeKernel.ioctlHandler = k.handleIoctl
	replaceSyscalls(k)
	k.file = k.substitute(ttNode, "")
	if err := os.Truncate(k.file, 1<<37); err != nil {
		t.Fatal(err)
	}
	return k
}

// handleIoctl imitates the ioctls of tt-kmd.
func (k *fakeTT) handleIoctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	if k.opened[fd] != ttNode || argument == nil || value != 0 {
		k.t.Errorf("ioctl %x with value %#x, argument %p on the file %q; want one of %s with an "+
			"argument and no value", request, value, argument, k.opened[fd], ttNode)
		return -1, unix.ENOTTY
	}
	isAllowed := !k.reset || request == ttGetDriverInfo || request == ttGetDeviceInfo ||
		request == ttResetDevice
	if k.resetByOther || k.openedBeforeReset[fd] || !isAllowed {
		return -1, unix.ENODEV
	}
	switch request {
	case ttGetDriverInfo:
		d := (*ttDriverInfo)(argument)
		if d.outputCapacity != 12 {
			return -1, unix.EINVAL
		}
		d.outSize, d.api, d.major, d.minor = 12, k.api, 2, k.minor
	case ttGetDeviceInfo:
		d := (*ttDeviceInfo)(argument)
		if d.outputCapacity != 20 {
			return -1, unix.EINVAL
		}
		in := d.outputCapacity
		*d = k.device
		d.outputCapacity = in
	case ttQueryMappings:
		m := (*ttMappings)(argument)
		copy(m.mappings[:m.count], k.bars)
	case ttLockControl:
		l := (*ttLockRequest)(argument)
		if l.outputCapacity != 4 || l.flags != 0 || l.index >= 64 || l.index < 16 {
			return -1, unix.EINVAL
		}
		if !k.lockedByOther {
			l.value, k.lockAcquired = 1, true
		}
	case ttAllocateTLB:
		return k.allocateTLB((*ttAllocateTLBRequest)(argument))
	case ttConfigureTLB:
		return k.configureTLB(*(*ttConfigureTLBRequest)(argument))
	case ttPinPages:
		return k.pinPages((*ttPinRequest)(argument))
	case ttSetPowerState:
		p := *(*ttPowerRequest)(argument)
		if k.minor < 6 || p.argsz != uint32(unsafe.Sizeof(p)) || p.reserved0 != 0 ||
			p.reserved1 != 0 || p.validity > 15|14<<4 {
			return -1, unix.EINVAL
		}
		k.powers = append(k.powers, p.flags)
		k.journal = append(k.journal, "power")
	case ttSetNoCCleanup:
		c := *(*ttExitCleanupRequest)(argument)
		if c.argsz != 32 || c.flags != 0 || c.enabled > 1 || c.address&3 != 0 || c.noc > 1 {
			return -1, unix.EINVAL
		}
		k.cleanup = c
	case ttResetDevice:
		r := (*ttResetRequest)(argument)
		if r.outputCapacity != 8 {
			return -1, unix.EINVAL
		}
		r.size, r.result = 8, k.resetDevice(r.flags)
	default:
		return -1, unix.EINVAL
	}
	return 0, nil
}

// resetDevice imitates the resets of tt-kmd. The device clears the command register after
// configuration space was read three times.
func (k *fakeTT) resetDevice(flags uint32) (result uint32) {
	k.resets = append(k.resets, flags)
	switch {
	case flags == ttResetASIC && !k.resetFails:
		k.reset, k.openedBeforeReset = true, map[int]bool{}
		for fd := range k.opened {
			k.openedBeforeReset[fd] = true
		}
		k.f.patch("config", configCommandOffset, ttResetMarkerBit)
		if k.readsLeft = 3; k.hangs {
			k.readsLeft = 1000
		}
		if k.isOff {
			k.f.patch("config", configCommandOffset, 0xff, 0xff)
			k.readsLeft = 1000
		}
	case flags == ttResetEnd && k.reset && k.f.commandRegister()&ttResetMarkerBit == 0:
		k.reset = false
		k.f.patch("config", configCommandOffset, configCommandMemoryBit)
	default:
		return 1
	}
	return 0
}

// open imitates a device file that does not exist while a hot-plug removes the device.
func (k *fakeTT) open(path string, flags int) (int, error) {
	if path == ttNode && k.reset && k.unplugs > 0 {
		k.unplugs--
		return -1, unix.ENOENT
	}
	k.openedForAppend = k.openedForAppend || path == ttNode && flags&unix.O_APPEND != 0
	fd, err := k.fakeKernel.open(path, flags)
	delete(k.openedBeforeReset, fd)
	return fd, err
}

// pread ends a reset after some reads.
func (k *fakeTT) pread(fd int, data []byte, offset int64) (int, error) {
	if k.readsLeft--; k.readsLeft == 0 {
		k.f.patch("config", configCommandOffset, 0, 0)
	}
	return k.fakeKernel.pread(fd, data, offset)
}

// allocateTLB reserves the first free TLB window of the requested size.
func (k *fakeTT) allocateTLB(a *ttAllocateTLBRequest) (int, error) {
	for i := range k.board.TLB.Groups {
		g := &k.board.TLB.Groups[i]
		if g.Size != a.size {
			continue
		}
		for id := uint32(g.First); id < uint32(g.First+g.Count-g.KernelOwnedCount); id++ {
			if !k.reservedWindows[id] {
				k.reservedWindows[id] = true
				a.window, a.uncachedOffset = id, ttWindows+g.WindowOffset(int(id))
				a.writeCombiningOffset = a.uncachedOffset + ttCombined
				return 0, nil
			}
		}
		return -1, unix.ENOMEM
	}
	return -1, unix.EINVAL
}

func (k *fakeTT) configureTLB(c ttConfigureTLBRequest) (int, error) {
	switch {
	case !k.reservedWindows[c.window]:
		return -1, unix.EPERM
	case c.address%k.board.TLB.GroupOf(int(c.window)).Size != 0:
		return -1, unix.EINVAL
	}
	k.programmed = append(k.programmed, c)
	return 0, nil
}

func (k *fakeTT) pinPages(p *ttPinRequest) (int, error) {
	if p.outputCapacity != 16 || p.flags != ttPinNoCFlag || (p.address|p.size)%4096 != 0 ||
		p.size == 0 {
		return -1, unix.EINVAL
	}
	p.bus, p.noc = 0x1234_0000, k.nextNoCAddress
	k.nextNoCAddress += p.size
	k.pins = append(k.pins, *p)
	return 0, nil
}

// fileBytes returns n bytes of the device's file, from the given offset on.
func (k *fakeTT) fileBytes(offset uint64, n int) []byte {
	k.t.Helper()
	return (&fakeFunction{t: k.t, dir: filepath.Dir(k.file)}).readAt(filepath.Base(k.file), offset,
		n)
}

// openTT opens and acquires the device. The end of the test closes it.
func (k *fakeTT) openTT() *device {
	k.t.Helper()
	d, err := openAndAcquire("tt:" + ttNode)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { d.Close() })
	return d.(*device)
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
		base := uint64(4) << 30
		if wc {
			w.Flags, base = fbs.FlagWriteCombining, 5<<30
		}
		a := mustMap(t, d, w)
		a.Store(4, 4, 0xcafe)
		got := loadLittleEndian(k.fileBytes(base+0x1004, 4))
		if got != 0xcafe || a.BusAddress != 0 {
			t.Errorf("write-combining %v: the file has %#x, bus address %#x; want 0xcafe, none", wc,
				got, a.BusAddress)
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
	failing := func(call string, err error) func(*fakeTT) {
		return func(k *fakeTT) { k.errors[call] = err }
	}
	for name, c := range map[string]struct {
		change func(k *fakeTT)
		code   Code
		words  []string
	}{
		"no node": {
			func(k *fakeTT) { delete(k.paths, ttNode) },
			NoDevice, []string{"tt:/dev/tenstorrent/0: no such device", "ls /dev/tenstorrent",
				"modprobe tenstorrent"},
		},
		"opened exclusively": {
			failing("open "+ttNode, unix.EAGAIN),
			NoDevice, []string{"owns the device (O_EXCL)"},
		},
		"denied": {
			failing("open "+ttNode, unix.EACCES),
			Denied, []string{"open /dev/tenstorrent/0: permission denied"},
		},
		"another driver": {
			failing("ioctl fa05", unix.ENOTTY),
			NoDevice,
			[]string{"GET_DRIVER_INFO /dev/tenstorrent/0: inappropriate ioctl for device"},
		},
		"old driver": {
			func(k *fakeTT) { k.api = 1 },
			NoDevice, []string{"has API 1, but this program needs API 2", "tt-kmd 2.0"},
		},
		"no info": {
			failing("ioctl fa00", unix.ENODEV),
			NoDevice, []string{"GET_DEVICE_INFO"},
		},
		"no directory in sysfs": {
			func(k *fakeTT) { k.device.domain = 0 },
			NoDevice, []string{"0000:b3:1f.5/modalias: no such file or directory"},
		},
		"no configuration space": {
			func(k *fakeTT) { k.f.remove("config") },
			NoDevice, []string{"0001:b3:1f.5/config: no such file or directory"},
		},
		"all ones": {
			func(k *fakeTT) { k.f.patch("config", 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) },
			DeviceGone, []string{"tt-smi -r"},
		},
		"no mappings": {
			failing("ioctl fa02", unix.EFAULT),
			NoDevice, []string{"QUERY_MAPPINGS"},
		},
		"no lock": {
			failing("ioctl fa08", unix.EINVAL),
			NoDevice, []string{"LOCK_CTL"},
		},
		"being reset": {
			func(k *fakeTT) { k.reset = true },
			NoDevice, []string{"has begun to reset the device", "tt-smi -r"},
		},
		"reset since it was opened": {
			failing("ioctl fa08", unix.ENODEV),
			DeviceGone, []string{"another program has reset the device since it was opened"},
		},
		"another replay": {
			func(k *fakeTT) { k.lockedByOther = true },
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
		start uint64 // offset of the TLB window in the file, minus ttWindows
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
				w.Flags, c.start = fbs.FlagWriteCombining, c.start+ttCombined
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
			want := ttConfigureTLBRequest{window: uint32(c.slot), address: 9 * window,
				xEnd: 3, yEnd: 5, xStart: uint16(to.XStart), yStart: uint16(to.YStart),
				noc: 1, multicast: boolToUint8(c.wc), ordering: 1}
			if k.programmed[0] != want {
				t.Errorf("%s: programmed %+v, want %+v", c.board.Name, k.programmed[0], want)
			}
			a.Store(4, 4, 0xbeef)
			stored := k.fileBytes(ttWindows+c.start+window-c.size+4, 4)
			if got := loadLittleEndian(stored); got != 0xbeef {
				t.Errorf("%s: the file has %#x where 0xbeef was stored", c.board.Name, got)
			}
			k.programmed = make([]ttConfigureTLBRequest, 0, 100)
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
			if code != c.want || len(k.programmed) != int(boolToUint8(c.want == OK)) {
				t.Errorf("ProgramWindow: %v, want %v; the driver was called %d times", code, c.want,
					len(k.programmed))
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
	delete(k.reservedWindows, 0)
	if code := d.ProgramWindow(a, tile, 0); code != Refused || a.Base != base {
		t.Errorf("ProgramWindow of a window that the program has not reserved: %v, want %v, and "+
			"the same base", code, Refused)
	}
	k.resetByOther = true
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
	k.errors["mmap"] = unix.ENOMEM
	_, err = d.Map(tlbWindow(mib, fbs.AnySlot))
	wantFault(t, "mmap", err, NoDevice, "mmap /dev/tenstorrent/0: cannot allocate memory")
	k.errors["ioctl fa0b"] = unix.EINVAL
	_, err = d.Map(tlbWindow(mib, fbs.AnySlot))
	wantFault(t, "allocate", err, NoDevice, "ALLOCATE_TLB")
	clear(k.errors)
	k.fakeKernel.ioctlHandler = func(_ int, _, _ uintptr, argument unsafe.Pointer) (int, error) {
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
		uintptr(k.pins[1].address) != b.Base ||
		k.pins[1].size != 0x2000 {
		t.Errorf("windows at %#x and %#x, pinned %+v; want 0x800000000 and 0x800001000",
			a.BusAddress, b.BusAddress, k.pins)
	}
	if err := d.AssignBusAddress(a, d); err != nil {
		t.Error(err)
	}
	wantFault(t, "a mock", d.AssignBusAddress(a, passiveDevice{}), Usage,
		"tt:/dev/tenstorrent/0 cannot reach memory of mock:still", "vfio:")
	k.errors["ioctl fa07"] = unix.ENOSPC
	_, err := d.Map(hostWindow(1))
	wantFault(t, "other", err, NoDevice, "PIN_PAGES /dev/tenstorrent/0: no space left on device")
	k.errors["ioctl fa07"] = unix.EINVAL
	_, err = d.Map(hostWindow(3 << 20))
	wantFault(t, "huge pages", err, NoDevice, "0x300000 bytes",
		"not physically contiguous, even in huge pages", "hugepages=4")
	k.errors["mmap huge"] = unix.ENOMEM
	_, err = d.Map(hostWindow(3 << 20))
	wantFault(t, "ordinary pages", err, NoDevice, "0x300000 bytes", "not physically contiguous",
		"echo 4 > /proc/sys/vm/nr_hugepages")
	k.journal = nil
	d.Close()
	if k.callIndex("close "+ttNode) > k.callIndex("munmap") {
		t.Errorf("Close unmaps memory before it closes the file, which unpins the memory: %q",
			k.journal)
	}
}

func TestDriverKeepsBusMasteringOn(t *testing.T) {
	k := installFakeTT(t, &boards.Wormhole)
	k.f.patch("config", configCommandOffset, 6)
	k.f.patch("config", configStatusOffset, 0, 0x10)
	d := k.openTT()
	if err := d.SetBusMaster(true); err != nil || k.f.commandRegister() != 6 || d.Diagnose() != OK {
		t.Errorf("SetBusMaster(true): %v, command register %#x, Diagnose %v; want 6 and OK", err,
			k.f.commandRegister(), d.Diagnose())
	}
	k.f.patch("config", configStatusOffset, 0, 0x30)
	if code := d.Diagnose(); code != DMAFault {
		t.Errorf("Diagnose after a new error bit: %v, want %v", code, DMAFault)
	}
	err := d.SetBusMaster(false)
	if err != nil || k.f.commandRegister() != 6 || d.Diagnose() != OK {
		t.Errorf("SetBusMaster(false): %v, command register %#x, Diagnose %v; want 6 and OK", err,
			k.f.commandRegister(), d.Diagnose())
	}
}

// wormholeImage returns an image for two Wormholes. Window 0 is a Bar window and windows 1 and 2
// are Tlb windows of the first; window 3 is a Tlb window of the second.
func wormholeImage(commands ...fbs.Command) *fbs.View {
	wormhole := fbs.DeviceInfo{DeviceT: gen.DeviceT{Vendor: 0x1e52, Device: 0x401e}}
	return &fbs.View{Devices: []fbs.DeviceInfo{wormhole, wormhole}, Commands: commands,
		Windows: []fbs.Window{{Kind: gen.WindowKindBar}, {Kind: gen.WindowKindTlb},
			{Kind: gen.WindowKindTlb}, {Kind: gen.WindowKindTlb, Device: 1}}}
}

// pointCommand returns a command that points a window at an address of a tile.
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
			want := ttExitCleanupRequest{argsz: 32, enabled: 1, x: test.want.X, y: test.want.Y,
				noc: test.want.NoC, address: 0xffb121b0, data: inReset}
			if test.want.X == 0 {
				want = ttExitCleanupRequest{}
			}
			if k.cleanup != want || note != "" || err != nil {
				t.Errorf("the driver received %+v, want %+v; note %q, error %v", k.cleanup, want,
					note, err)
			}
		})
	}
}

func TestCleanupIsHandedToTheDriver(t *testing.T) {
	point := pointCommand(1, 0xffb00000, tile)
	image, imageWithoutReset := wormholeImage(point, resetStoreCommand(1, 0)), wormholeImage(point)
	k := installFakeTT(t, &boards.Wormhole)
	k.errors["ioctl fa0e"] = unix.EOPNOTSUPP
	_, err := k.openTT().RegisterExitCleanup(image, 0)
	wantFault(t, "unsupported request", err, NoDevice, "SET_NOC_CLEANUP")
	k = installFakeTT(t, &boards.Wormhole)
	k.minor = 1
	d := k.openTT()
	// The note must be one line, because the next device may add its own note.
	if note, err := d.RegisterExitCleanup(image, 0); !strings.Contains(note,
		"go on running; tt-kmd 2.2") || strings.Index(note, "\n") != len(note)-1 || err != nil {
		t.Errorf("tt-kmd 2.1: note %q, error %v; want a note of one line", note, err)
	}
	if note, err := d.RegisterExitCleanup(imageWithoutReset, 0); note != "" || err != nil {
		t.Errorf("tt-kmd 2.1, nothing to clean up: note %q, error %v; want none", note, err)
	}
	installFakeSysfs(t)
	if note, err := addEdu(t).open().RegisterExitCleanup(image, 0); note != "" || err != nil {
		t.Errorf("a backend without Tenstorrent's driver: note %q, error %v; want none", note, err)
	}
}

// Close withdraws only the request for the full clock. The tiles must keep their power until the
// driver has made the store that RegisterExitCleanup requests, when the file is closed.
func TestFullClockIsRequestedAndReleased(t *testing.T) {
	k := installFakeTT(t, &boards.Wormhole)
	k.minor = 6
	d := k.openTT()
	if !slices.Equal(k.powers, []uint16{0x7fff}) {
		t.Errorf("power requests after Open: %#x, want [0x7fff]", k.powers)
	}
	k.journal = nil
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(k.powers, []uint16{0x7fff, 0x7ffe}) ||
		k.callIndex("power") > k.callIndex("close "+ttNode) {
		t.Errorf("power requests after Close: %#x, want [0x7fff 0x7ffe], the last before the file "+
			"is closed: %q", k.powers, k.journal)
	}
	// errors of a driver or firmware without power states
	for _, errno := range []error{unix.EINVAL, unix.ENOTTY} {
		k.errors["ioctl fa0f"] = errno
		k.openTT().Close()
	}
}

// The driver removes the mappings when another program resets the device.
func TestAccessAfterAResetByAnotherProgramIsABusError(t *testing.T) {
	k := installFakeTT(t, &boards.Wormhole)
	d := k.openTT()
	a := mustMap(t, d, tlbWindow(mib, fbs.AnySlot))
	if err := os.Truncate(k.file, 0); err != nil {
		t.Fatal(err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if fault := catchFault(func() { a.Load(0, 4) }); fault == nil {
		t.Error("a load after the reset raised no bus error")
	}
}

// The expected sizes and offsets are those of the C structs in linux/vfio.h and in ioctl.h of
// tt-kmd.
func TestIoctlStructsHaveTheLayoutOfC(t *testing.T) {
	var (
		status    vfioGroupStatus
		region    vfioRegionInfo
		dma       vfioDMAMap
		unmap     vfioDMAUnmap
		device    ttDeviceInfo
		one       ttMapping
		mappings  ttMappings
		driver    ttDriverInfo
		pin       ttPinRequest
		lock      ttLockRequest
		allocate  ttAllocateTLBRequest
		configure ttConfigureTLBRequest
		cleanup   ttExitCleanupRequest
	)
	for what, c := range map[string][2]uintptr{
		"vfio_group_status":        {unsafe.Sizeof(status), 8},
		".flags":                   {unsafe.Offsetof(status.flags), 4},
		"vfio_region_info":         {unsafe.Sizeof(region), 32},
		".index":                   {unsafe.Offsetof(region.index), 8},
		".size":                    {unsafe.Offsetof(region.size), 16},
		".offset":                  {unsafe.Offsetof(region.offset), 24},
		"vfio_iommu_type1_dma_map": {unsafe.Sizeof(dma), 32},
		".vaddr":                   {unsafe.Offsetof(dma.vaddr), 8},
		".iova":                    {unsafe.Offsetof(dma.iova), 16},
		".size of a map":           {unsafe.Offsetof(dma.size), 24},
		"vfio_..._dma_unmap":       {unsafe.Sizeof(unmap), 24},
		".iova of an unmap":        {unsafe.Offsetof(unmap.iova), 8},
		".size of an unmap":        {unsafe.Offsetof(unmap.size), 16},

		"tenstorrent_get_device_info": {unsafe.Sizeof(device), 24},
		".out.vendor_id":              {unsafe.Offsetof(device.vendor), 8},
		".out.device_id":              {unsafe.Offsetof(device.device), 10},
		".out.bus_dev_fn":             {unsafe.Offsetof(device.busDevFn), 16},
		".out.pci_domain":             {unsafe.Offsetof(device.domain), 20},
		"tenstorrent_mapping":         {unsafe.Sizeof(one), 24},
		".mapping_base":               {unsafe.Offsetof(one.base), 8},
		".mapping_size":               {unsafe.Offsetof(one.size), 16},
		"tenstorrent_query_mappings":  {unsafe.Sizeof(mappings), 8 + 6*24},
		".out":                        {unsafe.Offsetof(mappings.mappings), 8},
		"tenstorrent_get_driver_info": {unsafe.Sizeof(driver), 16},
		".out.driver_version":         {unsafe.Offsetof(driver.api), 8},
		".out.driver_version_major":   {unsafe.Offsetof(driver.major), 12},
		"tenstorrent_pin_pages":       {unsafe.Sizeof(pin), 40},
		".in.flags":                   {unsafe.Offsetof(pin.flags), 4},
		".in.virtual_address":         {unsafe.Offsetof(pin.address), 8},
		".in.size":                    {unsafe.Offsetof(pin.size), 16},
		".out.physical_address":       {unsafe.Offsetof(pin.bus), 24},
		".out.noc_address":            {unsafe.Offsetof(pin.noc), 32},
		"tenstorrent_lock_ctl":        {unsafe.Sizeof(lock), 16},
		".in.index":                   {unsafe.Offsetof(lock.index), 8},
		".out.value":                  {unsafe.Offsetof(lock.value), 12},
		"tenstorrent_allocate_tlb":    {unsafe.Sizeof(allocate), 48},
		".out.id":                     {unsafe.Offsetof(allocate.window), 16},
		".out.mmap_offset_uc":         {unsafe.Offsetof(allocate.uncachedOffset), 24},
		".out.mmap_offset_wc":         {unsafe.Offsetof(allocate.writeCombiningOffset), 32},
		"tenstorrent_configure_tlb":   {unsafe.Sizeof(configure), 48},
		".config.addr":                {unsafe.Offsetof(configure.address), 8},
		".config.x_end":               {unsafe.Offsetof(configure.xEnd), 16},
		".config.y_start":             {unsafe.Offsetof(configure.yStart), 22},
		".config.noc":                 {unsafe.Offsetof(configure.noc), 24},
		".config.mcast":               {unsafe.Offsetof(configure.multicast), 25},
		".config.ordering":            {unsafe.Offsetof(configure.ordering), 26},
		".config.linked":              {unsafe.Offsetof(configure.linked), 27},
		".config.static_vc":           {unsafe.Offsetof(configure.staticVC), 28},
		".config.reserved1":           {unsafe.Offsetof(configure.reserved1), 32},
		".out.reserved":               {unsafe.Offsetof(configure.reservedOut), 40},
		"tenstorrent_set_noc_cleanup": {unsafe.Sizeof(cleanup), 32},
		".enabled":                    {unsafe.Offsetof(cleanup.enabled), 8},
		".noc":                        {unsafe.Offsetof(cleanup.noc), 11},
		".addr":                       {unsafe.Offsetof(cleanup.address), 16},
		".data":                       {unsafe.Offsetof(cleanup.data), 24},
	} {
		if c[0] != c[1] {
			t.Errorf("size or offset of %s: %d, want %d as in C", what, c[0], c[1])
		}
	}
}

// ENOTTY for an ioctl that the file does not support shows that the call has reached the kernel.
func TestIoctlsReachTheKernel(t *testing.T) {
	fd, err := linux{}.open("/dev/null", unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer linux{}.close(fd)
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
	if n, err := (linux{}).read(pipe[0], data); n != 4 || err != nil ||
		!strings.HasPrefix(string(data), "four") {
		t.Errorf("read from a pipe: %d, %q, %v; want 4 bytes, \"four\"", n, data, err)
	}
}

func TestDriverResetsADeviceAndSetsItUpAgain(t *testing.T) {
	old := ttResetPollsMax
	defer func() { ttResetPollsMax = old }()
	ttResetPollsMax = 5
	both := []uint32{ttResetASIC, ttResetEnd}
	failing := func(call string, err error) func(*fakeTT) {
		return func(k *fakeTT) { k.errors[call] = err }
	}
	for name, test := range map[string]struct {
		prepare func(*fakeTT)
		code    Code
		text    string // part of the error
		resets  []uint32
	}{
		"a reset":      {func(*fakeTT) {}, OK, "", both},
		"reset begun":  {func(k *fakeTT) { k.reset = true }, OK, "", both},
		"file returns": {func(k *fakeTT) { k.unplugs = 2 }, OK, "", both},
		"file is gone": {func(k *fakeTT) { k.unplugs = 100 }, NoDevice, ttNode, both[:1]},
		"the driver cannot": {
			func(k *fakeTT) { k.resetFails = true }, DeviceGone, "cannot reset", both[:1],
		},
		"the device hangs": {
			func(k *fakeTT) { k.hangs = true }, DeviceGone, "cannot reset", both,
		},
		"stays off the bus": {
			func(k *fakeTT) { k.isOff = true }, DeviceGone, "cannot reset", both,
		},
		"an older driver": {failing("ioctl fa06", unix.EINVAL), NoDevice, "RESET_DEVICE", nil},
		"no such file":    {failing("open "+ttNode, unix.ENOENT), NoDevice, ttNode, nil},
		"no device any more": {
			failing("ioctl fa00", unix.ENODEV), NoDevice, "GET_DEVICE_INFO", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := installFakeTT(t, &boards.Wormhole)
			test.prepare(k)
			err := ResetThroughDriver(ttNode)
			hasText := err == nil || strings.Contains(err.Error(), test.text)
			if CodeOf(err) != test.code || !hasText {
				t.Errorf("error %v, want %v with %q", err, test.code, test.text)
			}
			if !slices.Equal(k.resets, test.resets) {
				t.Errorf("reset requests %v, want %v", k.resets, test.resets)
			}
			if err == nil && (k.reset || k.f.commandRegister() != configCommandMemoryBit) {
				t.Errorf("after the reset: still in reset %v, command register %#x, want %#x",
					k.reset, k.f.commandRegister(), configCommandMemoryBit)
			}
		})
	}
}
