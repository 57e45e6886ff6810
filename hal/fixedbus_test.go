package hal

import (
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// fixedHostWindow has the flag fbs.FlagFixedBus.
func fixedHostWindow(bus, size uint64) fbs.Window {
	return fbs.Window{Kind: gen.WindowKindHost, Flags: fbs.FlagFixedBus, Offset: bus, Size: size}
}

// TestVFIOPlacesHostMemoryAtAFixedBusAddress maps two windows with fixed bus addresses, then
// windows without. The latter get other addresses, also if the next address is in use already.
func TestVFIOPlacesHostMemoryAtAFixedBusAddress(t *testing.T) {
	k := installFakeKernel(t)
	f := addVFIOEdu(k)
	d := f.openVFIO()
	for i, c := range []struct{ bus, size uint64 }{{0x4000, 1}, {iovaFirst + 0x1000, 0x2000}} {
		a := mustMap(t, d, fixedHostWindow(c.bus, c.size))
		m := k.VFIO.DMA[i]
		if a.BusAddress != c.bus || m.IOVA != c.bus || uintptr(m.Address) != a.Base {
			t.Errorf("window %d: bus address %#x, want %#x; mapped %+v", i, a.BusAddress, c.bus, m)
		}
	}
	free := mustMap(t, d, hostWindow(0x2000)) // at iovaFirst it would overlap the second window
	if free.BusAddress != iovaFirst+iovaRetryStep {
		t.Errorf("window without a fixed address: bus address %#x, want %#x", free.BusAddress,
			iovaFirst+iovaRetryStep)
	}
	err := d.AssignBusAddress(free, d)
	if err != nil || free.BusAddress != iovaFirst+iovaRetryStep {
		t.Errorf("AssignBusAddress: bus address %#x, %v; want it unchanged", free.BusAddress, err)
	}
	for _, bus := range []uint64{0x4000, iovaFirst + 0x2000, 1 << 62} {
		_, err := d.Map(fixedHostWindow(bus, 0x1000))
		wantFault(t, "in use or out of range", err, NoDevice,
			fbs.Text("the IOMMU cannot map 0x1000 bytes at bus address %x", bus))
	}
	if err := d.Close(); err != nil || len(k.VFIO.DMA) != 0 {
		t.Errorf("Close: %v; still mapped: %+v", err, k.VFIO.DMA)
	}
}

// TestTilesSeeHostMemoryAtAFixedAddress maps windows with fixed addresses on devices with tiles.
// The outbound translation provides the address, whatever bus address the memory has.
func TestTilesSeeHostMemoryAtAFixedAddress(t *testing.T) {
	const base = 0x8_0000_0000
	place := func(t *testing.T, d *device) {
		adjacent := uint64(base + 0x5000)
		for _, bus := range []uint64{base + 0x4000, adjacent} {
			if a := mustMap(t, d, fixedHostWindow(bus, 0x1000)); a.BusAddress != bus {
				t.Errorf("tiles see the window at %#x, want %#x", a.BusAddress, bus)
			}
		}
		// A page stays unused before a window without a fixed address.
		if a := mustMap(t, d, hostWindow(1)); a.BusAddress != base+0x7000 {
			t.Errorf("tiles see the last window at %#x, want %#x", a.BusAddress, base+0x7000)
		}
		for _, bus := range []uint64{base - 0x1000, base, adjacent, base + 0xfffd_f000} {
			_, err := d.Map(fixedHostWindow(bus, 0x2000))
			wantFault(t, "out of reach or in use", err, NoDevice,
				fbs.Text("cannot map 0x2000 bytes of host memory at %x for the tiles", bus),
				"only the addresses 0x800008000 to 0x8fffdffff are free")
		}
	}
	t.Run("vfio", func(t *testing.T) {
		installFakeKernel(t)
		f := addWormhole(t)
		f.bindToVFIO("3")
		d := f.openVFIO()
		place(t, d)
		if err := d.SetBusMaster(true); err != nil {
			t.Fatal(err)
		}
		got := enabledRegions(boards.Wormhole.Outbound,
			func(offset uint64) uint64 { return f.valueAt("resource2", offset, 4) })
		if len(got) != 3 || got[0] != "0: 0x4000..0x4fff to 0x100000" {
			t.Errorf("regions %q, want 3, the first \"0: 0x4000..0x4fff to 0x100000\"", got)
		}
	})
	t.Run("pci", func(t *testing.T) {
		installFakePagemap(t, 0x12_4000_0000)
		place(t, addWormhole(t).open())
	})
}

func TestFixedBusAddressIsAFaultIfTheBackendCannotChooseIt(t *testing.T) {
	t.Run("pci", func(t *testing.T) {
		installFakePagemap(t, 0x4000_0000)
		_, err := addEdu(t).open().Map(fixedHostWindow(0x4000_0000, 4096))
		wantFault(t, "pci", err, NoDevice, "cannot place host memory at bus address 0x40000000",
			"use `vfio:`")
	})
	// Tenstorrent's driver uses the lowest free address. Two windows that fill the range from its
	// beginning are where the image needs them; a window after a gap is not.
	t.Run("tt", func(t *testing.T) {
		d := installFakeTT(t, &boards.Wormhole).openTT()
		for _, bus := range []uint64{0x8_0000_0000, 0x8_0000_1000} {
			if a := mustMap(t, d, fixedHostWindow(bus, 1)); a.BusAddress != bus {
				t.Errorf("tt: tiles see the window at %#x, want %#x", a.BusAddress, bus)
			}
		}
		_, err := d.Map(fixedHostWindow(0x8_3000_0000, 1))
		wantFault(t, "tt", err, NoDevice,
			"the driver has pinned host memory at address 0x800002000",
			"the image needs 0x830000000", "vfio:")
	})
}
