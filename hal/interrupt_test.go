package hal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/effort"
)

// forEachTransfer calls f with copies, fills and compares of every width and mode, of a few sizes
// and alignments.
func forEachTransfer(f func(c fbs.Command)) {
	// Odd, so that bulk copies have every alignment.
	step := uint64(effort.Cases(311, 23, 11))
	for _, opcode := range []gen.Opcode{gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut,
		gen.OpcodeCompare} {
		for _, mode := range accessModes {
			for _, width := range widths {
				if opcode == gen.OpcodeFill && mode == gen.AccessBulk ||
					opcode == gen.OpcodeCompare && mode != gen.AccessExact {
					continue
				}
				unit := uint64(width)
				if mode == gen.AccessBulk {
					unit = 1
				}
				for _, size := range []uint64{1, 2, 7, 33, 47, 256 / unit, 300 / unit, 401 / unit} {
					for offset := uint64(0); offset < 512-size*unit; offset += step * unit {
						c := newCommand(opcode, width, mode, offset, size*unit)
						if c.Value = offset % 4; opcode == gen.OpcodeFill {
							c.Index, c.Value = 0, 0x5a
						}
						if opcode == gen.OpcodeCompare {
							c.Mode = 0
						}
						f(c)
					}
				}
			}
		}
	}
}

// interruptions returns budgets for the parts of a transfer. A bulk copy with the width 1 needs a
// budget of 160 to proceed for certain.
func interruptions(random *rand.Rand) func() int64 {
	most := []int64{3, 9, 40, 161}[random.IntN(4)]
	return func() int64 {
		if random.IntN(4) == 0 {
			return 161
		}
		return 1 + random.Int64N(most)
	}
}

// TestInterruptedTransferMakesTheSameAccesses compares a transfer that each machine interrupts and
// resumes with the same transfer without an interruption.
func TestInterruptedTransferMakesTheSameAccesses(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m *machine) {
		random := rand.New(rand.NewPCG(5, 5))
		interrupted := 0
		forEachTransfer(func(c fbs.Command) {
			for i := range m.device {
				m.device[i], m.memory[i] = byte(i*7), byte(i*3)|1
			}
			if c.Opcode == gen.OpcodeCompare {
				copy(m.memory[c.Value:], m.device[c.Offset:][:c.Amount])
				if random.IntN(2) == 0 {
					m.memory[int(c.Value)+random.IntN(int(c.Amount))] ^= 2
				}
			}
			device, memory := bytes.Clone(m.device), bytes.Clone(m.memory)
			list := []fbs.Command{c, {Opcode: gen.OpcodeFence}, {Opcode: gen.OpcodeEnd}}
			whole, done := m.run(list...)
			want, after := slices.Clone(m.accesses), slices.Concat(m.device, m.memory)
			copy(m.device, device)
			copy(m.memory, memory)
			var got []deviceAccess
			w, next, budget := Walk{}, 0, interruptions(random)
			for parts := 0; ; parts++ {
				w.Budget = budget()
				before := w
				w, next = m.continueRun(w, next, list)
				got = append(got, m.accesses...)
				if int64(len(m.accesses)) > 9+before.Budget { // 9 of the alignment of bulk copies
					t.Fatalf("%+v: %d accesses with the budget %d", c, len(m.accesses),
						before.Budget)
				}
				if w.Budget > 0 {
					break
				}
				if interrupted++; parts > 2000 || next == 0 && w.Budget != 0 {
					t.Fatalf("%+v is interrupted with %+v", c, w)
				}
			}
			if next != done || w.DoneBytes != 0 || w.StopReason != whole.StopReason ||
				w.StopReason == StopMismatch && (w.Got != whole.Got || w.Want != whole.Want ||
					w.MismatchOffset != whole.MismatchOffset) {
				t.Fatalf("%+v ends at %d with %+v, want %d with %+v", c, next, w, done, whole)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%+v: accesses %+v, want %+v", c, got, want)
			}
			if !bytes.Equal(slices.Concat(m.device, m.memory), after) {
				t.Fatalf("%+v: other bytes than without an interruption", c)
			}
		})
		if interrupted < 500 {
			t.Errorf("%d interruptions, want more than 500", interrupted)
		}
	})
}

