package mock

import (
	"fmt"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

var _ hal.Device = (*Device)(nil)

// mustMap maps a window. It ends the test if Map fails.
func mustMap(t *testing.T, d *Device, w fbs.Window) hal.Aperture {
	t.Helper()
	a, err := d.Map(w)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mapBAR(t *testing.T, d *Device, n uint8) hal.Aperture {
	t.Helper()
	return mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: n, Slot: fbs.AnySlot,
		Size: d.bars[n]})
}

// mapTLBWindow maps a TLB window, and points it if target is not nil.
func mapTLBWindow(t *testing.T, d *Device, slot uint16, size uint64, target *fbs.TileRoute,
	address uint64) hal.Aperture {
	t.Helper()
	a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindTlb, Slot: slot, Size: size})
	if target != nil {
		requireOK(t, d, d.ProgramWindow(&a, *target, address))
	}
	return a
}

func requireOK(t *testing.T, d *Device, c hal.Code) {
	t.Helper()
	if c != hal.OK {
		t.Fatalf("code %v, want %v: %s", c, hal.OK, d.Refusal())
	}
}

// store ends the test if the device rejects the store.
func store(t *testing.T, d *Device, a *hal.Aperture, offset uint64, width uint8, value uint64) {
	t.Helper()
	requireOK(t, d, StoreAt(a, uint32(offset), width, value))
}

// load ends the test if the device rejects the load.
func load(t *testing.T, d *Device, a *hal.Aperture, offset uint64, width uint8) uint64 {
	t.Helper()
	v, c := LoadAt(a, uint32(offset), width)
	requireOK(t, d, c)
	return v
}

// expect ends the test if a load does not return the value `want`.
func expect(t *testing.T, d *Device, a *hal.Aperture, offset uint64, width uint8, want uint64) {
	t.Helper()
	if got := load(t, d, a, offset, width); got != want {
		t.Fatalf("load of %d bytes at %#x: want %#x, got %#x", width, offset, want, got)
	}
}

// routeTo returns the route to one tile over NoC 0.
func routeTo(x, y uint8) *fbs.TileRoute {
	return &fbs.TileRoute{X: x, Y: y, Ordering: boards.OrderingDefault}
}

func TestDeviceHasTheIdentityOfItsBoard(t *testing.T) {
	for _, b := range boards.All {
		id := New(b).Identity()
		if id.Name != "mock:"+b.Name || id.Vendor != b.Vendor || id.Device != b.Device ||
			id.BarSizes != b.BarSizes {
			t.Errorf("%s: identity %+v differs from the board", b.Name, id)
		}
	}
	d := New(&boards.Ivshmem)
	d.ResizeBAR(2, 64<<20)
	if got := d.Identity().BarSizes[2]; got != 64<<20 {
		t.Errorf("resized BAR has %d bytes, want 64 MiB", got)
	}
	a := mapBAR(t, d, 2)
	store(t, d, &a, 64<<20-8, 8, 7)
	expect(t, d, &a, 64<<20-8, 8, 7)
}

func TestStoreOfEveryWidthReachesItsBytes(t *testing.T) {
	d := New(&boards.Ivshmem)
	a := mapBAR(t, d, 2)
	store(t, d, &a, 0xff8, 8, 0x1122334455667788)
	store(t, d, &a, 0xffc, 4, 0xaabbccdd)
	store(t, d, &a, 0xffa, 2, 0xeeff)
	store(t, d, &a, 0xff8, 1, 0x99)
	expect(t, d, &a, 0xff8, 8, 0xaabbccddeeff7799)
	expect(t, d, &a, 0xff9, 1, 0x77)
	expect(t, d, &a, 0xffa, 2, 0xeeff)
	expect(t, d, &a, 0xffc, 4, 0xaabbccdd)
	expect(t, d, &a, 0x1000, 8, 0)
	store(t, d, &a, 0x1000, 1, 0xfff) // hal: bits above the width are ignored
	expect(t, d, &a, 0x1000, 2, 0xff)
}

