package hal

import (
	"fmt"
	"slices"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// tape is a port that consists of memory and records each access. After `allowed` accesses, each
// access returns IO.
type tape struct {
	memory  [512]byte
	touches []touch
	allowed int
}

func (p *tape) touch(offset uint64, width uint8, store bool) Code {
	if len(p.touches) == p.allowed {
		return IO
	}
	p.touches = append(p.touches, touch{offset, int(width), store})
	return OK
}

func (p *tape) Load(offset uint64, width uint8) (uint64, Code) {
	c := p.touch(offset, width, false)
	return loadLittleEndian(p.memory[offset:][:width]), c
}

func (p *tape) Store(offset uint64, width uint8, value uint64) Code {
	c := p.touch(offset, width, true)
	if c == OK {
		storeLittleEndian(p.memory[offset:][:width], value)
	}
	return c
}

// blockTape is a tape that also implements BlockPort.
type blockTape struct{ tape }

func (p *blockTape) CopyIn(offset uint64, data []byte) Code {
	c := p.touch(offset, 0, true)
	copy(p.memory[offset:], data)
	return c
}

func (p *blockTape) CopyOut(offset uint64, data []byte) Code {
	c := p.touch(offset, 0, false)
	copy(data, p.memory[offset:])
	return c
}

func newTape() *tape { return &tape{allowed: 1 << 30} }

// executeOnTape executes one command on a port. `memory` is the host memory of the command.
func executeOnTape(p Port, lead uint64, c fbs.Command, memory []byte) (w Walk, code Code) {
	list := [2]fbs.Command{c}
	table := [2]uintptr{1: AddressOf(memory)}
	w = Walk{Next: &list[0], BufferAddresses: &table[0]}
	a := NewAperture(p, 512, -1)
	code = w.ExecuteOnPort(&a, lead)
	if w.Next == &list[1] {
		w.Next = nil
	}
	return w, code
}

func TestPortAccessesHaveTheirWidthAndOrder(t *testing.T) {
	data := make([]byte, 64)
	everyBlock(func(c fbs.Command) {
		if c.Amount > 40 {
			return
		}
		for _, lead := range []uint64{0, 4, 7} {
			p := newTape()
			w, code := executeOnTape(p, lead, c, data)
			if code != OK || w.Next != nil || !slices.Equal(p.touches, want(c, lead)) {
				t.Fatalf("%+v: %v, accesses %+v, want %+v", c, code, p.touches, want(c, lead))
			}
		}
	})
}

// want returns the expected accesses of a copy command, computed in another way than in hal. In a
// bulk copy, the width is the largest power of two that fits and is aligned. In any other copy, it
// is the width of the command.
func want(c fbs.Command, lead uint64) (touches []touch) {
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
		touches = append(touches, touch{at, int(n), c.Opcode != gen.OpcodeCopyOut})
		done += n
	}
	return touches
}

func TestFirstFailureOfAPortEndsTheCommand(t *testing.T) {
	for _, opcode := range []gen.Opcode{gen.OpcodeWrite, gen.OpcodeExpect, gen.OpcodeCopyIn,
		gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCompare} {
		for _, access := range accesses {
			for allowed := range 4 {
				p := newTape()
				p.allowed = min(allowed, 1)
				c := at(opcode, 4, access, 0, 16)
				if c.Value = 0; opcode != gen.OpcodeWrite && opcode != gen.OpcodeExpect {
					p.allowed = allowed
				} else if allowed > 0 {
					continue
				}
				w, code := executeOnTape(p, 0, c, make([]byte, 16))
				if code != IO || len(p.touches) != p.allowed || w.Next == nil {
					t.Errorf("%v %v after %d accesses: %v, %d accesses", opcode, access, p.allowed,
						code, len(p.touches))
				}
			}
		}
	}
}

func TestBlockPortServesBulkCopiesOnly(t *testing.T) {
	for _, access := range accesses {
		p := &blockTape{*newTape()}
		data := make([]byte, 4)
		executeOnTape(p, 0, at(gen.OpcodeCopyIn, 4, access, 16, 4), data)
		executeOnTape(p, 0, at(gen.OpcodeCopyOut, 4, access, 16, 4), data)
		width := 4
		if access == gen.AccessBulk {
			width = 0
		}
		if want := []touch{{16, width, true}, {16, width, false}}; !slices.Equal(p.touches, want) {
			t.Errorf("%v: accesses %+v, want %+v", access, p.touches, want)
		}
	}
}

func TestPortLeavesOtherCommandsUnhandled(t *testing.T) {
	p := newTape()
	for _, opcode := range []gen.Opcode{gen.OpcodePoint, gen.OpcodeFence, gen.OpcodeEnd} {
		if w, code := executeOnTape(p, 0, fbs.Command{Opcode: opcode, Width: 4}, nil); code != OK ||
			w.Next == nil || w.StopReason != StopBeforeNext || len(p.touches) != 0 {
			t.Errorf("%v: %v, %+v", opcode, code, w)
		}
	}
}

