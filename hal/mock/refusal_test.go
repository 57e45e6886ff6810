package mock

import (
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// accessBARs makes accesses to BARs, and returns the first code that is not OK.
func accessBARs(d *Device, accesses ...Access) hal.Code {
	for _, a := range accesses {
		p := &port{d: d, bar: a.Place.Bar, size: d.bars[a.Place.Bar]}
		c := hal.OK
		if a.Op == Load {
			_, c = p.Load(a.Place.Address, a.Width)
		} else {
			c = p.Store(a.Place.Address, a.Width, a.Value)
		}
		if c != hal.OK {
			return c
		}
	}
	return hal.OK
}

// ld returns a load of a BAR, and st a store to a BAR.
func ld(bar uint8, offset uint64, width uint8) Access {
	return Access{Op: Load, Place: Place{Bar: bar, Address: offset}, Width: width}
}

func st(bar uint8, offset uint64, width uint8, value uint64) Access {
	return Access{Op: Store, Place: Place{Bar: bar, Address: offset}, Width: width, Value: value}
}

// wh returns the store that configures window 0 of Wormhole, and bh the stores that configure
// window 0 of Blackhole.
func wh(config uint64) Access { return st(0, 0x1fc00000, 8, config) }

func bh(w0, w1, w2 uint64) []Access {
	return []Access{st(0, 0x1fc00000, 4, w0), st(0, 0x1fc00004, 4, w1), st(0, 0x1fc00008, 4, w2)}
}

const (
	whTile11 = 1<<16 | 1<<22 // tile (1,1) in a window of 1 MiB
	bhTile12 = 1<<11 | 2<<17 // tile (1,2) in the second word of a window of 2 MiB
)

var rejectedAccesses = []struct {
	name     string
	board    *boards.Board
	accesses []Access // the device must reject the last one
	reason   string   // part of the reason for the rejection
}{
	// Widths, alignment and rules.
	{"width of 3 bytes", &boards.Ivshmem, []Access{ld(2, 0, 3)},
		"operation 1: load of 3 bytes at BAR 2 + 0x0: the width is 3 bytes, but must be 1, 2, 4 " +
			"or 8 bytes"},
	{"width of 0 bytes", &boards.Ivshmem, []Access{st(2, 0, 0, 0)}, "the width is 0 bytes"},
	{"width of 16 bytes", &boards.Ivshmem, []Access{st(2, 0, 16, 0)}, "the width is 16 bytes"},
	{"misaligned load of memory", &boards.Ivshmem, []Access{ld(2, 2, 4)},
		"shared memory: the access is misaligned"},
	{"misaligned store to memory", &boards.Ivshmem, []Access{st(2, 4, 8, 0)},
		"shared memory: the access is misaligned"},
	{"misaligned register", &boards.Edu, []Access{ld(0, 2, 4)}, "registers: the access is " +
		"misaligned"},
	{"byte of a register", &boards.Edu, []Access{ld(0, 0, 1)},
		"registers: accesses of 1 bytes are not allowed"},
	{"8 bytes of 4-byte registers", &boards.Edu, []Access{ld(0, 0, 8)},
		"registers: accesses of 8 bytes are not allowed"},
	{"2 bytes of a DMA register", &boards.Edu, []Access{ld(0, 0x80, 2)},
		"DMA registers: accesses of 2 bytes"},
	{"8 bytes of a doorbell", &boards.Nvme, []Access{st(0, 0x1000, 8, 1)},
		"doorbells: accesses of 8 bytes"},
	{"past the aperture", &boards.Edu, []Access{ld(0, 1<<20, 4)}, "inside its aperture"},
	{"over the end of the aperture", &boards.Edu, []Access{ld(0, 1<<20-4, 8)},
		"inside its aperture"},
	{"offset that wraps", &boards.Edu, []Access{ld(0, ^uint64(0)-3, 4)}, "inside its aperture"},
	{"no rule", &boards.Wormhole, []Access{ld(0, 0x1f000000, 4)},
		"board wormhole has no access rule for this address"},
	{"second operation", &boards.Edu, []Access{ld(0, 0, 4), ld(0, 0, 1)}, "operation 2:"},

	// Windows and their configuration.
	{"window never pointed", &boards.Wormhole, []Access{ld(0, 0, 4)},
		"window 0 was not pointed at a tile"},
	{"window half pointed on Wormhole", &boards.Wormhole,
		[]Access{st(0, 0x1fc00000, 4, 0), ld(0, 0, 4)}, "window 0 was not pointed at a tile"},
	{"window half pointed on Blackhole", &boards.Blackhole,
		append(bh(0, bhTile12, 0)[:2], st(0, 0, 4, 0)), "window 0 was not pointed at a tile"},
	{"neighbour of the window pointed", &boards.Wormhole, []Access{wh(whTile11), ld(0, 1<<20, 4)},
		"window 1 was not pointed at a tile"},
	{"access crosses a window", &boards.Wormhole, []Access{wh(whTile11), ld(0, 1<<20-4, 8)},
		"crosses the end of TLB window 0"},
	{"access crosses the last window", &boards.Blackhole, []Access{ld(4, 4<<30-2, 4)},
		"crosses the end of TLB window 202"},
	{"misaligned in a window", &boards.Wormhole, []Access{wh(whTile11), ld(0, 2, 4)},
		"windows: the access is misaligned"},
	{"configuration of one byte", &boards.Wormhole, []Access{st(0, 0x1fc00000, 1, 0)},
		"window configuration: accesses of 1 bytes"},
	{"configuration of 8 bytes on Blackhole", &boards.Blackhole, []Access{st(0, 0x1fc00000, 8, 0)},
		"window configuration: accesses of 8 bytes"},
	{"configuration misaligned", &boards.Wormhole, []Access{st(0, 0x1fc00004, 8, 0)},
		"window configuration: the access is misaligned"},
	{"configuration read", &boards.Wormhole, []Access{wh(whTile11), ld(0, 0x1fc00000, 8)},
		"configuration of TLB window 0 cannot be read"},
	{"configuration of the kernel's window on Wormhole", &boards.Wormhole,
		[]Access{st(0, 0x1fc005c8, 8, 0)}, "window 185 belongs to the kernel driver"},
	{"the same by way of BAR 4", &boards.Wormhole, []Access{st(4, 0x01c005c8, 8, 0)},
		"window 185 belongs to the kernel driver"},
	{"configuration of the kernel's window on Blackhole", &boards.Blackhole,
		[]Access{st(0, 0x1fc00000+201*12, 4, 0)}, "window 201 belongs to the kernel driver"},
	{"strided multicast", &boards.Blackhole, []Access{st(0, 0x1fc009d8, 4, 0)},
		"has no access rule"},

	// Targets.
	{"linked on Wormhole", &boards.Wormhole, []Access{wh(whTile11 | 1<<44), ld(0, 0, 4)},
		"window 0 has the linked bit"},
	{"linked on Blackhole", &boards.Blackhole, append(bh(0, bhTile12, 1<<8), ld(0, 0, 4)),
		"window 0 has the linked bit"},
	{"ordering 3 on Wormhole", &boards.Wormhole, []Access{wh(whTile11 | 3<<42), ld(0, 0, 4)},
		"window 0 has ordering 3"},
	{"ordering 3 on Blackhole", &boards.Blackhole, append(bh(0, bhTile12, 3<<6), ld(0, 0, 4)),
		"window 0 has ordering 3"},
	{"unicast with a start corner on Wormhole", &boards.Wormhole,
		[]Access{wh(whTile11 | 1<<28), st(0, 0, 4, 0)}, "points at one tile, but has the start " +
			"corner (1,0)"},
	{"unicast with a start corner on Blackhole", &boards.Blackhole,
		append(bh(0, bhTile12, 1), st(0, 0, 4, 0)), "points at one tile, but has the start " +
			"corner (0,8)"},
	{"reserved bits", &boards.Wormhole, []Access{wh(whTile11 | 1<<46), ld(0, 0, 4)},
		"which sets reserved bits"},
	{"stream header", &boards.Blackhole, append(bh(0, bhTile12, 1<<10), ld(0, 0, 4)),
		"which sets reserved bits"},
	{"NoC 1 on Wormhole", &boards.Wormhole, []Access{wh(whTile11 | 1<<40), ld(0, 0, 4)},
		"window 0 uses NoC 1"},
	{"NoC 1 on Blackhole", &boards.Blackhole, append(bh(0, bhTile12, 1<<3), ld(0, 0, 4)),
		"window 0 uses NoC 1"},
	{"static channel on Blackhole", &boards.Blackhole, append(bh(0, bhTile12, 1<<9), ld(0, 0, 4)),
		"static virtual channel"},
	{"router", &boards.Wormhole, []Access{wh(2 << 22), ld(0, 0, 4)},
		"points at (0,2), where there is no tile"},
	{"outside the grid", &boards.Wormhole, []Access{wh(63<<16 | 63<<22), ld(0, 0, 4)},
		"points at (63,63), where there is no tile"},
	{"outside the grid of Blackhole", &boards.Blackhole,
		append(bh(0, 17<<11|1<<17, 0), ld(0, 0, 4)), "points at (17,1), where there is no tile"},
	{"multicast that starts nowhere", &boards.Wormhole,
		[]Access{wh(whTile11 | 12<<28 | 1<<41), st(0, 0, 4, 0)},
		"starts at (12,0), where there is no tile"},
	{"multicast that starts past its end", &boards.Wormhole,
		[]Access{wh(whTile11 | 2<<28 | 1<<34 | 1<<41), st(0, 0, 4, 0)},
		"start (2,1) is past its end (1,1)"},
	{"multicast with a corner on DRAM", &boards.Wormhole,
		[]Access{wh(whTile11 | 1<<41), st(0, 0, 4, 0)}, "both corners must be Tensix tiles"},
	{"multicast to Ethernet tiles", &boards.Wormhole,
		[]Access{wh(1<<16 | 6<<22 | 1<<28 | 6<<34 | 1<<41), st(0, 0, 4, 0)},
		"both corners must be Tensix tiles"},
	{"multicast read", &boards.Wormhole, []Access{wh(2<<16 | 2<<22 | 1<<28 | 1<<34 | 1<<41),
		ld(0, 0, 4)}, "multicast to (1,1)-(2,2), which cannot be read"},

	// Inside tiles.
	{"past L1", &boards.Wormhole, []Access{wh(whTile11 | 1), ld(0, 0x6e000, 4)},
		"the Tensix tile (1,1) has no memory or register at 0x16e000"},
	{"past DRAM", &boards.Wormhole, []Access{wh(2048), ld(0, 0, 4)},
		"the DRAM tile (0,0) has no memory or register at 0x80000000"},
	{"unknown register", &boards.Wormhole, []Access{wh(whTile11 | 0xffb), ld(0, 0x121b4, 4)},
		"has no memory or register at 0xffb121b4"},
	{"RISC-V local memory", &boards.Wormhole, []Access{wh(whTile11 | 0xffb), ld(0, 0, 4)},
		"has no memory or register at 0xffb00000"},
	{"PCIe tile", &boards.Wormhole, []Access{wh(3 << 22), ld(0, 0, 4)},
		"window 0 can reach 0x0 to 0xffffffffffffffff of the PCIe tile (use a host window for " +
			"host memory), which images must not access"},
	{"store to the PCIe tile", &boards.Wormhole, []Access{wh(3<<22 | 0x8000), st(0, 0, 4, 0)},
		"of the PCIe tile ("},
	{"SCRATCH 6, next to SCRATCH 5", &boards.Wormhole,
		[]Access{wh(10<<22 | 0x8800), ld(0, 0x30074, 4), st(0, 0x30078, 4, 0)},
		"of the PCIe sideband, which images must not access"},
	{"the ARC's address windows", &boards.Wormhole, []Access{wh(10<<22 | 0x8a00), st(0, 0, 4, 0)},
		"of the ARC's address windows, which images must not access"},
	{"PCIe tile of Blackhole", &boards.Blackhole, append(bh(0xc0000000, 2<<11|0x7c0, 0),
		st(0, 0, 4, 0)), "of the PCIe tile ("},
	{"the same, translated", &boards.Blackhole, append(bh(0, 19<<11|24<<17, 0), ld(0, 0, 4)),
		"of the PCIe tile ("},
	{"the ARC's address windows of Blackhole", &boards.Blackhole,
		append(bh(0x670, 8<<11, 0), st(0, 0, 4, 0)),
		"of the ARC's address windows, which images must not access"},
	{"8 bytes of the reset register", &boards.Wormhole,
		[]Access{wh(whTile11 | 0xffb), ld(0, 0x121b0, 8)},
		"register 0xffb121b0 of the Tensix tile (1,1): accesses of 8 bytes"},
	{"byte of the reset register", &boards.Wormhole,
		[]Access{wh(whTile11 | 0xffb), st(0, 0x121b1, 1, 0)}, "has no memory or register at " +
			"0xffb121b1"},
	{"reset bits outside the mask", &boards.Wormhole,
		[]Access{wh(whTile11 | 0xffb), st(0, 0x121b0, 4, 0x47801)},
		"reset register of the Tensix tile (1,1): the value 0x47801 has bits outside the mask " +
			"0x47800"},
	{"reset bits outside the mask by multicast", &boards.Wormhole,
		[]Access{wh(2<<16 | 2<<22 | 1<<28 | 1<<34 | 1<<41 | 0xffb), st(0, 0x121b0, 4, 0xfffff)},
		"reset register of the Tensix tile (1,1)"},
	{"read of a write-only register", &boards.Blackhole,
		append(bh(0x7fd, bhTile12, 0), ld(0, 0x112238, 4)),
		"NCRISC_RESET_PC of the Tensix tile (1,2) cannot be read"},
	{"start address register on Wormhole", &boards.Wormhole,
		[]Access{wh(whTile11 | 0xffb), st(0, 0x12228, 4, 0)}, "has no memory or register at " +
			"0xffb12228"},

	// Edu.
	{"load of no register", &boards.Edu, []Access{ld(0, 0x0c, 4)}, "no register to load at 0xc"},
	{"store to no register", &boards.Edu, []Access{st(0, 0, 4, 0)},
		"no register to store to at 0x0"},
	{"upper half of a DMA register", &boards.Edu, []Access{ld(0, 0x84, 4)},
		"no register to load at 0x84"},
}

func TestRejectedAccessesReportTheReason(t *testing.T) {
	for _, c := range rejectedAccesses {
		t.Run(c.name, func(t *testing.T) {
			d := New(c.board)
			last := len(c.accesses) - 1
			if code := accessBARs(d, c.accesses[:last]...); code != hal.OK {
				t.Fatalf("an access before the last is rejected: %v, %s", code, d.Refusal())
			}
			if code := accessBARs(d, c.accesses[last]); code != hal.Refused {
				t.Fatalf("last access: got %v, want %v", code, hal.Refused)
			}
			if !strings.Contains(d.Refusal(), c.reason) {
				t.Errorf("reason: got %q, want %q", d.Refusal(), c.reason)
			}
			if !d.Alive() {
				t.Error("the device is not alive after a rejected access")
			}
		})
	}
}

// A TLB window of 4 GiB has other fields than a smaller TLB window, and cannot multicast.
func TestRejectedLargeWindowsReportTheReason(t *testing.T) {
	config := func(w0, w1, w2 uint64) []Access {
		first := uint64(0x1fc00000 + 202*12)
		return []Access{st(0, first, 4, w0), st(0, first+4, 4, w1), st(0, first+8, 4, w2)}
	}
	for _, c := range []struct {
		name     string
		accesses []Access
		reason   string
	}{
		{"multicast", append(config(0, 2|3<<6|1<<12|2<<18|1<<26, 0), st(4, 0, 4, 0)),
			"4 GiB and is a multicast"},
		{"NoC 1", append(config(0, 1|2<<6|1<<24, 0), st(4, 0, 4, 0)), "NoC 1"},
		{"linked", append(config(0, 1|2<<6|1<<29, 0), st(4, 0, 4, 0)), "linked"},
		{"static channel", append(config(0, 1|2<<6|1<<30, 0), st(4, 0, 4, 0)),
			"static virtual channel"},
		{"ordering 3", append(config(0, 1|2<<6|3<<27, 0), st(4, 0, 4, 0)), "ordering 3"},
		{"channel bits without the static bit", append(config(0, 1|2<<6, 1), st(4, 0, 4, 0)),
			"which sets reserved bits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := New(&boards.Blackhole)
			if code := accessBARs(d, c.accesses...); code != hal.Refused ||
				!strings.Contains(d.Refusal(), c.reason) {
				t.Errorf("%s: %v, %q, want %v, %q", c.name, code, d.Refusal(), hal.Refused,
					c.reason)
			}
		})
	}
}