func TestWindowsReachTheirTiles(t *testing.T) {
	for _, c := range []struct {
		board        *boards.Board
		slot         uint16
		size         uint64
		plain, other *fbs.TileRoute // routes with different coordinates to one tile or DRAM bank
	}{
		{&boards.Wormhole, 0, 1 << 20, routeTo(1, 1), routeTo(18, 18)},
		{&boards.Wormhole, 156, 2 << 20, routeTo(9, 11), routeTo(25, 27)},
		{&boards.Wormhole, 166, 16 << 20, routeTo(5, 11), routeTo(5, 0)}, // one DRAM bank
		{&boards.Blackhole, 0, 2 << 20, routeTo(9, 0), routeTo(17, 12)},
		{&boards.Blackhole, 200, 2 << 20, routeTo(1, 1), routeTo(20, 25)},
		{&boards.Blackhole, 202, 4 << 30, routeTo(16, 11), routeTo(16, 11)},
	} {
		t.Run(fmt.Sprint(c.board.Name, " ", c.slot, " ", c.size), func(t *testing.T) {
			d := New(c.board)
			first := mapTLBWindow(t, d, c.slot, c.size, c.plain, 0)
			second := mapTLBWindow(t, d, fbs.AnySlot, c.size, c.other, 0)
			if first.TLBWindow != int(c.slot) || second.TLBWindow == first.TLBWindow {
				t.Errorf("%s: slots %d and %d, want %d and another", c.board.Name, first.TLBWindow,
					second.TLBWindow, c.slot)
			}
			store(t, d, &first, 0x1000, 4, 0x600df00d)
			expect(t, d, &second, 0x1000, 4, 0x600df00d)
			elsewhere := mapTLBWindow(t, d, fbs.AnySlot, c.size, routeTo(2, 2), 0)
			expect(t, d, &elsewhere, 0x1000, 4, 0)
		})
	}
}

func TestProgramWindowMovesAWindow(t *testing.T) {
	d := New(&boards.Wormhole)
	a := mapTLBWindow(t, d, 0, 1<<20, routeTo(0, 0), 0)
	store(t, d, &a, 8, 8, 1)
	requireOK(t, d, d.ProgramWindow(&a, *routeTo(0, 0), 1<<20))
	expect(t, d, &a, 8, 8, 0)
	store(t, d, &a, 8, 8, 2)
	requireOK(t, d, d.ProgramWindow(&a, *routeTo(0, 0), 0))
	expect(t, d, &a, 8, 8, 1)
	all := mapTLBWindow(t, d, 166, 16<<20, routeTo(0, 11), 0)
	expect(t, d, &all, 1<<20+8, 8, 2)
}

// A program may also point windows by storing to their registers in a BAR.
func TestStoresToConfigurationRegistersPointAWindow(t *testing.T) {
	wh := New(&boards.Wormhole)
	a := mapBAR(t, wh, 0)
	store(t, wh, &a, 0x1fc00530, 8, 0x40000410ff)
	expect(t, wh, &a, 0x0bb121b0, 4, 0x47800)
	store(t, wh, &a, 0x1fc00530, 4, 0x41000) // by halves
	store(t, wh, &a, 0x1fc00534, 4, 0)
	store(t, wh, &a, 0x0b000000, 8, 5)
	b4 := mapBAR(t, wh, 4) // an alias of the end of BAR 0
	store(t, wh, &b4, 0x01c00530, 8, 0x82000)
	expect(t, wh, &a, 0x0b000000, 8, 0)
	store(t, wh, &b4, 0x01c00530, 8, 0x41000)
	expect(t, wh, &a, 0x0b000000, 8, 5)

	bh := New(&boards.Blackhole)
	a = mapBAR(t, bh, 0)
	for i, v := range []uint64{0x7fd, 0x40800, 0x40} {
		store(t, bh, &a, 0x1fc00000+4*uint64(i), 4, v)
	}
	expect(t, bh, &a, 0x001121b0, 4, 0x47800)
	store(t, bh, &a, 0x1fc00000, 4, 0) // a store to one of the three words moves the window
	store(t, bh, &a, 0, 4, 5)
	expect(t, bh, &a, 0, 4, 5)
}

