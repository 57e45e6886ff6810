//go:build !(notiles || backend_pci || backend_vfio || backend_tt)

package hal

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// fakeVFIO imitates VFIO and an IOMMU. It returns an error for calls in a wrong order and for
// structs of a wrong size (Linux 6.1, drivers/vfio/vfio_main.c, vfio_iommu_type1.c,
// pci/vfio_pci_core.c).
type fakeVFIO struct {
	*fakeKernel
	functions        map[string]*vfioFunction // PCI functions by PCI address
	functionOfFD     map[int]*vfioFunction    // PCI function by file descriptor
	containerOfGroup map[int]int              // descriptor of the container by that of the group
	iommuType        uintptr                  // type of IOMMU that was set; 0: none
	pageSize         uint64                   // smallest page that the IOMMU maps, in bytes
	mappableRanges   [][2]uint64              // first and last address of each range
	mappings         []vfioDMAMap
	notViable        bool // groups are not viable
	keepsMastering   bool // bus mastering cannot be switched off
	resets           int  // number of resets of functions
}

// vfioFunction is a PCI function that is bound to vfio-pci.
type vfioFunction struct {
	group   string
	file    string // path of a file that contains all regions
	resets  bool   // the function supports a reset
	regions [9]vfioRegionInfo
}

// installFakeVFIO makes package hal call a fake kernel with VFIO until the test ends. It fails the
// test if DMA mappings or VFIO files are then still in use.
func installFakeVFIO(t testing.TB) *fakeVFIO {
	installFakeSysfs(t)
	k := &fakeVFIO{
		fakeKernel: installFakeKernel(t), functions: map[string]*vfioFunction{},
		functionOfFD: map[int]*vfioFunction{}, containerOfGroup: map[int]int{},
		// as in QEMU's machine `virt`
		pageSize: 4096, mappableRanges: [][2]uint64{{0, 0x7ffffff}, {0x8100000, 0xffff_ffff_ffff}},
	}
	k.fakeKernel.ioctlHandler = k.handleIoctl
	replaceSyscalls(k)
	k.substitute(vfioContainerPath, "")
	t.Cleanup(func() {
		if len(k.mappings) > 0 || len(vfioFileUsers()) > 0 {
			t.Errorf("after the test, not released: DMA mappings %v, VFIO files %v", k.mappings,
				vfioFileUsers())
		}
	})
	return k
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

// bindToGroup binds the function f to vfio-pci and adds it to an IOMMU group. `bars` contains the
// sizes in bytes of the BARs.
func (k *fakeVFIO) bindToGroup(f *fakeFunction, group string, bars map[int]uint64) *vfioFunction {
	f.bind("vfio-pci")
	f.symlink("iommu_group", group)
	v := &vfioFunction{group: group, file: filepath.Join(k.t.TempDir(), "regions")}
	for i := range v.regions {
		v.regions[i] = vfioRegionInfo{flags: 3, index: uint32(i), size: bars[i],
			offset: uint64(i+1) << 33}
		if bars[i] > 0 {
			v.regions[i].flags |= vfioRegionFlagMMap
		}
	}
	v.regions[vfioConfigRegionIndex].size = 4096
	if err := os.WriteFile(v.file, nil, 0o600); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Truncate(v.file, 10<<33); err != nil {
		k.t.Fatal(err)
	}
	k.functions[f.address] = v
	if _, ok := k.paths[vfioDir+group]; !ok {
		k.substitute(vfioDir+group, "")
	}
	v.patch(k.t, vfioConfigRegionIndex, 0, f.readAt("config", 0, 64))
	return v
}

// patch overwrites bytes of a region, from the given offset on.
func (v *vfioFunction) patch(t testing.TB, region int, offset uint64, b []byte) {
	t.Helper()
	file, err := os.OpenFile(v.file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(b, int64(v.regions[region].offset+offset)); err != nil {
		t.Fatal(err)
	}
}

// readAt returns n bytes of a region, from the given offset on.
func (v *vfioFunction) readAt(t testing.TB, region int, offset uint64, n int) []byte {
	t.Helper()
	file, err := os.Open(v.file)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := make([]byte, n)
	if _, err := file.ReadAt(b, int64(v.regions[region].offset+offset)); err != nil {
		t.Fatal(err)
	}
	return b
}

// addVFIOEdu adds an edu that also has a BAR of I/O ports. Memory decoding is off, as vfio-pci
// leaves it.
func addVFIOEdu(k *fakeVFIO) (*fakeFunction, *vfioFunction) {
	f := addEdu(k.t)
	v := k.bindToGroup(f, "7", map[int]uint64{0: mib, 3: 256})
	v.patch(k.t, vfioConfigRegionIndex, configCommandOffset, []byte{0, 0})
	v.patch(k.t, vfioConfigRegionIndex, configBar0Offset+12, []byte{1, 0xc0})
	return f, v
}

// openVFIO opens and acquires the function through VFIO. The end of the test closes it.
func (f *fakeFunction) openVFIO() *device {
	f.t.Helper()
	d, err := openAndAcquire("vfio:" + f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { d.Close() })
	return d.(*device)
}

// open returns EBUSY if a group is already open, as Linux does.
func (k *fakeVFIO) open(path string, flags int) (int, error) {
	if strings.HasPrefix(path, vfioDir) && path != vfioContainerPath {
		for _, other := range k.opened {
			if other == path {
				return -1, unix.EBUSY
			}
		}
	}
	return k.fakeKernel.open(path, flags)
}

func (k *fakeVFIO) close(fd int) error {
	if k.opened[fd] == vfioContainerPath {
		if len(k.containerOfGroup) > 0 {
			k.t.Error("the container is closed before its groups")
		}
		k.iommuType, k.mappings = 0, nil
	}
	delete(k.containerOfGroup, fd)
	return k.fakeKernel.close(fd)
}

// handleIoctl imitates the ioctls of a container, a group or a function.
func (k *fakeVFIO) handleIoctl(fd int, request, value uintptr, argument unsafe.Pointer) (int,
	error) {
	path := k.opened[fd]
	switch {
	case path == vfioContainerPath:
		return k.containerIoctl(request, value, argument)
	case strings.HasPrefix(path, vfioDir):
		return k.groupIoctl(fd, path, request, argument)
	case k.functionOfFD[fd] != nil:
		return k.functionIoctl(k.functionOfFD[fd], request, argument)
	}
	k.t.Errorf("ioctl %x on the file %q, which is none of VFIO", request, path)
	return -1, unix.ENOTTY
}

func (k *fakeVFIO) groupIoctl(fd int, path string, request uintptr, argument unsafe.Pointer) (int,
	error) {
	switch request {
	case vfioGroupGetStatus:
		s := (*vfioGroupStatus)(argument)
		if s.argsz != 8 {
			return -1, unix.EINVAL
		}
		if s.flags = vfioGroupFlagsViable; k.notViable {
			s.flags = 0
		}
		return 0, nil
	case vfioGroupSetContainer:
		container := int(*(*int32)(argument))
		if k.opened[container] != vfioContainerPath {
			return -1, unix.EINVAL
		}
		k.containerOfGroup[fd] = container
		return 0, nil
	case vfioGroupGetDeviceFD:
		bytes := unsafe.Slice((*byte)(argument), 13)
		v := k.functions[string(bytes[:12])]
		if k.containerOfGroup[fd] == 0 || k.iommuType == 0 || v == nil || bytes[12] != 0 ||
			vfioDir+v.group != path {
			return -1, unix.EINVAL
		}
		file, err := unix.Open(v.file, unix.O_RDWR|unix.O_CLOEXEC, 0)
		k.opened[file], k.functionOfFD[file] = "function "+string(bytes[:12]), v
		// Change the command register as vfio_pci_core_enable of Linux does.
		if command := v.readAt(k.t, vfioConfigRegionIndex, configCommandOffset, 1); v.resets {
			k.resets++
			v.patch(k.t, vfioConfigRegionIndex, configCommandOffset, []byte{0, 0})
		} else if !k.keepsMastering {
			v.patch(k.t, vfioConfigRegionIndex, configCommandOffset,
				[]byte{command[0] &^ configCommandMasterBit})
		}
		return file, err
	}
	return -1, unix.ENOTTY
}

func (k *fakeVFIO) containerIoctl(request, value uintptr, argument unsafe.Pointer) (int, error) {
	switch request {
	case vfioSetIOMMU:
		// as vfio_ioctl_set_iommu (Linux, drivers/vfio/container.c)
		if len(k.containerOfGroup) == 0 || k.iommuType != 0 {
			return -1, unix.EINVAL
		}
		if value != vfioType1v2IOMMU {
			return -1, unix.ENODEV
		}
		k.iommuType = value
		return 0, nil
	case vfioIOMMUMapDMA:
		return k.mapDMA((*vfioDMAMap)(argument))
	case vfioIOMMUUnmapDMA:
		return k.unmapDMA((*vfioDMAUnmap)(argument))
	}
	return -1, unix.ENOTTY
}

// mapDMA returns the errors of Linux for invalid, unmappable and overlapping ranges.
func (k *fakeVFIO) mapDMA(m *vfioDMAMap) (int, error) {
	if m.argsz != 32 || m.flags != vfioDMAFlagRead|vfioDMAFlagWrite || k.iommuType == 0 ||
		m.size == 0 || (m.vaddr|m.size)%4096 != 0 || m.iova%k.pageSize != 0 ||
		!slices.ContainsFunc(k.mappableRanges, func(r [2]uint64) bool {
			return r[0] <= m.iova && m.iova+m.size-1 <= r[1]
		}) {
		return -1, unix.EINVAL
	}
	for _, other := range k.mappings {
		if m.iova < other.iova+other.size && other.iova < m.iova+m.size {
			return -1, unix.EEXIST
		}
	}
	k.journal = append(k.journal, "map")
	k.mappings = append(k.mappings, *m)
	return 0, nil
}

func (k *fakeVFIO) unmapDMA(u *vfioDMAUnmap) (int, error) {
	i := slices.IndexFunc(k.mappings, func(m vfioDMAMap) bool {
		return m.iova == u.iova && m.size == u.size
	})
	if u.argsz != 24 || u.flags != 0 || i < 0 {
		return -1, unix.EINVAL
	}
	k.journal = append(k.journal, "unmap")
	k.mappings = slices.Delete(k.mappings, i, i+1)
	return 0, nil
}

func (k *fakeVFIO) functionIoctl(v *vfioFunction, request uintptr, argument unsafe.Pointer) (int,
	error) {
	switch request {
	case vfioDeviceGetRegionInfo:
		r := (*vfioRegionInfo)(argument)
		if r.argsz != 32 || r.index >= 9 {
			return -1, unix.EINVAL
		}
		index := r.index
		*r = v.regions[index]
		r.argsz, r.index = 32, index
		return 0, nil
	}
	return -1, unix.ENOTTY
}

func TestAFunctionOfVFIOIsOpenedByAddressAndByIDs(t *testing.T) {
	k := installFakeVFIO(t)
	f, v := addVFIOEdu(k)
	v.resets = true
	for i, name := range []string{"vfio:0000:00:01.0", "vfio:1234:11E8"} {
		v.patch(t, vfioConfigRegionIndex, configCommandOffset, []byte{6, 0}) // bus mastering is on
		d, err := openAndAcquire(name)
		if err != nil {
			t.Fatal(err)
		}
		if want := (Identity{Name: name, Address: "0000:00:01.0", Vendor: 0x1234, Device: 0x11e8,
			BarSizes: [6]uint64{mib}}); d.Identity() != want {
			t.Errorf("identity %+v, want %+v", d.Identity(), want)
		}
		if command := v.readAt(t, vfioConfigRegionIndex, configCommandOffset, 2); command[0] != 2 ||
			k.resets != i+1 || k.iommuType != vfioType1v2IOMMU || !d.Alive() {
			t.Errorf("%s: command register % x, %d resets, IOMMU of type %d, alive %v; want 02, "+
				"%d, %d, true", name, command, k.resets, k.iommuType, d.Alive(), i+1,
				vfioType1v2IOMMU)
		}
		for range 2 {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		if d.Alive() {
			t.Error("alive after Close")
		}
	}
	v.resets = false
	v.patch(t, vfioConfigRegionIndex, configCommandOffset, []byte{6, 0})
	f.openVFIO()
	if command := v.readAt(t, vfioConfigRegionIndex, configCommandOffset, 2); command[0] != 2 ||
		k.resets != 2 {
		t.Errorf("a function without reset: command register % x, %d resets; want 02, 2", command,
			k.resets)
	}
}

func TestWindowsOfAFunctionOfVFIOReachItsRegions(t *testing.T) {
	k := installFakeVFIO(t)
	f, v := addVFIOEdu(k)
	d := f.openVFIO()
	a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Offset: 0x12340, Size: 0x100,
		Flags: fbs.FlagWriteCombining})
	a.Store(8, 4, 0xcafebabe)
	if got := loadLittleEndian(v.readAt(t, 0, 0x12348, 4)); got != 0xcafebabe || a.BusAddress != 0 {
		t.Errorf("the region has %#x, bus address %#x; want 0xcafebabe, none", got, a.BusAddress)
	}
	config := mustMap(t, d, fbs.Window{Kind: gen.WindowKindConfig, Size: 4096})
	if id, code := config.Load(0, 4); id != 0x11e81234 || code != OK {
		t.Errorf("ids in configuration space: %#x, %v; want 0x11e81234", id, code)
	}
	if code := config.Store(0xffc, 4, 5); code != OK ||
		loadLittleEndian(v.readAt(t, vfioConfigRegionIndex, 0xffc, 4)) != 5 {
		t.Errorf("store to configuration space: %v, or the region does not have the value", code)
	}
	_, err := d.Map(fbs.Window{Kind: gen.WindowKindBar, Bar: 3, Size: 4})
	wantFault(t, "I/O BAR", err, WrongDevice, "BAR 3 cannot be mapped")
	k.errors["mmap"] = unix.EINVAL
	_, err = d.Map(fbs.Window{Kind: gen.WindowKindBar, Size: 4})
	wantFault(t, "mmap", err, NoDevice, "mmap 0000:00:01.0 BAR 0: invalid argument")
	v.regions[0].flags = 3
	_, err = d.Map(fbs.Window{Kind: gen.WindowKindBar, Size: 4})
	wantFault(t, "no mmap", err, NoDevice, "VFIO cannot map BAR 0: the BAR is smaller than a page")
	k.errors["ioctl 3b6c"] = unix.EINVAL
	_, err = d.Map(fbs.Window{Kind: gen.WindowKindBar, Size: 4})
	wantFault(t, "no region", err, NoDevice,
		"VFIO_DEVICE_GET_REGION_INFO 0000:00:01.0: invalid argument")
}

func TestPointWorksThroughVFIO(t *testing.T) {
	k := installFakeVFIO(t)
	f := addWormhole(t)
	v := k.bindToGroup(f, "3", map[int]uint64{0: 512 * mib})
	d := f.openVFIO()
	a := mustMap(t, d, tlbWindow(mib, 5))
	if code := pointTo(d, a, tile, 7*mib); code != OK {
		t.Fatal(code)
	}
	a.Store(0, 4, 0xcafe)
	if loadLittleEndian(v.readAt(t, 0, 0x1fc00000+40, 8))&0xffff != 7 ||
		loadLittleEndian(v.readAt(t, 0, 5*mib, 4)) != 0xcafe {
		t.Error("the store or the window's configuration is not at its offset of BAR 0")
	}
}

func TestHostMemoryIsMappedAtTheSameLowAddressesInEveryRun(t *testing.T) {
	k := installFakeVFIO(t)
	f, _ := addVFIOEdu(k)
	for range 2 {
		d := f.openVFIO()
		for i, c := range []struct{ size, bus uint64 }{
			// Pages stay unmapped after each window.
			{4096, 0x100000}, {1, 0x120000}, {0x6fb0000, 0x140000},
			{0x80_0000, 0x710_0000},
			{0x100_0000, 0x811_0000}, // after the range that the IOMMU cannot map
		} {
			a := mustMap(t, d, hostWindow(c.size))
			if m := k.mappings[i]; a.BusAddress != c.bus || m.iova != c.bus ||
				uintptr(m.vaddr) != a.Base ||
				m.size < c.size || m.size > c.size+4095 {
				t.Errorf("window %d: bus address %#x, want %#x; mapped %+v", i, a.BusAddress, c.bus,
					m)
			}
		}
		if err := d.SetBusMaster(true); err != nil {
			t.Fatal(err)
		}
		k.journal = nil
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if k.callIndex("pwrite") > k.callIndex("unmap") ||
			k.callIndex("unmap") > k.callIndex("munmap") {
			t.Errorf("Close made the calls %q, want pwrite, then unmap, then munmap", k.journal)
		}
	}
}

func TestIOMMUWithoutFreeAddressesIsAFault(t *testing.T) {
	k := installFakeVFIO(t)
	f, _ := addVFIOEdu(k)
	k.pageSize = 0x10000
	// The second window ends at the end of the range.
	k.mappableRanges = [][2]uint64{{0x1000, 0x120fff}}
	d := f.openVFIO()
	for _, want := range []uint64{0x100000, 0x120000} {
		if a := mustMap(t, d, hostWindow(1)); a.BusAddress != want {
			t.Errorf("bus address %#x, want %#x", a.BusAddress, want)
		}
	}
	_, err := d.Map(hostWindow(1))
	wantFault(t, "used up", err, NoDevice, "no free addresses for 0x1000 bytes")
}

func TestFunctionsOfVFIOReachEachOthersWindows(t *testing.T) {
	k := installFakeVFIO(t)
	f, _ := addVFIOEdu(k)
	g := addFunction(t, "0000:02:00.0", 0x1e52, 0x401e, map[int]uint64{0: 512 * mib})
	k.bindToGroup(g, "8", map[int]uint64{0: 512 * mib})
	h := addFunction(t, "0000:02:00.1", 0x1234, 0x1111, nil)
	k.bindToGroup(h, "8", nil)
	d, of, same := f.openVFIO(), g.openVFIO(), h.openVFIO()
	if want := map[string]int{vfioContainerPath: 3, "/dev/vfio/7": 1,
		"/dev/vfio/8": 2}; !maps.Equal(vfioFileUsers(), want) {
		t.Errorf("VFIO files in use %v, want %v", vfioFileUsers(), want)
	}
	a := mustMap(t, of, fbs.Window{Kind: gen.WindowKindBar, Offset: 0x1ff8, Size: 0x10})
	for range 2 {
		if err := d.AssignBusAddress(a, of); err != nil || a.BusAddress != 0x100ff8 {
			t.Errorf("AssignBusAddress: bus address %#x, %v; want 0x100ff8", a.BusAddress, err)
		}
	}
	if len(k.mappings) != 1 || k.mappings[0].size != 0x2000 ||
		uintptr(k.mappings[0].vaddr) != a.Base-0xff8 {
		t.Errorf("DMA mappings %+v, want one of the two pages of the window", k.mappings)
	}
	own, config, moving := mustMap(t, d, hostWindow(1)),
		mustMap(t, of, fbs.Window{Kind: gen.WindowKindConfig, Size: 256}),
		mustMap(t, of, tlbWindow(mib, 0))
	for w, owner := range map[*Aperture]Device{own: d, config: of, moving: of} {
		if err := d.AssignBusAddress(w, owner); err != nil {
			t.Error(err)
		}
	}
	if own.BusAddress != 0x120000 || config.BusAddress != 0 || moving.BusAddress != 0 {
		t.Errorf("bus addresses %#x of host memory, %#x of configuration space, %#x of a TLB "+
			"window; want 0x120000, none, none", own.BusAddress, config.BusAddress,
			moving.BusAddress)
	}
	wantFault(t, "a mock", d.AssignBusAddress(a, passiveDevice{}), Usage,
		"cannot reach memory of mock:still")
	of.Close() // its window is no longer mapped, and its group is still in use
	if want := map[string]int{vfioContainerPath: 2, "/dev/vfio/7": 1,
		"/dev/vfio/8": 1}; len(k.mappings) != 1 || !maps.Equal(vfioFileUsers(), want) {
		t.Errorf("DMA mappings %+v, want 1; VFIO files in use %v, want %v", k.mappings,
			vfioFileUsers(), want)
	}
	same.Close()
	want := map[string]int{vfioContainerPath: 1, "/dev/vfio/7": 1}
	if !maps.Equal(vfioFileUsers(), want) {
		t.Errorf("VFIO files in use %v, want %v", vfioFileUsers(), want)
	}
}

// vfioSetup is a fake kernel with an edu that is bound to vfio-pci.
type vfioSetup struct {
	*fakeVFIO
	edu     *fakeFunction
	regions *vfioFunction
}

func TestOpenVFIOErrorNamesTheCause(t *testing.T) {
	failing := func(call string, err error) func(vfioSetup) {
		return func(s vfioSetup) { s.errors[call] = err }
	}
	ignoreStores := func(s vfioSetup) {
		s.dropsWrite = func(int, []byte, int64) bool { return true }
	}
	for name, c := range map[string]struct {
		change func(vfioSetup)
		code   Code
		words  []string
	}{
		"no such device": {
			func(s vfioSetup) { os.RemoveAll(s.edu.dir) },
			NoDevice, []string{"lists the devices"},
		},
		"no ids": {
			func(s vfioSetup) { s.edu.remove("modalias") },
			NoDevice, []string{"modalias: no such file or directory"},
		},
		"no driver": {
			func(s vfioSetup) { s.edu.remove("driver") },
			NoDevice, []string{"no driver owns the device",
				"`modprobe vfio-pci; echo vfio-pci > " +
					"/sys/bus/pci/devices/0000:00:01.0/driver_override; echo 0000:00:01.0 > " +
					"/sys/bus/pci/drivers/vfio-pci/bind`", "EINVAL", "no IOMMU",
				"pci:0000:00:01.0"},
		},
		"another driver": {
			func(s vfioSetup) {
				s.edu.remove("driver")
				s.edu.bind("nvme")
			},
			NoDevice, []string{"the kernel driver nvme owns the device",
				"driver_override; echo 0000:00:01.0 > /sys/bus/pci/drivers/nvme/unbind; echo " +
					"0000:00:01.0 > /sys/bus/pci/drivers/vfio-pci/bind`"},
		},
		"no IOMMU": {
			func(s vfioSetup) { s.edu.remove("iommu_group") },
			NoDevice, []string{"no IOMMU is on", "pci:0000:00:01.0"},
		},
		"no group": {
			func(s vfioSetup) { delete(s.paths, "/dev/vfio/7") },
			NoDevice, []string{"/dev/vfio/7 does not exist", "devtmpfs"},
		},
		"group in use": {
			failing("open /dev/vfio/7", unix.EBUSY),
			NoDevice, []string{"another program", "fuser -v /dev/vfio/7"},
		},
		"group denied": {
			failing("open /dev/vfio/7", unix.EACCES),
			Denied, []string{"open /dev/vfio/7: permission denied", "run as root"},
		},
		"group not viable": {
			func(s vfioSetup) { s.notViable = true },
			NoDevice, []string{"other drivers own devices of the same IOMMU group",
				"/sys/kernel/iommu_groups/7/devices"},
		},
		"no status": {
			failing("ioctl 3b67", unix.ENOTTY),
			NoDevice, []string{"VFIO_GROUP_GET_STATUS", "inappropriate ioctl for device"},
		},
		"no container": {
			func(s vfioSetup) { delete(s.paths, vfioContainerPath) },
			NoDevice, []string{"/dev/vfio/vfio does not exist", "modprobe"},
		},
		"no module": {
			failing("open "+vfioContainerPath, unix.ENODEV),
			NoDevice, []string{"modprobe vfio_iommu_type1"},
		},
		"container denied": {
			failing("open "+vfioContainerPath, unix.EPERM),
			Denied, []string{"open /dev/vfio/vfio"},
		},
		"group not attached": {
			failing("ioctl 3b68", unix.EINVAL),
			NoDevice, []string{"VFIO_GROUP_SET_CONTAINER /dev/vfio/7: invalid argument"},
		},
		"another IOMMU": {
			failing("ioctl 3b66", unix.ENODEV),
			NoDevice, []string{"no driver for this IOMMU", "modprobe vfio_iommu_type1"},
		},
		"GICv2": {
			failing("ioctl 3b66", unix.EPERM),
			Denied, []string{"GICv3", "gic-version=3", "allow_unsafe_interrupts"},
		},
		"IOMMU not set": {
			failing("ioctl 3b66", unix.EBUSY),
			NoDevice, []string{"VFIO_SET_IOMMU", "device or resource busy"},
		},
		"no function": {
			failing("ioctl 3b6a", unix.ENODEV),
			NoDevice, []string{"VFIO_GROUP_GET_DEVICE_FD", "no such device"},
		},
		"no regions": {
			failing("ioctl 3b6c", unix.EINVAL),
			NoDevice, []string{"VFIO_DEVICE_GET_REGION_INFO"},
		},
		"all ones": {
			func(s vfioSetup) {
				ones := []byte(strings.Repeat("\xff", 64))
				s.regions.patch(s.t, vfioConfigRegionIndex, 0, ones)
				s.keepsMastering = true
				ignoreStores(s)
			},
			DeviceGone, []string{"all ones"},
		},
		"memory decoding stays off": {
			ignoreStores,
			NoDevice, []string{"memory decoding stays off"},
		},
		"configuration space denied": {
			failing("pread function 0000:00:01.0", unix.EIO),
			IO, []string{"cannot write"},
		},
		"bus mastering stays on": {
			func(s vfioSetup) {
				s.regions.patch(s.t, vfioConfigRegionIndex, configCommandOffset, []byte{6})
				s.keepsMastering = true
				ignoreStores(s)
			},
			Internal, []string{"bus mastering stays on"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := installFakeVFIO(t)
			f, v := addVFIOEdu(k)
			c.change(vfioSetup{k, f, v})
			_, err := openAndAcquire("vfio:0000:00:01.0")
			wantFault(t, "open", err, c.code, c.words...)
			if len(k.opened) > 0 || len(vfioFileUsers()) > 0 {
				t.Errorf("after the error, open files %v, VFIO files in use %v; want none",
					k.opened, vfioFileUsers())
			}
		})
	}
}

func TestHostMemoryThatTheIOMMUDoesNotMapIsAFault(t *testing.T) {
	k := installFakeVFIO(t)
	f, _ := addVFIOEdu(k)
	d := f.openVFIO()
	for errno, c := range map[unix.Errno]struct {
		code  Code
		words string
	}{unix.ENOMEM: {Denied, "ulimit -l"}, unix.ENOSPC: {NoDevice,
		"VFIO_IOMMU_MAP_DMA 0000:00:01.0: no space left on device"}} {
		k.errors["ioctl 3b71"] = errno
		_, err := d.Map(hostWindow(4096))
		wantFault(t, errno.Error(), err, c.code, c.words)
	}
	k.errors["mmap huge"], k.errors["mmap locked"] = unix.ENOMEM, unix.ENOMEM
	_, err := d.Map(hostWindow(hugePageSize))
	wantFault(t, "no memory", err, Denied, "cannot lock 0x")
	clear(k.errors)
	mustMap(t, d, hostWindow(1))
	k.errors["ioctl 3b72"] = unix.EINVAL
	wantFault(t, "unmap", d.Close(), NoDevice, "VFIO_IOMMU_UNMAP_DMA")
	clear(k.errors)
}

// TestVFIOReportsFailedReadsOfTheDevice checks that Diagnose reports a fault only for an error bit
// of the status register that was set while bus mastering was on.
func TestVFIOReportsFailedReadsOfTheDevice(t *testing.T) {
	k := installFakeVFIO(t)
	f, v := addVFIOEdu(k)
	d := f.openVFIO()
	masterAbort := []byte{0, 0x20}
	if code := d.Diagnose(); code != OK {
		t.Errorf("Diagnose before SetBusMaster: %v, want %v", code, OK)
	}
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	if code := d.Diagnose(); code != OK {
		t.Errorf("Diagnose without an error bit: %v, want %v", code, OK)
	}
	v.patch(t, vfioConfigRegionIndex, configStatusOffset, masterAbort)
	if code := d.Diagnose(); code != OK {
		t.Errorf("Diagnose with an error bit that was set before SetBusMaster: %v, want %v",
			code, OK)
	}
	d.busMaster.statusBeforeDMA = 0
	if code := d.Diagnose(); code != DMAFault {
		t.Errorf("Diagnose after a master abort: %v, want %v", code, DMAFault)
	}
	syscalls = realSyscalls
	if n := testing.AllocsPerRun(10, func() { d.Diagnose() }); n != 0 {
		t.Errorf("Diagnose: %v allocations, want 0", n)
	}
	replaceSyscalls(k)
}

// TestFaultOfAnotherDeviceIsNotBlamedOnThisOne has two bus masters behind one IOMMU. Only a read of
// one of them was aborted.
func TestFaultOfAnotherDeviceIsNotBlamedOnThisOne(t *testing.T) {
	k := installFakeVFIO(t)
	f, _ := addVFIOEdu(k)
	g := addFunction(t, "0000:02:00.0", 0x1234, 0x1111, nil)
	faulty := k.bindToGroup(g, "8", nil)
	d, other := f.openVFIO(), g.openVFIO()
	for _, device := range []*device{d, other} {
		if err := device.SetBusMaster(true); err != nil {
			t.Fatal(err)
		}
		device.busMaster.statusBeforeDMA = 0
	}
	for _, v := range k.functions {
		v.patch(t, vfioConfigRegionIndex, configStatusOffset, []byte{0, 0})
	}
	faulty.patch(t, vfioConfigRegionIndex, configStatusOffset, []byte{0, 0x20})
	if code := other.Diagnose(); code != DMAFault {
		t.Errorf("Diagnose of the device with the fault: %v, want %v", code, DMAFault)
	}
	if code := d.Diagnose(); code != OK {
		t.Errorf("Diagnose of the other device: %v, want %v", code, OK)
	}
}

// serializedCalls makes a fake kernel safe for threads, as Linux is: it allows only one call at a
// time.
type serializedCalls struct {
	sync.Mutex
	systemCalls
}

func (l *serializedCalls) open(path string, flags int) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.systemCalls.open(path, flags)
}

