package hal

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

func TestAFunctionOfVFIOIsOpenedByAddressAndByIDs(t *testing.T) {
	k := installFakeKernel(t)
	f := addVFIOEdu(k)
	f.HasReset = true
	for i, name := range []string{"vfio:0000:00:01.0", "vfio:1234:11E8"} {
		f.SetCommand(6) // bus mastering is on
		d, err := openAndAcquire(name)
		if err != nil {
			t.Fatal(err)
		}
		if want := (Identity{Name: name, Address: "0000:00:01.0", Vendor: 0x1234, Device: 0x11e8,
			BarSizes: [6]uint64{mib}}); d.Identity() != want {
			t.Errorf("identity %+v, want %+v", d.Identity(), want)
		}
		if f.Command() != 0x402 || f.Resets != i+1 || k.VFIO.IOMMUType != vfioType1v2IOMMU ||
			!d.Alive() {
			t.Errorf("%s: command register %#x, %d resets, IOMMU of type %d, alive %v; "+
				"want 0x402, %d, %d, true", name, f.Command(), f.Resets, k.VFIO.IOMMUType,
				d.Alive(), i+1, vfioType1v2IOMMU)
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
	f.HasReset = false
	f.SetCommand(6)
	f.openVFIO()
	if f.Command() != 0x402 || f.Resets != 2 {
		t.Errorf("a function without reset: command register %#x, %d resets; want 0x402, 2",
			f.Command(), f.Resets)
	}
}

func TestWindowsOfAFunctionOfVFIOReachItsRegions(t *testing.T) {
	k := installFakeKernel(t)
	f := addVFIOEdu(k)
	d := f.openVFIO()
	a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Offset: 0x12340, Size: 0x100,
		Flags: fbs.FlagWriteCombining})
	a.Store(8, 4, 0xcafebabe)
	if got := f.valueAt("resource0", 0x12348, 4); got != 0xcafebabe ||
		a.BusAddress != 0 {
		t.Errorf("the region has %#x, bus address %#x; want 0xcafebabe, none", got, a.BusAddress)
	}
	config := mustMap(t, d, fbs.Window{Kind: gen.WindowKindConfig, Size: 4096})
	if id, code := config.Load(0, 4); id != 0x11e81234 || code != OK {
		t.Errorf("ids in configuration space: %#x, %v; want 0x11e81234", id, code)
	}
	if code := config.Store(0xffc, 4, 5); code != OK ||
		f.valueAt("config", 0xffc, 4) != 5 {
		t.Errorf("store to configuration space: %v, or the region does not have the value", code)
	}
	_, err := d.Map(fbs.Window{Kind: gen.WindowKindBar, Bar: 3, Size: 4})
	wantFault(t, "I/O BAR", err, WrongDevice, "BAR 3 cannot be mapped")
	f.Bars[0] = 256
	_, err = d.Map(fbs.Window{Kind: gen.WindowKindBar, Size: 4})
	wantFault(t, "no mmap", err, NoDevice, "VFIO cannot map BAR 0: the BAR is smaller than a page")
}

func TestPointWorksThroughVFIO(t *testing.T) {
	installFakeKernel(t)
	f := addWormhole(t)
	f.bindToVFIO("3")
	d := f.openVFIO()
	a := mustMap(t, d, tlbWindow(mib, 5))
	if code := pointTo(d, a, tile, 7*mib); code != OK {
		t.Fatal(code)
	}
	a.Store(0, 4, 0xcafe)
	if f.valueAt("resource0", 0x1fc00000+40, 8)&0xffff != 7 ||
		f.valueAt("resource0", 5*mib, 4) != 0xcafe {
		t.Error("the store or the window's configuration is not at its offset of BAR 0")
	}
}

