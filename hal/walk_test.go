package hal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// anyList returns up to 20 random commands of the kinds that verified images have, for window 1 and
// memory 1 of size bytes. A walk does not execute some of them, and some use window 0, which is not
// mapped.
func anyList(random *rand.Rand, size uint32) []fbs.Command {
	// The capacity keeps a pointer to the end of the list inside the array.
	list := make([]fbs.Command, 1+random.IntN(20), 21)
	for i := range list {
		list[i] = anyCommand(random, size)
	}
	return list
}

func anyCommand(random *rand.Rand, size uint32) fbs.Command {
	opcodes := []gen.Opcode{gen.OpcodeWrite, gen.OpcodeWrite, gen.OpcodeExpect, gen.OpcodeExpect,
		gen.OpcodeCopyIn, gen.OpcodeFill,
		gen.OpcodeCopyOut, gen.OpcodeCompare, gen.OpcodeFence, gen.OpcodePoint}
	width := uint8(1) << random.IntN(4)
	c := at(opcodes[random.IntN(len(opcodes))], width, gen.Access(1+random.IntN(2)),
		uint64(random.Uint32N(size/2)&^7), 0)
	c.Amount = uint32(width) * (1 + random.Uint32N(min(8, size/16)))
	c.Value = uint64(random.Uint32N(size / 2))
	switch c.Opcode {
	case gen.OpcodeFence:
		return fbs.Command{Opcode: gen.OpcodeFence}
	case gen.OpcodePoint: // window 2 has the registers, at the beginning of the device
		return fbs.Command{Opcode: gen.OpcodePoint, Window: 1, Index: 2, Width: 4 << random.IntN(2),
			Offset: 16 * random.Uint32N(4),
			Value:  random.Uint64(), Mask: random.Uint64(), Amount: 8 * random.Uint32N(8)}
	case gen.OpcodeWrite:
		c.Mode, c.Index, c.Amount, c.Value = 0, 0, 0, random.Uint64()&fbs.WidthMask(width)
	case gen.OpcodeFill:
		c.Index, c.Value = 0, random.Uint64()&fbs.WidthMask(width)
	case gen.OpcodeExpect:
		c.Mode, c.Index, c.Amount = uint8(gen.ConditionEqual), 0, random.Uint32N(2)
		c.Mask = random.Uint64() & random.Uint64() & random.Uint64() & fbs.WidthMask(width)
		if c.Value = 0; random.IntN(4) != 0 {
			c.Mask &= 0xfe<<8 | 0xfe<<24 | 0xfe<<40 | 0xfe // 0 in most bytes of the device
		}
		switch random.IntN(16) {
		case 0:
			c.Mode = uint8(gen.ConditionNotEqual)
		case 1: // also for values that have reached c.Value, the walk stops
			c.Mode, c.Mask = uint8(gen.ConditionReached), fbs.WidthMask(width)
		}
	case gen.OpcodeCompare:
		c.Mode = 0
	default:
		if random.IntN(3) == 0 {
			c.Mode, c.Offset, c.Amount = uint8(gen.AccessBulk), random.Uint32N(size/2),
				1+random.Uint32N(size/4)
		}
	}
	switch random.IntN(100) {
	case 0:
		c.Window = 0
	case 1:
		others := []gen.Opcode{gen.OpcodeModify, gen.OpcodeRelocate, gen.OpcodePoint,
			gen.OpcodeDelay, gen.OpcodeCall, gen.OpcodeEnd}
		c = fbs.Command{Opcode: others[random.IntN(len(others))], Window: 1, Mask: 1}
		if c.Opcode == gen.OpcodeModify {
			c.Width = width
		}
	}
	return c
}

// bench is the memory of a device, a buffer in host memory, and the tables of a Walk. The registers
// that program window 1, and the addresses that window 1 shows, are also in the device.
type bench struct {
	device, memory  []byte
	windows         [3]uintptr
	memories, homes [2]uintptr
	walk            Walk
}

// newBench returns a bench whose device and buffer have size bytes each. Both end at the end of a
// page, so that an access after the end faults.
func newBench(t testing.TB, size int) *bench {
	page := unix.Getpagesize()
	last := func() []byte {
		pages := mapped(t, (size+page-1)/page*page)
		return pages[len(pages)-size:]
	}
	p := &bench{device: last(), memory: last()}
	p.homes[1], p.memories[1] = AddressOf(p.device), AddressOf(p.memory)
	p.windows = [3]uintptr{0, p.homes[1], p.homes[1]}
	p.walk.WindowAddresses, p.walk.BufferAddresses = &p.windows[0], &p.memories[0]
	p.walk.TLBWindowBases = &p.homes[0]
	return p
}

