package hal

import (
	"fmt"
	"slices"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// recordingPort is a port that consists of memory and records each access. After `allowed`
// accesses, each access returns IO.
type recordingPort struct {
	memory   [512]byte
	accesses []deviceAccess
	allowed  int
}

func (p *recordingPort) record(offset uint64, width uint8, store bool) Code {
	if len(p.accesses) == p.allowed {
		return IO
	}
	p.accesses = append(p.accesses, deviceAccess{offset, int(width), store})
	return OK
}

func (p *recordingPort) Load(offset uint64, width uint8) (uint64, Code) {
	c := p.record(offset, width, false)
	return loadLittleEndian(p.memory[offset:][:width]), c
}

func (p *recordingPort) Store(offset uint64, width uint8, value uint64) Code {
	c := p.record(offset, width, true)
	if c == OK {
		storeLittleEndian(p.memory[offset:][:width], value)
	}
	return c
}

// recordingBlockPort is a recordingPort that also implements BlockPort. It records a block as an
// access of width 0.
type recordingBlockPort struct{ recordingPort }

func (p *recordingBlockPort) CopyIn(offset uint64, data []byte) Code {
	c := p.record(offset, 0, true)
	copy(p.memory[offset:], data)
	return c
}

func (p *recordingBlockPort) CopyOut(offset uint64, data []byte) Code {
	c := p.record(offset, 0, false)
	copy(data, p.memory[offset:])
	return c
}

func newRecordingPort() *recordingPort { return &recordingPort{allowed: 1 << 30} }

// runOnPort executes one command on a port with Walk.ExecuteOnPort. `memory` is the host memory of
// the command. runOnPort sets Next of the returned Walk to nil if the command is complete.
func runOnPort(p Port, lead uint64, c fbs.Command, memory []byte) (w Walk, code Code) {
	list := [2]fbs.Command{c}
	table := [2]uintptr{1: AddressOf(memory)}
	w = Walk{Next: &list[0], Budget: largeBudget, BufferAddresses: &table[0]}
	a := NewAperture(p, 512, -1)
	code = w.ExecuteOnPort(&a, lead)
	if w.Next == &list[1] {
		w.Next = nil
	}
	return w, code
}

func TestPortAccessesHaveTheirWidthAndOrder(t *testing.T) {
	data := make([]byte, 64)
	forEachBlockCommand(func(c fbs.Command) {
		if c.Amount > 40 {
			return
		}
		for _, lead := range []uint64{0, 4, 7} {
			p := newRecordingPort()
			w, code := runOnPort(p, lead, c, data)
			if code != OK || w.Next != nil || !slices.Equal(p.accesses, expectedAccesses(c, lead)) {
				t.Fatalf("%+v: %v, accesses %+v, want %+v", c, code, p.accesses,
					expectedAccesses(c, lead))
			}
		}
	})
}

// expectedAccesses computes the accesses of a copy command in another way than hal. In a bulk copy,
// the width is the largest power of two that fits and is aligned. In any other copy, it is the
// width of the command.
func expectedAccesses(c fbs.Command, lead uint64) (list []deviceAccess) {
	offset, width, access, size := uint64(c.Offset), c.Width, gen.Access(c.Mode), uint64(c.Amount)
	for done := uint64(0); done < size; {
		at, n := offset+done, uint64(width)
		if access == gen.AccessFixed {
			at = offset
		}
		if access == gen.AccessBulk {
			for _, n = range []uint64{8, 4, 2, 1} {
				if n <= uint64(width) && (at+lead)&(n-1) == 0 && done+n <= size {
					break
				}
			}
		}
		list = append(list, deviceAccess{at, int(n), c.Opcode != gen.OpcodeCopyOut})
		done += n
	}
	return list
}

func TestFirstFailureOfAPortEndsTheCommand(t *testing.T) {
	for _, opcode := range []gen.Opcode{gen.OpcodeWrite, gen.OpcodeExpect, gen.OpcodeCopyIn,
		gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCompare} {
		for _, access := range accessModes {
			for allowed := range 4 {
				p := newRecordingPort()
				p.allowed = min(allowed, 1)
				c := newCommand(opcode, 4, access, 0, 16)
				if c.Value = 0; opcode != gen.OpcodeWrite && opcode != gen.OpcodeExpect {
					p.allowed = allowed
				} else if allowed > 0 {
					continue
				}
				w, code := runOnPort(p, 0, c, make([]byte, 16))
				if code != IO || len(p.accesses) != p.allowed || w.Next == nil {
					t.Errorf("%v %v on a port that fails after %d accesses: %v, %d accesses, "+
						"complete %v", opcode, access, p.allowed, code, len(p.accesses),
						w.Next == nil)
				}
			}
		}
	}
}

func TestBlockPortServesBulkCopiesOnly(t *testing.T) {
	for _, access := range accessModes {
		p := &recordingBlockPort{*newRecordingPort()}
		data := make([]byte, 4)
		runOnPort(p, 0, newCommand(gen.OpcodeCopyIn, 4, access, 16, 4), data)
		runOnPort(p, 0, newCommand(gen.OpcodeCopyOut, 4, access, 16, 4), data)
		width := 4
		if access == gen.AccessBulk {
			width = 0
		}
		want := []deviceAccess{{16, width, true}, {16, width, false}}
		if !slices.Equal(p.accesses, want) {
			t.Errorf("%v: accesses %+v, want %+v", access, p.accesses, want)
		}
	}
}

func TestPortLeavesOtherCommandsUnhandled(t *testing.T) {
	p := newRecordingPort()
	for _, opcode := range []gen.Opcode{gen.OpcodePoint, gen.OpcodeFence, gen.OpcodeEnd} {
		if w, code := runOnPort(p, 0, fbs.Command{Opcode: opcode, Width: 4}, nil); code != OK ||
			w.Next == nil || w.StopReason != StopBeforeNext || len(p.accesses) != 0 {
			t.Errorf("%v: %v, %+v, %d accesses; want the command left to the caller", opcode, code,
				w, len(p.accesses))
		}
	}
}

// TestModifyStopsAfterItsLoad checks, on a port and on mapped memory, that a Modify stops the walk
// even if an Expect with the same value and mask would be true.
func TestModifyStopsAfterItsLoad(t *testing.T) {
	p, device := newRecordingPort(), make([]byte, 16)
	change := fbs.Command{Opcode: gen.OpcodeModify, Width: 2, Offset: 8, Mask: 0xff}
	w, code := runOnPort(p, 0, change, nil)
	if code != OK || w.StopReason != StopLoaded || !slices.Equal(p.accesses,
		[]deviceAccess{{8, 2, false}}) {
		t.Errorf("Modify on a port: %v, %+v, accesses %+v", code, w, p.accesses)
	}
	device[9] = 0x12
	list, window := [2]fbs.Command{change}, AddressOf(device)
	mapped := Walk{Next: &list[0], Budget: 1, WindowAddresses: &window}
	if mapped.Run(); mapped.Next != &list[0] || mapped.StopReason != StopLoaded ||
		mapped.Got != 0x1200 || device[9] != 0x12 || device[8] != 0 {
		t.Errorf("Modify on mapped memory: %+v, device % x", mapped, device)
	}
}

func TestExecuteOnPortDoesNotAllocate(t *testing.T) {
	p := newRecordingPort()
	p.accesses = make([]deviceAccess, 0, 1<<20)
	memory := make([]byte, 64)
	table := [2]uintptr{1: AddressOf(memory)}
	var list []fbs.Command
	for _, opcode := range []gen.Opcode{gen.OpcodeWrite, gen.OpcodeExpect, gen.OpcodeCopyIn,
		gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCompare} {
		for _, access := range accessModes {
			c := newCommand(opcode, 4, access, 8, 32)
			list = append(list, c)
		}
	}
	w, a := Walk{BufferAddresses: &table[0]}, NewAperture(p, 512, -1)
	if n := testing.AllocsPerRun(100, func() {
		for i := range list {
			w.Next, w.Budget = &list[i], largeBudget
			w.ExecuteOnPort(&a, 0)
		}
	}); n != 0 {
		t.Errorf("ExecuteOnPort: %v allocations, want 0", n)
	}
}

func TestApertureAccessesGoToMemoryOrPort(t *testing.T) {
	p := newRecordingPort()
	device := make([]byte, 512)
	for name, a := range map[string]Aperture{"port": NewAperture(p, 512, 7),
		"memory": MappedAperture(device, 0, 512, 7)} {
		t.Run(name, func(t *testing.T) {
			if a.Size != 512 || a.TLBWindow != 7 || (a.Port == nil) == (a.Base == 0) {
				t.Errorf("%s: size %d, slot %d, base %#x; want 512, 7, and a base only for memory",
					name, a.Size, a.TLBWindow, a.Base)
			}
			data := []byte{1, 2, 3, 4, 5, 6, 7, 8}
			back := make([]byte, 8)
			in := a.Copy(gen.OpcodeCopyIn, 16, 4, gen.AccessExact, data)
			stored := a.Store(20, 2, 0xffff)
			out := a.Copy(gen.OpcodeCopyOut, 16, 4, gen.AccessExact, back)
			got, loaded := a.Load(16, 8)
			if in != OK || stored != OK || out != OK || loaded != OK || got != 0x0807ffff04030201 ||
				loadLittleEndian(back) != got {
				t.Errorf("%s: Load %#x, Copy % x, want 0x807ffff04030201; codes %v, %v, %v, %v",
					name, got, back, in, stored, out, loaded)
			}
		})
	}
	p.allowed = 0
	a := NewAperture(p, 512, -1)
	p.accesses = nil
	if _, code := a.Load(0, 4); code != IO || a.Store(0, 4, 1) != IO {
		t.Errorf("Load from a port that fails: %v, want %v, also from Store", code, IO)
	}
}

func TestMappedApertureStaysInsideTheMapping(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("MappedAperture did not panic for a range that ends after the mapping")
		}
	}()
	MappedAperture(make([]byte, 64), 48, 32, -1)
}