func TestMulticastStoresToEveryTensixTileOfItsRectangle(t *testing.T) {
	for _, c := range []struct {
		board          *boards.Board
		start, end     chips.Tile
		tensix         int
		inside, beyond chips.Tile
	}{
		{&boards.Wormhole, chips.Tile{X: 1, Y: 1}, chips.Tile{X: 9, Y: 11}, 80,
			chips.Tile{X: 6, Y: 7}, chips.Tile{X: 6, Y: 6}},
		{&boards.Wormhole, chips.Tile{X: 18, Y: 18}, chips.Tile{X: 19, Y: 19}, 4,
			chips.Tile{X: 2, Y: 2}, chips.Tile{X: 3, Y: 2}},
		{&boards.Blackhole, chips.Tile{X: 1, Y: 2}, chips.Tile{X: 16, Y: 11}, 140,
			chips.Tile{X: 10, Y: 3}, chips.Tile{X: 10, Y: 1}},
	} {
		t.Run(c.board.Name, func(t *testing.T) {
			d := New(c.board)
			d.Record(true)
			target := &fbs.TileRoute{XStart: c.start.X, YStart: c.start.Y, X: c.end.X, Y: c.end.Y,
				Multicast: true, Ordering: boards.OrderingDefault}
			a := mapTLBWindow(t, d, 0, 1<<20, target, 0)
			before := d.Operations()
			store(t, d, &a, 0x100, 4, 42)
			if n := len(d.Journal()); n != c.tensix || d.Operations() != before+1 {
				t.Errorf("%s: one store reached %d tiles in %d operations, want %d in 1",
					c.board.Name, n, d.Operations()-before, c.tensix)
			}
			in := mapTLBWindow(t, d, fbs.AnySlot, 1<<20, routeTo(c.inside.X, c.inside.Y), 0)
			expect(t, d, &in, 0x100, 4, 42)
			out := mapTLBWindow(t, d, fbs.AnySlot, 1<<20, routeTo(c.beyond.X, c.beyond.Y), 0)
			expect(t, d, &out, 0x100, 4, 0)
		})
	}
}

func TestResetRegisterKeepsTheBitsOfItsMask(t *testing.T) {
	for _, b := range []*boards.Board{&boards.Wormhole, &boards.Blackhole} {
		d := NewWith(b, NewMemory(b)) // no cores that a released reset would start
		size := b.TLB.GroupOf(0).Size
		offset := 0xffb121b0 % size
		a := mapTLBWindow(t, d, 0, size, routeTo(1, 2), 0xffb121b0-offset)
		expect(t, d, &a, offset, 4, 0x47800)
		store(t, d, &a, offset, 4, 0x47000)
		expect(t, d, &a, offset, 4, 0x47000)
		store(t, d, &a, offset, 4, 0x80047800) // staggered start
		expect(t, d, &a, offset, 4, 0x47800)
	}
}

func TestMapPrefersTheRequestedWindow(t *testing.T) {
	d := New(&boards.Wormhole)
	for _, c := range []struct {
		name string
		slot uint16
		size uint64
		want int
	}{
		{"requested and free", 170, 16 << 20, 170},
		{"requested and in use", 170, 16 << 20, 166},
		{"requested and larger than needed", 171, 1 << 20, 171},
		{"the kernel driver's", 185, 16 << 20, 167},
		{"requested and too small", 0, 2 << 20, 156},
		{"no such window", 500, 1 << 20, 0},
		{"any", fbs.AnySlot, 1 << 20, 1},
		{"any, smaller than every TLB window", fbs.AnySlot, 4096, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := mapTLBWindow(t, d, c.slot, c.size, nil, 0)
			if a.TLBWindow != c.want || a.Size != c.size {
				t.Errorf("%s: want window %d, got %d of %d bytes", c.name, c.want, a.TLBWindow,
					a.Size)
			}
		})
	}
}