// run executes the commands of a list until the list ends or a command stops the walk. It returns
// the number of complete commands.
func (p *bench) run(run func(w *Walk), list []fbs.Command) (done int) {
	// Append the command to which Stop points.
	list = append(list[:len(list):len(list)], fbs.Command{Opcode: gen.OpcodeEnd})
	p.windows[1] = p.homes[1]
	p.walk.Next, p.walk.StopAt, p.walk.Got, p.walk.Want, p.walk.MismatchOffset = &list[0],
		&list[len(list)-1], 0, 0, 0
	run(&p.walk)
	return int(uintptr(unsafe.Pointer(p.walk.Next))-uintptr(unsafe.Pointer(&list[0]))) / 32
}

func (p *bench) one(t testing.TB, c fbs.Command) {
	if done := p.run((*Walk).Run, []fbs.Command{c}); done != 1 && p.walk.StopReason != StopAllOnes {
		t.Fatalf("%+v stops the walk: %d", c, p.walk.StopReason)
	}
}

// compare checks that the assembly and plain Go have the same result.
func (p *bench) compare(t testing.TB, oracle *bench, done, want int, what any) {
	t.Helper()
	got, expect := p.walk, oracle.walk
	if done != want || got.StopReason != expect.StopReason ||
		got.Got != expect.Got && got.StopReason != StopAllOnes || got.Want != expect.Want ||
		got.MismatchOffset != expect.MismatchOffset {
		t.Fatalf("%+v\ndone %d, %+v; the oracle %d, %+v", what, done, got, want, expect)
	}
	if p.windows[1]-p.homes[1] != oracle.windows[1]-oracle.homes[1] ||
		!bytes.Equal(p.device, oracle.device) || !bytes.Equal(p.memory, oracle.memory) {
		t.Fatalf("%+v\nmemory differs from the oracle's", what)
	}
}

func TestWalkMatchesPlainGo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p, oracle := newBench(t, 512), newBench(t, 512)
	ended := map[uint64]int{}
	for range 20_000 {
		list := anyList(random, 512)
		for i := range p.device {
			p.device[i] = byte(random.Uint32N(3)) - 1 // 0, 1 or 0xff
			p.memory[i] = p.device[i]
		}
		if random.IntN(2) == 0 {
			p.memory[random.IntN(512)] ^= 2
		}
		copy(oracle.device, p.device)
		copy(oracle.memory, p.memory)
		done := p.run((*Walk).Run, list)
		p.compare(t, oracle, done, oracle.run(walkGeneric, list), list)
		ended[p.walk.StopReason]++
	}
	if len(ended) != 4 {
		t.Errorf("stop reasons of the walks: %v, want some of each", ended)
	}
}

func TestWalkStopsAtStopAndContinues(t *testing.T) {
	p := newBench(t, 64)
	list := make([]fbs.Command, 9)
	for i := range list {
		list[i] = fbs.Command{Opcode: gen.OpcodeWrite, Width: 1, Window: 1, Offset: uint32(i),
			Value: 7}
	}
	w := &p.walk
	w.Next = &list[0]
	for _, stop := range []int{0, 3, 3, 8} {
		w.StopAt = &list[stop]
		w.Run()
		if w.Next != w.StopAt || w.StopReason != StopBeforeNext || w.NextIndex(list) != stop ||
			bytes.Count(p.device, []byte{7}) != stop {
			t.Errorf("stop %d: % x", stop, p.device[:9])
		}
	}
	w.Next = &list[3]
	if w.Advance(); w.Next != &list[4] {
		t.Errorf("command after 3: %d, want 4", w.NextIndex(list))
	}
}

// everyBlock calls f with copies and fills of all sizes from 1 to 300 bytes at all offsets from 0
// to 32. Sizes and offsets are multiples of the width, except in bulk copies.
func everyBlock(f func(c fbs.Command)) {
	for _, opcode := range []gen.Opcode{gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut} {
		for _, access := range accesses {
			if opcode == gen.OpcodeFill && access == gen.AccessBulk {
				continue
			}
			for _, width := range widths {
				unit := uint64(width)
				if access == gen.AccessBulk {
					unit = 1
				}
				for size := unit; size <= 300; size += unit {
					for offset := uint64(0); offset <= 32; offset += unit {
						c := at(opcode, width, access, offset+64, size)
						c.Value = size % 7 // different alignments of the data in host memory
						if opcode == gen.OpcodeFill {
							c.Index, c.Value = 0, size*0x0123456789abcdef&fbs.WidthMask(width)
						}
						f(c)
					}
				}
			}
		}
	}
}

func TestCopiesOfEveryShape(t *testing.T) {
	p, oracle := newBench(t, 512), newBench(t, 512)
	scramble(p.device, 1)
	copy(oracle.device, p.device)
	n := byte(0)
	everyBlock(func(c fbs.Command) {
		n++
		p.memory[c.Value%7], oracle.memory[c.Value%7] = n, n // consecutive blocks differ
		list := []fbs.Command{c}
		done := p.run((*Walk).Run, list)
		p.compare(t, oracle, done, oracle.run(walkGeneric, list), c)
	})
}

