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
	"lightmetal/tools/check/effort"
)

// randomCommands returns up to 20 random commands of the kinds that verified images have, for
// window 1 and memory 1, which have `size` bytes each. Some commands are none that a walk executes,
// and some use window 0, which is not mapped.
func randomCommands(random *rand.Rand, size uint32) []fbs.Command {
	// The capacity keeps a pointer to the end of the list inside the array.
	list := make([]fbs.Command, 1+random.IntN(20), 21)
	for i := range list {
		list[i] = randomCommand(random, size)
	}
	return list
}

// randomCommand returns one of the commands that randomCommands describes.
func randomCommand(random *rand.Rand, size uint32) fbs.Command {
	opcodes := []gen.Opcode{gen.OpcodeWrite, gen.OpcodeWrite, gen.OpcodeExpect, gen.OpcodeExpect,
		gen.OpcodeCopyIn, gen.OpcodeFill,
		gen.OpcodeCopyOut, gen.OpcodeCompare, gen.OpcodeFence, gen.OpcodePoint}
	width := uint8(1) << random.IntN(4)
	c := newCommand(opcodes[random.IntN(len(opcodes))], width, gen.Access(1+random.IntN(2)),
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
		case 1: // the walk stops even if the value has reached c.Value
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

// walkSetup is the memory of a device, a buffer in host memory, and the tables of a Walk. The
// registers that program window 1, and the addresses that window 1 shows, are also in the device.
type walkSetup struct {
	device, memory     []byte
	windows            [3]uintptr
	memories, tlbBases [2]uintptr
	walk               Walk
}

// The device and the buffer have `size` bytes each. Both end at the end of a page, so that an
// access after the end faults.
func newWalkSetup(t testing.TB, size int) *walkSetup {
	page := unix.Getpagesize()
	last := func() []byte {
		pages := guardedMemory(t, (size+page-1)/page*page)
		return pages[len(pages)-size:]
	}
	p := &walkSetup{device: last(), memory: last()}
	p.tlbBases[1], p.memories[1] = AddressOf(p.device), AddressOf(p.memory)
	p.windows = [3]uintptr{0, p.tlbBases[1], p.tlbBases[1]}
	p.walk.WindowAddresses, p.walk.BufferAddresses = &p.windows[0], &p.memories[0]
	p.walk.TLBWindowBases = &p.tlbBases[0]
	return p
}

const largeBudget = 1 << 40

// run executes the commands of a list until the list ends or a command stops the walk. It returns
// the number of complete commands.
func (p *walkSetup) run(run func(w *Walk), list []fbs.Command) (done int) {
	list = append(list[:len(list):len(list)], fbs.Command{Opcode: gen.OpcodeEnd})
	p.begin(list)
	run(&p.walk)
	return int(uintptr(unsafe.Pointer(p.walk.Next))-uintptr(unsafe.Pointer(&list[0]))) / 32
}

func (p *walkSetup) begin(list []fbs.Command) {
	p.windows[1] = p.tlbBases[1]
	w := &p.walk
	w.Next, w.Budget, w.DoneBytes = &list[0], largeBudget, 0
	w.Got, w.Want, w.MismatchOffset = 0, 0, 0
}

// runOne ends the test if the command stops the walk, unless it has copied all ones.
func (p *walkSetup) runOne(t testing.TB, c fbs.Command) {
	if done := p.run((*Walk).Run, []fbs.Command{c}); done != 1 && p.walk.StopReason != StopAllOnes {
		t.Fatalf("%+v stops the walk, stop reason %d", c, p.walk.StopReason)
	}
}

// compareWithOracle compares p, whose commands assembly has executed, with the oracle, whose
// commands plain Go has executed. `done` and `want` are the numbers of executed commands. `what` is
// printed if anything differs.
func (p *walkSetup) compareWithOracle(t testing.TB, oracle *walkSetup, done, want int, what any) {
	t.Helper()
	got, expect := p.walk, oracle.walk
	if done != want || got.StopReason != expect.StopReason ||
		got.Got != expect.Got && got.StopReason != StopAllOnes || got.Want != expect.Want ||
		got.MismatchOffset != expect.MismatchOffset || got.Budget != expect.Budget ||
		got.DoneBytes != expect.DoneBytes {
		t.Fatalf("%+v\n%d commands executed, %+v; want as the oracle: %d, %+v", what, done, got,
			want, expect)
	}
	if p.windows[1]-p.tlbBases[1] != oracle.windows[1]-oracle.tlbBases[1] ||
		!bytes.Equal(p.device, oracle.device) || !bytes.Equal(p.memory, oracle.memory) {
		t.Fatalf("%+v\nthe device, the memory or the address of window 1 differs from the "+
			"oracle's", what)
	}
}

func TestWalkMatchesPlainGo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p, oracle := newWalkSetup(t, 512), newWalkSetup(t, 512)
	stopReasons := map[uint64]int{}
	for range effort.Cases(4_000, 20_000, 20_000) {
		list := randomCommands(random, 512)
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
		p.compareWithOracle(t, oracle, done, oracle.run(walkGeneric, list), list)
		stopReasons[p.walk.StopReason]++
	}
	if len(stopReasons) != 4 {
		t.Errorf("number of walks by stop reason: %v, want some of all 4 reasons", stopReasons)
	}
}

func TestWalkStopsWhenItsBudgetIsUsedUpAndContinues(t *testing.T) {
	p := newWalkSetup(t, 64)
	list := make([]fbs.Command, 9)
	for i := range list {
		list[i] = fbs.Command{Opcode: gen.OpcodeWrite, Width: 1, Window: 1, Offset: uint32(i),
			Value: 7}
	}
	w := &p.walk
	w.Next = &list[0]
	done := 0
	for _, budget := range []int64{-1, 0, 6, 0, 1, 8} {
		w.Budget = budget
		w.Run()
		done += int(max(0, budget+1) / 2)
		if w.StopReason != StopBeforeNext || w.NextIndex(list) != done || w.Budget > 0 ||
			bytes.Count(p.device, []byte{7}) != done {
			t.Errorf("budget %d: Next is command %d, want %d; stop reason %d, device % x", budget,
				w.NextIndex(list), done, w.StopReason, p.device[:9])
		}
	}
	w.Next, w.Budget = &list[3], 5
	if w.Advance(); w.Next != &list[4] || w.Budget != 3 {
		t.Errorf("Advance from command 3 to %d, budget %d; want 4, 3", w.NextIndex(list), w.Budget)
	}
}

// forEachBlockCommand calls f with copies and fills of all sizes from 1 to 300 bytes at all offsets
// from 64 to 96. Sizes and offsets are multiples of the width, except in bulk copies.
func forEachBlockCommand(f func(c fbs.Command)) {
	step := uint64(effort.Cases(7, 1, 1))
	for _, opcode := range []gen.Opcode{gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut} {
		for _, access := range accessModes {
			if opcode == gen.OpcodeFill && access == gen.AccessBulk {
				continue
			}
			for _, width := range widths {
				unit := uint64(width)
				if access == gen.AccessBulk {
					unit = 1
				}
				for size := unit; size <= 300; size += step * unit {
					for offset := uint64(0); offset <= 32; offset += unit {
						c := newCommand(opcode, width, access, offset+64, size)
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

func TestCopiesOfEverySizeMatchPlainGo(t *testing.T) {
	p, oracle := newWalkSetup(t, 512), newWalkSetup(t, 512)
	scramble(p.device, 1)
	copy(oracle.device, p.device)
	n := byte(0)
	forEachBlockCommand(func(c fbs.Command) {
		n++
		p.memory[c.Value%7], oracle.memory[c.Value%7] = n, n // consecutive blocks differ
		list := []fbs.Command{c}
		done := p.run((*Walk).Run, list)
		p.compareWithOracle(t, oracle, done, oracle.run(walkGeneric, list), c)
	})
}

func TestBulkCopiesKeepTheBytesUpToTheGuardPage(t *testing.T) {
	for shift := range 40 {
		checkBulkCopies(t, 16*unix.Getpagesize(), shift)
	}
	checkBulkCopies(t, 4<<20+16*unix.Getpagesize(), 3) // enough for non-temporal stores
}

// checkBulkCopies copies size-shift bytes into the device and back, up to the end of both memories,
// and checks the bytes.
func checkBulkCopies(t *testing.T, size, shift int) {
	p := newWalkSetup(t, size)
	want := make([]byte, size)
	scramble(p.memory, uint64(shift))
	copy(want, p.memory)
	c := newCommand(gen.OpcodeCopyIn, 4, gen.AccessBulk, uint64(shift), uint64(size-shift))
	p.runOne(t, c)
	if !bytes.Equal(p.device[shift:], want[:size-shift]) {
		t.Fatalf("shift %d: CopyIn changed the bytes", shift)
	}
	clear(p.memory)
	c.Opcode, c.Value = gen.OpcodeCopyOut, uint64(shift/2)
	p.runOne(t, c)
	if !bytes.Equal(p.memory[shift/2:][:size-shift], want[:size-shift]) {
		t.Fatalf("shift %d: CopyOut changed the bytes", shift)
	}
}

func TestWalkDoesNotAllocate(t *testing.T) {
	p := newWalkSetup(t, 512)
	random := rand.New(rand.NewPCG(3, 3))
	list := make([]fbs.Command, 201)
	for i := range 200 {
		list[i] = randomCommand(random, 512)
	}
	if n := testing.AllocsPerRun(100, func() {
		w := &p.walk
		for w.Next = &list[0]; w.Next != &list[200]; {
			if w.Budget = largeBudget; w.Next != &list[200] {
				w.Run()
			}
			if w.Next != &list[200] {
				w.Advance()
			}
		}
	}); n != 0 {
		t.Errorf("Walk.Run: %v allocations, want 0", n)
	}
}

// An access to a device that is gone, or to a file that was truncated, raises SIGBUS in the
// assembly. The test truncates the file of window 2, and lets command 4 of a list access it.
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
	p := newWalkSetup(t, 512)
	windows := [3]uintptr{0, AddressOf(p.device), AddressOf(mem)}
	p.walk.WindowAddresses = &windows[0]
	for _, opcode := range []gen.Opcode{gen.OpcodeWrite, gen.OpcodeExpect, gen.OpcodeCopyIn,
		gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCompare} {
		for _, access := range accessModes {
			for _, width := range widths {
				list := make([]fbs.Command, 8)
				for i := range list {
					list[i] = newCommand(gen.OpcodeWrite, 4, 0, 4, 0)
				}
				list[4] = newCommand(opcode, width, access, 64, 64)
				if list[4].Window = 2; opcode == gen.OpcodeWrite {
					list[4].Mode = 0
				}
				p.walk.Next, p.walk.Budget, p.walk.DoneBytes = &list[0], largeBudget, 0
				fault := catchFault(p.walk.Run)
				if fault == nil || p.walk.Next != &list[4] {
					t.Errorf("%v, %v, width %d: fault %v, Next is command %d; want a fault at "+
						"command 4", opcode, access, width, fault, p.walk.NextIndex(list))
				}
				// On arm64, QEMU's user mode reports no address, or that of an earlier fault.
				addressed, ok := fault.(interface{ Addr() uintptr })
				if ok && runtime.GOARCH == "amd64" && addressed.Addr()-windows[2] != 64 {
					t.Errorf("%v: fault at %#x, want %#x", opcode, addressed.Addr(), windows[2]+64)
				}
			}
		}
	}
}

// catchFault calls f, and returns the fault if f accesses memory that is not there.
func catchFault(f func()) (fault runtime.Error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault, _ = recover().(runtime.Error) }()
	f()
	return nil
}

func BenchmarkWalk(b *testing.B) {
	p := newWalkSetup(b, 1<<20)
	list := make([]fbs.Command, 1001)
	each := func(name string, size int64, command func(i int) fbs.Command) {
		b.Run(name, func(b *testing.B) {
			for i := range 1000 {
				list[i] = command(i)
			}
			b.SetBytes(size)
			for i := 0; i < b.N; i += 1000 {
				end := &list[min(1000, b.N-i)]
				kept := *end
				*end = fbs.Command{Opcode: gen.OpcodeEnd}
				p.walk.Next, p.walk.Budget = &list[0], largeBudget
				p.walk.Run()
				*end = kept
			}
		})
	}
	for _, width := range widths {
		each(fmt.Sprint("Write", width), int64(width),
			func(i int) fbs.Command {
				return newCommand(gen.OpcodeWrite, width, 0, uint64(i*8), 0)
			})
		each(fmt.Sprint("Expect", width), int64(width), func(i int) fbs.Command {
			return newCommand(gen.OpcodeExpect, width, gen.Access(gen.ConditionEqual),
				uint64(i*8), 0)
		})
	}
	each("RunsOfOne", 4,
		func(i int) fbs.Command { return newCommand(gen.OpcodeWrite, 4<<(i%2), 0, uint64(i*8), 0) })
	for _, access := range accessModes {
		for size := uint64(16); size <= 1<<20; size *= 16 {
			each(fmt.Sprint("CopyIn", access, size), int64(size),
				func(int) fbs.Command { return newCommand(gen.OpcodeCopyIn, 4, access, 0, size) })
		}
	}
}
