package hal

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// enabledRegions reads the translations of the enabled regions from the registers of an iATU.
// Sources of the registers' offsets: tt-kmd wormhole.c and blackhole.c.
func enabledRegions(o *boards.OutboundTranslation,
	register func(offset uint64) uint64) (list []string) {
	for i := range 16 {
		at := o.Offset + uint64(i)*0x200
		if register(at+4)&(1<<31) == 0 {
			continue
		}
		upper := register(at + 0x0c)
		limit := upper
		if o.UpperLimitOffset != 0 {
			limit = register(at + 0x20)
		}
		list = append(list, fmt.Sprintf("%d: %#x..%#x to %#x", i, upper<<32|register(at+8),
			limit<<32|register(at+0x10), register(at+0x18)<<32|register(at+0x14)))
	}
	return list
}

// Tiles reach host memory through the iATU. Regions that another program has left enabled must be
// disabled.
func TestTilesReachHostMemoryThroughTheIATU(t *testing.T) {
	installFakePagemap(t, 0x12_4000_0000)
	for _, c := range []struct {
		f     *fakeFunction
		board *boards.Board
	}{{addWormhole(t), &boards.Wormhole}, {addBlackhole(t, 4<<30), &boards.Blackhole}} {
		t.Run(c.board.Name, func(t *testing.T) {
			o := c.board.Outbound
			register := func(offset uint64) uint64 {
				return c.f.valueAt("resource2", offset, 4)
			}
			c.f.patch("resource2", o.Offset+3*o.Stride+4, 0, 0, 0, 0x80)
			d := c.f.open()
			a, b := mustMap(t, d, hostWindow(1)), mustMap(t, d, hostWindow(0x3000))
			if a.BusAddress != o.NoCBase || b.BusAddress != o.NoCBase+0x2000 {
				t.Errorf("%s: tiles see the windows at %#x and %#x, want %#x and %#x", c.board.Name,
					a.BusAddress, b.BusAddress, o.NoCBase, o.NoCBase+0x2000)
			}
			if got := enabledRegions(o, register); len(got) != 1 {
				t.Errorf("%s, before SetBusMaster: regions %q, want one of another program",
					c.board.Name, got)
			}
			for range 2 {
				if err := d.SetBusMaster(true); err != nil {
					t.Fatal(err)
				}
				first, second := d.outbound.regions[0].busAddress, d.outbound.regions[1].busAddress
				want := []string{fmt.Sprintf("0: 0x0..0xfff to %#x", first),
					fmt.Sprintf("1: 0x2000..0x4fff to %#x", second)}
				if got := enabledRegions(o, register); fmt.Sprint(got) != fmt.Sprint(want) ||
					first < 0x12_4000_0000 || second != first+0x1000 {
					t.Errorf("%s: regions %q, want %q", c.board.Name, got, want)
				}
				if err := d.SetBusMaster(false); err != nil {
					t.Fatal(err)
				}
				if got := enabledRegions(o, register); len(got) != 0 {
					t.Errorf("%s, bus mastering off: regions %q, want none", c.board.Name, got)
				}
			}
			program := func() { d.programIATU(true); d.programIATU(false) }
			if n := testing.AllocsPerRun(10, program); n != 0 {
				t.Errorf("programIATU: %v allocations, want 0", n)
			}
			d.Close()
		})
	}
}

func TestIATURegionsTranslateToIOMMUAddresses(t *testing.T) {
	installFakeKernel(t)
	f := addWormhole(t)
	f.bindToVFIO("3")
	d := f.openVFIO()
	a := mustMap(t, d, hostWindow(0x1800))
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	got := enabledRegions(boards.Wormhole.Outbound,
		func(offset uint64) uint64 { return f.valueAt("resource2", offset, 4) })
	if a.BusAddress != 0x8_0000_0000 || len(got) != 1 || got[0] != "0: 0x0..0x1fff to 0x100000" {
		t.Errorf("tiles see the window at %#x, regions %q; want 0x800000000 and "+
			"\"0: 0x0..0x1fff to 0x100000\"", a.BusAddress, got)
	}
	if err := d.AssignBusAddress(a, d); err != nil || a.BusAddress != 0x8_0000_0000 {
		t.Errorf("AssignBusAddress: bus address %#x, %v; want it unchanged", a.BusAddress, err)
	}
}

func TestMemoryThatTilesCannotReachIsRejected(t *testing.T) {
	k := installFakeKernel(t)
	f := addWormhole(t)
	f.bindToVFIO("3")
	edu := addVFIOEdu(k)
	d, other := f.openVFIO(), edu.openVFIO()
	own, theirs := mustMap(t, d, hostWindow(1)), mustMap(t, other, hostWindow(1))
	bar := mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Offset: 0x1fe80000, Size: 0x100})
	for what, err := range map[string]error{
		"a BAR of its own":       d.AssignBusAddress(bar, d),
		"another's memory":       d.AssignBusAddress(theirs, other),
		"its memory for another": other.AssignBusAddress(own, d),
		"a mock":                 d.AssignBusAddress(own, passiveDevice{}),
	} {
		reason := "a device with tiles reaches only its host windows"
		if what == "a mock" {
			reason = "open both as `pci:`"
		}
		wantFault(t, what, err, Usage, "cannot reach memory", reason)
	}
	if err := other.AssignBusAddress(bar, d); err != nil || bar.BusAddress == 0 {
		t.Errorf("a BAR of the device with tiles, for another device: bus address %#x, %v",
			bar.BusAddress, err)
	}
	for range 15 {
		mustMap(t, d, hostWindow(1))
	}
	_, err := d.Map(hostWindow(1))
	wantFault(t, "17 windows", err, NoDevice, "cannot map 4096 bytes", "no iATU region is free")
	d.Close()
	d = f.openVFIO()
	d.outbound.regionsEnd = 0xfffc_f000
	mustMap(t, d, hostWindow(0x10000)) // up to the last offset
	_, err = d.Map(hostWindow(1))
	wantFault(t, "over the end", err, NoDevice, "cannot map 4096 bytes")
}

