package hal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/tools/check/fakekernel"
)

const (
	mib = 1 << 20
	gib = 1 << 30

	ttNode = "/dev/tenstorrent/0"
)

// fakeKernel is a fake machine of package fakekernel. Package hal uses its sysfs.
type fakeKernel struct {
	*fakekernel.Kernel
	t testing.TB
}

// currentMachine is the machine to which addFunction adds PCI functions.
var currentMachine *fakeKernel

func skipUnlessAllBackends(t testing.TB) {
	t.Helper()
	if !hasAll {
		t.Skip("needs all backends")
	}
}

// installFakeSysfs makes package hal use the sysfs of a fake machine without PCI functions, until
// the test ends. System calls still reach the real kernel, on the files of the fake machine.
func installFakeSysfs(t testing.TB) *fakeKernel {
	skipUnlessAllBackends(t)
	oldDir, umask := sysfsDevicesDir, unix.Umask(0o022) // the umask does not apply to sysfs
	dir, err := filepath.EvalSymlinks(t.TempDir())      // /proc/self/fd contains no symbolic links
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKernel{fakekernel.New(dir, t.Errorf), t}
	t.Cleanup(func() {
		sysfsDevicesDir = oldDir
		unix.Umask(umask)
		k.Release()
	})
	currentMachine, sysfsDevicesDir = k, dir+fakekernel.SysfsDir
	return k
}

// installFakeKernel makes package hal make its system calls to a fake machine, until the test ends.
// It fails the test if files are then open, or memory is still mapped for the program or a device.
func installFakeKernel(t testing.TB) *fakeKernel {
	k := installFakeSysfs(t)
	k.useForSyscalls()
	t.Cleanup(func() {
		syscalls = realSyscalls
		k.checkReleased(t)
	})
	return k
}

func (k *fakeKernel) useForSyscalls() {
	syscalls = syscallTable{k.Open, k.Close, k.Ioctl, k.Mmap, k.Munmap, k.Read, k.Pread, k.Pwrite,
		k.Flock, openEventPoller}
}

func (k *fakeKernel) checkReleased(t testing.TB) {
	t.Helper()
	users := vfioFileUsers()
	if len(k.OpenFiles) > 0 || len(k.Mappings) > 0 || len(k.VFIO.DMA) > 0 || len(users) > 0 {
		t.Errorf("open files %v, mappings %v, DMA mappings %v, VFIO files in use %v; want none",
			k.OpenFiles, k.Mappings, k.VFIO.DMA, users)
	}
}

// vfioFileUsers returns the number of functions that use each open VFIO file.
func vfioFileUsers() map[string]int {
	users := map[string]int{}
	for _, f := range vfioShared.files {
		if f.userCount != 0 {
			users[f.path] = f.userCount
		}
	}
	return users
}

