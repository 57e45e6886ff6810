package runtime_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/runtime"
	memories "lightmetal/tools/check/bench/plain"
)

// ringListing has a queue of entries of 16, 32 and 16 bytes, a doorbell, and a phase bit.
const ringListing = `lightmetal 1
target ivshmem 1af4:1110 bar2 0x10000
window m bar2 offset 0 size 0x10000
ring q begin 0x100 end 0x160 first 0x120
ring n begin 0 end 4 first 1
frame:
  advance q 16
  with    q offset
  write.4 m+0x0 0x11
  advance q 32
  with    q offset
  fill.4  m+0x0 <- 0x22 size 32
  advance n 1
  with    q value shift 4 parity 0x80000000
  write.4 m+0x2000 0x80000000
  with    n value
  write.4 m+0x2004 0x0
  with    n value
  with    n offset
  expect.1 m+0x2004 & 0xff == 0x0 else ignore
init:
  reset   q
  reset   n
`

// TestRingsMove runs a frame until a ring of 0x60 bytes has wrapped three times.
func TestRingsMove(t *testing.T) {
	v := view(t, ringListing)
	memory := make([]byte, memories.Size(v))
	r, err := runtime.Load(v, runtime.AnyTLBWindow, memories.Devices(v, memory)...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	frame, reset := v.SequenceByName("frame"), v.SequenceByName("init")
	if got := r.Run(frame); got != (runtime.Result{Code: hal.RingUnset, Command: -1}) {
		t.Fatalf("a run before the reset: %+v", got)
	}
	var observed []int
	r.SetObserver(func(command int) { observed = append(observed, command) })
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(memory[at:]) }
	for range 2 {
		if got := r.Run(reset); got.Code != hal.OK {
			t.Fatal(got)
		}
		for i, want := range []struct {
			small, large  int
			bell, counter uint32
		}{
			{0x120, 0x130, 0x80000013, 1},
			{0x150, 0x100, 0x10, 2},
			{0x120, 0x130, 0x13, 3},
			{0x150, 0x100, 0x80000010, 0},
			{0x120, 0x130, 0x80000013, 1},
		} {
			clear(memory)
			if got := r.Run(frame); got.Code != hal.OK {
				t.Fatalf("run %d: %+v", i, got)
			}
			for at := 0; at < 0x200; at += 4 {
				value := uint32(0)
				switch {
				case at == want.small:
					value = 0x11
				case at >= want.large && at < want.large+32:
					value = 0x22
				}
				if word(at) != value {
					t.Errorf("run %d: %#x has %#x, want %#x", i, at, word(at), value)
				}
			}
			if word(0x2000) != want.bell || word(0x2004) != want.counter {
				t.Errorf("run %d: %#x and %#x, want %#x and %#x", i, word(0x2000), word(0x2004),
					want.bell, want.counter)
			}
		}
	}
	first := int(v.Sequences[frame].First)
	count := int(v.Sequences[frame].Count)
	for i := range count {
		if !slices.Contains(observed, first+i) {
			t.Errorf("command %d was not observed", i)
		}
	}
	for _, command := range observed {
		if command < 0 || command >= len(v.Commands) {
			t.Errorf("command %d was observed, but the image has %d", command, len(v.Commands))
		}
	}
	r.SetObserver(nil)
	if n := testing.AllocsPerRun(10, func() { r.Run(frame) }); n != 0 {
		t.Errorf("a run makes %v allocations, want none", n)
	}
}

// TestRunThatEndsBetweenTwoWithsMovesNothingInSafe: the run ends at its first look at the clock.
// The fillers shift which command that is.
func TestRunThatEndsBetweenTwoWithsMovesNothingInSafe(t *testing.T) {
	for filler := range 3 {
		body := strings.Repeat("  write.4 m+0x0 0x1\n", filler) + strings.Repeat(
			"  with q value\n  with q offset\n  write.4 m+0x0 0x0\n", 2000)
		r, device := loadOnMock(t, "ring q begin 0 end 8 first 4\nmain:\n  reset q\n"+
			"  advance q 4\n"+body+"safe:\n  reset q\n  advance q 4\n  with q offset\n"+
			"  write.4 m+0x40 0x5a00\n")
		r.SetLimit(1000)
		run(t, r, hal.FrameLate)
		if got := readMemory(t, device, 0x44, 4); string(got) != "\x00\x5a\x00\x00" {
			t.Errorf("%d fillers: safe stored % x, want 00 5a 00 00", filler, got)
		}
	}
}
