//go:build !(notiles || backend_pci || backend_vfio || backend_tt)

package hal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// fakeKernel passes system calls on to the real kernel, except those that a test replaces.
type fakeKernel struct {
	linux
	t     testing.TB
	paths map[string]string // path that a program opens: path of the file to open instead
	// errors to return, by system call and path or request: "open /dev/x", "ioctl 3b66", "mmap"
	errors  map[string]error
	ioctls  func(fd int, request, value uintptr, argument unsafe.Pointer) (int, error)
	writes  func(fd int, data []byte, offset int64) bool // if it returns true, the write is dropped
	opened  map[int]string
	mapped  int     // number of mappings that are not unmapped yet
	reads   []error // errors that the next calls of read return
	journal []string
}

func fakeSystem(t testing.TB) *fakeKernel {
	k := &fakeKernel{t: t, paths: map[string]string{}, errors: map[string]error{},
		opened: map[int]string{}}
	old := syscalls
	use(k)
	t.Cleanup(func() {
		syscalls = old
		if len(k.opened) > 0 || k.mapped > 0 {
			t.Errorf("still open: %v; %d mappings left", k.opened, k.mapped)
		}
	})
	return k
}

func (k *fakeKernel) open(path string, flags int) (int, error) {
	if err := k.errors["open "+path]; err != nil {
		return -1, err
	}
	real := path
	if other, ok := k.paths[path]; ok {
		real = other
		flags &^= unix.O_DIRECTORY
		// The directories of sysfs in a test may lie in /dev/shm.
	} else if strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, sysfsDevicesDir) {
		return -1, unix.ENOENT
	}
	fd, err := k.linux.open(real, flags)
	if err == nil {
		k.opened[fd] = path
	}
	return fd, err
}

func (k *fakeKernel) close(fd int) error {
	k.journal = append(k.journal, "close "+k.opened[fd])
	delete(k.opened, fd)
	return k.linux.close(fd)
}

func (k *fakeKernel) ioctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	if err := k.errors[fmt.Sprintf("ioctl %x", request)]; err != nil {
		return -1, err
	}
	return k.ioctls(fd, request, value, argument)
}

func (k *fakeKernel) mmap(fd int, offset int64, length, protection, flags int) ([]byte, error) {
	err := k.errors["mmap"]
	switch {
	case flags&unix.MAP_HUGETLB != 0:
		if length%hugePageSize != 0 || flags>>26&63 != 21 {
			k.t.Errorf("%#x bytes in huge pages of 1 << %d", length, flags>>26&63)
		}
		err = k.errors["mmap huge"]
		flags &^= unix.MAP_HUGETLB | mapHuge2MB
	case flags&unix.MAP_LOCKED != 0:
		err = k.errors["mmap locked"]
	}
	if err != nil {
		return nil, err
	}
	mem, err := k.linux.mmap(fd, offset, length, protection, flags&^unix.MAP_LOCKED)
	if err == nil {
		k.mapped++
	}
	return mem, err
}

func (k *fakeKernel) munmap(mem []byte) error {
	k.journal = append(k.journal, "munmap")
	k.mapped--
	if err := k.linux.munmap(mem); err != nil {
		return err
	}
	return k.errors["munmap"]
}

// memfd creates a file of 1 TiB, of ordinary pages instead of huge pages.
func (k *fakeKernel) memfd(flags int) (int, error) {
	if err := k.errors["memfd"]; err != nil {
		return -1, err
	}
	fd, err := k.linux.memfd(flags &^ (unix.MFD_HUGETLB | mapHuge2MB))
	if err == nil {
		k.opened[fd] = "memfd"
		err = unix.Ftruncate(fd, 1<<40)
	}
	return fd, err
}

func (k *fakeKernel) read(fd int, data []byte) (int, error) {
	if len(k.reads) > 0 {
		err := k.reads[0]
		k.reads = k.reads[1:]
		return -1, err
	}
	return k.linux.read(fd, data)
}

func (k *fakeKernel) pread(fd int, data []byte, offset int64) (int, error) {
	if err := k.errors["pread "+k.opened[fd]]; err != nil {
		return -1, err
	}
	return k.linux.pread(fd, data, offset)
}

