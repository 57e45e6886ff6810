//go:build !(notiles || backend_pci || backend_vfio || backend_tt)

package hal

import (
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// A program may open the wrong device by mistake. Its identity shows the mistake. Therefore Open
// must leave the device unchanged until the first Map.
func TestADeviceThatIsOnlyOpenedIsLeftAsItWas(t *testing.T) {
	t.Run("pci", func(t *testing.T) {
		fakeSysfs(t)
		k := fakeFrames(t, 0x4000_0000)
		f := addEdu(t)
		f.write("reset", "")
		for _, name := range []string{"pci:0000:00:01.0", "pci:1234:11e8"} {
			for _, command := range []byte{0, configCommandMasterBit,
				configCommandMemoryBit | configCommandMasterBit} {
				f.patch("config", configCommandOffset, command, 0)
				want := Identity{name, "0000:00:01.0", 0x1234, 0x11e8, 0, [6]uint64{mega}}
				checkOnlyOpened(t, k.fakeKernel, name, want)
				if got := f.command(); got != uint64(command) ||
					string(f.at("enable", 0, 2)) != "0\n" {
					t.Errorf("%s: command register %#x, was %#x; enable holds %q", name, got,
						command, f.at("enable", 0, 2))
				}
			}
		}
		f.patch("config", configCommandOffset, 4)
		mustMap(t, f.openOnly(), fbs.Window{Kind: gen.WindowKindBar, Size: 4})
		if got := f.command(); got != configCommandMemoryBit {
			t.Errorf("after Map: command register %#x", got)
		}
	})
	t.Run("vfio", func(t *testing.T) {
		k := fakeVFIOKernel(t)
		_, v := addVFIOEdu(k)
		v.resets = true
		v.patch(t, vfioConfigRegionIndex, configCommandOffset, []byte{6, 0})
		for _, name := range []string{"vfio:0000:00:01.0", "vfio:1234:11e8"} {
			want := Identity{name, "0000:00:01.0", 0x1234, 0x11e8, 0, [6]uint64{mega}}
			checkOnlyOpened(t, k.fakeKernel, name, want)
		}
		if command := v.at(t, vfioConfigRegionIndex, configCommandOffset, 1)[0]; command != 6 ||
			k.resets != 0 || k.kind != 0 {
			t.Errorf("command register %#x, %d resets, IOMMU of type %d", command, k.resets, k.kind)
		}
	})
	t.Run("tt", func(t *testing.T) {
		k := fakeTTKernel(t, &boards.Wormhole)
		want := Identity{"tt:" + ttNode, "0001:b3:1f.5", 0x1e52, 0x401e, 0,
			boards.Wormhole.BarSizes}
		checkOnlyOpened(t, k.fakeKernel, "tt:"+ttNode, want)
		if k.taken || len(k.powers) > 0 || !k.quiet {
			t.Errorf("locked %v, power %v, asked for none at open %v", k.taken, k.powers, k.quiet)
		}
	})
}

// checkOnlyOpened opens a device and checks that this neither stores to the device nor resets it.
func checkOnlyOpened(t *testing.T, k *fakeKernel, name string, want Identity) {
	t.Helper()
	k.journal = nil
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
	for _, call := range k.journal {
		if strings.HasPrefix(call, "pwrite") {
			t.Errorf("%s: %s", name, call)
		}
	}
}

func (f *fakeFunction) openOnly() Device {
	f.t.Helper()
	d, err := Open("pci:" + f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { d.Close() })
	return d
}

// If the first Map of a device has failed, every later Map fails.
func TestADeviceThatCannotBeTakenStaysSo(t *testing.T) {
	k := fakeTTKernel(t, &boards.Wormhole)
	k.locked = true
	d, err := Open("tt:" + ttNode)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, w := range []fbs.Window{tlb(mega, 0), host(1), {Kind: gen.WindowKindBar, Size: 4}} {
		_, err := d.Map(w)
		wantFault(t, "another replay", err, NoDevice, "another replay has locked the device")
		k.locked = false
	}
}