func TestHostMemoryIsMappedAtTheSameLowAddressesInEveryRun(t *testing.T) {
	k := installFakeKernel(t)
	f := addVFIOEdu(k)
	for range 2 {
		d := f.openVFIO()
		for i, c := range []struct{ size, bus uint64 }{
			// Pages stay unmapped after each window.
			{4096, 0x100000}, {1, 0x120000}, {0x6fb0000, 0x140000},
			{0x80_0000, 0x710_0000},
			{0x100_0000, 0x811_0000}, // after the range that the IOMMU cannot map
		} {
			a := mustMap(t, d, hostWindow(c.size))
			if m := k.VFIO.DMA[i]; a.BusAddress != c.bus || m.IOVA != c.bus ||
				uintptr(m.Address) != a.Base ||
				m.Size < c.size || m.Size > c.size+4095 {
				t.Errorf("window %d: bus address %#x, want %#x; mapped %+v", i, a.BusAddress, c.bus,
					m)
			}
		}
		if err := d.SetBusMaster(true); err != nil {
			t.Fatal(err)
		}
		k.Calls = nil
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if k.callIndex("pwrite") > k.callIndex("ioctl 3b72") ||
			k.callIndex("ioctl 3b72") > k.callIndex("munmap") {
			t.Errorf("Close made the calls %q, want pwrite, then unmap, then munmap", k.Calls)
		}
	}
}

func TestIOMMUWithoutFreeAddressesIsAFault(t *testing.T) {
	k := installFakeKernel(t)
	f := addVFIOEdu(k)
	k.VFIO.PageSize = 0x10000
	// The second window ends at the end of the range.
	k.VFIO.MappableRanges = [][2]uint64{{0x1000, 0x120fff}}
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
	k := installFakeKernel(t)
	f := addVFIOEdu(k)
	g := addFunction(t, "0000:02:00.0", 0x1e52, 0x401e, map[int]uint64{0: 512 * mib})
	g.bindToVFIO("8")
	h := addFunction(t, "0000:02:00.1", 0x1234, 0x1111, nil)
	h.bindToVFIO("8")
	d, of, same := f.openVFIO(), g.openVFIO(), h.openVFIO()
	if want := map[string]int{vfioContainerPath: 3, "/dev/vfio/7": 1,
		"/dev/vfio/8": 2}; !maps.Equal(vfioFileUsers(), want) {
		t.Errorf("VFIO files in use %v, want %v", vfioFileUsers(), want)
	}
	a := mustMap(t, of, fbs.Window{Kind: gen.WindowKindBar, Offset: 0x1ff8, Size: 0x10})
	for range 2 {
		if err := d.AssignBusAddress(a, of); err != nil || a.BusAddress != 0x100ff8 ||
			a.DMAPage != pageSize() {
			t.Errorf("AssignBusAddress: bus address %#x, pages of %#x bytes, %v; "+
				"want 0x100ff8, %#x", a.BusAddress, a.DMAPage, err, pageSize())
		}
	}
	if len(k.VFIO.DMA) != 1 || k.VFIO.DMA[0].Size != 0x2000 ||
		uintptr(k.VFIO.DMA[0].Address) != a.Base-0xff8 {
		t.Errorf("DMA mappings %+v, want one of the two pages of the window", k.VFIO.DMA)
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
		"/dev/vfio/8": 1}; len(k.VFIO.DMA) != 1 || !maps.Equal(vfioFileUsers(), want) {
		t.Errorf("DMA mappings %+v, want 1; VFIO files in use %v, want %v", k.VFIO.DMA,
			vfioFileUsers(), want)
	}
	same.Close()
	want := map[string]int{vfioContainerPath: 1, "/dev/vfio/7": 1}
	if !maps.Equal(vfioFileUsers(), want) {
		t.Errorf("VFIO files in use %v, want %v", vfioFileUsers(), want)
	}
}