func TestBulkCopiesOfManyPagesUpToTheGuardPage(t *testing.T) {
	for shift := range 40 {
		bulkCopies(t, 16*unix.Getpagesize(), shift)
	}
	bulkCopies(t, 4<<20+16*unix.Getpagesize(), 3) // enough for non-temporal stores
}

func bulkCopies(t *testing.T, size, shift int) {
	p := newBench(t, size)
	want := make([]byte, size)
	scramble(p.memory, uint64(shift))
	copy(want, p.memory)
	c := at(gen.OpcodeCopyIn, 4, gen.AccessBulk, uint64(shift), uint64(size-shift))
	p.one(t, c)
	if !bytes.Equal(p.device[shift:], want[:size-shift]) {
		t.Fatalf("shift %d: CopyIn changed the bytes", shift)
	}
	clear(p.memory)
	c.Opcode, c.Value = gen.OpcodeCopyOut, uint64(shift/2)
	p.one(t, c)
	if !bytes.Equal(p.memory[shift/2:][:size-shift], want[:size-shift]) {
		t.Fatalf("shift %d: CopyOut changed the bytes", shift)
	}
}

func TestWalkDoesNotAllocate(t *testing.T) {
	p := newBench(t, 512)
	random := rand.New(rand.NewPCG(3, 3))
	list := make([]fbs.Command, 201)
	for i := range 200 {
		list[i] = anyCommand(random, 512)
	}
	if n := testing.AllocsPerRun(100, func() {
		w := &p.walk
		for w.Next, w.StopAt = &list[0], &list[200]; w.Next != w.StopAt; {
			if w.Run(); w.Next != w.StopAt {
				w.Advance()
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// An access to a device that is gone, or to a file that was truncated, raises SIGBUS in the
// assembly.
func TestFaultLeavesNextAtItsCommand(t *testing.T) {
	page := unix.Getpagesize()
	fd, err := unix.MemfdCreate("device", 0)
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
	p := newBench(t, 512)
	windows := [3]uintptr{0, AddressOf(p.device), AddressOf(mem)}
	p.walk.WindowAddresses = &windows[0]
	for _, opcode := range []gen.Opcode{gen.OpcodeWrite, gen.OpcodeExpect, gen.OpcodeCopyIn,
		gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCompare} {
		for _, access := range accesses {
			for _, width := range widths {
				list := make([]fbs.Command, 8)
				for i := range list {
					list[i] = at(gen.OpcodeWrite, 4, 0, 4, 0)
				}
				list[4] = at(opcode, width, access, 64, 64)
				if list[4].Window = 2; opcode == gen.OpcodeWrite {
					list[4].Mode = 0
				}
				p.walk.Next, p.walk.StopAt = &list[0], &list[7]
				fault := catch(p.walk.Run)
				if fault == nil || p.walk.Next != &list[4] {
					t.Errorf("%v, %v, width %d: %v", opcode, access, width, fault)
				}
				// QEMU's user mode reports the fault without its address.
				if at, ok := fault.(interface{ Addr() uintptr }); ok && at.Addr()-windows[2] != 64 {
					t.Errorf("%v: fault at %d, want 64", opcode, at.Addr()-windows[2])
				}
			}
		}
	}
}

func catch(f func()) (fault runtime.Error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault, _ = recover().(runtime.Error) }()
	f()
	return nil
}

func BenchmarkWalk(b *testing.B) {
	p := newBench(b, 1<<20)
	list := make([]fbs.Command, 1001)
	each := func(name string, size int64, command func(i int) fbs.Command) {
		b.Run(name, func(b *testing.B) {
			for i := range 1000 {
				list[i] = command(i)
			}
			b.SetBytes(size)
			for i := 0; i < b.N; i += 1000 {
				p.walk.Next, p.walk.StopAt = &list[0], &list[min(1000, b.N-i)]
				p.walk.Run()
			}
		})
	}
	for _, width := range widths {
		each(fmt.Sprint("Write", width), int64(width),
			func(i int) fbs.Command { return at(gen.OpcodeWrite, width, 0, uint64(i*8), 0) })
		each(fmt.Sprint("Expect", width), int64(width), func(i int) fbs.Command {
			return at(gen.OpcodeExpect, width, gen.Access(gen.ConditionEqual), uint64(i*8), 0)
		})
	}
	each("RunsOfOne", 4,
		func(i int) fbs.Command { return at(gen.OpcodeWrite, 4<<(i%2), 0, uint64(i*8), 0) })
	for _, access := range accesses {
		for size := uint64(16); size <= 1<<20; size *= 16 {
			each(fmt.Sprint("CopyIn", access, size), int64(size),
				func(int) fbs.Command { return at(gen.OpcodeCopyIn, 4, access, 0, size) })
		}
	}
}
