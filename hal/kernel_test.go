package hal

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/fakekernel"
)

func hostWindow(size uint64) fbs.Window { return fbs.Window{Kind: gen.WindowKindHost, Size: size} }

func TestHostMemoryIsZeroedAndAtItsPhysicalAddress(t *testing.T) {
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
	scattered := func(size uint64) func(*fakePagemap, *fakeFunction) {
		return func(k *fakePagemap, f *fakeFunction) { k.frameGap, f.hostWindowSize = 1, size }
	}
	const notContiguous = "0x3000 bytes of host memory are not physically contiguous, even in"
	for name, c := range map[string]struct {
		change func(*fakePagemap, *fakeFunction)
		code   Code
		words  []string
	}{
		"scattered pages": {
			scattered(0x2001),
			NoDevice, []string{notContiguous, "hugepagesz=2M hugepages=2", "at most 2 MiB"},
		},
		"scattered, a huge page": {
			scattered(hugePageSize),
			NoDevice, []string{"hugepagesz=2M hugepages=2"},
		},
		"scattered, a huge page and a byte": {
			scattered(hugePageSize + 1),
			NoDevice, []string{"hugepagesz=2M hugepages=4"},
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

func TestBusMasteringIsOnBetweenSetBusMasterAndClose(t *testing.T) {
	k := installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	d := f.open()
	mustMap(t, d, hostWindow(4096))
	if f.Command() != 0x402 {
		t.Errorf("before SetBusMaster: command register %#x, want 0x402", f.Command())
	}
	for _, on := range []bool{true, false, true} {
		if err := d.SetBusMaster(on); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]uint16{true: 0x406, false: 0x402}[on]; f.Command() != want {
			t.Errorf("SetBusMaster(%v): command register %#x, want %#x", on, f.Command(), want)
		}
	}
	k.Calls = nil
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	masterOff := "pwrite " + f.Path("config") + " +0x4 02 04"
	if f.Command() != 2 || k.callIndex(masterOff) > k.callIndex("munmap") {
		t.Errorf("after Close: command register %#x, system calls %q; want 2, stored before munmap",
			f.Command(), k.Calls)
	}
}

func TestBusMasteringThatCannotBeSwitchedIsAFault(t *testing.T) {
	installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	d := f.open()
	f.StuckOff = configCommandMasterBit
	wantFault(t, "stays off", d.SetBusMaster(true), MasterOff, "bus mastering stays off")
	f.StuckOff = 0
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	f.StuckOn = configCommandMasterBit
	wantFault(t, "stays on", d.SetBusMaster(false), Internal, "bus mastering stays on")
	wantFault(t, "still on", d.Close(), Internal, "bus mastering stays on")
	f.StuckOn = 0
	d = f.open()
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	f.Gone = true
	wantFault(t, "gone", d.Close(), DeviceGone, "all ones")
}

func TestStoresToReadOnlyConfigurationSpaceAreDenied(t *testing.T) {
	k := installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	k.Fail("open "+f.Path("config")+" rdwr", unix.EACCES)
	config := mustMap(t, f.open(), fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
	if v, code := config.Load(0, 4); v != 0x11e81234 || code != OK ||
		config.Store(4, 2, 0) != Denied {
		t.Errorf("configuration space: loaded %#x, %v, or the store was not denied", v, code)
	}
}

// A killed program has left bus mastering of its device on.
func TestADeviceThatMastersAtOpenIsStoppedAndReset(t *testing.T) {
	k := installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	f.write("reset", "")
	f.open().Close()
	if got, _ := os.ReadFile(f.path("reset")); len(got) != 0 {
		t.Errorf("open of a device that does not master the bus: wrote %q to reset, want nothing",
			got)
	}
	want := func(what string) {
		t.Helper()
		d := f.open()
		if f.Command() != 0x402 {
			t.Errorf("open of %s: command register %#x, want 0x402", what, f.Command())
		}
		d.Close()
		f.SetCommand(6)
	}
	f.SetCommand(6)
	k.Calls = nil
	want("a bus master")
	if got, _ := os.ReadFile(f.path("reset")); string(got) != "1\n" {
		t.Errorf("open of a bus master: wrote %q to reset, want 1", got)
	}
	k.callIndex("pwrite " + f.Path("config") + " +0x4 02 04")
	k.Failures = append(k.Failures, fakekernel.Failure{Call: "pread " + f.Path("config"), Nth: 3,
		Errno: unix.EIO})
	want("a bus master whose command register cannot be read once")
	f.remove("reset")
	want("a bus master without reset")
	f.StuckOn = configCommandMasterBit
	_, err := openAndAcquire("pci:1234:11e8")
	wantFault(t, "stays on", err, Internal, "bus mastering stays on")
}

func TestDiagnoseReportsTheFaultOfTheDevice(t *testing.T) {
	k := installFakePagemap(t, 0x4000_0000)
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
	if got := f.valueAt("config", configStatusOffset, 2); got != 0 {
		t.Errorf("status register %#x after SetBusMaster, want 0: error bits cleared", got)
	}
	want("no error bit since SetBusMaster", OK)
	for bit := range 16 {
		status(1 << bit)
		want(fmt.Sprintf("status bit %d", bit),
			map[bool]Code{true: DMAFault, false: OK}[bit == 8 || bit == 12 || bit == 13 ||
				bit == 15])
	}
	status(0)
	f.SetCommand(2)
	want("bus mastering switched off", MasterOff)
	f.SetCommand(4)
	want("memory decoding off", DeviceGone)
	f.SetCommand(6)
	syscalls = realSyscalls
	if n := testing.AllocsPerRun(10,
		func() { d.Diagnose(); _ = d.SetBusMaster(false); _ = d.SetBusMaster(true) }); n != 0 {
		t.Errorf("Diagnose and SetBusMaster: %v allocations, want 0", n)
	}
	k.useForSyscalls()
	d.Close()
	want("closed", DeviceGone)
}

// passiveDevice is a device that cannot be bus master.
type passiveDevice struct{ Device }

func (s passiveDevice) Identity() Identity { return Identity{Name: "mock:still"} }

func TestDevicesOfOneBackendReachEachOther(t *testing.T) {
	installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	g := addFunction(t, "0000:02:00.0", 0x1af4, 0x1110, map[int]uint64{2: mib})
	d, of := f.open(), g.open()
	a := mustMap(t, of, fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Offset: 0x100, Size: 0x100})
	if err := d.AssignBusAddress(a, of); err != nil || a.BusAddress != g.BarBusAddress(2)+0x100 {
		t.Errorf("AssignBusAddress: bus address %#x, %v; want %#x", a.BusAddress, err,
			g.BarBusAddress(2)+0x100)
	}
	wantFault(t, "a mock", d.AssignBusAddress(a, passiveDevice{}), Usage,
		"pci:0000:00:01.0 cannot reach memory of mock:still", "both as `pci:`")
	f.symlink("iommu_group", "1")
	if err := d.AssignBusAddress(a, of); err != nil {
		t.Errorf("second AssignBusAddress, after an IOMMU appeared: %v", err)
	}
	d.Close()
	d = f.open()
	wantFault(t, "IOMMU", d.AssignBusAddress(a, of), NoDevice,
		"open the device as `vfio:0000:00:01.0`")
}

// openAndAcquire acquires the device as the first Map does.
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