// TestModifyStopsAfterItsLoad checks that a Modify stops the walk even if an Expect with the same
// value and mask would be true.
func TestModifyStopsAfterItsLoad(t *testing.T) {
	p, device := newTape(), make([]byte, 16)
	change := fbs.Command{Opcode: gen.OpcodeModify, Width: 2, Offset: 8, Mask: 0xff}
	w, code := executeOnTape(p, 0, change, nil)
	if code != OK || w.StopReason != StopLoaded || !slices.Equal(p.touches,
		[]touch{{8, 2, false}}) {
		t.Errorf("%v, %+v, accesses %+v", code, w, p.touches)
	}
	device[9] = 0x12
	list, window := [2]fbs.Command{change}, AddressOf(device)
	mapped := Walk{Next: &list[0], StopAt: &list[1], WindowAddresses: &window}
	if mapped.Run(); mapped.Next != &list[0] || mapped.StopReason != StopLoaded ||
		mapped.Got != 0x1200 || device[9] != 0x12 || device[8] != 0 {
		t.Errorf("%+v, % x", mapped, device)
	}
}

func TestExecuteOnPortDoesNotAllocate(t *testing.T) {
	p := newTape()
	p.touches = make([]touch, 0, 1<<20)
	memory := make([]byte, 64)
	table := [2]uintptr{1: AddressOf(memory)}
	var list []fbs.Command
	for _, opcode := range []gen.Opcode{gen.OpcodeWrite, gen.OpcodeExpect, gen.OpcodeCopyIn,
		gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCompare} {
		for _, access := range accesses {
			c := at(opcode, 4, access, 8, 32)
			list = append(list, c)
		}
	}
	w, a := Walk{BufferAddresses: &table[0]}, NewAperture(p, 512, -1)
	if n := testing.AllocsPerRun(100, func() {
		for i := range list {
			w.Next = &list[i]
			w.ExecuteOnPort(&a, 0)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestApertureCommandsGoToMemoryOrPort(t *testing.T) {
	p := newTape()
	device := make([]byte, 512)
	for name, a := range map[string]Aperture{"port": NewAperture(p, 512, 7),
		"memory": MappedAperture(device, 0, 512, 7)} {
		t.Run(name, func(t *testing.T) {
			if a.Size != 512 || a.TLBWindow != 7 || (a.Port == nil) == (a.Base == 0) {
				t.Errorf("%s: size %d, slot %d, base %#x", name, a.Size, a.TLBWindow, a.Base)
			}
			data := []byte{1, 2, 3, 4, 5, 6, 7, 8}
			back := make([]byte, 8)
			in := a.Copy(gen.OpcodeCopyIn, 16, 4, gen.AccessExact, data)
			stored := a.Store(20, 2, 0xffff)
			out := a.Copy(gen.OpcodeCopyOut, 16, 4, gen.AccessExact, back)
			got, loaded := a.Load(16, 8)
			if in != OK || stored != OK || out != OK || loaded != OK || got != 0x0807ffff04030201 ||
				loadLittleEndian(back) != got {
				t.Errorf("%s: %#x, % x", name, got, back)
			}
		})
	}
	p.allowed = 0
	a := NewAperture(p, 512, -1)
	p.touches = nil
	if _, code := a.Load(0, 4); code != IO || a.Store(0, 4, 1) != IO {
		t.Errorf("Load: %v", code)
	}
}

func TestMappedApertureStaysInsideTheMapping(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an aperture that is larger than the mapping was made")
		}
	}()
	MappedAperture(make([]byte, 64), 48, 32, -1)
}

// Configuration space of a real device accepts loads; other commands remain unhandled.
func TestConfigurationSpacePortAcceptsLoadsOnly(t *testing.T) {
	p := newTape()
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
		next int
		why  uint64
	}{{0, StopLoaded}, {1, StopLoaded}, {2, StopLoaded}, {3, StopBeforeNext}, {4, StopBeforeNext}} {
		t.Run(fmt.Sprint(want.next, " ", want.why), func(t *testing.T) {
			w := Walk{Next: &list[i], StopReason: StopAllOnes}
			if code := w.ExecuteOnPort(&a, 0); code != OK || w.Next != &list[want.next] ||
				w.StopReason != want.why || want.why == StopLoaded && w.Got != 6 {
				t.Errorf("command %d: %v, %+v", i, code, w)
			}
		})
	}
	load := touch{4, 2, false}
	if want := []touch{{4, 2, true}, load, load, load}; !slices.Equal(p.touches, want) {
		t.Errorf("accesses %+v, want %+v", p.touches, want)
	}
}
