package hal

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// bench is the same bytes twice: one copy for the aperture, one for the oracle.
type bench struct {
	aperture       Aperture
	device, oracle []byte
	memory, expect []byte // the memory side
}

func newBench(t testing.TB, wc bool) *bench {
	page := unix.Getpagesize()
	b := &bench{device: mapped(t, page), oracle: mapped(t, page), memory: mapped(t, page), expect: mapped(t, page)}
	scramble(b.device, 1)
	copy(b.oracle, b.device)
	b.aperture = MappedAperture(b.device, 0, uint64(page), -1, wc)
	return b
}

// side gives size bytes at the end of the memory side, where reading too far
// faults, on one bench and the other. Their alignment goes with the size.
func (b *bench) side(size uint64) (memory, expect []byte) {
	return b.memory[uint64(len(b.memory))-size:], b.expect[uint64(len(b.expect))-size:]
}

func (b *bench) address(offset uint64) uintptr { return addressOf(b.oracle) + uintptr(offset) }

// compare looks at 128 bytes on either side of what was to change, and at the
// memory side with 64 bytes before it.
func (b *bench) compare(t testing.TB, what string, offset, size uint64) {
	first, last := max(offset, 128)-128, min(offset+size+128, uint64(len(b.device)))
	if !bytes.Equal(b.device[first:last], b.oracle[first:last]) {
		t.Fatalf("%s: the device differs from the oracle", what)
	}
	if m, e := b.side(size + 64); !bytes.Equal(m, e) {
		t.Fatalf("%s: the memory differs from the oracle", what)
	}
}

func TestLoadAndStoreOfEveryWidthAtEveryOffset(t *testing.T) {
	b := newBench(t, false)
	for _, width := range widths {
		for offset := uint64(0); offset < 64; offset += uint64(width) {
			value := 0x8899aabbccddeeff ^ offset*0x0101010101010101
			if c := b.aperture.Store(offset, width, value); c != OK {
				t.Fatalf("store: %v", c)
			}
			storeGeneric(b.address(offset), width, value)
			b.compare(t, fmt.Sprintf("store of %d bytes at %d", width, offset), offset, uint64(width))

			got, c := b.aperture.Load(offset, width)
			if want := value & fbs.WidthMask(width); got != want || c != OK {
				t.Errorf("load of %d bytes at %d = %#x, %v; want %#x", width, offset, got, c, want)
			}
			if want := loadGeneric(b.address(offset), width); got != want {
				t.Errorf("load of %d bytes at %d = %#x, oracle says %#x", width, offset, got, want)
			}
		}
	}
}

// everyBlock calls f with every small block: sizes 0 to 300, offsets 0 to 32.
// Exact and Fixed ones are whole accesses.
func everyBlock(f func(offset uint64, width uint8, access gen.Access, size uint64)) {
	for _, access := range accesses {
		for _, width := range widths {
			unit := uint64(width)
			if access == gen.AccessBulk {
				unit = 1
			}
			for size := uint64(0); size <= 300; size += unit {
				for offset := uint64(0); offset <= 32; offset += unit {
					f(offset+192, width, access, size)
				}
			}
		}
	}
}

func TestCopyInOfEveryShape(t *testing.T) {
	for _, wc := range []bool{false, true} {
		b := newBench(t, wc)
		scramble(b.memory, 2)
		copy(b.expect, b.memory)
		everyBlock(func(offset uint64, width uint8, access gen.Access, size uint64) {
			data, expect := b.side(size)
			if size > 0 {
				data[0]++ // so that no two blocks are the same
				expect[0]++
			}
			if c := b.aperture.CopyIn(offset, width, access, data); c != OK {
				t.Fatalf("CopyIn: %v", c)
			}
			if access == gen.AccessBulk {
				bulkInGeneric(b.address(offset), data)
			} else {
				copyInGeneric(b.address(offset), step(width, access), width, data)
			}
			b.compare(t, fmt.Sprintf("CopyIn(%d, %d, %v, %d bytes), wc %v", offset, width, access, size, wc), offset, size)
		})
	}
}