func TestRejectedProgramWindowReportsTheReason(t *testing.T) {
	wormhole := New(&boards.Wormhole)
	small := mapTLBWindow(t, wormhole, 0, 1<<20, nil, 0)
	fixed := mapBAR(t, wormhole, 0)
	foreign := mapTLBWindow(t, New(&boards.Wormhole), 7, 1<<20, nil, 0)
	for _, c := range []struct {
		name    string
		a       *hal.Aperture
		target  fbs.TileRoute
		address uint64
		reason  string
	}{
		{"aperture of a BAR", &fixed, *routeTo(1, 1), 0,
			"the aperture does not belong to a TLB window"},
		{"aperture of another device", &foreign, *routeTo(1, 1), 0, "TLB window 7 is not mapped"},
		{"address inside a window", &small, *routeTo(1, 1), 4096,
			"must not cross a multiple of 1048576 bytes, the size of TLB window 0"},
		{"ordering invalid", &small, fbs.TileRoute{X: 1, Y: 1}, 0, "cannot encode"},
		{"no tile", &small, *routeTo(0, 2), 0, "there is no tile"},
		{"NoC 1", &small, fbs.TileRoute{X: 1, Y: 1, NoC: 1, Ordering: boards.OrderingDefault}, 0,
			"NoC 1"},
		{"reversed rectangle", &small, fbs.TileRoute{X: 1, Y: 1, XStart: 2, YStart: 2,
			Multicast: true,
			Ordering:  boards.OrderingDefault}, 0, "images must not access"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wormhole.refusal = ""
			if code := wormhole.ProgramWindow(c.a, c.target, c.address); code != hal.Refused ||
				!strings.Contains(wormhole.Refusal(), c.reason) {
				t.Errorf("%s: %v, %q, want %v, %q", c.name, code, wormhole.Refusal(), hal.Refused,
					c.reason)
			}
		})
	}
	requireOK(t, wormhole, wormhole.ProgramWindow(&small,
		fbs.TileRoute{X: 1, Y: 1, StaticVCPlusOne: 1, Ordering: boards.OrderingPosted}, 0))
}