func TestMapRejectsWhatTheDeviceDoesNotHave(t *testing.T) {
	small := New(&boards.Blackhole)
	small.ResizeBAR(4, 8<<30)
	closed := New(&boards.Edu)
	closed.Close()
	for _, c := range []struct {
		name   string
		device *Device
		window fbs.Window
		code   hal.Code
		reason string
	}{
		{"BAR too small", New(&boards.Edu), fbs.Window{Kind: gen.WindowKindBar, Size: 1<<20 + 1},
			hal.WrongDevice, "does not fit into BAR 0"},
		{"range past the end", New(&boards.Edu),
			fbs.Window{Kind: gen.WindowKindBar, Offset: 1 << 19, Size: 1<<19 + 4}, hal.WrongDevice,
			"does not fit into BAR 0"},
		{"offset that wraps", New(&boards.Edu),
			fbs.Window{Kind: gen.WindowKindBar, Offset: ^uint64(0), Size: 8}, hal.WrongDevice,
			"does not fit into BAR 0"},
		{"no such BAR", New(&boards.Edu), fbs.Window{Kind: gen.WindowKindBar, Bar: 1, Size: 4},
			hal.WrongDevice, "does not fit into BAR 1"},
		{"BAR 6", New(&boards.Edu), fbs.Window{Kind: gen.WindowKindBar, Bar: 6, Size: 4},
			hal.WrongDevice, "does not fit into BAR 6"},
		{"no windows", New(&boards.Edu), fbs.Window{Kind: gen.WindowKindTlb, Size: 4096},
			hal.WrongDevice, "no TLB windows"},
		{"window too large", New(&boards.Wormhole),
			fbs.Window{Kind: gen.WindowKindTlb, Size: 32 << 20}, hal.NoDevice,
			"no TLB window of 33554432 bytes"},
		{"window outside a small BAR", small,
			fbs.Window{Kind: gen.WindowKindTlb, Slot: 204, Size: 8 << 30}, hal.NoDevice,
			"no TLB window"},
		{"configuration space too large", New(&boards.Edu),
			fbs.Window{Kind: gen.WindowKindConfig, Size: 8192}, hal.WrongDevice, "4096 bytes"},
		{"no kind", New(&boards.Edu), fbs.Window{Size: 4}, hal.Usage, "kind 0"},
		{"closed", closed, fbs.Window{Kind: gen.WindowKindBar, Size: 4}, hal.NoDevice, "closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.device.Map(c.window)
			if hal.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%s: want %v, %q, got %v", c.name, c.code, c.reason, err)
			}
		})
	}
}

func TestMapFailsWhenNoWindowIsFree(t *testing.T) {
	d := New(&boards.Wormhole)
	for range 19 { // the twentieth is the kernel driver's
		mapTLBWindow(t, d, fbs.AnySlot, 16<<20, nil, 0)
	}
	if _, err := d.Map(fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.AnySlot,
		Size: 16 << 20}); hal.CodeOf(err) != hal.NoDevice {
		t.Errorf("Map of a twentieth window of 16 MiB: %v, want %v", err, hal.NoDevice)
	}
	small := New(&boards.Blackhole)
	small.ResizeBAR(4, 8<<30)
	mapTLBWindow(t, small, fbs.AnySlot, 4<<30, nil, 0)
	mapTLBWindow(t, small, fbs.AnySlot, 4<<30, nil, 0)
	if _, err := small.Map(fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.AnySlot,
		Size: 4 << 30}); hal.CodeOf(err) != hal.NoDevice {
		t.Errorf("Map of a third window of 4 GiB in a BAR of 8 GiB: %v, want %v", err, hal.NoDevice)
	}
}