func TestCopyOutOfEveryShape(t *testing.T) {
	b := newBench(t, false)
	everyBlock(func(offset uint64, width uint8, access gen.Access, size uint64) {
		data, expect := b.side(size)
		clear(data)
		clear(expect)
		if c := b.aperture.CopyOut(offset, width, access, data); c != OK {
			t.Fatalf("CopyOut: %v", c)
		}
		if access == gen.AccessBulk {
			bulkOutGeneric(b.address(offset), expect)
		} else {
			copyOutGeneric(b.address(offset), step(width, access), width, expect)
		}
		b.compare(t, fmt.Sprintf("CopyOut(%d, %d, %v, %d bytes)", offset, width, access, size), offset, size)
	})
}

func TestFillOfEveryShape(t *testing.T) {
	for _, wc := range []bool{false, true} {
		b := newBench(t, wc)
		value := uint64(0)
		everyBlock(func(offset uint64, width uint8, access gen.Access, size uint64) {
			value += 0x0123456789abcdef // bits above the width are to be ignored
			if c := b.aperture.Fill(offset, width, access, value, size); c != OK {
				t.Fatalf("Fill: %v", c)
			}
			if access == gen.AccessBulk {
				for i := range size {
					b.oracle[offset+i] = byte(value >> (8 * (i % uint64(width))))
				}
			} else {
				fillGeneric(b.address(offset), step(width, access), width, value, size/uint64(width))
			}
			b.compare(t, fmt.Sprintf("Fill(%d, %d, %v, %#x, %d bytes), wc %v", offset, width, access, value, size, wc), offset, size)
		})
	}
}

func TestBulkCopiesOfManyPagesUpToTheGuardPage(t *testing.T) {
	size := 16 * unix.Getpagesize()
	device, memory, back := mapped(t, size), mapped(t, size), mapped(t, size)
	for seed, wc := range []bool{false, true} {
		for shift := range 40 {
			scramble(memory, uint64(seed*40+shift))
			a := MappedAperture(device, uint64(shift), uint64(size-shift), -1, wc)
			if c := a.CopyIn(0, 4, gen.AccessBulk, memory[:size-shift]); c != OK {
				t.Fatal(c)
			}
			if !bytes.Equal(device[shift:], memory[:size-shift]) {
				t.Fatalf("shift %d: CopyIn changed the bytes", shift)
			}
			if c := a.CopyOut(0, 4, gen.AccessBulk, back[shift/2:][:size-shift]); c != OK {
				t.Fatal(c)
			}
			if !bytes.Equal(back[shift/2:][:size-shift], memory[:size-shift]) {
				t.Fatalf("shift %d: CopyOut changed the bytes", shift)
			}
		}
	}
}

func TestNothingOnMappedMemoryAllocates(t *testing.T) {
	b := newBench(t, true)
	data := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		b.aperture.Store(8, 4, 1)
		b.aperture.Load(8, 4)
		for _, access := range accesses {
			b.aperture.CopyIn(8, 4, access, data)
			b.aperture.CopyOut(8, 4, access, data)
			b.aperture.Fill(8, 4, access, 1, 100)
		}
		FenceStores()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A device that is gone, or a file that was cut short, answers with SIGBUS in
// the middle of an assembly function. The goroutine has to survive that.
func TestBusErrorsInAssemblyCanBeRecovered(t *testing.T) {
	page := unix.Getpagesize()
	fd, err := unix.MemfdCreate("bar", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(page)); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if err := unix.Ftruncate(fd, 0); err != nil {
		t.Fatal(err)
	}
	a, data := MappedAperture(mem, 0, uint64(page), -1, false), make([]byte, 512)
	for name, access := range map[string]func(){
		"Load":    func() { a.Load(64, 4) },
		"Store":   func() { a.Store(64, 4, 1) },
		"CopyIn":  func() { a.CopyIn(64, 4, gen.AccessExact, data) },
		"CopyOut": func() { a.CopyOut(64, 4, gen.AccessBulk, data) },
		"Bulk":    func() { a.CopyIn(64, 4, gen.AccessBulk, data) },
		"Fill":    func() { a.Fill(64, 4, gen.AccessFixed, 1, 64) },
	} {
		fault := catch(access)
		if fault == nil {
			t.Errorf("%s: no fault", name)
		}
		// QEMU's user mode reports the fault without its address.
		if at, ok := fault.(interface{ Addr() uintptr }); ok && at.Addr()-a.base != 64 {
			t.Errorf("%s: fault at %d, want 64", name, at.Addr()-a.base)
		}
	}
}

func catch(f func()) (fault runtime.Error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault, _ = recover().(runtime.Error) }()
	f()
	return nil
}
