package mock

import (
	"fmt"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
)

func TestStuckBitsIgnoreStores(t *testing.T) {
	d := New(&boards.Ivshmem)
	a := mapBAR(t, d, 2)
	d.Inject(Fault{Kind: Stuck, Place: Place{Bar: 2, Address: 0x10}, Mask: 0xf0, Value: 0x50})
	expect(t, d, &a, 0x10, 4, 0x50)
	store(t, d, &a, 0x10, 4, 0xffffffff)
	for range 3 {
		expect(t, d, &a, 0x10, 4, 0xffffff5f)
	}
	expect(t, d, &a, 0x11, 1, 0xff)
	expect(t, d, &a, 0x14, 4, 0)
}

// Stuck bits belong to memory, not to one access: every access that covers them reads them.
func TestStuckBitsAffectLoadsOfEveryWidth(t *testing.T) {
	for _, c := range []struct {
		offset uint64
		width  uint8
		want   uint64
	}{
		{0x10, 8, 0x0000ff0000000000}, {0x14, 4, 0xff00}, {0x14, 2, 0xff00}, {0x15, 1, 0xff},
		{0x10, 4, 0}, {0x16, 2, 0}, {0x14, 1, 0}, {0x18, 8, 0}, {0x08, 8, 0},
	} {
		t.Run(fmt.Sprint(c.offset, " ", c.width), func(t *testing.T) {
			// Faults at eight addresses, whose masks select the same byte.
			for address := uint64(0x0e); address <= 0x15; address++ {
				d := New(&boards.Ivshmem)
				a := mapBAR(t, d, 2)
				mask := uint64(0xff) << (8 * (0x15 - address))
				d.Inject(Fault{Kind: Stuck, Place: Place{Bar: 2, Address: address}, Mask: mask,
					Value: mask})
				if got := load(t, d, &a, c.offset, c.width); got != c.want {
					t.Errorf("mask %#x at %#x, %d bytes at %#x: want %#x, got %#x", mask, address,
						c.width, c.offset, c.want, got)
				}
			}
		})
	}
}

func TestStuckBitsAffectOneTileOnly(t *testing.T) {
	d := New(&boards.Wormhole)
	d.Inject(Fault{Kind: Stuck, Place: Place{Tile: true, X: 1, Y: 1, Address: 0x100}, Mask: 1,
		Value: 1})
	here := mapTLBWindow(t, d, 0, 1<<20, routeTo(18, 18), 0)
	there := mapTLBWindow(t, d, 1, 1<<20, routeTo(2, 1), 0)
	expect(t, d, &here, 0x100, 4, 1)
	expect(t, d, &there, 0x100, 4, 0)
}

func TestLateBitsChangeAfterTheGivenNumberOfLoads(t *testing.T) {
	d := New(&boards.Ivshmem)
	a := mapBAR(t, d, 2)
	d.Inject(Fault{Kind: Late, Place: Place{Bar: 2, Address: 0}, Mask: 0xff, Value: 0, Loads: 3})
	for range 10 { // a value is late only after a store has changed it
		expect(t, d, &a, 0, 4, 0)
	}
	store(t, d, &a, 0, 4, 0x600df00d)
	for range 3 {
		expect(t, d, &a, 0, 4, 0x600df000)
	}
	for range 3 {
		expect(t, d, &a, 0, 4, 0x600df00d)
	}
}

func TestGoneDeviceReadsAllOnesAndIgnoresStores(t *testing.T) {
	d := New(&boards.Wormhole)
	a := mapTLBWindow(t, d, 0, 1<<20, routeTo(1, 1), 0) // operation 1
	d.Inject(Fault{Kind: AllOnes, Operation: 4})
	store(t, d, &a, 0, 4, 1)  // 2
	expect(t, d, &a, 0, 4, 1) // 3
	if !d.Alive() {
		t.Error("the device is gone before operation 4")
	}
	store(t, d, &a, 0, 4, 2) // 4
	if d.Alive() {
		t.Error("the device is alive after operation 4, from which on it is gone")
	}
	expect(t, d, &a, 0, 4, 0xffffffff)
	expect(t, d, &a, 0, 8, ^uint64(0))
	expect(t, d, &a, 0, 1, 0xff)
	requireOK(t, d, d.ProgramWindow(&a, *routeTo(2, 2), 0))
	if d.Refusal() != "" {
		t.Errorf("a device that is gone rejects an access: %s", d.Refusal())
	}
	if v, _ := d.model.Load(Place{Tile: true, X: 1, Y: 1}, 4); v != 1 {
		t.Errorf("memory has %#x, want 1: the store at operation 4 must be lost", v)
	}
}

// TestBusFaultAffectsExactlyItsOperation repeats a sequence of stores and loads, each time with a
// bus fault at another operation. The operations before the fault must have their effect.
func TestBusFaultAffectsExactlyItsOperation(t *testing.T) {
	run := func(d *Device) (done int, c hal.Code) {
		a := mapBAR(t, d, 2)
		for i := range uint64(5) {
			if c := StoreAt(&a, uint32(8*i), 8, i+1); c != hal.OK {
				return done, c
			}
			done++
			if _, c := LoadAt(&a, uint32(8*i), 8); c != hal.OK {
				return done, c
			}
			done++
		}
		return done, hal.OK
	}
	d := New(&boards.Ivshmem)
	if done, c := run(d); c != hal.OK || d.Operations() != done {
		t.Fatalf("without a fault: %d operations succeeded, %v; the device counts %d", done, c,
			d.Operations())
	}
	for n := 1; n <= d.Operations(); n++ {
		faulty := New(&boards.Ivshmem)
		faulty.Inject(Fault{Kind: BusFault, Operation: n})
		done, c := run(faulty)
		if c != hal.BusFault || done != n-1 || faulty.Operations() != n {
			t.Errorf("fault at operation %d: %d operations succeeded, %v; the device counts %d", n,
				done, c, faulty.Operations())
		}
		a := mapBAR(t, faulty, 2)
		want := uint64(0) // the store failed
		if n%2 == 0 {     // the load after it failed
			want = uint64(n / 2)
		}
		expect(t, faulty, &a, 8*uint64((n-1)/2), 8, want)
	}
}

func TestProgramWindowReturnsTheFaultOfItsStore(t *testing.T) {
	for n := 1; n <= 3; n++ {
		d := New(&boards.Blackhole)
		a := mapTLBWindow(t, d, 0, 2<<20, nil, 0)
		d.Inject(Fault{Kind: BusFault, Operation: n})
		if c := d.ProgramWindow(&a, *routeTo(1, 2), 0); c != hal.BusFault || d.Operations() != n {
			t.Errorf("fault at store %d: ProgramWindow returned %v after %d operations", n, c,
				d.Operations())
		}
	}
}
