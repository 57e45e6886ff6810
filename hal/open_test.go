package hal

import (
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// A program may open the wrong device by mistake. The device's identity shows the mistake, so that
// the device must be unchanged until the first Map.
func TestOpenLeavesTheDeviceUnchanged(t *testing.T) {
	t.Run("pci", func(t *testing.T) {
		k := installFakePagemap(t, 0x4000_0000)
		f := addEdu(t)
		f.write("reset", "")
		for _, name := range []string{"pci:0000:00:01.0", "pci:1234:11e8"} {
			for _, command := range []byte{0, configCommandMasterBit,
				configCommandMemoryBit | configCommandMasterBit} {
				f.SetCommand(uint16(command))
				want := Identity{name, "0000:00:01.0", 0x1234, 0x11e8, 0, [6]uint64{mib}, 0}
				checkOnlyOpened(t, k.fakeKernel, name, want)
				if got := f.Command(); got != uint16(command) ||
					string(f.readAt("enable", 0, 2)) != "0\n" {
					t.Errorf("%s: command register %#x, before Open %#x; file enable has %q, "+
						"want 0", name, got, command, f.readAt("enable", 0, 2))
				}
			}
		}
		f.SetCommand(4)
		mustMap(t, f.openWithoutAcquire(), fbs.Window{Kind: gen.WindowKindBar, Size: 4})
		if got := f.Command(); got != 0x402 {
			t.Errorf("after Map: command register %#x, want 0x402", got)
		}
	})
	t.Run("vfio", func(t *testing.T) {
		k := installFakeKernel(t)
		f := addVFIOEdu(k)
		f.HasReset = true
		f.SetCommand(6)
		for _, name := range []string{"vfio:0000:00:01.0", "vfio:1234:11e8"} {
			want := Identity{name, "0000:00:01.0", 0x1234, 0x11e8, 0, [6]uint64{mib}, 0}
			checkOnlyOpened(t, k, name, want)
		}
		if f.Command() != 6 || f.Resets != 0 || k.VFIO.IOMMUType != 0 {
			t.Errorf("after Open: command register %#x, %d resets, IOMMU of type %d; want 6, 0, 0",
				f.Command(), f.Resets, k.VFIO.IOMMUType)
		}
	})
	t.Run("tt", func(t *testing.T) {
		k := installFakeTT(t, &boards.Wormhole)
		want := Identity{"tt:" + ttNode, "0001:b3:1f.5", 0x1e52, 0x401e, 0,
			boards.Wormhole.BarSizes, 0}
		checkOnlyOpened(t, k.fakeKernel, "tt:"+ttNode, want)
		k.callIndex("open " + ttNode + " rdwr append")
		if k.f.LockAcquired || len(k.f.PowerRequests) > 0 {
			t.Errorf("after Open: locked %v, power requests %v; want false, none",
				k.f.LockAcquired, k.f.PowerRequests)
		}
	})
}

// checkOnlyOpened opens and closes a device, and checks its identity and that no register of it was
// written.
func checkOnlyOpened(t *testing.T, k *fakeKernel, name string, want Identity) {
	t.Helper()
	k.Calls = nil
	d, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if d.Identity() != want {
		t.Errorf("%s: identity %+v, want %+v", name, d.Identity(), want)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for _, call := range k.Calls {
		if strings.HasPrefix(call, "pwrite") {
			t.Errorf("%s: Open or Close made the system call %s", name, call)
		}
	}
}

// openWithoutAcquire opens the function without acquiring it. The end of the test closes it.
func (f *fakeFunction) openWithoutAcquire() Device {
	f.t.Helper()
	d, err := Open("pci:" + f.Address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { d.Close() })
	return d
}

func TestDefaultNameHasVFIOWhereVFIOIsBound(t *testing.T) {
	installFakeKernel(t)
	edu := addEdu(t)
	addWormhole(t)
	for _, bound := range []string{"pci", "vfio"} {
		if got, want := DefaultName(0x1234, 0x11e8, 0), bound+":1234:11e8"; got != want {
			t.Errorf("DefaultName is %s, want %s", got, want)
		}
		for _, absent := range []uint16{0x401e, 0xffff} {
			want := "pci:" + FormatPCIID(0x1e52, absent)
			if got := DefaultName(0x1e52, absent, 0); got != want {
				t.Errorf("no driver or no device: DefaultName is %s, want %s", got, want)
			}
		}
		edu.bindToVFIO("7")
	}
	if d, err := Open(DefaultName(0x1234, 0x11e8, 0)); err != nil || d.Close() != nil {
		t.Errorf("the device cannot be opened by this name: %v", err)
	}
}

// TestSeveralDevicesAreNamedForTheBackend has two functions with the same ids.
func TestSeveralDevicesAreNamedForTheBackend(t *testing.T) {
	installFakeKernel(t)
	addEdu(t)
	addFunction(t, "0000:09:00.0", 0x1234, 0x11e8, nil)
	for _, scheme := range []string{"pci", "vfio"} {
		_, err := Open(scheme + ":1234:11e8")
		wantFault(t, scheme, err, Usage, "2 devices have these ids", " "+scheme+":0000:00:01.0",
			" "+scheme+":0000:09:00.0")
	}
}

// If the first Map of a device has failed, every later Map fails.
func TestEveryMapFailsAfterAFailedFirstMap(t *testing.T) {
	k := installFakeTT(t, &boards.Wormhole)
	k.f.LockedByOther = true
	d, err := Open("tt:" + ttNode)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	bar := fbs.Window{Kind: gen.WindowKindBar, Size: 4}
	for _, w := range []fbs.Window{tlbWindow(mib, 0), hostWindow(1), bar} {
		_, err := d.Map(w)
		wantFault(t, "another replay", err, NoDevice, "another replay has locked the device")
		k.f.LockedByOther = false
	}
}