// Windows of two sizes are pointed at forbidden ranges and next to them.
func TestProgramWindowRejectsWhatTheVerifierRejects(t *testing.T) {
	for _, b := range []*boards.Board{&boards.Wormhole, &boards.Blackhole} {
		rejected := 0
		for _, c := range b.ForbiddenRanges {
			for bit := range uint64(64 * 64) {
				x, y := uint8(bit%64), uint8(bit/64)
				for _, size := range []uint64{4096, 1 << 20} {
					for _, at := range []uint64{c.First - size, c.First, c.Last, c.Last + 1} {
						address, target := at&^(size-1),
							fbs.TileRoute{X: x, Y: y, Ordering: boards.OrderingDefault}
						if c.Routes&1 == 0 || b.FindForbiddenRange(target, address, size) == nil {
							continue
						}
						rejected++
						d := New(b)
						a := mapTLBWindow(t, d, fbs.AnySlot, size, nil, 0)
						if code := d.ProgramWindow(&a, target, address); code != hal.Refused ||
							d.Operations() != 0 {
							t.Fatalf("%s: ProgramWindow of %+v, %#x bytes at %#x: %v after %d "+
								"stores, want %v after none", b.Name, target, size, address, code,
								d.Operations(), hal.Refused)
						}
					}
				}
			}
		}
		if rejected < 1000 {
			t.Errorf("%s: the test has found only %d forbidden windows, want at least 1000", b.Name,
				rejected)
		}
	}
}

