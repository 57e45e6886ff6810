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
	errors       map[string]error
	ioctlHandler func(fd int, request, value uintptr, argument unsafe.Pointer) (int, error)
	// dropsWrite reports whether pwrite is to return success without storing anything.
	dropsWrite   func(fd int, data []byte, offset int64) bool
	opened       map[int]string // path by open file descriptor
	mappingCount int            // number of mappings that are not unmapped yet
	readErrors   []error        // errors that the next calls of read return
	journal      []string       // some of the system calls, in order
}

// installFakeKernel makes package hal call a fake kernel until the test ends. It fails the test if
// a file is then still open or memory still mapped.
func installFakeKernel(t testing.TB) *fakeKernel {
	k := &fakeKernel{t: t, paths: map[string]string{}, errors: map[string]error{},
		opened: map[int]string{}}
	old := syscalls
	replaceSyscalls(k)
	t.Cleanup(func() {
		syscalls = old
		if len(k.opened) > 0 || k.mappingCount > 0 {
			t.Errorf("after the test, files are open: %v; %d mappings exist", k.opened,
				k.mappingCount)
		}
	})
	return k
}

// open opens the file that replaces the path, if there is one. Other files in /dev do not exist.
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
	return k.ioctlHandler(fd, request, value, argument)
}

// mmap maps ordinary pages instead of huge pages, and does not lock them.
func (k *fakeKernel) mmap(fd int, offset int64, length, protection, flags int) ([]byte, error) {
	err := k.errors["mmap"]
	switch {
	case flags&unix.MAP_HUGETLB != 0:
		if length%hugePageSize != 0 || flags>>26&63 != 21 {
			k.t.Errorf("mmap of %#x bytes in huge pages of 1 << %d bytes; want a multiple of "+
				"2 MiB and pages of 1 << 21", length, flags>>26&63)
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
		k.mappingCount++
	}
	return mem, err
}

func (k *fakeKernel) munmap(mem []byte) error {
	k.journal = append(k.journal, "munmap")
	k.mappingCount--
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
	if len(k.readErrors) > 0 {
		err := k.readErrors[0]
		k.readErrors = k.readErrors[1:]
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
	if k.dropsWrite != nil && k.dropsWrite(fd, data, offset) {
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

// callIndex returns the index of the first entry of the journal that begins with call. It fails the
// test if there is none.
func (k *fakeKernel) callIndex(call string) int {
	k.t.Helper()
	i := slices.IndexFunc(k.journal, func(s string) bool { return strings.HasPrefix(s, call) })
	if i < 0 {
		k.t.Errorf("system calls %q, want one that begins with %q", k.journal, call)
	}
	return i
}

// fakePagemap is a fake kernel whose /proc/self/pagemap shows consecutive physical page frames from
// firstFrame on, in the order in which the program asks for pages.
type fakePagemap struct {
	*fakeKernel
	firstFrame      uint64 // number of the first frame
	frameGap        uint64 // number of frames to skip after every page
	contiguousPages int    // number of pages after which one frame is skipped; 0: never
	frameOfPage     map[uint64]uint64
	flags           uint64
}

// pread imitates the file /proc/self/pagemap.
func (f *fakePagemap) pread(fd int, data []byte, offset int64) (int, error) {
	if f.opened[fd] != pagemapPath {
		return f.fakeKernel.pread(fd, data, offset)
	}
	page := uint64(offset) / 8
	if _, ok := f.frameOfPage[page]; !ok {
		f.frameOfPage[page] = f.firstFrame + uint64(len(f.frameOfPage))*(1+f.frameGap)
		if f.contiguousPages > 0 && len(f.frameOfPage) > f.contiguousPages {
			f.frameOfPage[page]++
		}
	}
	storeLittleEndian(data, f.frameOfPage[page]|f.flags)
	return len(data), nil
}

// installFakePagemap makes package hal call a fake kernel until the test ends. The memory of this
// kernel has the physical address `first` and higher addresses.
func installFakePagemap(t testing.TB, first uint64) *fakePagemap {
	// Bits of the page map that hal must ignore: shared (61), exclusive (56), soft-dirty (55).
	f := &fakePagemap{fakeKernel: installFakeKernel(t), firstFrame: first / 4096,
		frameOfPage: map[uint64]uint64{}, flags: pagePresentBit | 1<<61 | 1<<56 | 1<<55}
	// Behave like a kernel without huge pages in files.
	f.errors["memfd"] = unix.ENOSYS
	replaceSyscalls(f)
	return f
}

// hostWindow returns a Host window of size bytes.
func hostWindow(size uint64) fbs.Window { return fbs.Window{Kind: gen.WindowKindHost, Size: size} }

func TestHostMemoryIsZeroedAndAtItsPhysicalAddress(t *testing.T) {
	installFakeSysfs(t)
	installFakePagemap(t, 0x4000_0000)
	d := addEdu(t).open()
	small, large := mustMap(t, d, hostWindow(16)), mustMap(t, d, hostWindow(0x3001))
	if small.BusAddress != 0x4000_0000 || large.BusAddress != 0x4000_1000 || small.Size != 16 ||
		large.Size != 0x3001 {
		t.Errorf("small window: %d bytes at bus address %#x, large window: %d bytes at %#x",
			small.Size, small.BusAddress, large.Size, large.BusAddress)
	}
	if len(d.hostMemory.mappings) != 1 {
		t.Errorf("%d mappings for two windows, want 1", len(d.hostMemory.mappings))
	}
	for offset := uint64(0); offset < 0x3001; offset++ {
		if v, code := large.Load(uint32(offset), 1); v != 0 || code != OK {
			t.Fatalf("byte at %#x of new host memory: %#x, %v; want 0", offset, v, code)
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
func TestOrdinaryPagesNeedADriverThatPinsThem(t *testing.T) {
	installFakeSysfs(t)
	k := installFakePagemap(t, 0x4000_0000)
	k.errors["mmap huge"] = unix.ENOMEM
	_, err := addEdu(t).open().Map(hostWindow(3 << 20))
	wantFault(t, "pci", err, NoDevice, "0x300000 bytes of host memory are ordinary pages",
		"may move", "echo 4 > /proc/sys/vm/nr_hugepages", "vfio:")
	v := installFakeVFIO(t)
	v.errors["mmap huge"] = unix.ENOMEM
	f, _ := addVFIOEdu(v)
	if a := mustMap(t, f.openVFIO(), hostWindow(4096)); a.BusAddress != iovaFirst {
		t.Errorf("vfio: bus address %#x, want %#x", a.BusAddress, uint64(iovaFirst))
	}
	tt := installFakeTT(t, &boards.Wormhole)
	tt.errors["mmap huge"] = unix.ENOMEM
	d := tt.openTT()
	if a := mustMap(t, d, hostWindow(4096)); a.BusAddress != 0x8_0000_0000 {
		t.Errorf("tt: bus address %#x, want 0x800000000", a.BusAddress)
	}
	tt.errors["mmap locked"] = unix.EAGAIN
	_, err = d.Map(hostWindow(4096))
	wantFault(t, "tt", err, Denied, "0x1000 bytes", "ulimit -l")
}

// mustMap maps a window. It ends the test if Map fails.
func mustMap(t testing.TB, d Device, w fbs.Window) *Aperture {
	t.Helper()
	a, err := d.Map(w)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

func TestHostWindowsShareHugePages(t *testing.T) {
	installFakeSysfs(t)
	installFakePagemap(t, 0x4000_0000)
	d := addEdu(t).open()
	for i, c := range []struct {
		size uint64
		maps int
	}{{hugePageSize - 4096, 1}, {4096, 1}, {1, 2}, {hugePageSize, 3}, {hugePageSize + 1, 4},
		{hugePageSize - 4096, 4}, {1, 5}} {
		mustMap(t, d, hostWindow(c.size))
		if len(d.hostMemory.mappings) != c.maps {
			t.Errorf("window %d: %d mappings, want %d", i, len(d.hostMemory.mappings), c.maps)
		}
	}
}

func TestHostMemoryThatTheDeviceCannotUseIsRejected(t *testing.T) {
	failing := func(call string, err error) func(*fakePagemap, *fakeFunction) {
		return func(k *fakePagemap, _ *fakeFunction) { k.errors[call] = err }
	}
	scattered := func(size uint64) func(*fakePagemap, *fakeFunction) {
		return func(k *fakePagemap, f *fakeFunction) { k.frameGap, f.hostWindowSize = 1, size }
	}
	const notContiguous = "0x3000 bytes of host memory are not physically contiguous, even in"
	for name, c := range map[string]struct {
		change func(*fakePagemap, *fakeFunction)
		code   Code
		words  []string
	}{
		"no memory to lock": {
			func(k *fakePagemap, _ *fakeFunction) {
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
			func(k *fakePagemap, _ *fakeFunction) { k.contiguousPages = 2 },
			NoDevice, []string{notContiguous},
		},
		"physical addresses denied": {
			func(k *fakePagemap, _ *fakeFunction) { k.firstFrame = 0 },
			Denied, []string{"CAP_SYS_ADMIN", "run as root"},
		},
		"pages not present": {
			func(k *fakePagemap, _ *fakeFunction) { k.flags = 0 },
			NoDevice, []string{pagemapPath},
		},
		"no pagemap": {
			failing("open "+pagemapPath, unix.EACCES),
			Denied, []string{pagemapPath, "run as root"},
		},
		"IOMMU of the device": {
			func(_ *fakePagemap, f *fakeFunction) { f.symlink("iommu_group", "7") },
			NoDevice, []string{"an IOMMU translates the addresses of the device",
				"open the device as `vfio:0000:00:01.0`"},
		},
		"IOMMU of the bridge": {
			func(_ *fakePagemap, f *fakeFunction) {
				f.mkdir("../of_node")
				f.write("../of_node/iommu-map", "\x00")
			},
			NoDevice, []string{"an IOMMU translates the addresses of the host bridge",
				"open the device as `vfio:0000:00:01.0`"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			installFakeSysfs(t)
			k := installFakePagemap(t, 0x4000_0000)
			f := addEdu(t)
			f.hostWindowSize = 0x2001
			c.change(k, f)
			d := f.open()
			_, err := d.Map(hostWindow(f.hostWindowSize))
			wantFault(t, "Map", err, c.code, c.words...)
			d.Close()
		})
	}
}

func TestHostMemoryNeedsNoVFIOIfTheIOMMUTranslatesNothing(t *testing.T) {
	installFakeSysfs(t)
	installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	f.mkdir("../groups")
	f.mkdir("../groups/7")
	if err := os.WriteFile(f.path("../groups/7/type"), []byte("identity\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../groups/7", f.path("iommu_group")); err != nil {
		t.Fatal(err)
	}
	if a := mustMap(t, f.open(), hostWindow(1)); a.BusAddress != 0x4000_0000 {
		t.Errorf("bus address %#x, want the physical address 0x40000000", a.BusAddress)
	}
}

// symlink creates a symbolic link in the function's directory. The link points to a path whose last
// part is `to`.
func (f *fakeFunction) symlink(name, to string) {
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

// commandRegister returns the command register from the file of configuration space.
func (f *fakeFunction) commandRegister() uint64 {
	return loadLittleEndian(f.readAt("config", configCommandOffset, 2))
}

func TestBusMasteringIsOnBetweenSetBusMasterAndClose(t *testing.T) {
	installFakeSysfs(t)
	k := installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	d := f.open()
	mustMap(t, d, hostWindow(4096))
	if f.commandRegister() != 2 {
		t.Errorf("before SetBusMaster: command register %#x, want 2", f.commandRegister())
	}
	for _, on := range []bool{true, false, true} {
		if err := d.SetBusMaster(on); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]uint64{true: 6, false: 2}[on]; f.commandRegister() != want {
			t.Errorf("SetBusMaster(%v): command register %#x, want %#x", on, f.commandRegister(),
				want)
		}
	}
	k.journal = nil
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if f.commandRegister() != 2 || k.callIndex("pwrite config +0x4 02 00") > k.callIndex("munmap") {
		t.Errorf("after Close: command register %#x, system calls %q; want 2, stored before munmap",
			f.commandRegister(), k.journal)
	}
}

func TestBusMasteringThatStaysOffIsAFault(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *fakePagemap)
		code   Code
		words  []string
	}{
		"the bit stays off": {
			func(k *fakePagemap) { k.dropsWrite = func(int, []byte, int64) bool { return true } },
			MasterOff, []string{"bus mastering stays off"},
		},
		"the store is denied": {
			func(k *fakePagemap) { k.errors["pwrite"] = unix.EPERM },
			Denied, []string{"command register", "run as root"},
		},
		"the device is removed": {
			func(k *fakePagemap) { k.errors["pwrite"] = unix.ENODEV },
			DeviceGone, []string{"command register"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			installFakeSysfs(t)
			k := installFakePagemap(t, 0x4000_0000)
			d := addEdu(t).open()
			c.change(k)
			wantFault(t, "SetBusMaster", d.SetBusMaster(true), c.code, c.words...)
			d.Close()
		})
	}
}

func TestBusMasteringThatStaysOnIsAFault(t *testing.T) {
	installFakeSysfs(t)
	k := installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	d := f.open()
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	k.dropsWrite = func(int, []byte, int64) bool { return true }
	wantFault(t, "stays on", d.SetBusMaster(false), Internal, "bus mastering stays on")
	wantFault(t, "still on", d.Close(), Internal, "bus mastering stays on")
	k.dropsWrite = nil
	d = f.open()
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	f.patch("config", 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	k.dropsWrite = func(int, []byte, int64) bool { return true }
	wantFault(t, "gone", d.Close(), DeviceGone, "all ones")
}

func TestBusMasteringNeedsWriteAccessToConfigurationSpace(t *testing.T) {
	installFakeSysfs(t)
	k := installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	denyConfigWrites(k.fakeKernel, f)
	d := f.open()
	if err := d.SetBusMaster(false); err != nil { // bus mastering was not on
		t.Error(err)
	}
	wantFault(t, "SetBusMaster", d.SetBusMaster(true), Denied, "the command register",
		"run as root")
	config := mustMap(t, d, fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
	if v, code := config.Load(0, 4); v != 0x11e81234 || code != OK ||
		config.Store(4, 2, 0) != Denied {
		t.Errorf("configuration space: loaded %#x, %v, or the store was not denied", v, code)
	}
	d.Close()
	f.patch("config", configCommandOffset, 6)
	d = f.open() // another program has left bus mastering on
	wantFault(t, "bus mastering is on", d.SetBusMaster(true), Denied, "the command register",
		"run as root")
}

// denyConfigWrites makes the kernel deny opening the configuration space of a function for writing.
func denyConfigWrites(k *fakeKernel, f *fakeFunction) {
	replaceSyscalls(&readOnlyConfig{k, f.path("config")})
}

// readOnlyConfig is a fake kernel that lets programs open the file at `path` for reading only.
type readOnlyConfig struct {
	*fakeKernel
	path string
}

func (r *readOnlyConfig) open(path string, flags int) (int, error) {
	if path == r.path && flags&unix.O_RDWR != 0 {
		return -1, unix.EACCES
	}
	return r.fakeKernel.open(path, flags)
}

func (r *readOnlyConfig) pwrite(fd int, data []byte, offset int64) (int, error) {
	n, err := r.fakeKernel.pwrite(fd, data, offset)
	if r.opened[fd] == r.path && err == unix.EBADF {
		err = unix.ESPIPE // the error that sysfs returns
	}
	return n, err
}

// A killed program has left bus mastering of its device on.
func TestADeviceThatMastersAtOpenIsStoppedAndReset(t *testing.T) {
	installFakeSysfs(t)
	k := installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	f.write("reset", "")
	f.open().Close()
	if got, _ := os.ReadFile(f.path("reset")); len(got) != 0 {
		t.Errorf("open of a device that does not master the bus: wrote %q to reset, want nothing",
			got)
	}
	f.patch("config", configCommandOffset, 6)
	k.journal = nil
	f.open()
	if got, _ := os.ReadFile(f.path("reset")); string(got) != "1\n" || f.commandRegister() != 2 {
		t.Errorf("open of a bus master: wrote %q to reset, command register %#x; want 1 and 2", got,
			f.commandRegister())
	}
	k.callIndex("pwrite config +0x4 02 00")
	f.patch("config", configCommandOffset, 6)
	f.remove("reset")
	f.open()
	if f.commandRegister() != 2 {
		t.Errorf("open of a bus master without reset: command register %#x, want 2",
			f.commandRegister())
	}
	f.patch("config", configCommandOffset, 6)
	k.dropsWrite = func(int, []byte, int64) bool { return true }
	_, err := openAndAcquire("pci:1234:11e8")
	wantFault(t, "stays on", err, Internal, "bus mastering stays on")
}

func TestDiagnoseReportsTheFaultOfTheDevice(t *testing.T) {
	installFakeSysfs(t)
	installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	d := f.open()
	status := func(bits uint16) { f.patch("config", configStatusOffset, byte(bits), byte(bits>>8)) }
	want := func(what string, want Code) {
		t.Helper()
		if got := d.Diagnose(); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("no error bit, bus mastering off", OK)
	status(1 << 13)
	want("error bit, but bus mastering off", OK)
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	if got := loadLittleEndian(f.readAt("config", configStatusOffset,
		2)); got != configStatusDMAErrors {
		t.Errorf("status register %#x after SetBusMaster, want %#x: ones stored to the error bits",
			got, configStatusDMAErrors)
	}
	status(1 << 13)
	// In the file, writing a one does not clear a bit.
	want("error bit that was set before SetBusMaster", OK)
	d.busMaster.statusBeforeDMA = 0
	for bit := range 16 {
		status(1 << bit)
		want(fmt.Sprintf("status bit %d", bit),
			map[bool]Code{true: DMAFault, false: OK}[bit == 8 || bit == 12 || bit == 13 ||
				bit == 15])
	}
	status(0)
	f.patch("config", configCommandOffset, 2)
	want("bus mastering switched off", MasterOff)
	f.patch("config", configCommandOffset, 4)
	want("memory decoding off", DeviceGone)
	f.patch("config", configCommandOffset, 6)
	k := syscalls
	syscalls = realSyscalls
	if n := testing.AllocsPerRun(10,
		func() { d.Diagnose(); _ = d.SetBusMaster(false); _ = d.SetBusMaster(true) }); n != 0 {
		t.Errorf("Diagnose and SetBusMaster: %v allocations, want 0", n)
	}
	syscalls = k
	d.Close()
	want("closed", DeviceGone)
}

// passiveDevice is a device that cannot be bus master.
type passiveDevice struct {
	Device
	alive bool
}

func (s passiveDevice) Alive() bool        { return s.alive }
func (s passiveDevice) Identity() Identity { return Identity{Name: "mock:still"} }

func TestBaseDeviceDoesNothing(t *testing.T) {
	registers, tlbBase, code := BaseDevice{}.EncodePoint(nil, tile, 0, nil)
	if registers != 0 || tlbBase != 0 || code != OK ||
		(BaseDevice{}).AssignBusAddress(nil, nil) != nil ||
		(BaseDevice{}).SetBusMaster(true) != nil || (BaseDevice{}).Close() != nil ||
		!(BaseDevice{}).Alive() || (BaseDevice{}).ProgramWindow(nil, tile, 0) != Internal ||
		(BaseDevice{}).Diagnose() != OK {
		t.Errorf("EncodePoint returned registers %#x, TLB window %#x, %v; or another method of "+
			"BaseDevice did something", registers, tlbBase, code)
	}
	alive := DeviceGoneUnlessAlive(passiveDevice{alive: true})
	gone := DeviceGoneUnlessAlive(passiveDevice{})
	if alive != OK || gone != DeviceGone {
		t.Errorf("DeviceGoneUnlessAlive: %v if alive, %v if not; want %v and %v", alive, gone, OK,
			DeviceGone)
	}
}

func TestDevicesOfOneBackendReachEachOther(t *testing.T) {
	installFakeSysfs(t)
	installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	g := addFunction(t, "0000:02:00.0", 0x1af4, 0x1110, map[int]uint64{2: mib})
	d, of := f.open(), g.open()
	a := mustMap(t, of, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Offset: 0x100, Size: 0x100})
	if err := d.AssignBusAddress(a, of); err != nil || a.BusAddress != barBusAddress(2)+0x100 {
		t.Errorf("AssignBusAddress: bus address %#x, %v; want %#x", a.BusAddress, err,
			barBusAddress(2)+0x100)
	}
	wantFault(t, "a mock", d.AssignBusAddress(a, passiveDevice{}), Usage,
		"pci:0000:00:01.0 cannot reach memory of mock:still", "both as `pci:`")
	f.symlink("iommu_group", "1")
	if err := d.AssignBusAddress(a, of); err != nil {
		t.Errorf("second AssignBusAddress, after an IOMMU appeared: %v", err)
	}
	d = f.open()
	wantFault(t, "IOMMU", d.AssignBusAddress(a, of), NoDevice,
		"open the device as `vfio:0000:00:01.0`")
}

func TestErrorNamesTheFailedSystemCall(t *testing.T) {
	installFakeSysfs(t)
	k := installFakeKernel(t)
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
	wantFault(t, "directory", err, NoDevice, "getdents "+sysfsDevicesDir+": not a directory")
}

func TestMappingsThatFailAreFaults(t *testing.T) {
	installFakeSysfs(t)
	k := installFakeKernel(t)
	d := addWormhole(t).open()
	mustMap(t, d, tlbWindow(mib, 0)) // this call also maps the registers
	k.errors["mmap"] = unix.ENOMEM
	_, err := d.Map(tlbWindow(mib, 0))
	wantFault(t, "window", err, NoDevice, "mmap", "resource0: cannot allocate memory")
	k.errors["mmap"] = unix.EINVAL
	_, err = d.Map(fbs.Window{Kind: gen.WindowKindBar, Offset: 8 * mib, Size: 1})
	wantFault(t, "page of two memory types", err, NoDevice, "invalid argument",
		"another memory type")
}

func TestCloseReportsAFailedUnmap(t *testing.T) {
	installFakeSysfs(t)
	k := installFakePagemap(t, 0x4000_0000)
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