func (l *serializedCalls) close(fd int) error {
	l.Lock()
	defer l.Unlock()
	return l.systemCalls.close(fd)
}

func (l *serializedCalls) ioctl(fd int, r, value uintptr, argument unsafe.Pointer) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.systemCalls.ioctl(fd, r, value, argument)
}

func (l *serializedCalls) mmap(fd int, offset int64, length, protection, flags int) ([]byte,
	error) {
	l.Lock()
	defer l.Unlock()
	return l.systemCalls.mmap(fd, offset, length, protection, flags)
}

func (l *serializedCalls) munmap(mem []byte) error {
	l.Lock()
	defer l.Unlock()
	return l.systemCalls.munmap(mem)
}

func (l *serializedCalls) memfd(flags int) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.systemCalls.memfd(flags)
}

func (l *serializedCalls) read(fd int, data []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.systemCalls.read(fd, data)
}

func (l *serializedCalls) pread(fd int, data []byte, offset int64) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.systemCalls.pread(fd, data, offset)
}

func (l *serializedCalls) pwrite(fd int, data []byte, offset int64) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.systemCalls.pwrite(fd, data, offset)
}

// TestFunctionsOfVFIOAreOpenedAndClosedByThreadsAtOnce opens and closes functions that share the
// container, its IOMMU and its bus addresses. The race detector reports an access without the lock.
// Without the race detector, such an access may leave a file open, open a file twice, or map a bus
// address twice.
func TestFunctionsOfVFIOAreOpenedAndClosedByThreadsAtOnce(t *testing.T) {
	k := installFakeVFIO(t)
	var names []string
	for i := range 4 {
		bars := map[int]uint64{0: mib}
		f := addFunction(t, fmt.Sprintf("0000:0%d:00.0", i+1), 0x1234, 0x11e8, bars)
		k.bindToGroup(f, fmt.Sprint(i), bars)
		names = append(names, "vfio:"+f.address)
	}
	replaceSyscalls(&serializedCalls{systemCalls: k})
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			for range 100 {
				d, err := openAndAcquire(name)
				if err != nil {
					t.Error(err)
					return
				}
				for range 2 {
					if _, err := d.Map(hostWindow(4096)); err != nil {
						t.Error(err)
					}
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	replaceSyscalls(k)
}