// Configuration space of a real device accepts loads; other commands remain unhandled.
func TestConfigurationSpacePortAcceptsLoadsOnly(t *testing.T) {
	p := newRecordingPort()
	a := Aperture{Port: p, Size: 64, TLBWindow: -1}
	p.Store(4, 2, 6)
	list := []fbs.Command{
		{Opcode: gen.OpcodeExpect, Width: 2, Offset: 4, Mode: uint8(gen.ConditionEqual), Mask: 7,
			Value: 6},
		{Opcode: gen.OpcodeExpect, Width: 2, Offset: 4, Mode: uint8(gen.ConditionNotEqual)},
		{Opcode: gen.OpcodeExpect, Width: 2, Offset: 4, Mode: uint8(gen.ConditionReached), Mask: 7,
			Value: 6},
		{Opcode: gen.OpcodeWrite, Width: 2, Offset: 4, Value: 7},
		{Opcode: gen.OpcodeFill, Width: 2, Offset: 4, Mode: uint8(gen.AccessExact), Amount: 2},
	}
	for i, want := range []struct {
		next       int
		stopReason uint64
	}{{0, StopLoaded}, {1, StopLoaded}, {2, StopLoaded}, {3, StopBeforeNext}, {4, StopBeforeNext}} {
		t.Run(fmt.Sprint(want.next, " ", want.stopReason), func(t *testing.T) {
			w := Walk{Next: &list[i], StopReason: StopAllOnes}
			if code := w.ExecuteOnPort(&a, 0); code != OK || w.Next != &list[want.next] ||
				w.StopReason != want.stopReason || want.stopReason == StopLoaded && w.Got != 6 {
				t.Errorf("command %d: %v, %+v; want stop reason %d", i, code, w, want.stopReason)
			}
		})
	}
	load := deviceAccess{4, 2, false}
	if want := []deviceAccess{{4, 2, true}, load, load, load}; !slices.Equal(p.accesses, want) {
		t.Errorf("accesses %+v, want %+v", p.accesses, want)
	}
}
