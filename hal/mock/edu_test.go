package mock

import (
	"fmt"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// Values that QEMU 7.2 returned: testdata/captures/edu.qemutrace and similar runs.
func TestEduComputesFactorials(t *testing.T) {
	for n, want := range map[uint64]uint64{0: 1, 1: 1, 5: 120, 6: 720, 10: 3628800, 12: 479001600,
		13: 1932053504, 34: 0, 0xffffffff: 0} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			d := New(&boards.Edu)
			a := mapBAR(t, d, 0)
			store(t, d, &a, 0x08, 4, n)
			for load(t, d, &a, 0x20, 4)&1 != 0 {
				if d.Operations() > 100 {
					t.Fatal("the factorial is still busy after 100 operations")
				}
			}
			expect(t, d, &a, 0x08, 4, want)
		})
	}
}

func TestEduIsBusyForThreeLoads(t *testing.T) {
	d := New(&boards.Edu)
	a := mapBAR(t, d, 0)
	store(t, d, &a, 0x08, 4, 5)
	store(t, d, &a, 0x08, 4, 6) // has no effect while a computation runs
	expect(t, d, &a, 0x08, 4, 5)
	expect(t, d, &a, 0x20, 4, 1)
	expect(t, d, &a, 0x20, 4, 0)
	expect(t, d, &a, 0x08, 4, 120)
}

func TestEduWorkEndsWithoutLoads(t *testing.T) {
	d := New(&boards.Edu)
	a := mapBAR(t, d, 0)
	store(t, d, &a, 0x08, 4, 5)
	d.Sleep(249)
	expect(t, d, &a, 0x08, 4, 5)
	store(t, d, &a, 0x08, 4, 5)
	d.Sleep(250)
	expect(t, d, &a, 0x08, 4, 120)
	expect(t, d, &a, 0x20, 4, 0)
}

func TestEduSetsAndClearsInterruptStatus(t *testing.T) {
	d := New(&boards.Edu)
	a := mapBAR(t, d, 0)
	store(t, d, &a, 0x60, 4, 5)
	expect(t, d, &a, 0x24, 4, 5)
	store(t, d, &a, 0x64, 4, 4)
	expect(t, d, &a, 0x24, 4, 1)
	store(t, d, &a, 0x64, 4, 1)
	expect(t, d, &a, 0x24, 4, 0)

	store(t, d, &a, 0x20, 4, 0xffffffff) // only bit 7 can be stored
	expect(t, d, &a, 0x20, 4, 0x80)
	store(t, d, &a, 0x08, 4, 3)
	for load(t, d, &a, 0x20, 4) != 0x80 {
	}
	expect(t, d, &a, 0x24, 4, 1)
	store(t, d, &a, 0x20, 4, 0)
	expect(t, d, &a, 0x20, 4, 0)
}

func TestEduDMARegistersKeepStoredValues(t *testing.T) {
	d := New(&boards.Edu)
	a := mapBAR(t, d, 0)
	for _, offset := range []uint64{0x80, 0x88, 0x90} {
		store(t, d, &a, offset, 8, 0x1122334455667788)
		expect(t, d, &a, offset, 8, 0x1122334455667788)
		expect(t, d, &a, offset, 4, 0x55667788)
		store(t, d, &a, offset, 4, 0xdeadbeef) // replaces the whole register
		expect(t, d, &a, offset, 8, 0xdeadbeef)
	}
	store(t, d, &a, 0x98, 8, 6) // starts no transfer
	expect(t, d, &a, 0x98, 8, 6)
}

// runDMA starts a transfer and waits for its end. It checks that the registers then still have the
// count, and the command without its start bit.
func runDMA(t *testing.T, d *Device, a *hal.Aperture, source, target, count, command uint64) {
	t.Helper()
	store(t, d, a, 0x80, 8, source)
	store(t, d, a, 0x88, 8, target)
	store(t, d, a, 0x90, 8, count)
	store(t, d, a, 0x98, 8, command)
	store(t, d, a, 0x90, 8, 1) // has no effect while a transfer runs
	for load(t, d, a, 0x98, 8)&1 != 0 {
	}
	expect(t, d, a, 0x90, 8, count)
	expect(t, d, a, 0x98, 8, command&^1)
}

func TestEduCopiesFromAndToHostMemory(t *testing.T) {
	d := New(&boards.Edu)
	a := mapBAR(t, d, 0)
	from := mustMap(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 4096})
	to := mustMap(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 4096})
	store(t, d, &from, 8, 8, 0x1122334455667788)
	runDMA(t, d, &a, from.BusAddress+8, 0x40010, 8, 1)
	expect(t, d, &a, 0x24, 4, 0)
	runDMA(t, d, &a, 0x40010, to.BusAddress+16, 4, 7)
	expect(t, d, &to, 16, 8, 0x55667788)
	expect(t, d, &a, 0x24, 4, 0x100)
}

func TestEduRejectsInvalidTransfers(t *testing.T) {
	for _, c := range []struct {
		name                           string
		source, target, count, command uint64 // host address 0: the address of a mapped page
		reason                         string
	}{
		{"up to the end of the buffer", 0, 0x40000, 4096, 1, "must lie in the device's memory"},
		{"below the buffer", 0, 0x3ffff, 4, 1, "must lie in the device's memory"},
		{"above the buffer", 0, 0x41000, 1, 1, "must lie in the device's memory"},
		{"wrapping", 0, 0x40001, ^uint64(0), 1, "must lie in the device's memory"},
		{"of nothing", 0, 0x40000, 0, 1, "a DMA transfer must not have 0 bytes"},
		{"from the buffer's end", 0x40ffc, 0, 4, 3, "must lie in the device's memory"},
		{"from no memory", 4096, 0x40000, 4, 1, "host memory at bus address 0x1000 that is not " +
			"mapped"},
		{"past the end of a page", hostBus + 4094, 0x40000, 4, 1, "not mapped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := New(&boards.Edu)
			a := mapBAR(t, d, 0)
			h := mustMap(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 4096})
			host := func(address uint64) uint64 {
				if address == 0 {
					return h.BusAddress
				}
				return address
			}
			store(t, d, &a, 0x80, 8, host(c.source))
			store(t, d, &a, 0x88, 8, host(c.target))
			store(t, d, &a, 0x90, 8, c.count)
			if code := StoreAt(&a, 0x98, 8, c.command); code != hal.Refused ||
				!strings.Contains(d.Refusal(), c.reason) {
				t.Errorf("%s: %v, %q, want %v, %q", c.name, code, d.Refusal(), hal.Refused,
					c.reason)
			}
		})
	}
	d := New(&boards.Edu)
	a := mapBAR(t, d, 0)
	h := mustMap(t, d, fbs.Window{Kind: gen.WindowKindHost, Size: 4096})
	runDMA(t, d, &a, h.BusAddress, 0x40000, 4095, 1) // the longest transfer
}
