package runtime_test

import (
	"encoding/binary"
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
	folder := t.TempDir()
	empty, locked, pipe := folder+"/empty", folder+"/locked", folder+"/pipe"
	for path, mode := range map[string]os.FileMode{empty: 0o644, locked: 0} {
		t.Run(path, func(t *testing.T) {
			if err := os.WriteFile(path, nil, mode); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := unix.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	// A file that belongs to somebody else, for root too: as another user on
	// this thread, which ends with the goroutine.
	denied := make(chan error)
	go func() {
		goruntime.LockOSThread()
		_ = unix.Setfsuid(65534)
		_, err := runtime.Open(locked)
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
		{open(folder + "/none"), hal.NoFile, "no such file"},
		{open(empty + "/none"), hal.NoFile, "not a directory"},
		{open(folder), hal.BadImage, "not a regular file"},
		{open("/dev/null"), hal.BadImage, "not a regular file"},
		{open(pipe), hal.BadImage, "not a regular file"},
		{open(empty), hal.BadImage, "the file is empty"},
		{open(folder + "/" + strings.Repeat("x", 300)), hal.IO, "too long"},
		// has bytes, and cannot be mapped
		{open("/sys/devices/system/cpu/online"), hal.IO, "no such device"},
		{<-denied, hal.Denied, "permission denied"},
	} {
		t.Run(test.want, func(t *testing.T) {
			if hal.CodeOf(test.err) != test.code || !strings.Contains(test.err.Error(), test.want) {
				t.Errorf("%v (code %d), want %q", test.err, hal.CodeOf(test.err), test.want)
			}
		})
	}
}

func TestMappedFileIsReadOnlyAndComplete(t *testing.T) {
	bytes := encoded(t, withPayload)
	file, err := runtime.Open(written(t, bytes))
	if err != nil {
		t.Fatal(err)
	}
	if string(file.Bytes()) != string(bytes) {
		t.Error("the mapping has other bytes than the file")
	}
	if err := unix.Mprotect(file.Bytes(), unix.PROT_WRITE); err != unix.EACCES {
		t.Errorf("the mapping can be made writable: %v", err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}

// TestNoPageOfAnOpenFileIsWritable: neither the copy of its envelope nor the
// payload, which is the file's.
func TestNoPageOfAnOpenFileIsWritable(t *testing.T) {
	file, err := runtime.Open(written(t, encoded(t, withPayload)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
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
				t.Errorf("memory of the file: %s", line)
			}
		}
	}
	if covered != end-begin {
		t.Errorf("%d of %d bytes are mapped", covered, end-begin)
	}
}

func TestErrorOfADefectiveFileNamesItsPath(t *testing.T) {
	path := written(t, []byte("no image at all, and long enough to be looked at: "+
		"0123456789012345678901234567890"))
	file, err := runtime.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Verify(); hal.CodeOf(err) != hal.BadImage ||
		!strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	denied := &hal.Fault{Code: hal.Denied, Reason: "not signed"}
	if err := file.Inspect(func([]byte) error { return denied }); hal.CodeOf(err) != hal.Denied ||
		!strings.Contains(err.Error(), path+": not signed") {
		t.Error(err)
	}
	if err := file.Inspect(func(data []byte) error { return nil }); err != nil {
		t.Error(err)
	}
}

// TestLoadChecksTheWholeImageBeforeTheFirstStore has a first command that is fine and a
// later one that is not, in each way that only Load can see.
func TestLoadChecksTheWholeImageBeforeTheFirstStore(t *testing.T) {
	const wormhole = "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\n"
	const point = "  point w tile 1,1 address 0x0\n  write.4 w+0x0 0x1\n"
	for _, test := range []struct {
		what, source string
		slot         int
		device       *mock.Device
		code         hal.Code
	}{
		{"a window too large for the hardware",
			wormhole + "window w tlb size 4GiB\nmain:\n" + point,
			runtime.AnyTLBWindow, mock.New(&boards.Wormhole), hal.NoDevice},
		{"a hardware window of the kernel", wormhole + "window w tlb size 1MiB\nmain:\n" + point,
			185, mock.New(&boards.Wormhole), hal.NoDevice},
		{"a bus address that does not fit", ivshmem +
			"main:\n  write.4 m+0x4 0x1\n  write.4 m+0x0 bus(m)\n",
			runtime.AnyTLBWindow, mock.New(&boards.Ivshmem), hal.WrongDevice},
	} {
		t.Run(test.what, func(t *testing.T) {
			_, err := runtime.Load(view(t, test.source), test.slot, test.device)
			if hal.CodeOf(err) != test.code || test.device.Operations() != 0 {
				t.Errorf("%s: %v after %d operations", test.what, err, test.device.Operations())
			}
		})
	}
}

func TestRelocationNeedsABusAddress(t *testing.T) {
	device, err := newPlain(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	_, err = runtime.Load(view(t, ivshmem+"main:\n  write.8 m+0x0 bus(m)\n"), runtime.AnyTLBWindow,
		device)
	if hal.CodeOf(err) != hal.NoDevice || !strings.Contains(err.Error(),
		"main, command 0: window 0 has no bus address") {
		t.Error(err)
	}
}

const two = "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\ntarget ivshmem 1af4:1110 bar2 1MiB\n" +
	"window r bar0 offset 0 size 1MiB\nwindow m bar2 offset 0 size 1MiB target 1\n"

// master is a device that reaches memory by itself, and writes down what it is
// told of that.
type master struct {
	*mock.Device
	told  *[]string
	name  string
	fail  error
	state hal.Code
	bus   uint64 // of what it reaches, 0: 0x1000
}

func (m master) AssignBusAddress(a *hal.Aperture, of hal.Device) error {
	*m.told = append(*m.told, m.name+" reaches "+of.(master).name)
	a.BusAddress = max(m.bus, 0x1000)
	return m.fail
}

func (m master) SetBusMaster(on bool) error {
	*m.told = append(*m.told, fmt.Sprintf("%s masters %v", m.name, on))
	return m.fail
}

func (m master) Diagnose() hal.Code { return m.state }

func TestBusMasteringIsEnabledAfterBusAddressesAreAssigned(t *testing.T) {
	for _, test := range []struct{ what, source, want string }{
		{"nothing of the kind", two + "main:\n  write.4 r+0x4 0x1\n", ""},
		{"host memory", two + "window h host size 4KiB target 1\nmain:\n  write.4 r+0x4 0x1\n",
			"ivshmem masters true"},
		{"an address of its own", two + "main:\n  write.8 m+0x0 bus(m)\n",
			"ivshmem reaches ivshmem, ivshmem masters true"},
		{"an address of another",
			two +
				"window h host size 4KiB\n" +
				"main:\n  write.8 r+0x80 bus(h)\n  write.8 r+0x88 bus(m)\n",
			"edu reaches edu, edu reaches ivshmem, edu masters true"},
		{"an address in host memory",
			two + "window h host size 4KiB target 1\nmain:\n  write.8 h+0x0 bus(r)\n",
			"ivshmem reaches edu, ivshmem masters true"},
	} {
		t.Run(test.what, func(t *testing.T) {
			var told []string
			denied := &hal.Fault{Code: hal.Denied, Reason: "for a test"}
			edu := master{Device: mock.New(&boards.Edu), told: &told, name: "edu"}
			ivshmem := master{Device: mock.New(&boards.Ivshmem), told: &told, name: "ivshmem"}
			r, err := runtime.Load(view(t, test.source), runtime.AnyTLBWindow, edu, ivshmem)
			if err != nil {
				t.Errorf("%s: %v", test.what, err)
				return
			}
			if got := strings.Join(told, ", "); got != test.want ||
				edu.Operations()+ivshmem.Operations() != 0 {
				t.Errorf("%s: %s; want %s", test.what, got, test.want)
			}
			r.Close()
			edu.fail, ivshmem.fail = denied, denied
			if _, err := runtime.Load(view(t, test.source), runtime.AnyTLBWindow, edu,
				ivshmem); (test.want == "") != (err == nil) || err != nil && err != error(denied) {
				t.Errorf("%s: %v", test.what, err)
			}
		})
	}
}

// A device may reach another's host memory, which goes when that is closed.
func TestNoDeviceMastersTheBusAfterClose(t *testing.T) {
	var told []string
	edu, ivshmem := master{Device: mock.New(&boards.Edu), told: &told, name: "edu"},
		master{Device: mock.New(&boards.Ivshmem), told: &told, name: "ivshmem"}
	r, err := runtime.Load(view(t, two+"window h host size 4KiB\nmain:\n  write.8 m+0x80 bus(h)\n"),
		runtime.AnyTLBWindow, edu, ivshmem)
	if err != nil {
		t.Fatal(err)
	}
	told = nil
	for range 2 {
		if err := r.Close(); err != nil || strings.Join(told,
			", ") != "edu masters false, ivshmem masters false" {
			t.Errorf("%v; %q", err, told)
		}
	}
}

// TestWindowsWithFixedBusAddressesAreMappedFirst declares a window without a fixed address first.
// Mapped first, it would get the address that the other window must have.
func TestWindowsWithFixedBusAddressesAreMappedFirst(t *testing.T) {
	free, err := mock.New(&boards.Ivshmem).Map(
		fbs.Window{Kind: gen.WindowKindHost, Size: 4096})
	if err != nil {
		t.Fatal(err)
	}
	listing := func(bus uint64) *fbs.View {
		return view(t, ivshmem+fmt.Sprintf("window h host size 4KiB\n"+
			"window q host size 4KiB bus 0x%x\nmain:\n  write.8 m+0x0 bus(q)+0x10\n"+
			"  write.8 m+0x8 bus(h)\n", bus))
	}
	device := mock.New(&boards.Ivshmem)
	r, err := runtime.Load(listing(free.BusAddress), runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	run(t, r, hal.OK)
	stored := readMemory(t, device, 0, 16)
	if q := binary.LittleEndian.Uint64(stored); q != free.BusAddress+0x10 {
		t.Errorf("bus address 0x%x, want 0x%x", q, free.BusAddress+0x10)
	}
	if h := binary.LittleEndian.Uint64(stored[8:]); h < free.BusAddress+4096 {
		t.Errorf("the other window is at 0x%x", h)
	}
	again, err := runtime.Load(listing(free.BusAddress), runtime.AnyTLBWindow, device)
	if hal.CodeOf(err) != hal.NoDevice ||
		!strings.Contains(err.Error(), "cannot place 4096 bytes") {
		t.Errorf("%v, %v", again, err)
	}
}

func TestAssignedBusAddressIsCheckedForOverflow(t *testing.T) {
	for write, bus := range map[string]uint64{"write.4 r+0x80 bus(r)+0x1000": 1<<32 - 0x1000,
		"write.8 r+0x80 bus(r)+0x1000": 1<<64 - 0x1000} {
		t.Run(write, func(t *testing.T) {
			var told []string
			edu := master{Device: mock.New(&boards.Edu), told: &told, name: "edu", bus: bus}
			_, err := runtime.Load(view(t,
				"lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0 size 1MiB\n"+
					"main:\n  "+write+"\n"), runtime.AnyTLBWindow, edu)
			if hal.CodeOf(err) != hal.WrongDevice || slices.Contains(told, "edu masters true") {
				t.Errorf("%s: %v after %v", write, err, told)
			}
		})
	}
}

// stranger is a device that notes what is done to it.
type stranger struct {
	*mock.Device
	touched bool
}

func (s *stranger) Map(w fbs.Window) (hal.Aperture, error) {
	s.touched = true
	return s.Device.Map(w)
}

func (s *stranger) SetBusMaster(bool) error { s.touched = true; return nil }

func (s *stranger) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }
func (s *stranger) Diagnose() hal.Code                               { return hal.OK }

// A backend acquires a device at the first Map: until its identity is known to be
// right, no window is mapped of any.
func TestNoWindowIsMappedIfADeviceIsTheWrongOne(t *testing.T) {
	v := view(t, "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\n"+
		"target ivshmem 1af4:1110 bar2 1MiB\nwindow r bar0 offset 0 size 1MiB\n"+
		"window h host size 4KiB target 1\nmain:\n  write.4 r+0x4 1\n")
	for _, second := range []*boards.Board{&boards.Nvme, &boards.Edu} {
		t.Run(second.Name, func(t *testing.T) {
			devices := []*stranger{{Device: mock.New(&boards.Edu)}, {Device: mock.New(second)}}
			_, err := runtime.Load(v, runtime.AnyTLBWindow, devices[0], devices[1])
			if hal.CodeOf(err) != hal.WrongDevice || devices[0].touched || devices[1].touched {
				t.Errorf("%s: %v; touched %v, %v", second.Name, err, devices[0].touched,
					devices[1].touched)
			}
		})
	}
}

// cleaner is a device whose driver does something when the process ends.
type cleaner struct {
	*mock.Device
	told *[]int
	note string
	fail error
}

func (c cleaner) RegisterExitCleanup(_ *fbs.View, target int) (note string, err error) {
	*c.told = append(*c.told, target)
	return c.note, c.fail
}

// TestLoadRegistersTheExitCleanupOfEachTarget: each of its own target, once all
// else is well.
func TestLoadRegistersTheExitCleanupOfEachTarget(t *testing.T) {
	const two = "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\n" +
		"target wormhole 1e52:401e bar0 512MiB\nwindow w tlb size 1MiB\nmain:\n"
	const points = "  point w tile 1,1 address 0xffb00000\n"
	for _, test := range []struct {
		what, source, note string
		fail               error
		told               []int
	}{
		{"an image that aims no window", "  delay 1us\n", "", nil, nil},
		{"an image that aims one", points, "", nil, []int{0, 1}},
		{"an old driver", points, "cores go on running\n", nil, []int{0, 1}},
		{"a driver that refuses", points, "", hal.Denied, []int{0}},
	} {
		t.Run(test.what, func(t *testing.T) {
			var told []int
			first := cleaner{Device: mock.New(&boards.Wormhole), told: &told, note: test.note,
				fail: test.fail}
			r, err := runtime.Load(view(t, two+test.source), runtime.AnyTLBWindow, first,
				cleaner{Device: mock.New(&boards.Wormhole), told: &told, note: test.note})
			if (err == nil) != (test.fail == nil) || !slices.Equal(told, test.told) ||
				err == nil && r.Warnings != test.note+test.note {
				t.Errorf("%s: %v, told %v", test.what, err, told)
			}
			if err == nil {
				r.Close()
			}
		})
	}
}

// unaimable is a device that refuses what a Point asks for.
type unaimable struct{ cleaner }

func (unaimable) EncodePoint(*hal.Aperture, fbs.TileRoute, uint64, *fbs.Command) (registers,
	home uintptr, code hal.Code) {
	return 0, 0, hal.Refused
}

// TestRejectedImageRegistersNoExitCleanup: it would make the store when the
// device is closed.
func TestRejectedImageRegistersNoExitCleanup(t *testing.T) {
	var told []int
	device := unaimable{cleaner{Device: mock.New(&boards.Wormhole), told: &told}}
	source := "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\nwindow w tlb size 1MiB\n" +
		"main:\n  point w tile 1,2 address 0xffb00000\n  write.4 w+0x121b0 0x47000\n"
	if _, err := runtime.Load(view(t, source), runtime.AnyTLBWindow,
		device); hal.CodeOf(err) != hal.Refused || len(told) != 0 {
		t.Errorf("%v, told %v", err, told)
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
		t.Errorf("windows %d and %d", r.Aperture(0).TLBWindow, r.Aperture(1).TLBWindow)
	}
}

// chooser is a device whose driver chooses the hardware windows.
type chooser struct{ *mock.Device }

func (c chooser) Map(w fbs.Window) (hal.Aperture, error) {
	w.Slot = fbs.AnySlot
	return c.Device.Map(w)
}

func TestErrorOfAForcedTLBWindowNamesPossibleCauses(t *testing.T) {
	v := view(t, "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\nwindow a tlb size 1MiB\n"+
		"main:\n  delay 1us\n")
	for what, c := range map[string]struct {
		slot   int
		device hal.Device
	}{
		"the kernel driver's": {185, mock.New(&boards.Wormhole)},
		"the driver chooses":  {20, chooser{mock.New(&boards.Wormhole)}},
	} {
		t.Run(what, func(t *testing.T) {
			const want = "is too small, in use, or reserved by the kernel driver; " +
				"choose another number; for `tt:` devices omit -window (in C: LM_ANY_WINDOW)"
			_, err := runtime.Load(v, c.slot, c.device)
			if hal.CodeOf(err) != hal.NoDevice || !strings.Contains(err.Error(), want) {
				t.Errorf("Load: %v, want %q", err, want)
			}
		})
	}
}

func TestDeviceNamesAreThePCIIDs(t *testing.T) {
	v := view(t, "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\n"+
		"target edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0 size 1MiB target 1\nmain:\n"+
		"  delay 1us\n")
	if got := runtime.DeviceNames(v); !reflect.DeepEqual(got,
		[]string{"pci:1e52:401e", "pci:1234:11e8"}) {
		t.Error(got)
	}
}

func TestClosedReplayDoesNotRun(t *testing.T) {
	r, device := on(t, "tensor d output uint8[4]\nmain:\n  copy.4 d[0:4] <- m+0x0\n")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	run(t, r, hal.Disabled)
	if device.Operations() != 0 {
		t.Error("the device was touched")
	}
}

// TestFreezeThatCannotLockTheArenaFails takes the arena away, which fails in
// the same place as a limit on locked memory. Go is then left as it was.
func TestFreezeThatCannotLockTheArenaFails(t *testing.T) {
	r, _ := on(t, "tensor d output uint8[4096]\nmain:\n  copy.4 d[0:4096] <- m+0x0\n")
	// and not unmapped: Go would take the place
	if err := unix.Mprotect(r.Output(0), unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(3))
	if err := r.Freeze(); hal.CodeOf(err) != hal.Denied ||
		!strings.Contains(err.Error(), "RLIMIT_MEMLOCK") {
		t.Error(err)
	}
	if n := goruntime.GOMAXPROCS(0); n != 3 {
		t.Errorf("Go is left with %d processors of 3", n)
	}
}

// TestFreezeThatCannotLockTheCommandsFails in the same way: those of a file are
// in memory of their own.
func TestFreezeThatCannotLockTheCommandsFails(t *testing.T) {
	file, err := runtime.Open("../testdata/images/edu.lmb")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	v, err := file.Verify()
	if err != nil {
		t.Fatal(err)
	}
	r, err := runtime.Load(v, runtime.AnyTLBWindow, mock.New(&boards.Edu))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := unix.Mprotect(v.Envelope, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(0))
	if err := r.Freeze(); hal.CodeOf(err) != hal.Denied ||
		!strings.Contains(err.Error(), "cannot lock commands") {
		t.Error(err)
	}
}

// TestRunEndsAtACorruptedCommand changes commands after the verifier's
// back: what the loop can still notice at no cost, it does.
func TestRunEndsAtACorruptedCommand(t *testing.T) {
	for what, change := range map[string]func(c []fbs.Command){
		"unknown opcode": func(c []fbs.Command) { c[1].Opcode = 99 },
		"a format 1 End": func(c []fbs.Command) { c[1].Opcode = 14 },
	} {
		t.Run(what, func(t *testing.T) {
			v := view(t, ivshmem+"main:\n  write.1 m+0x0 0x1\n  write.1 m+0x1 0x1\n")
			r, err := runtime.Load(v, runtime.AnyTLBWindow, mock.New(&boards.Ivshmem))
			if err != nil {
				t.Fatal(err)
			}
			change(v.Commands)
			if result := r.Run(0); result.Code != hal.Internal {
				t.Errorf("%s: %+v", what, result)
			}
			r.Close()
		})
	}
}

// broken is a device with a defect of its own.
type broken struct{ *mock.Device }

func (broken) Now() int64 { panic("a defect") }

func TestPanicOfADeviceIsAnInternalError(t *testing.T) {
	r, err := runtime.Load(view(t,
		ivshmem+"main:\n  write.1 m+0x0 0x1\n  poll.1 m+0x0 == 0x2 within 1ms\nsafe:\n"+
			"  write.1 m+0x1 0x1\n"),
		runtime.AnyTLBWindow, broken{mock.New(&boards.Ivshmem)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if result := run(t, r, hal.Internal); result.Command != 1 ||
		result.SafeSequenceCode != hal.OK || !result.SafeRan {
		t.Errorf("%+v", result)
	}
}

func TestSafeThatFailsDoesNotRunAgain(t *testing.T) {
	v := view(t, ivshmem+"main:\n  write.1 m+0x0 0x1\nsafe:\n  expect.1 m+0x0 == 0x7\n")
	device := mock.New(&boards.Ivshmem)
	r, err := runtime.Load(v, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if result := r.Run(v.SequenceByName("safe")); result.Code != hal.ExpectFailed ||
		result.SafeRan || device.Operations() != 1 {
		t.Errorf("%+v after %d operations", result, device.Operations())
	}
}

// TestAccessesAreExactAndInOrder holds every kind of command to the loads and
// stores it stands for: width, place, value, order, and no others.
func TestAccessesAreExactAndInOrder(t *testing.T) {
	r, device := on(t, `
tensor a input uint8[8] = hex 1122334455667788
tensor d output uint16[2]
main:
  write.2 m+0x2 0xabcd
  write.4 m+0x4 0x10 mask 0xf0
  copy.2 m+0x8 <- a[0:4]
  copy.4 m+0x10 <- a[0:8] fifo
  fill.1 m+0x20 <- 0x7 size 3
  copy.2 d[0:4] <- m+0x8
  expect.1 m+0x22 == 0x7
  compare.2 m+0x8 uint16 == hex 11223344
  flush.8 m+0x0
  copy.4 m+0x31 <- a[0:7] bulk
`)
	device.Record(true)
	run(t, r, hal.OK)
	var got []string
	for _, a := range device.Journal() {
		got = append(got, strings.ReplaceAll(a.String(), "BAR 2 + ", ""))
	}
	want := strings.Split(strings.TrimSpace(`
store of 2 bytes at 0x2 = 0xabcd
load of 4 bytes at 0x4 = 0x0
store of 4 bytes at 0x4 = 0x10
store of 2 bytes at 0x8 = 0x2211
store of 2 bytes at 0xa = 0x4433
store of 4 bytes at 0x10 = 0x44332211
store of 4 bytes at 0x10 = 0x88776655
store of 1 bytes at 0x20 = 0x7
store of 1 bytes at 0x21 = 0x7
store of 1 bytes at 0x22 = 0x7
load of 2 bytes at 0x8 = 0x2211
load of 2 bytes at 0xa = 0x4433
load of 1 bytes at 0x22 = 0x7
load of 2 bytes at 0x8 = 0x2211
load of 2 bytes at 0xa = 0x4433
load of 8 bytes at 0x0 = 0x10abcd0000
store of 1 bytes at 0x31 = 0x11
store of 2 bytes at 0x32 = 0x3322
store of 4 bytes at 0x34 = 0x77665544`), "\n")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("device saw\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestStopDMADisablesBusMasteringAndDiagnoseReportsDMAFaults(t *testing.T) {
	const listing = two +
		"window h host size 4KiB target 1\nmain:\n  write.4 r+0x4 0x1\nlook:\n" +
		"  expect.4 m+0x0 == 0x1 else ignore\n"
	for _, state := range []hal.Code{hal.OK, hal.DMAFault} {
		t.Run(state.Error(), func(t *testing.T) {
			var told []string
			edu := mock.New(&boards.Edu)
			ivshmem := master{Device: mock.New(&boards.Ivshmem), name: "ivshmem", told: &told,
				state: state}
			r, err := runtime.Load(view(t, listing), runtime.AnyTLBWindow, edu, ivshmem)
			if err != nil {
				t.Fatal(err)
			}
			if code := r.Diagnose(); code != state {
				t.Errorf("%v, want %v", code, state)
			}
			// A broken device is a failure that no policy may ignore.
			if result := r.Run(r.View().SequenceByName("look")); result.Code != state {
				t.Errorf("%+v, want %v", result, state)
			}
			if err := r.StopDMA(); err != nil || told[len(told)-1] != "ivshmem masters false" {
				t.Errorf("%v, %v", told, err)
			}
			edu.Inject(mock.Fault{Kind: mock.AllOnes, Operation: edu.Operations() + 1})
			if a, err := edu.Map(fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.AnySlot,
				Size: 8}); err != nil {
				t.Fatal(err)
			} else if a.Load(0, 4); r.Diagnose() != hal.DeviceGone {
				t.Errorf("the other device is gone: %v", r.Diagnose())
			}
			r.Close()
		})
	}
}

// TestDiagnoseWaitsForDMAFaultsIfADeviceReachesHostMemory: what went wrong with a transfer is
// known some time later.
func TestDiagnoseWaitsForDMAFaultsIfADeviceReachesHostMemory(t *testing.T) {
	for window, wait := range map[string]int64{"": 0,
		"window h host size 4KiB target 1\n": 5_000_000} {
		t.Run(window, func(t *testing.T) {
			edu := mock.New(&boards.Edu)
			source := two + window + "main:\n  write.4 r+0x4 0x1\n"
			r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow,
				edu, mock.New(&boards.Ivshmem))
			if err != nil {
				t.Fatal(err)
			}
			began := edu.Now()
			if code := r.Diagnose(); code != hal.OK || edu.Now()-began != wait {
				t.Errorf("%q: %v after %d ns", window, code, edu.Now()-began)
			}
			r.Close()
			if code := r.Diagnose(); code != hal.OK {
				t.Errorf("%q: %v of no device", window, code)
			}
		})
	}
}

// TestCommandIsCountedWithinItsSequence: from 0, in whichever sequence of the image it is.
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