func (k *fakeKernel) pwrite(fd int, data []byte, offset int64) (int, error) {
	k.journal = append(k.journal, fmt.Sprintf("pwrite %s +%#x % x", filepath.Base(k.opened[fd]),
		offset&0xfff, data))
	if err := k.errors["pwrite"]; err != nil {
		return -1, err
	}
	if k.writes != nil && k.writes(fd, data, offset) {
		return len(data), nil
	}
	return k.linux.pwrite(fd, data, offset)
}

// substitute creates a file with the given text. The fake kernel opens this file instead of `path`.
func (k *fakeKernel) substitute(path, text string) string {
	real := filepath.Join(k.t.TempDir(), "file")
	if err := os.WriteFile(real, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
	k.paths[path] = real
	return real
}

// at returns the position of a call in the journal, and fails the test if the call is not there.
func (k *fakeKernel) at(call string) int {
	k.t.Helper()
	i := slices.IndexFunc(k.journal, func(s string) bool { return strings.HasPrefix(s, call) })
	if i < 0 {
		k.t.Errorf("no %q among %q", call, k.journal)
	}
	return i
}

// frames is a fake kernel whose page map shows consecutive physical page frames from `first` on,
// wherever the memory is mapped.
type frames struct {
	*fakeKernel
	first uint64 // number of the first frame
	gap   uint64 // number of frames to skip after every page
	ends  int    // number of pages after which one frame is skipped; 0: never
	known map[uint64]uint64
	flags uint64
}

func (f *frames) pread(fd int, data []byte, offset int64) (int, error) {
	if f.opened[fd] != pagemapPath {
		return f.fakeKernel.pread(fd, data, offset)
	}
	page := uint64(offset) / 8
	if _, ok := f.known[page]; !ok {
		f.known[page] = f.first + uint64(len(f.known))*(1+f.gap)
		if f.ends > 0 && len(f.known) > f.ends {
			f.known[page]++
		}
	}
	storeLittleEndian(data, f.known[page]|f.flags)
	return len(data), nil
}

// fakeFrames installs a fake kernel whose memory has the physical address `first` and higher
// addresses.
func fakeFrames(t testing.TB, first uint64) *frames {
	// Bits of the page map that hal must ignore: shared (61), exclusive (56), soft-dirty (55).
	f := &frames{fakeKernel: fakeSystem(t), first: first / 4096, known: map[uint64]uint64{},
		flags: pagePresentBit | 1<<61 | 1<<56 | 1<<55}
	// Behave like a kernel without huge pages in files.
	f.errors["memfd"] = unix.ENOSYS
	use(f)
	return f
}

func host(size uint64) fbs.Window { return fbs.Window{Kind: gen.WindowKindHost, Size: size} }

func TestHostMemoryIsZeroedAndAtItsPhysicalAddress(t *testing.T) {
	fakeSysfs(t)
	fakeFrames(t, 0x4000_0000)
	d := addEdu(t).open()
	small, large := mustMap(t, d, host(16)), mustMap(t, d, host(0x3001))
	if small.BusAddress != 0x4000_0000 || large.BusAddress != 0x4000_1000 || small.Size != 16 ||
		large.Size != 0x3001 {
		t.Errorf("%d bytes at %#x, %d at %#x", small.Size, small.BusAddress, large.Size,
			large.BusAddress)
	}
	if len(d.hostMemory.mappings) != 1 {
		t.Errorf("%d mappings", len(d.hostMemory.mappings))
	}
	for offset := uint64(0); offset < 0x3001; offset++ {
		if v, code := large.Load(uint32(offset), 1); v != 0 || code != OK {
			t.Fatalf("%#x at %#x, %v", v, offset, code)
		}
	}
	small.Store(8, 8, 1)
	large.Store(0, 8, 2)
	large.Store(0x2ff8, 8, 3)
	if v, _ := small.Load(8, 8); v != 1 {
		t.Error("the windows overlap")
	}
}

// The kernel may move ordinary pages. A driver that pins them, or an IOMMU, makes sure that the
// device still reaches them.
func TestOrdinaryPagesAreForDriversThatPinThem(t *testing.T) {
	fakeSysfs(t)
	k := fakeFrames(t, 0x4000_0000)
	k.errors["mmap huge"] = unix.ENOMEM
	_, err := addEdu(t).open().Map(host(3 << 20))
	wantFault(t, "pci", err, NoDevice, "0x300000 bytes of host memory are ordinary pages",
		"may move", "echo 4 > /proc/sys/vm/nr_hugepages", "vfio:")
	v := fakeVFIOKernel(t)
	v.errors["mmap huge"] = unix.ENOMEM
	f, _ := addVFIOEdu(v)
	if a := mustMap(t, f.openVFIO(), host(4096)); a.BusAddress != iovaFirst {
		t.Errorf("vfio: bus address %#x", a.BusAddress)
	}
	tt := fakeTTKernel(t, &boards.Wormhole)
	tt.errors["mmap huge"] = unix.ENOMEM
	d := tt.openTT()
	if a := mustMap(t, d, host(4096)); a.BusAddress != 0x8_0000_0000 {
		t.Errorf("tt: bus address %#x", a.BusAddress)
	}
	tt.errors["mmap locked"] = unix.EAGAIN
	_, err = d.Map(host(4096))
	wantFault(t, "tt", err, Denied, "0x1000 bytes", "ulimit -l")
}

// mustMap maps a window, and fails the test if that is not possible.
func mustMap(t testing.TB, d Device, w fbs.Window) *Aperture {
	t.Helper()
	a, err := d.Map(w)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

func TestHostWindowsShareHugePages(t *testing.T) {
	fakeSysfs(t)
	fakeFrames(t, 0x4000_0000)
	d := addEdu(t).open()
	for i, c := range []struct {
		size uint64
		maps int
	}{{hugePageSize - 4096, 1}, {4096, 1}, {1, 2}, {hugePageSize, 3}, {hugePageSize + 1, 4},
		{hugePageSize - 4096, 4}, {1, 5}} {
		mustMap(t, d, host(c.size))
		if len(d.hostMemory.mappings) != c.maps {
			t.Errorf("window %d: %d mappings, want %d", i, len(d.hostMemory.mappings), c.maps)
		}
	}
}

func TestHostMemoryThatTheDeviceCannotUseIsRefused(t *testing.T) {
	failing := func(call string, err error) func(*frames, *fakeFunction) {
		return func(k *frames, _ *fakeFunction) { k.errors[call] = err }
	}
	scattered := func(size uint64) func(*frames, *fakeFunction) {
		return func(k *frames, f *fakeFunction) { k.gap, f.window = 1, size }
	}
	const notContiguous = "0x3000 bytes of host memory are not physically contiguous, even in"
	for name, c := range map[string]struct {
		change func(*frames, *fakeFunction)
		code   Code
		words  []string
	}{
		"no memory to lock": {
			func(k *frames, _ *fakeFunction) {
				k.errors["mmap huge"], k.errors["mmap locked"] = unix.ENOMEM, unix.EAGAIN
			},
			Denied, []string{"0x3000 bytes", "resource temporarily unavailable", "ulimit -l"},
		},
		"ordinary pages": {
			failing("mmap huge", unix.ENOMEM),
			NoDevice, []string{"0x3000 bytes", "may move", "echo 2 > /proc/sys/vm/nr_hugepages"},
		},
		"scattered pages": {
			scattered(0x2001),
			NoDevice, []string{notContiguous, "hugepages=2", "at most 2 MiB"},
		},
		"scattered, a huge page": {
			scattered(hugePageSize),
			NoDevice, []string{"hugepages=2"},
		},
		"scattered, a huge page and a byte": {
			scattered(hugePageSize + 1),
			NoDevice, []string{"hugepages=4"},
		},
		"the last page elsewhere": {
			func(k *frames, _ *fakeFunction) { k.ends = 2 },
			NoDevice, []string{notContiguous},
		},
		"physical addresses denied": {
			func(k *frames, _ *fakeFunction) { k.first = 0 },
			Denied, []string{"CAP_SYS_ADMIN", "run as root"},
		},
		"pages not present": {
			func(k *frames, _ *fakeFunction) { k.flags = 0 },
			NoDevice, []string{pagemapPath},
		},
		"no pagemap": {
			failing("open "+pagemapPath, unix.EACCES),
			Denied, []string{pagemapPath, "run as root"},
		},
		"IOMMU of the device": {
			func(_ *frames, f *fakeFunction) { f.link("iommu_group", "7") },
			NoDevice, []string{"an IOMMU translates the addresses of the device",
				"open the device as `vfio:0000:00:01.0`"},
		},
		"IOMMU of the bridge": {
			func(_ *frames, f *fakeFunction) {
				f.mkdir("../of_node")
				f.write("../of_node/iommu-map", "\x00")
			},
			NoDevice, []string{"an IOMMU translates the addresses of the host bridge",
				"open the device as `vfio:0000:00:01.0`"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fakeSysfs(t)
			k := fakeFrames(t, 0x4000_0000)
			f := addEdu(t)
			f.window = 0x2001
			c.change(k, f)
			d := f.open()
			_, err := d.Map(host(f.window))
			wantFault(t, "Map", err, c.code, c.words...)
			d.Close()
		})
	}
}

func TestAnIOMMUThatTranslatesNothingIsNoObstacle(t *testing.T) {
	fakeSysfs(t)
	fakeFrames(t, 0x4000_0000)
	f := addEdu(t)
	f.mkdir("../groups")
	f.mkdir("../groups/7")
	if err := os.WriteFile(f.path("../groups/7/type"), []byte("identity\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../groups/7", f.path("iommu_group")); err != nil {
		t.Fatal(err)
	}
	if a := mustMap(t, f.open(), host(1)); a.BusAddress != 0x4000_0000 {
		t.Errorf("bus address %#x", a.BusAddress)
	}
}

// link creates a symbolic link to a path whose last part is `to`.
func (f *fakeFunction) link(name, to string) {
	f.t.Helper()
	if err := os.Symlink("../../somewhere/"+to, f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeFunction) mkdir(name string) {
	f.t.Helper()
	if err := os.Mkdir(f.path(name), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

// command returns the command register in the file of configuration space.
func (f *fakeFunction) command() uint64 {
	return loadLittleEndian(f.at("config", configCommandOffset, 2))
}

func TestMasterIsOnBetweenMasterAndClose(t *testing.T) {
	fakeSysfs(t)
	k := fakeFrames(t, 0x4000_0000)
	f := addEdu(t)
	d := f.open()
	mustMap(t, d, host(4096))
	if f.command() != 2 {
		t.Errorf("before Master: command %#x", f.command())
	}
	for _, on := range []bool{true, false, true} {
		if err := d.SetBusMaster(on); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]uint64{true: 6, false: 2}[on]; f.command() != want {
			t.Errorf("Master(%v): command %#x", on, f.command())
		}
	}
	k.journal = nil
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if f.command() != 2 || k.at("pwrite config +0x4 02 00") > k.at("munmap") {
		t.Errorf("after Close: command %#x; calls %q", f.command(), k.journal)
	}
}

func TestADeviceThatDoesNotBecomeMasterIsAFault(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *frames)
		code   Code
		words  []string
	}{
		"the bit stays off": {
			func(k *frames) { k.writes = func(int, []byte, int64) bool { return true } },
			MasterOff, []string{"bus mastering stays off"},
		},
		"the store is denied": {
			func(k *frames) { k.errors["pwrite"] = unix.EPERM },
			Denied, []string{"command register", "run as root"},
		},
		"the device is removed": {
			func(k *frames) { k.errors["pwrite"] = unix.ENODEV },
			DeviceGone, []string{"command register"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fakeSysfs(t)
			k := fakeFrames(t, 0x4000_0000)
			d := addEdu(t).open()
			c.change(k)
			wantFault(t, "SetBusMaster", d.SetBusMaster(true), c.code, c.words...)
			d.Close()
		})
	}
}

func TestMasterThatCannotBeSwitchedOffIsAFault(t *testing.T) {
	fakeSysfs(t)
	k := fakeFrames(t, 0x4000_0000)
	f := addEdu(t)
	d := f.open()
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	k.writes = func(int, []byte, int64) bool { return true }
	wantFault(t, "stays on", d.SetBusMaster(false), Internal, "bus mastering stays on")
	wantFault(t, "still on", d.Close(), Internal, "bus mastering stays on")
	k.writes = nil
	d = f.open()
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	f.patch("config", 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	k.writes = func(int, []byte, int64) bool { return true }
	wantFault(t, "gone", d.Close(), DeviceGone, "all ones")
}

func TestBusMasteringNeedsWriteAccessToConfigurationSpace(t *testing.T) {
	fakeSysfs(t)
	k := fakeFrames(t, 0x4000_0000)
	f := addEdu(t)
	denyStores(k.fakeKernel, f)
	d := f.open()
	if err := d.SetBusMaster(false); err != nil { // bus mastering was not on
		t.Error(err)
	}
	wantFault(t, "Master", d.SetBusMaster(true), Denied, "the command register", "run as root")
	config := mustMap(t, d, fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
	if v, code := config.Load(0, 4); v != 0x11e81234 || code != OK ||
		config.Store(4, 2, 0) != Denied {
		t.Errorf("configuration space: %#x, %v", v, code)
	}
	d.Close()
	f.patch("config", configCommandOffset, 6)
	d = f.open() // bus mastering was left on
	wantFault(t, "left mastering", d.SetBusMaster(true), Denied, "the command register",
		"run as root")
}

// denyStores lets programs open the configuration space of a function for reading only.
func denyStores(k *fakeKernel, f *fakeFunction) {
	use(&readOnly{k, f.path("config")})
}

type readOnly struct {
	*fakeKernel
	path string
}

func (r *readOnly) open(path string, flags int) (int, error) {
	if path == r.path && flags&unix.O_RDWR != 0 {
		return -1, unix.EACCES
	}
	return r.fakeKernel.open(path, flags)
}

func (r *readOnly) pwrite(fd int, data []byte, offset int64) (int, error) {
	n, err := r.fakeKernel.pwrite(fd, data, offset)
	if r.opened[fd] == r.path && err == unix.EBADF {
		err = unix.ESPIPE // the error that sysfs returns
	}
	return n, err
}

// A killed program has left bus mastering of its device on.
func TestADeviceThatMastersAtOpenIsStoppedAndReset(t *testing.T) {
	fakeSysfs(t)
	k := fakeFrames(t, 0x4000_0000)
	f := addEdu(t)
	f.write("reset", "")
	f.open().Close()
	if got, _ := os.ReadFile(f.path("reset")); len(got) != 0 {
		t.Errorf("a quiet device is reset: %q", got)
	}
	f.patch("config", configCommandOffset, 6)
	k.journal = nil
	f.open()
	if got, _ := os.ReadFile(f.path("reset")); string(got) != "1\n" || f.command() != 2 {
		t.Errorf("reset holds %q, command %#x", got, f.command())
	}
	k.at("pwrite config +0x4 02 00")
	f.patch("config", configCommandOffset, 6)
	f.remove("reset")
	f.open()
	if f.command() != 2 {
		t.Errorf("a device without reset: command %#x", f.command())
	}
	f.patch("config", configCommandOffset, 6)
	k.writes = func(int, []byte, int64) bool { return true }
	_, err := openAndAcquire("pci:1234:11e8")
	wantFault(t, "stays on", err, Internal, "bus mastering stays on")
}

func TestDiagnoseTellsWhatIsWrong(t *testing.T) {
	fakeSysfs(t)
	fakeFrames(t, 0x4000_0000)
	f := addEdu(t)
	d := f.open()
	status := func(bits uint16) { f.patch("config", configStatusOffset, byte(bits), byte(bits>>8)) }
	want := func(what string, want Code) {
		t.Helper()
		if got := d.Diagnose(); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("at rest", OK)
	status(1 << 13)
	want("an abort, but it does not master", OK)
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	if got := loadLittleEndian(f.at("config", configStatusOffset,
		2)); got != configStatusDMAErrors {
		t.Errorf("status register %#x: no ones were stored to it", got)
	}
	status(1 << 13)
	want("a bit that was there before", OK) // in the file, writing a one does not clear a bit
	d.busMaster.statusBeforeDMA = 0
	for bit := range 16 {
		status(1 << bit)
		want(fmt.Sprintf("status bit %d", bit),
			map[bool]Code{true: DMAFault, false: OK}[bit == 8 || bit == 12 || bit == 13 ||
				bit == 15])
	}
	status(0)
	f.patch("config", configCommandOffset, 2)
	want("mastering switched off", MasterOff)
	f.patch("config", configCommandOffset, 4)
	want("memory decoding off", DeviceGone)
	f.patch("config", configCommandOffset, 6)
	k := syscalls
	syscalls = real
	if n := testing.AllocsPerRun(10,
		func() { d.Diagnose(); _ = d.SetBusMaster(false); _ = d.SetBusMaster(true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	syscalls = k
	d.Close()
	want("closed", DeviceGone)
}

// still is a device that cannot be bus master.
type still struct {
	Device
	alive bool
}

func (s still) Alive() bool        { return s.alive }
func (s still) Identity() Identity { return Identity{Name: "mock:still"} }

func TestBaseDeviceDoesNothing(t *testing.T) {
	registers, home, code := BaseDevice{}.EncodePoint(nil, tile, 0, nil)
	if registers != 0 || home != 0 || code != OK ||
		(BaseDevice{}).AssignBusAddress(nil, nil) != nil ||
		(BaseDevice{}).SetBusMaster(true) != nil || (BaseDevice{}).Close() != nil ||
		!(BaseDevice{}).Alive() || (BaseDevice{}).ProgramWindow(nil, tile, 0) != Internal ||
		(BaseDevice{}).Diagnose() != OK {
		t.Errorf("registers %#x, hardware window %#x, %v", registers, home, code)
	}
	there, gone := DeviceGoneUnlessAlive(still{alive: true}), DeviceGoneUnlessAlive(still{})
	if there != OK || gone != DeviceGone {
		t.Errorf("there %v, gone %v", there, gone)
	}
}

func TestDevicesOfOneBackendReachEachOther(t *testing.T) {
	fakeSysfs(t)
	fakeFrames(t, 0x4000_0000)
	f := addEdu(t)
	g := addFunction(t, "0000:02:00.0", 0x1af4, 0x1110, map[int]uint64{2: mega})
	d, of := f.open(), g.open()
	a := mustMap(t, of, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Offset: 0x100, Size: 0x100})
	if err := d.AssignBusAddress(a, of); err != nil || a.BusAddress != barBus(2)+0x100 {
		t.Errorf("bus address %#x, %v", a.BusAddress, err)
	}
	wantFault(t, "a mock", d.AssignBusAddress(a, still{}), Usage,
		"pci:0000:00:01.0 cannot reach memory of mock:still", "both as `pci:`")
	f.link("iommu_group", "1")
	if err := d.AssignBusAddress(a, of); err != nil {
		t.Errorf("asked again: %v", err)
	}
	d = f.open()
	wantFault(t, "IOMMU", d.AssignBusAddress(a, of), NoDevice,
		"open the device as `vfio:0000:00:01.0`")
}

func TestSystemCallsThatFailAreNamed(t *testing.T) {
	fakeSysfs(t)
	k := fakeSystem(t)
	f := addEdu(t)
	k.errors["pread "+f.path("config")] = unix.EIO
	_, err := openAndAcquire("pci:1234:11e8")
	wantFault(t, "config", err, NoDevice, "read "+f.path("config")+": input/output error")
	clear(k.errors)
	f.patch("config", configCommandOffset, 0)
	k.errors["pwrite"] = unix.EBUSY
	_, err = openAndAcquire("pci:1234:11e8")
	wantFault(t, "enable", err, NoDevice, "write "+f.path("enable")+": device or resource busy")
	clear(k.errors)
	f.write("modalias", "one\n")
	_, err = openAndAcquire("pci:1234:11e8")
	wantFault(t, "modalias", err, NoDevice, "modalias contains no PCI ids")
	k.substitute(sysfsDevicesDir, "no folder")
	_, err = openAndAcquire("pci:1234:11e8")
	wantFault(t, "folder", err, NoDevice, "getdents "+sysfsDevicesDir+": not a directory")
}

func TestMappingsThatFailAreFaults(t *testing.T) {
	fakeSysfs(t)
	k := fakeSystem(t)
	d := addWormhole(t).open()
	mustMap(t, d, tlb(mega, 0)) // this call also maps the registers
	k.errors["mmap"] = unix.ENOMEM
	_, err := d.Map(tlb(mega, 0))
	wantFault(t, "window", err, NoDevice, "mmap", "resource0: cannot allocate memory")
	k.errors["mmap"] = unix.EINVAL
	_, err = d.Map(fbs.Window{Kind: gen.WindowKindBar, Offset: 8 * mega, Size: 1})
	wantFault(t, "page of two kinds", err, NoDevice, "invalid argument", "another memory type")
}

func TestCloseReportsAFailedUnmap(t *testing.T) {
	fakeSysfs(t)
	k := fakeFrames(t, 0x4000_0000)
	d := addEdu(t).open()
	mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Size: 4096})
	k.errors["munmap"] = unix.EINVAL
	wantFault(t, "munmap", d.Close(), NoDevice, "munmap", "invalid argument")
}

// openAndAcquire opens a device and acquires it, in the way the first Map does.
func openAndAcquire(name string) (Device, error) {
	d, err := Open(name)
	if err != nil {
		return nil, err
	}
	_, _ = d.Map(fbs.Window{}) // a window of no kind: Map only acquires the device
	if err := d.(*device).acquireError; err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}