// TestWalkIsInterruptedLikePlainGo compares Run with walkGeneric after each part of a list of
// commands.
func TestWalkIsInterruptedLikePlainGo(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	p, oracle := newWalkSetup(t, 512), newWalkSetup(t, 512)
	for range effort.Cases(4_000, 20_000, 20_000) {
		list := append(randomCommands(random, 512), fbs.Command{Opcode: gen.OpcodeEnd})
		scramble(p.device, random.Uint64())
		scramble(p.memory, random.Uint64())
		if random.IntN(2) == 0 {
			copy(p.memory, p.device)
		}
		copy(oracle.device, p.device)
		copy(oracle.memory, p.memory)
		p.begin(list)
		oracle.begin(list)
		budget := interruptions(random)
		for isStopped := false; !isStopped; {
			p.walk.Budget = budget()
			oracle.walk.Budget = p.walk.Budget
			p.walk.Run()
			walkGeneric(&oracle.walk)
			isStopped = p.walk.Budget > 0
			done, want := p.walk.NextIndex(list), oracle.walk.NextIndex(list)
			p.compareWithOracle(t, oracle, done, want, list)
		}
	}
}

// TestInterruptedTransferOnAPortMakesTheSameAccesses also checks the bytes, and a failing access.
func TestInterruptedTransferOnAPortMakesTheSameAccesses(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	forEachTransfer(func(c fbs.Command) {
		for _, lead := range []uint64{0, 7} {
			whole, parts := newRecordingPort(), newRecordingPort()
			memory := make([]byte, 512)
			if scramble(memory, 3); c.Opcode == gen.OpcodeCompare {
				copy(whole.memory[c.Offset:], memory[c.Value:][:c.Amount])
				whole.memory[(int(c.Offset)+random.IntN(2*int(c.Amount)))%512] ^= 2
			}
			parts.memory = whole.memory
			whole.allowed = 1 + random.IntN(2*int(c.Amount))
			parts.allowed = whole.allowed
			other := bytes.Clone(memory)
			want, code := runOnPort(whole, lead, c, memory)
			list, table := [2]fbs.Command{c}, [2]uintptr{1: AddressOf(other)}
			w, a := Walk{Next: &list[0], BufferAddresses: &table[0]}, NewAperture(parts, 512, -1)
			got, budget := OK, interruptions(random)
			for w.Budget <= 0 && w.Next == &list[0] && got == OK {
				w.Budget = budget()
				got = w.ExecuteOnPort(&a, lead)
			}
			if got != code || (w.Next == &list[0]) != (want.Next != nil) ||
				w.StopReason != want.StopReason || w.MismatchOffset != want.MismatchOffset ||
				!slices.Equal(parts.accesses, whole.accesses) || !bytes.Equal(memory, other) ||
				parts.memory != whole.memory {
				t.Fatalf("%+v: %v, %+v, accesses %+v;\nwant %v, %+v, accesses %+v", c, got, w,
					parts.accesses, code, want, whole.accesses)
			}
		}
	})
}

func TestInterruptedCommandThatFaultsIsInNext(t *testing.T) {
	for _, opcode := range []gen.Opcode{gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut,
		gen.OpcodeCompare} {
		t.Run(fmt.Sprint(opcode), func(t *testing.T) {
			p := newWalkSetup(t, 512)
			list := []fbs.Command{newCommand(opcode, 4, gen.AccessExact, 256, 512), {}}
			if list[0].Mode = 0; opcode != gen.OpcodeCompare {
				list[0].Mode = uint8(gen.AccessExact)
			}
			if opcode == gen.OpcodeFill {
				list[0].Index, list[0].Value = 0, 0
			}
			p.begin(list)
			p.walk.Budget = 11
			p.walk.Run()
			if p.walk.DoneBytes != 40 || p.walk.Next != &list[0] {
				t.Fatalf("interrupted with %+v, want 40 bytes done", p.walk)
			}
			p.walk.Budget = largeBudget
			fault := catchFault(p.walk.Run)
			if fault == nil || p.walk.Next != &list[0] {
				t.Errorf("fault %v, Next is command %d; want a fault at command 0", fault,
					p.walk.NextIndex(list))
			}
			addressed, ok := fault.(interface{ Addr() uintptr })
			if ok && addressed.Addr()-p.windows[1] != 512 {
				t.Errorf("fault at offset %d of the window, want 512",
					addressed.Addr()-p.windows[1])
			}
		})
	}
}
