package runtime_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

func TestFilesThatAreNotImagesAreRejectedWithTheirCode(t *testing.T) {
	dir := t.TempDir()
	empty, unreadable, pipe := dir+"/empty", dir+"/unreadable", dir+"/pipe"
	for path, mode := range map[string]os.FileMode{empty: 0o644, unreadable: 0} {
		t.Run(path, func(t *testing.T) {
			if err := os.WriteFile(path, nil, mode); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := unix.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	// Root may read every file, so this thread opens the file as another user. The thread ends with
	// the goroutine.
	denied := make(chan error)
	go func() {
		goruntime.LockOSThread()
		_ = unix.Setfsuid(65534)
		_, err := runtime.Open(unreadable)
		denied <- err
	}()
	open := func(path string) error {
		file, err := runtime.Open(path)
		if err == nil {
			file.Close()
		}
		return err
	}
	for _, test := range []struct {
		err  error
		code hal.Code
		want string
	}{
		{open(dir + "/none"), hal.NoFile, "no such file"},
		{open(empty + "/none"), hal.NoFile, "not a directory"},
		{open(dir), hal.BadImage, "not a regular file"},
		{open("/dev/null"), hal.BadImage, "not a regular file"},
		{open(pipe), hal.BadImage, "not a regular file"},
		{open(empty), hal.BadImage, "the file is empty"},
		{open(dir + "/" + strings.Repeat("x", 300)), hal.IO, "too long"},
		// this file has bytes, but cannot be mapped
		{open("/sys/devices/system/cpu/online"), hal.IO, "no such device"},
		{<-denied, hal.Denied, "permission denied"},
	} {
		t.Run(test.want, func(t *testing.T) {
			if hal.CodeOf(test.err) != test.code || !strings.Contains(test.err.Error(), test.want) {
				t.Errorf("Open: %v (code %d), want %q (code %d)", test.err, hal.CodeOf(test.err),
					test.want, test.code)
			}
		})
	}
}

// TestMappedFileIsReadOnlyAndComplete checks the copy of the envelope and the mapped payload.
func TestMappedFileIsReadOnlyAndComplete(t *testing.T) {
	bytes := assembleImage(t, payloadListing)
	file, err := runtime.Open(writeImage(t, bytes))
	if err != nil {
		t.Fatal(err)
	}
	if string(file.Bytes()) != string(bytes) {
		t.Error("the mapping has other bytes than the file")
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	begin := uint64(hal.AddressOf(file.Bytes()))
	end, covered := begin+uint64(len(file.Bytes())), uint64(0)
	for line := range strings.Lines(string(maps)) {
		var low, high uint64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &low, &high, &rights); err != nil {
			t.Fatal(err)
		}
		if low < end && high > begin {
			covered += min(high, end) - max(low, begin)
			if rights[:3] != "r--" {
				t.Errorf("memory of the file is mapped %s, want r--: %s", rights, line)
			}
		}
	}
	if covered != end-begin {
		t.Errorf("/proc/self/maps covers %d of %d bytes of the file", covered, end-begin)
	}
	if err := unix.Mprotect(file.Bytes(), unix.PROT_WRITE); err != unix.EACCES {
		t.Errorf("mprotect(PROT_WRITE) of the mapping: %v, want %v", err, unix.EACCES)
	}
	if err := file.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestErrorOfADefectiveFileNamesItsPath(t *testing.T) {
	path := writeImage(t, []byte("no image at all, and long enough to be looked at: "+
		"0123456789012345678901234567890"))
	file, err := runtime.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Verify(); hal.CodeOf(err) != hal.BadImage ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("Verify: %v, want a bad image with the path %s", err, path)
	}
	denied := &hal.Fault{Code: hal.Denied, Reason: "not signed"}
	if err := file.Inspect(func([]byte) error { return denied }); hal.CodeOf(err) != hal.Denied ||
		!strings.Contains(err.Error(), path+": not signed") {
		t.Errorf("Inspect with a check that fails: %v, want %q", err, path+": not signed")
	}
	if err := file.Inspect(func(data []byte) error { return nil }); err != nil {
		t.Errorf("Inspect with a check that succeeds: %v", err)
	}
}

// slotChooser is a device whose driver chooses the TLB windows.
type slotChooser struct{ *mock.Device }

func (c slotChooser) Map(w fbs.Window) (hal.Aperture, error) {
	w.Slot = fbs.AnySlot
	return c.Device.Map(w)
}

// unassignedBAR is a device to whose BAR 2 the kernel has assigned no address.
type unassignedBAR struct{ *mock.Device }

func (d unassignedBAR) Identity() hal.Identity {
	identity := d.Device.Identity()
	identity.BarSizes[2], identity.Unassigned = 0, 1<<2
	return identity
}

func (d unassignedBAR) Map(fbs.Window) (hal.Aperture, error) {
	return hal.Aperture{}, hal.NewFault(hal.NoDevice, "no address to BAR 2")
}

// TestLoadChecksTheWholeImageBeforeTheFirstStore loads images that Verify accepts, but that Load
// rejects for their device. Their first command is valid, and must not be executed.
func TestLoadChecksTheWholeImageBeforeTheFirstStore(t *testing.T) {
	const wormhole = "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\n"
	const tlbWindow = wormhole + "window w tlb size 1MiB\nmain:\n  point w tile 1,1 address 0x0\n" +
		"  write.4 w+0x0 0x1\n"
	const forced = "is too small, in use, or reserved by the kernel driver; " +
		"choose another number, or none for a `tt:` device"
	const store = ivshmemHead + "main:\n  write.4 m+0x4 0x1\n"
	subsystem := strings.Replace(store, " bar2", " subsystem 1af4:1100 bar2", 1)
	small := mock.New(&boards.Ivshmem)
	small.ResizeBAR(2, 1<<16)
	ivshmem, chip := mock.New(&boards.Ivshmem), mock.New(&boards.Wormhole)
	ivshmem.SetSubsystem(0x11011af4)
	withoutBus, err := newPlainDevice(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer withoutBus.Close()
	const any = runtime.AnyTLBWindow
	for _, test := range []struct {
		what, source string
		slot         int
		device       hal.Device
		code         hal.Code
		want         string
	}{
		{"a window too large for the hardware", strings.Replace(tlbWindow, "1MiB", "4GiB", 1), any,
			chip, hal.NoDevice, "no TLB window of 4294967296 bytes"},
		{"a hardware window of the kernel", tlbWindow, 185, chip, hal.NoDevice, forced},
		{"a hardware window that the driver does not choose", tlbWindow, 20, slotChooser{chip},
			hal.NoDevice, forced},
		{"a bus address that does not fit", store + "  write.4 m+0x0 bus(m)\n", any, ivshmem,
			hal.WrongDevice, "main, command 1: bus address 0x"},
		{"an assigned bus address that does not fit",
			"lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0 size 1MiB\n" +
				"main:\n  write.4 r+0x80 bus(r)+0x1000\n", any,
			busMaster{Device: mock.New(&boards.Edu), calls: new([]string), bus: 1<<32 - 0x1000},
			hal.WrongDevice,
			"main, command 0: bus address 0x100000000 does not fit the register of 4 bytes"},
		{"no bus address", store + "  write.8 m+0x0 bus(m)\n", any, withoutBus, hal.NoDevice,
			"main, command 1: window 0 has no bus address"},
		{"another device", store, any, mock.New(&boards.Edu), hal.WrongDevice,
			"it is for ivshmem (1af4:1110), but mock:edu is 1234:11e8"},
		{"another subsystem", subsystem, any, ivshmem, hal.WrongDevice,
			"it is for subsystem 1af4:1100, but mock:ivshmem has 1af4:1101"},
		{"a smaller BAR", store, any, small, hal.WrongDevice,
			"needs 0x100000 bytes of BAR 2, but mock:ivshmem has 0x10000"},
		{"a BAR without an address", store, any, unassignedBAR{ivshmem}, hal.NoDevice,
			"no address to BAR 2"},
		{"no device", store, any, nil, hal.Usage, "the image is for 1 device(s), but 0 were named"},
	} {
		t.Run(test.what, func(t *testing.T) {
			var devices []hal.Device
			if test.device != nil {
				devices = append(devices, test.device)
			}
			_, err := runtime.Load(view(t, test.source), test.slot, devices...)
			if hal.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Load: %v, want code %d and %q", err, test.code, test.want)
			}
			if m, ok := test.device.(interface{ Operations() int }); ok && m.Operations() != 0 {
				t.Errorf("Load makes %d operations, want none", m.Operations())
			}
		})
	}
}

// twoDeviceHead begins a listing for the devices edu (window r) and ivshmem (window m).
const twoDeviceHead = "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\n" +
	"target ivshmem 1af4:1110 bar2 1MiB\n" +
	"window r bar0 offset 0 size 1MiB\nwindow m bar2 offset 0 size 1MiB target 1\n"

// busMaster is a device that can access memory by DMA. It records the calls that concern DMA.
type busMaster struct {
	*mock.Device
	calls *[]string
	name  string
	fail  error    // result of all calls
	state hal.Code // result of Diagnose
	bus   uint64   // bus address that AssignBusAddress assigns; 0x1000 if smaller
	page  uint64   // DMAPage that AssignBusAddress sets
}

func (m busMaster) AssignBusAddress(a *hal.Aperture, of hal.Device) error {
	*m.calls = append(*m.calls, m.name+" reaches "+of.(busMaster).name)
	a.BusAddress, a.DMAPage = max(m.bus, 0x1000), m.page
	return m.fail
}

func (m busMaster) SetBusMaster(on bool) error {
	*m.calls = append(*m.calls, fmt.Sprintf("%s masters %v", m.name, on))
	return m.fail
}

func (m busMaster) Diagnose() hal.Code { return m.state }

// TestBusMasteringIsEnabledByTheFirstRun: not by Load, which may precede steps that fail or wait.
func TestBusMasteringIsEnabledByTheFirstRun(t *testing.T) {
	for _, test := range []struct{ what, source, want string }{
		{"no DMA", twoDeviceHead + "main:\n  write.4 r+0x4 0x1\n", ""},
		{"host memory",
			twoDeviceHead + "window h host size 4KiB target 1\nmain:\n  write.4 r+0x4 0x1\n",
			"ivshmem masters true"},
		{"an address of the same device", twoDeviceHead + "main:\n  write.8 m+0x0 bus(m)\n",
			"ivshmem reaches ivshmem, ivshmem masters true"},
		{"an address of another device",
			twoDeviceHead +
				"window h host size 4KiB\n" +
				"main:\n  write.8 r+0x80 bus(h)\n  write.8 r+0x88 bus(m)\n",
			"edu reaches edu, edu reaches ivshmem, edu masters true"},
		{"an address in host memory",
			twoDeviceHead + "window h host size 4KiB target 1\nmain:\n  write.8 h+0x0 bus(r)\n",
			"ivshmem reaches edu, ivshmem masters true"},
	} {
		t.Run(test.what, func(t *testing.T) {
			var calls []string
			edu := busMaster{Device: mock.New(&boards.Edu), calls: &calls, name: "edu"}
			ivshmem := busMaster{Device: mock.New(&boards.Ivshmem), calls: &calls, name: "ivshmem"}
			r, err := runtime.Load(view(t, test.source), runtime.AnyTLBWindow, edu, ivshmem)
			if err != nil {
				t.Errorf("%s: Load: %v", test.what, err)
				return
			}
			if strings.Contains(fmt.Sprint(calls), "masters") {
				t.Errorf("Load makes the calls %q, want no bus mastering", calls)
			}
			run(t, r, hal.OK)
			run(t, r, hal.OK)
			if got := strings.Join(calls, ", "); got != test.want {
				t.Errorf("%s: calls %q, want %q", test.what, got, test.want)
			}
			r.Close()
		})
	}
}

// TestPagesOfTheIOMMUMustAcceptStores loads an image whose window accepts stores in its page of
// 4 KiB, on machines with larger pages: its 16 KiB have a register that accepts no stores.
func TestPagesOfTheIOMMUMustAcceptStores(t *testing.T) {
	const head = "lightmetal 1\ntarget nvme 1b36:0010 bar0 16KiB\n" +
		"window r bar0 offset 0 size 4KiB\nwindow d bar0 offset 0x1000 size 4KiB\nmain:\n"
	for _, c := range []struct {
		page uint64
		want string
	}{
		{0, ""}, {4096, ""}, {0x2000, "byte 0x18 of BAR 0 accepts no stores"},
		{0x4000, "page of 0x4000 bytes with window 1; relocate a window in other pages, or use " +
			"a kernel with smaller pages"},
	} {
		for _, fail := range []error{nil, hal.NewFault(hal.NoDevice, "no free addresses")} {
			d := busMaster{Device: mock.New(&boards.Nvme), calls: new([]string), page: c.page,
				fail: fail}
			image := view(t, head+"  write.8 r+0x28 bus(d)\n")
			r, err := runtime.Load(image, runtime.AnyTLBWindow, d)
			switch {
			case c.want != "":
				if hal.CodeOf(err) != hal.WrongDevice || !strings.Contains(err.Error(), c.want) {
					t.Errorf("page %#x: %v, want %q", c.page, err, c.want)
				}
			case fail != nil && !errors.Is(err, fail), fail == nil && err != nil:
				t.Errorf("page %#x: %v, want %v", c.page, err, fail)
			case err == nil:
				r.Close()
			}
		}
	}
}

// deniedMaster is a busMaster whose bus mastering cannot be enabled.
type deniedMaster struct{ busMaster }

var errDenied = &hal.Fault{Code: hal.Denied, Reason: "for a test"}

func (m deniedMaster) SetBusMaster(on bool) error {
	_ = m.busMaster.SetBusMaster(on)
	if on {
		return errDenied
	}
	return nil
}

// TestRunFailsIfBusMasteringIsDenied: no command is executed, all devices are stopped, and StartDMA
// returns the text.
func TestRunFailsIfBusMasteringIsDenied(t *testing.T) {
	for _, isStartedBefore := range []bool{false, true} {
		var calls []string
		edu := busMaster{Device: mock.New(&boards.Edu), calls: &calls, name: "edu"}
		ivshmem := deniedMaster{busMaster{Device: mock.New(&boards.Ivshmem), calls: &calls,
			name: "ivshmem"}}
		r, err := runtime.Load(view(t, twoDeviceHead+"window h host size 4KiB\n"+
			"window g host size 4KiB target 1\nmain:\n  write.4 r+0x4 0x1\n"),
			runtime.AnyTLBWindow, edu, ivshmem)
		if err != nil {
			t.Fatal(err)
		}
		want := hal.Denied
		if isStartedBefore {
			if err := r.StartDMA(); err != error(errDenied) {
				t.Errorf("StartDMA: %v, want %v", err, errDenied)
			}
			want = hal.Disabled
		}
		if result := r.Run(0); result.Code != want || result.Command != -1 || result.SafeRan {
			t.Errorf("run: %+v, want %v, no command and no safe", result, want)
		}
		const stopped = "edu masters true, ivshmem masters true, edu masters false, " +
			"ivshmem masters false"
		if got := strings.Join(calls, ", "); got != stopped || edu.Operations() != 0 {
			t.Errorf("calls %q and %d operations, want %q and none", got, edu.Operations(), stopped)
		}
		if result := r.Run(0); result.Code != hal.Disabled {
			t.Errorf("next run: %+v, want %v", result, hal.Disabled)
		}
	}
}

// TestNoDeviceMastersTheBusAfterClose: a device may access host memory that was mapped for another
// device, and closing the other device unmaps this memory.
func TestNoDeviceMastersTheBusAfterClose(t *testing.T) {
	var calls []string
	edu, ivshmem := busMaster{Device: mock.New(&boards.Edu), calls: &calls, name: "edu"},
		busMaster{Device: mock.New(&boards.Ivshmem), calls: &calls, name: "ivshmem"}
	source := twoDeviceHead + "window h host size 4KiB\nmain:\n  write.8 m+0x80 bus(h)\n"
	r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, edu, ivshmem)
	if err != nil {
		t.Fatal(err)
	}
	calls = nil
	for range 2 {
		const want = "edu masters false, ivshmem masters false"
		if err := r.Close(); err != nil || strings.Join(calls, ", ") != want {
			t.Errorf("Close: %v, calls %q, want %q", err, calls, want)
		}
	}
}

// touchTracker is a device that records whether it was mapped or made a bus master.
type touchTracker struct {
	*mock.Device
	touched bool
}

func (s *touchTracker) Map(w fbs.Window) (hal.Aperture, error) {
	s.touched = true
	return s.Device.Map(w)
}

func (s *touchTracker) SetBusMaster(bool) error { s.touched = true; return nil }

func (s *touchTracker) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }
func (s *touchTracker) Diagnose() hal.Code                               { return hal.OK }

// TestNoWindowIsMappedIfADeviceIsTheWrongOne: a backend acquires a device at the first Map, so Load
// must check the identity of all devices before.
func TestNoWindowIsMappedIfADeviceIsTheWrongOne(t *testing.T) {
	v := view(t, "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\n"+
		"target ivshmem 1af4:1110 bar2 1MiB\nwindow r bar0 offset 0 size 1MiB\n"+
		"window h host size 4KiB target 1\nmain:\n  write.4 r+0x4 1\n")
	for _, second := range []*boards.Board{&boards.Nvme, &boards.Edu} {
		t.Run(second.Name, func(t *testing.T) {
			devices := []*touchTracker{{Device: mock.New(&boards.Edu)}, {Device: mock.New(second)}}
			_, err := runtime.Load(v, runtime.AnyTLBWindow, devices[0], devices[1])
			if hal.CodeOf(err) != hal.WrongDevice || devices[0].touched || devices[1].touched {
				t.Errorf("%s: Load: %v; devices touched: %v, %v; want code %d and none touched",
					second.Name, err, devices[0].touched, devices[1].touched, hal.WrongDevice)
			}
		})
	}
}

// cleanupDevice is a device whose driver can clean up when the process ends. It records the targets
// for which the cleanup is registered.
type cleanupDevice struct {
	*mock.Device
	targets *[]int
	note    string
	fail    error
}

func (c cleanupDevice) RegisterExitCleanup(_ *fbs.View, target int) (note string, err error) {
	*c.targets = append(*c.targets, target)
	return c.note, c.fail
}

func TestLoadRegistersTheExitCleanupOfEachTarget(t *testing.T) {
	const head = "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\n" +
		"target wormhole 1e52:401e bar0 512MiB\nwindow w tlb size 1MiB\nmain:\n"
	const point = "  point w tile 1,1 address 0xffb00000\n"
	for _, test := range []struct {
		what, source, note string
		fail               error
		targets            []int
	}{
		{"an image without point commands", "  delay 1us\n", "", nil, nil},
		{"an image with a point command", point, "", nil, []int{0, 1}},
		{"an old driver", point, "cores go on running\n", nil, []int{0, 1}},
		{"a driver that denies the cleanup", point, "", hal.Denied, []int{0}},
	} {
		t.Run(test.what, func(t *testing.T) {
			var targets []int
			first := cleanupDevice{Device: mock.New(&boards.Wormhole), targets: &targets,
				note: test.note, fail: test.fail}
			second := cleanupDevice{Device: mock.New(&boards.Wormhole), targets: &targets,
				note: test.note}
			r, err := runtime.Load(view(t, head+test.source), runtime.AnyTLBWindow, first, second)
			if (err == nil) != (test.fail == nil) || !slices.Equal(targets, test.targets) ||
				err == nil && r.Warnings != test.note+test.note {
				t.Errorf("%s: Load: %v, cleanup registered for targets %v; want error %v, targets "+
					"%v, and the warning %q of each target", test.what, err, targets, test.fail,
					test.targets, test.note)
			}
			if err == nil {
				r.Close()
			}
		})
	}
}

// pointRejecter is a device that rejects every Point command.
type pointRejecter struct{ cleanupDevice }

func (pointRejecter) EncodePoint(*hal.Aperture, fbs.TileRoute, uint64, *fbs.Command) (registers,
	home uintptr, code hal.Code) {
	return 0, 0, hal.Refused
}

// TestRejectedImageRegistersNoExitCleanup: a registered cleanup would store to the device when it
// is closed, although the image was rejected.
func TestRejectedImageRegistersNoExitCleanup(t *testing.T) {
	var targets []int
	device := pointRejecter{cleanupDevice{Device: mock.New(&boards.Wormhole), targets: &targets}}
	for listed, named := range map[string]string{"tile 1,2": "tile 1,2",
		"tiles 1,2 to 3,4": "tiles 1,2 to tile 3,4"} {
		source := "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\nwindow w tlb size 1MiB\n" +
			"main:\n  point w " + listed + " address 0xffb00000\n  write.4 w+0x121b0 0x47000\n"
		_, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, device)
		want := "main, command 0: the device's TLB windows cannot point to " + named +
			" at address 0xffb00000"
		if hal.CodeOf(err) != hal.Refused || !strings.Contains(err.Error(), want) ||
			len(targets) != 0 {
			t.Errorf("%s: Load: %v, cleanup registered for targets %v; want %q and none", listed,
				err, targets, want)
		}
	}
}