func TestClockAdvancesByAccessesAndSleepOnly(t *testing.T) {
	d := New(&boards.Wormhole)
	if d.Now() != 0 {
		t.Errorf("the clock of a new device is at %d ns, want 0", d.Now())
	}
	d.Sleep(12345)
	d.Sleep(-5)
	if d.Now() != 12345 {
		t.Errorf("after Sleep, the clock is at %d ns, want 12345", d.Now())
	}
	a := mapTLBWindow(t, d, 0, 1<<20, routeTo(0, 0), 0) // one store
	store(t, d, &a, 0, 4, 1)
	load(t, d, &a, 0, 4)
	if want := int64(12345 + 3*accessNs); d.Now() != want || d.Operations() != 3 {
		t.Errorf("after 3 accesses: %d ns, %d operations; want %d, 3", d.Now(), d.Operations(),
			want)
	}
	h := mustMap(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 64})
	load(t, d, &h, 0, 8)
	if want := int64(12345 + 4*accessNs); d.Now() != want || d.Operations() != 3 {
		t.Errorf("after a load of host memory: %d ns, %d operations; want %d, 3", d.Now(),
			d.Operations(), want)
	}
}

func TestConfigurationSpaceHoldsTheIDs(t *testing.T) {
	d := New(&boards.Nvme)
	a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
	expect(t, d, &a, 0, 4, 0x00101b36)
	expect(t, d, &a, 4, 2, 6)
	store(t, d, &a, 4, 2, 2)
	expect(t, d, &a, 4, 2, 2)
}

// TestHostBuffersHaveTheirFixedBusAddresses places adjacent buffers at fixed bus addresses, and
// after them a buffer without a fixed address.
func TestHostBuffersHaveTheirFixedBusAddresses(t *testing.T) {
	for board, start := range map[*boards.Board]uint64{&boards.Edu: 0x4000_0000,
		&boards.Wormhole: 0x8_0000_0000, &boards.Blackhole: 1<<60 + 0x3000_0000} {
		d := New(board)
		fixed := func(bus, size uint64) fbs.Window {
			return fbs.Window{Kind: gen.WindowKindHost, Flags: fbs.FlagFixedBus, Offset: bus,
				Size: size}
		}
		a, b := mustMap(t, d, fixed(start, 100)), mustMap(t, d, fixed(start+4096, 4096))
		c := mustMap(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 1})
		if a.BusAddress != start || b.BusAddress != start+4096 || c.BusAddress != start+3*4096 {
			t.Errorf("%s: bus addresses %#x, %#x, %#x, want %#x, %#x, %#x", board.Name,
				a.BusAddress, b.BusAddress, c.BusAddress, start, start+4096, start+3*4096)
		}
		store(t, d, &b, 8, 4, 7)
		if got := d.host.Bytes(start+4096+8, 4); len(got) != 4 || got[0] != 7 {
			t.Errorf("%s: the device reads %v from host memory, want a 7", board.Name, got)
		}
		for _, bus := range []uint64{start, start + 3*4096, start - 4096, 1<<64 - 4096} {
			if _, err := d.Map(fixed(bus, 2*4096)); hal.CodeOf(err) != hal.NoDevice ||
				!strings.Contains(err.Error(), fmt.Sprintf("at bus address %#x", bus)) {
				t.Errorf("%s: Map at bus address %#x: %v, want %v with the address", board.Name,
					bus, err, hal.NoDevice)
			}
		}
	}
}

func TestHostBuffersHaveDisjointBusAddresses(t *testing.T) {
	d := New(&boards.Edu)
	a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 4096})
	b := mustMap(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 100})
	if a.BusAddress == 0 || a.BusAddress%4096 != 0 || b.BusAddress%4096 != 0 ||
		b.BusAddress <= a.BusAddress+4096 {
		t.Errorf("bus addresses %#x and %#x of two buffers, want disjoint pages", a.BusAddress,
			b.BusAddress)
	}
	store(t, d, &a, 4088, 8, 1)
	store(t, d, &b, 96, 4, 2)
	expect(t, d, &a, 4088, 8, 1)
	expect(t, d, &b, 96, 4, 2)
	if got := d.host.Bytes(b.BusAddress+96, 4); len(got) != 4 || got[0] != 2 {
		t.Errorf("the device reads %v at %#x, want the stored 2", got, b.BusAddress+96)
	}
	if b.BusAddress != a.BusAddress+2*4096 {
		t.Errorf("a buffer of one page at %#x, the next at %#x, want one unused page between them",
			a.BusAddress, b.BusAddress)
	}
	for _, c := range []struct{ bus, size uint64 }{{0, 1}, {a.BusAddress - 1, 1},
		{a.BusAddress + 4090, 8},
		{a.BusAddress + 4096, 1}, {a.BusAddress + 4097, 1}, {a.BusAddress, ^uint64(0)},
		{b.BusAddress + 100, 1}} {
		t.Run(fmt.Sprint(c.bus, " ", c.size), func(t *testing.T) {
			if d.host.Bytes(c.bus, c.size) != nil {
				t.Errorf("the device reaches %d bytes at %#x, which are not in one buffer", c.size,
					c.bus)
			}
		})
	}
}