// TestSecondCloseStoresNothingToTheIATU closes a device twice. The first Close cannot switch bus
// mastering off. The second Close tries again, when the registers are no longer mapped.
func TestSecondCloseStoresNothingToTheIATU(t *testing.T) {
	installFakePagemap(t, 0x12_4000_0000)
	f := addWormhole(t)
	d := f.open()
	mustMap(t, d, hostWindow(1))
	if err := d.SetBusMaster(true); err != nil {
		t.Fatal(err)
	}
	f.Gone = true
	wantFault(t, "gone", d.Close(), DeviceGone, "all ones")
	if d.Close() == nil {
		t.Error("second Close: no error, although bus mastering could not be switched off")
	}
}

// TestTranslationThatFaultsIsAnError truncates the BAR before each register of the translation in
// turn, at each moment from load to close. A store after the end of the BAR is a bus error, as if
// the device were gone. No bus error may end the process, because the process may be a C program
// that embeds the runtime.
func TestTranslationThatFaultsIsAnError(t *testing.T) {
	skipUnlessFaultHasAddress(t)
	const (
		end     = 0x4000 // size of the BAR after it was truncated
		regions = 2
		stride  = 0x40
	)
	moments := []string{"load", "quiesce", "load again", "quiesce again", "close"}
	installFakePagemap(t, 0x12_4000_0000)
	f := addWormhole(t)
	cut := func(size int64) {
		if err := os.Truncate(f.path("resource2"), size); err != nil {
			t.Fatal(err)
		}
	}
	faults := 0
	for offset := uint64(end - regions*stride); offset <= end; offset += 4 {
		for cutAt := range moments {
			cut(mib)
			d := f.open()
			o := *d.outbound.layout
			o.Offset, o.RegionCount, o.Stride = offset, regions, stride
			d.outbound.layout = &o
			a := mustMap(t, d, hostWindow(1))
			for now, moment := range moments {
				if now == cutAt {
					cut(end)
				}
				on, stores := strings.HasPrefix(moment, "load"), true
				var err error
				if moment == "close" {
					stores = d.busMaster.enabledByProgram
					err = d.Close()
				} else {
					err = d.SetBusMaster(on)
				}
				what := fmt.Sprintf("%s, registers at %#x, cut at %s", moment, offset,
					moments[cutAt])
				switch {
				case stores && now >= cutAt && storesPastEnd(&o, on, a, end):
					faults++
					wantFault(t, what, err, BusFault, f.Address, "translation", "reset the device")
				case err != nil:
					t.Errorf("%s: %v, want no error", what, err)
				}
			}
			if f.Command() != configCommandMemoryBit || d.hostMemory.mappings != nil {
				t.Errorf("registers from %#x: after Close, command register %#x, mappings %v; "+
					"want %#x and none", offset, f.Command(), d.hostMemory.mappings,
					configCommandMemoryBit)
			}
		}
	}
	t.Logf("evidence: %d bus errors of a translation's registers injected", faults)
}

// storesPastEnd reports whether programming the regions stores to a register at `end` or after it.
// If on is true, the first region is programmed and the others are disabled; else all are disabled.
func storesPastEnd(o *boards.OutboundTranslation, on bool, a *Aperture, end uint64) (found bool) {
	for i := range o.RegionCount {
		size := uint64(0)
		if on && i == 0 {
			size = a.Size
		}
		o.ProgramRegion(i, 0, size, 0, func(register uint64, _ uint32) {
			found = found || register >= end
		})
	}
	return found
}

// skipUnlessFaultHasAddress skips the test if a bus error does not report its address, as in user
// mode of QEMU: Go then treats the bus error like a nil pointer, or gets the address of an earlier
// fault.
func skipUnlessFaultHasAddress(t *testing.T) {
	t.Helper()
	var address uintptr
	fault, ok := catchFault(func() { raiseBusError(t, &address) }).(interface{ Addr() uintptr })
	if !ok || fault.Addr() != address {
		t.Skip("bus errors do not report their address on this system")
	}
}

// raiseBusError maps an empty file, sets address to the first byte, and loads it.
func raiseBusError(t *testing.T, address *uintptr) {
	fd, err := unix.MemfdCreate("empty", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	memory, err := unix.Mmap(fd, 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	*address = AddressOf(memory)
	t.Log("the load raised no bus error:", memory[0])
}

// TestDefectInTheTranslationIsNoBusError checks that a bug in the program is not reported as a
// fault of the device.
func TestDefectInTheTranslationIsNoBusError(t *testing.T) {
	installFakePagemap(t, 0x12_4000_0000)
	d := addWormhole(t).open()
	mustMap(t, d, hostWindow(1))
	o := d.outbound.layout
	d.outbound.layout = nil
	wantFault(t, "a nil pointer", d.SetBusMaster(true), Internal, "reset the device")
	d.outbound.layout = o
}