// vectorDevice records the vectors that Load enables, and fails if it has fewer.
type vectorDevice struct {
	*mock.Device
	has, enabled uint16
	kind         gen.InterruptKind
}

func (d *vectorDevice) EnableVectors(kind gen.InterruptKind, count uint16) error {
	if count > d.has {
		return hal.WrongDevice
	}
	d.kind, d.enabled = kind, count
	return nil
}

func TestLoadEnablesTheVectorsOfTheImage(t *testing.T) {
	const source = "lightmetal 1\ndevice edu 1234:11e8 bar0 1MiB msix 4\n" +
		"device edu 1234:11e8 bar0 1MiB\nwindow w bar0 offset 0 size 4KiB\nmain:\n  delay 1us\n"
	first := &vectorDevice{Device: mock.New(&boards.Edu), has: 4}
	second := &vectorDevice{Device: mock.New(&boards.Edu), has: 4}
	r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, first, second)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if first.kind != gen.InterruptKindMsix || first.enabled != 4 || second.enabled != 0 {
		t.Errorf("%d vectors of kind %d and %d vectors are enabled, want 4 of kind 2 and none",
			first.enabled, first.kind, second.enabled)
	}
	first.has = 3
	_, err = runtime.Load(view(t, source), runtime.AnyTLBWindow, first, second)
	if hal.CodeOf(err) != hal.WrongDevice {
		t.Errorf("Load for a device with 3 vectors: %v, want %v", err, hal.WrongDevice)
	}
}