func TestBARsHaveDisjointBusAddresses(t *testing.T) {
	d := New(&boards.Blackhole)
	a, b := mapBAR(t, d, 0), mapBAR(t, d, 4)
	if a.BusAddress == 0 || b.BusAddress == 0 || a.BusAddress < b.BusAddress+b.Size &&
		b.BusAddress < a.BusAddress+a.Size {
		t.Errorf("BAR 0 at bus address %#x, BAR 4 at %#x: missing, or overlapping", a.BusAddress,
			b.BusAddress)
	}
	part := mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Offset: 0x1000, Size: 16})
	if part.BusAddress != a.BusAddress+0x1000 {
		t.Errorf("BAR 0 + 0x1000 at bus address %#x, want %#x", part.BusAddress,
			a.BusAddress+0x1000)
	}
}

func TestAccessesDoNotAllocate(t *testing.T) {
	for _, b := range []*boards.Board{&boards.Wormhole, &boards.Blackhole} {
		d := New(b)
		d.Inject(Fault{Kind: Stuck, Place: Place{Tile: true, X: 1, Y: 2, Address: 64}, Mask: 1,
			Value: 1})
		a := mapTLBWindow(t, d, 0, 1<<20, routeTo(1, 2), 0)
		far := mapTLBWindow(t, d, 1, 1<<20, routeTo(2, 2), 0)
		allocs := testing.AllocsPerRun(100, func() {
			d.ProgramWindow(&a, *routeTo(1, 2), 0)
			StoreAt(&a, 0, 4, 1)
			StoreAt(&a, 0x5000, 8, 1)
			StoreAt(&far, 0, 1, 1)
			LoadAt(&far, 0, 1)
			LoadAt(&a, 0x5000, 8)
		})
		if allocs != 0 || d.Refusal() != "" {
			t.Errorf("%s: %v allocations in a run, want 0; rejected access %q", b.Name, allocs,
				d.Refusal())
		}
	}
	d := New(&boards.Edu)
	a := mapBAR(t, d, 0)
	if allocs := testing.AllocsPerRun(100,
		func() { StoreAt(&a, 4, 4, 1); LoadAt(&a, 4, 4); LoadAt(&a, 0x20, 4) }); allocs != 0 {
		t.Errorf("edu: %v allocations in a run, want 0", allocs)
	}
}

// clockedModel is a Model that adds up the time that Advance reports to it.
type clockedModel struct {
	Memory
	ns int64
}

func (c *clockedModel) Advance(nanoseconds int64) { c.ns += nanoseconds }

func TestModelClockAdvances(t *testing.T) {
	m := &clockedModel{}
	d := NewWith(&boards.Ivshmem, m)
	a := mapBAR(t, d, 2)
	store(t, d, &a, 0, 4, 1)
	d.Sleep(1000)
	if m.ns != 1000+accessNs || m.ns != d.Now() {
		t.Errorf("clock of the model at %d ns, of the device at %d, want %d", m.ns, d.Now(),
			1000+accessNs)
	}
}

func TestClosedDeviceIsNotAlive(t *testing.T) {
	d := New(&boards.Edu)
	if !d.Alive() {
		t.Error("a new device is not alive")
	}
	if d.Close() != nil || d.Alive() {
		t.Error("alive after Close")
	}
}