func TestRejectedHostMemoryAndConfigAccessesReportTheReason(t *testing.T) {
	for _, c := range []struct {
		name   string
		window fbs.Window
		offset uint64
		width  uint8
		reason string
	}{
		{"outside host memory", fbs.Window{Kind: gen.WindowKindHost, Size: 64}, 64, 1,
			"at bus address 0x1000040: the access must lie completely inside its aperture"},
		{"misaligned in host memory", fbs.Window{Kind: gen.WindowKindHost, Size: 64}, 1, 2,
			"host memory: the access is misaligned"},
		{"width of 3 bytes", fbs.Window{Kind: gen.WindowKindHost, Size: 64}, 0, 3,
			"the width is 3 bytes"},
		{"8 bytes of configuration space", fbs.Window{Kind: gen.WindowKindConfig, Size: 256}, 0, 8,
			"configuration space: accesses of 8 bytes"},
		{"misaligned in configuration space", fbs.Window{Kind: gen.WindowKindConfig, Size: 256}, 1,
			2, "at configuration space + 0x1: configuration space: the access is misaligned"},
		{"outside configuration space", fbs.Window{Kind: gen.WindowKindConfig, Size: 256}, 256, 4,
			"inside its aperture"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := New(&boards.Edu)
			a := mustMap(t, d, c.window)
			if code := StoreAt(&a, uint32(c.offset), c.width, 0); code != hal.Refused ||
				!strings.Contains(d.Refusal(), c.reason) {
				t.Errorf("store, %s: %v, %q, want %v, %q", c.name, code, d.Refusal(), hal.Refused,
					c.reason)
			}
			d = New(&boards.Edu)
			a = mustMap(t, d, c.window)
			if _, code := LoadAt(&a, uint32(c.offset), c.width); code != hal.Refused ||
				!strings.Contains(d.Refusal(), c.reason) {
				t.Errorf("load, %s: %v, %q, want %v, %q", c.name, code, d.Refusal(), hal.Refused,
					c.reason)
			}
		})
	}
}