func TestOpenVFIOErrorNamesTheCause(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakeFunction)
		code   Code
		words  []string
	}{
		"no such device": {
			func(f *fakeFunction) { os.RemoveAll(f.dir) },
			NoDevice, []string{"lists the devices"},
		},
		"no driver": {
			func(f *fakeFunction) { f.remove("driver") },
			NoDevice, []string{"no driver owns the device",
				"`modprobe vfio-pci; echo vfio-pci > " +
					"/sys/bus/pci/devices/0000:00:01.0/driver_override; echo 0000:00:01.0 > " +
					"/sys/bus/pci/drivers/vfio-pci/bind`", "EINVAL", "no IOMMU",
				"pci:0000:00:01.0"},
		},
		"another driver": {
			func(f *fakeFunction) {
				f.remove("driver")
				f.bind("nvme")
			},
			NoDevice, []string{"the kernel driver nvme owns the device",
				"driver_override; echo 0000:00:01.0 > /sys/bus/pci/drivers/nvme/unbind; echo " +
					"0000:00:01.0 > /sys/bus/pci/drivers/vfio-pci/bind`"},
		},
		"no IOMMU": {
			func(f *fakeFunction) { f.remove("iommu_group") },
			NoDevice, []string{"no IOMMU is on", "pci:0000:00:01.0"},
		},
		"group not viable": {
			func(f *fakeFunction) { f.k.VFIO.NotViable = true },
			NoDevice, []string{"other drivers own devices of the same IOMMU group",
				"/sys/kernel/iommu_groups/7/devices"},
		},
		"all ones": {
			func(f *fakeFunction) {
				f.patch("config", 0, []byte(strings.Repeat("\xff", 64))...)
				f.StuckOn = 0xffff
			},
			DeviceGone, []string{"all ones"},
		},
		"memory decoding stays off": {
			func(f *fakeFunction) { f.StuckOff = configCommandMemoryBit },
			NoDevice, []string{"memory decoding stays off"},
		},
		"bus mastering stays on": {
			func(f *fakeFunction) {
				f.SetCommand(6)
				f.StuckOn = configCommandMasterBit
			},
			Internal, []string{"bus mastering stays on"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := installFakeKernel(t)
			f := addVFIOEdu(k)
			c.change(f)
			_, err := openAndAcquire("vfio:0000:00:01.0")
			wantFault(t, "open", err, c.code, c.words...)
			k.checkReleased(t)
		})
	}
}

// Of two bus masters behind one IOMMU, a read of only one was aborted.
func TestFaultOfAnotherDeviceIsNotBlamedOnThisOne(t *testing.T) {
	k := installFakeKernel(t)
	f := addVFIOEdu(k)
	g := addFunction(t, "0000:02:00.0", 0x1234, 0x1111, nil)
	g.bindToVFIO("8")
	d, other := f.openVFIO(), g.openVFIO()
	for _, device := range []*device{d, other} {
		if err := device.SetBusMaster(true); err != nil {
			t.Fatal(err)
		}
	}
	g.patch("config", configStatusOffset, 0, 0x20)
	if code := other.Diagnose(); code != DMAFault {
		t.Errorf("Diagnose of the device with the fault: %v, want %v", code, DMAFault)
	}
	if code := d.Diagnose(); code != OK {
		t.Errorf("Diagnose of the other device: %v, want %v", code, OK)
	}
}

// TestFunctionsOfVFIOAreOpenedAndClosedByThreadsAtOnce opens and closes functions that share the
// container, its IOMMU and its bus addresses. The race detector reports an access without the lock.
// Without the race detector, such an access may leave a file open, open a file twice, or map a bus
// address twice.
func TestFunctionsOfVFIOAreOpenedAndClosedByThreadsAtOnce(t *testing.T) {
	installFakeKernel(t)
	var names []string
	for i := range 4 {
		bars := map[int]uint64{0: mib}
		f := addFunction(t, fmt.Sprintf("0000:0%d:00.0", i+1), 0x1234, 0x11e8, bars)
		f.bindToVFIO(fmt.Sprint(i))
		names = append(names, "vfio:"+f.Address)
	}
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
}