func TestForcedTLBWindowIsUsed(t *testing.T) {
	v := view(t, "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\nwindow a tlb size 1MiB\n"+
		"window b tlb size 1MiB\nmain:\n  delay 1us\n")
	r, err := runtime.Load(v, 20, mock.New(&boards.Wormhole))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Aperture(0).TLBWindow != 20 || r.Aperture(1).TLBWindow != 21 {
		t.Errorf("TLB windows %d and %d, want 20 and 21", r.Aperture(0).TLBWindow,
			r.Aperture(1).TLBWindow)
	}
}

func TestDeviceNamesAreThePCIIDs(t *testing.T) {
	v := view(t, "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\n"+
		"target edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0 size 1MiB target 1\nmain:\n"+
		"  delay 1us\n")
	if got := runtime.DeviceNames(v); !reflect.DeepEqual(got,
		[]string{"pci:1e52:401e", "pci:1234:11e8"}) {
		t.Errorf("DeviceNames: %q", got)
	}
}

func TestClosedReplayDoesNotRun(t *testing.T) {
	r, device := loadOnMock(t, "tensor d output uint8[4]\nmain:\n  copy.4 d[0:4] <- m+0x0\n")
	if err := r.Close(); err != nil {
		t.Errorf("first Close: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	run(t, r, hal.Disabled)
	if device.Operations() != 0 {
		t.Errorf("a closed replay made %d operations", device.Operations())
	}
}

// TestFreezeThatCannotLockMemoryFails removes the access rights of the arena, or of the copied
// envelope, which is not part of the arena, so that mlock fails as it does beyond RLIMIT_MEMLOCK.
// The failed Freeze must not change GOMAXPROCS.
func TestFreezeThatCannotLockMemoryFails(t *testing.T) {
	source := ivshmemHead + "tensor d output uint8[4096]\nmain:\n  copy.4 d[0:4096] <- m+0x0\n"
	const want = "cannot lock commands and arena into memory: cannot allocate memory; raise " +
		"RLIMIT_MEMLOCK"
	for name, memory := range map[string]func(r *runtime.Replay) []byte{
		"arena":    func(r *runtime.Replay) []byte { return r.Output(0) },
		"commands": func(r *runtime.Replay) []byte { return runtime.ViewOf(r).Envelope },
	} {
		t.Run(name, func(t *testing.T) {
			r, _, err := loadOnPlainDevice(writeImage(t, assembleImage(t, source)))
			if err != nil {
				t.Fatal(err)
			}
			// The memory is not unmapped, because Go could then map something else at its address.
			if err := unix.Mprotect(memory(r), unix.PROT_NONE); err != nil {
				t.Fatal(err)
			}
			defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(3))
			if err := r.Freeze(); hal.CodeOf(err) != hal.Denied ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("Freeze: %v, want %q", err, want)
			}
			if n := goruntime.GOMAXPROCS(0); n != 3 {
				t.Errorf("GOMAXPROCS is %d after the failed Freeze, want 3", n)
			}
		})
	}
}