func TestClosedDeviceRejectsAccesses(t *testing.T) {
	d := New(&boards.Edu)
	a := mapBAR(t, d, 0)
	d.Close()
	if _, c := LoadAt(&a, 0, 4); c != hal.Refused || !strings.Contains(d.Refusal(), "closed") {
		t.Errorf("load after Close: %v, %q, want %v and the reason", c, d.Refusal(), hal.Refused)
	}
}

func TestFirstRejectionIsKept(t *testing.T) {
	d := New(&boards.Edu)
	accessBARs(d, ld(0, 0, 1))
	accessBARs(d, ld(0, 0, 2))
	if !strings.HasPrefix(d.Refusal(), "operation 1:") || d.Operations() != 2 {
		t.Errorf("reason %q after %d operations, want that of operation 1 after 2", d.Refusal(),
			d.Operations())
	}
}

// A rejected store must have no effect.
func TestRejectedStoreChangesNothing(t *testing.T) {
	d := New(&boards.Wormhole)
	a := mapTLBWindow(t, d, 0, 1<<20, routeTo(1, 1), 0xffb00000)
	if c := StoreAt(&a, 0x121b0, 4, 0xffffffff); c != hal.Refused {
		t.Fatalf("store of bits outside the mask: %v, want %v", c, hal.Refused)
	}
	expect(t, d, &a, 0x121b0, 4, 0x47800)
}