// callIndex returns the index of the first system call that begins with the given text. It fails
// the test if there is none.
func (k *fakeKernel) callIndex(call string) int {
	k.t.Helper()
	i := slices.IndexFunc(k.Calls, func(s string) bool { return strings.HasPrefix(s, call) })
	if i < 0 {
		k.t.Errorf("system calls %q, want one that begins with %q", k.Calls, call)
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

// entry implements the page map.
func (f *fakePagemap) entry(page uint64) uint64 {
	if _, ok := f.frameOfPage[page]; !ok {
		f.frameOfPage[page] = f.firstFrame + uint64(len(f.frameOfPage))*(1+f.frameGap)
		if f.contiguousPages > 0 && len(f.frameOfPage) > f.contiguousPages {
			f.frameOfPage[page]++
		}
	}
	return f.frameOfPage[page] | f.flags
}

// installFakePagemap makes package hal make its system calls to a fake machine, until the test
// ends. The memory of this machine has the physical address `first` and higher addresses.
func installFakePagemap(t testing.TB, first uint64) *fakePagemap {
	// Bits of the page map that hal must ignore: shared (61), exclusive (56), soft-dirty (55).
	f := &fakePagemap{fakeKernel: installFakeKernel(t), firstFrame: first / 4096,
		frameOfPage: map[uint64]uint64{}, flags: pagePresentBit | 1<<61 | 1<<56 | 1<<55}
	f.Pagemap = f.entry
	return f
}

// fakeFunction is a PCI function of a fake machine.
type fakeFunction struct {
	*fakekernel.Function
	k              *fakeKernel
	t              testing.TB
	dir            string // directory of the function in sysfs
	hostWindowSize uint64 // size of a Host window in bytes
}

// addFunction adds a PCI function to the current machine. bars contains the sizes in bytes.
func addFunction(t testing.TB, address string, vendor, device uint16,
	bars map[int]uint64) *fakeFunction {
	var sizes [6]uint64
	for bar, size := range bars {
		sizes[bar] = size
	}
	f := &fakeFunction{Function: currentMachine.AddFunction(address, vendor, device, sizes),
		k: currentMachine, t: t, dir: filepath.Join(sysfsDevicesDir, address)}
	f.write("class", "0x120000\n")
	return f
}

// addEdu adds a function with the ids and the BAR of the board edu.
func addEdu(t testing.TB) *fakeFunction {
	return addFunction(t, "0000:00:01.0", boards.Edu.Vendor, boards.Edu.Device,
		map[int]uint64{0: mib})
}

// addVFIOEdu adds an edu that is bound to vfio-pci. Memory decoding is off, as vfio-pci leaves it.
func addVFIOEdu(k *fakeKernel) *fakeFunction {
	f := addEdu(k.t)
	f.bindToVFIO("7")
	f.SetCommand(0)
	return f
}

// addWormhole adds a function with the ids and BARs of a Wormhole.
func addWormhole(t testing.TB) *fakeFunction {
	return addFunction(t, "0000:01:00.0", 0x1e52, 0x401e,
		map[int]uint64{0: 512 * mib, 2: mib, 4: 32 * mib})
}

// addBlackhole adds a function with the ids and BARs of a Blackhole. BAR 4 has bar4 bytes.
func addBlackhole(t testing.TB, bar4 uint64) *fakeFunction {
	return addFunction(t, "0000:02:00.0", 0x1e52, 0xb140,
		map[int]uint64{0: 512 * mib, 2: mib, 4: bar4})
}

// fakeTT is a fake kernel with Tenstorrent's driver and one device, whose file is ttNode.
type fakeTT struct {
	*fakeKernel
	f *fakeFunction
}

// installFakeTT makes package hal make its system calls to a fake machine with one device of the
// board, until the test ends.
func installFakeTT(t testing.TB, board *boards.Board) *fakeTT {
	k := installFakeKernel(t)
	f := addFunction(t, "0001:b3:1f.5", board.Vendor, board.Device,
		map[int]uint64{0: board.BarSizes[0], 2: board.BarSizes[2], 4: board.BarSizes[4]})
	k.BindToTT(f.Function)
	return &fakeTT{k, f}
}

func (f *fakeFunction) bind(driver string)      { f.k.BindDriver(f.Function, driver) }
func (f *fakeFunction) bindToVFIO(group string) { f.k.BindToVFIO(f.Function, group) }

func (f *fakeFunction) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fakeFunction) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeFunction) write(name, text string) {
	f.t.Helper()
	f.check(os.WriteFile(f.path(name), []byte(text), 0o644))
}

func (f *fakeFunction) readAt(name string, offset uint64, n int) []byte {
	f.t.Helper()
	file, err := os.Open(f.path(name))
	f.check(err)
	defer file.Close()
	b := make([]byte, n)
	_, err = file.ReadAt(b, int64(offset))
	f.check(err)
	return b
}

// valueAt returns a little-endian number of n bytes.
func (f *fakeFunction) valueAt(name string, offset uint64, n int) uint64 {
	f.t.Helper()
	return loadLittleEndian(f.readAt(name, offset, n))
}

func (f *fakeFunction) patch(name string, offset uint64, b ...byte) {
	f.t.Helper()
	file, err := os.OpenFile(f.path(name), os.O_WRONLY, 0)
	f.check(err)
	defer file.Close()
	_, err = file.WriteAt(b, int64(offset))
	f.check(err)
}

func (f *fakeFunction) remove(name string) {
	f.t.Helper()
	f.check(os.Remove(f.path(name)))
}

// addCapability adds a capability to the list that begins at offset 0x40.
func (f *fakeFunction) addCapability(offset uint64, id, next byte) {
	f.patch("config", configStatusOffset, configStatusList)
	f.patch("config", configCapabilities, configCapabilityMin)
	f.patch("config", offset, id, next)
}

func (f *fakeFunction) mkdir(name string) {
	f.t.Helper()
	f.check(os.Mkdir(f.path(name), 0o755))
}

// symlink creates a link in the function's directory to a path that ends with `to`.
func (f *fakeFunction) symlink(name, to string) {
	f.t.Helper()
	f.check(os.Symlink("../../somewhere/"+to, f.path(name)))
}

// open opens and acquires the function through sysfs, openVFIO through VFIO. The end of the test
// closes it.
func (f *fakeFunction) open() *device     { return mustOpen(f.t, "pci:"+f.Address) }
func (f *fakeFunction) openVFIO() *device { return mustOpen(f.t, "vfio:"+f.Address) }

// openTT opens and acquires the device. The end of the test closes it.
func (k *fakeTT) openTT() *device { return mustOpen(k.t, "tt:"+ttNode) }

func mustOpen(t testing.TB, name string) *device {
	t.Helper()
	d, err := openAndAcquire(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*device)
}