// TestRunEndsAtACorruptedCommand changes commands after they were verified. The loop of the runtime
// rejects opcodes that it does not know.
func TestRunEndsAtACorruptedCommand(t *testing.T) {
	for what, change := range map[string]func(c []fbs.Command){
		"unknown opcode": func(c []fbs.Command) { c[1].Opcode = 99 },
		"a format 1 End": func(c []fbs.Command) { c[1].Opcode = 14 },
	} {
		t.Run(what, func(t *testing.T) {
			v := view(t, ivshmemHead+"main:\n  write.1 m+0x0 0x1\n  write.1 m+0x1 0x1\n")
			r, err := runtime.Load(v, runtime.AnyTLBWindow, mock.New(&boards.Ivshmem))
			if err != nil {
				t.Fatal(err)
			}
			change(v.Commands)
			if result := r.Run(0); result.Code != hal.Internal {
				t.Errorf("%s: run ends with %+v, want %v", what, result, hal.Internal)
			}
			r.Close()
		})
	}
}

// panickingDevice is a device whose clock panics.
type panickingDevice struct{ *mock.Device }

func (panickingDevice) Now() int64 { panic("a defect") }

func TestPanicOfADeviceIsAnInternalError(t *testing.T) {
	r, err := runtime.Load(view(t,
		ivshmemHead+"main:\n  write.1 m+0x0 0x1\n  poll.1 m+0x0 == 0x2 within 1ms\nsafe:\n"+
			"  write.1 m+0x1 0x1\n"),
		runtime.AnyTLBWindow, panickingDevice{mock.New(&boards.Ivshmem)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if result := run(t, r, hal.Internal); result.Command != 1 ||
		result.SafeSequenceCode != hal.OK || !result.SafeRan {
		t.Errorf("run ends with %+v, want command 1 and a successful safe", result)
	}
}

func TestStopDMADisablesBusMasteringAndDiagnoseReportsDMAFaults(t *testing.T) {
	const listing = twoDeviceHead +
		"window h host size 4KiB target 1\nmain:\n  write.4 r+0x4 0x1\nlook:\n" +
		"  expect.4 m+0x0 == 0x1 else ignore\n"
	for _, state := range []hal.Code{hal.OK, hal.DMAFault} {
		t.Run(state.Error(), func(t *testing.T) {
			var calls []string
			edu := mock.New(&boards.Edu)
			ivshmem := busMaster{Device: mock.New(&boards.Ivshmem), name: "ivshmem", calls: &calls,
				state: state}
			r, err := runtime.Load(view(t, listing), runtime.AnyTLBWindow, edu, ivshmem)
			if err != nil {
				t.Fatal(err)
			}
			if code := r.Diagnose(); code != state {
				t.Errorf("Diagnose: %v, want %v", code, state)
			}
			// No policy may ignore a DMA fault.
			if result := r.Run(runtime.ViewOf(r).SequenceByName("look")); result.Code != state {
				t.Errorf("run with an ignored failure ends with %+v, want %v", result, state)
			}
			if err := r.StopDMA(); err != nil || calls[len(calls)-1] != "ivshmem masters false" {
				t.Errorf("StopDMA: %v, calls %v, want the last to be %q", err, calls,
					"ivshmem masters false")
			}
			edu.Inject(mock.Fault{Kind: mock.AllOnes, Operation: edu.Operations() + 1})
			if a, err := edu.Map(fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.AnySlot,
				Size: 8}); err != nil {
				t.Fatal(err)
			} else if mock.LoadAt(&a, 0, 4); r.Diagnose() != hal.DeviceGone {
				t.Errorf("Diagnose, when the other device is gone: %v, want %v", r.Diagnose(),
					hal.DeviceGone)
			}
			r.Close()
		})
	}
}

// TestDiagnoseWaitsForDMAFaultsIfADeviceReachesHostMemory: the kernel reports the fault of a
// transfer some time later.
func TestDiagnoseWaitsForDMAFaultsIfADeviceReachesHostMemory(t *testing.T) {
	for window, wait := range map[string]int64{"": 0,
		"window h host size 4KiB target 1\n": 5_000_000} {
		t.Run(window, func(t *testing.T) {
			edu := mock.New(&boards.Edu)
			source := twoDeviceHead + window + "main:\n  write.4 r+0x4 0x1\n"
			r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow,
				edu, mock.New(&boards.Ivshmem))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.StartDMA(); err != nil {
				t.Fatal(err)
			}
			began := edu.Now()
			if code := r.Diagnose(); code != hal.OK || edu.Now()-began != wait {
				t.Errorf("window %q: Diagnose: %v after %d ns, want %v after %d ns", window, code,
					edu.Now()-began, hal.OK, wait)
			}
			r.Close()
			if code := r.Diagnose(); code != hal.OK {
				t.Errorf("window %q: Diagnose after Close: %v, want %v", window, code, hal.OK)
			}
		})
	}
}

// TestCommandIsCountedWithinItsSequence: the first command of each sequence has the number 0.
func TestCommandIsCountedWithinItsSequence(t *testing.T) {
	v := view(t, "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\n"+
		"window r bar0 offset 0x0 size 4KiB\n"+
		"main:\n  delay 1us\n  delay 2us\nsafe:\n  delay 3us\n")
	for index, want := range map[int]string{
		-1: "", // no command was executed
		0:  "main, command 0",
		1:  "main, command 1",
		2:  "main, command 2", // the End
		3:  "safe, command 0",
		5:  "",
	} {
		t.Run(want, func(t *testing.T) {
			if got := string(runtime.AppendCommandPosition(nil, v, index)); got != want {
				t.Errorf("index %d: got %q, want %q", index, got, want)
			}
		})
	}
}
