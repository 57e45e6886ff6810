package hal

import (
	"fmt"
	"slices"
	"testing"

	"lightmetal/fbs/gen"
)

// tape is a port that is memory and remembers each access. It fails with IO
// once it has made as many as it may.
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
	return get(p.memory[offset:][:width]), c
}

func (p *tape) Store(offset uint64, width uint8, value uint64) Code {
	c := p.touch(offset, width, true)
	if c == OK {
		put(p.memory[offset:][:width], value)
	}
	return c
}

// blockTape copies whole ranges too.
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

func TestPortAccessesHaveTheirWidthAndOrder(t *testing.T) {
	everyBlock(func(offset uint64, width uint8, access gen.Access, size uint64) {
		if size > 40 {
			return
		}
		p := newTape()
		a := NewAperture(p, 512, -1)
		what := fmt.Sprintf("(%d, %d, %v, %d bytes)", offset, width, access, size)
		want := p.want(offset, width, access, size)
		data := make([]byte, size)
		for op, call := range map[string]func() Code{
			"CopyIn":  func() Code { return a.CopyIn(offset, width, access, data) },
			"CopyOut": func() Code { return a.CopyOut(offset, width, access, data) },
			"Fill":    func() Code { return a.Fill(offset, width, access, 1, size) },
		} {
			p.touches = nil
			for i := range want {
				want[i].store = op != "CopyOut"
			}
			if c := call(); c != OK || !slices.Equal(p.touches, want) {
				t.Fatalf("%s%s: %v, accesses %+v, want %+v", op, what, c, p.touches, want)
			}
		}
	})
}

// want is the accesses of a block, by another way of counting: width by width
// where the block is aligned, else the largest power of two that fits.
func (p *tape) want(offset uint64, width uint8, access gen.Access, size uint64) (touches []touch) {
	for done := uint64(0); done < size; {
		at, n := offset+done, uint64(width)
		if access == gen.AccessFixed {
			at = offset
		}
		if access == gen.AccessBulk {
			for _, n = range []uint64{8, 4, 2, 1} {
				if n <= uint64(width) && at&(n-1) == 0 && done+n <= size {
					break
				}
			}
		}
		touches = append(touches, touch{at, int(n), false})
		done += n
	}
	return touches
}

func TestPortBytesAreThoseOfMappedMemory(t *testing.T) {
	b := newBench(t, false)
	scramble(b.memory, 3)
	everyBlock(func(offset uint64, width uint8, access gen.Access, size uint64) {
		if size > 40 {
			return
		}
		p := newTape()
		a := NewAperture(p, 512, -1)
		copy(p.memory[:], b.device)
		data, _ := b.side(size)
		what := fmt.Sprintf("(%d, %d, %v, %d bytes)", offset, width, access, size)
		same := func(op string) {
			if string(p.memory[:]) != string(b.device[:len(p.memory)]) {
				t.Fatalf("%s%s: the port differs from mapped memory", op, what)
			}
		}
		a.CopyIn(offset, width, access, data)
		b.aperture.CopyIn(offset, width, access, data)
		same("CopyIn")
		got, want := make([]byte, size), make([]byte, size)
		a.CopyOut(offset, width, access, got)
		b.aperture.CopyOut(offset, width, access, want)
		if string(got) != string(want) {
			t.Fatalf("CopyOut%s: % x, mapped memory gives % x", what, got, want)
		}
		a.Fill(offset, width, access, 0x1122334455667788, size)
		b.aperture.Fill(offset, width, access, 0x1122334455667788, size)
		same("Fill")
	})
}

func TestAPortsFirstFailureEndsTheCopy(t *testing.T) {
	for _, access := range accesses {
		for allowed := range 4 {
			for op, call := range map[string]func(a *Aperture) Code{
				"CopyIn":  func(a *Aperture) Code { return a.CopyIn(0, 4, access, make([]byte, 16)) },
				"CopyOut": func(a *Aperture) Code { return a.CopyOut(0, 4, access, make([]byte, 16)) },
				"Fill":    func(a *Aperture) Code { return a.Fill(0, 4, access, 1, 16) },
			} {
				p := newTape()
				p.allowed = allowed
				a := NewAperture(p, 512, -1)
				if c := call(&a); c != IO || len(p.touches) != allowed {
					t.Errorf("%s %v after %d accesses: %v, %d accesses", op, access, allowed, c, len(p.touches))
				}
			}
		}
	}
	p := newTape()
	p.allowed = 0
	a := NewAperture(p, 512, -1)
	if _, c := a.Load(0, 4); c != IO {
		t.Errorf("Load: %v", c)
	}
	if c := a.Store(0, 4, 1); c != IO {
		t.Errorf("Store: %v", c)
	}
}

func TestBlockPortServesBulkCopiesOnly(t *testing.T) {
	for _, access := range accesses {
		p := &blockTape{*newTape()}
		a := NewAperture(p, 512, -1)
		data := make([]byte, 4)
		a.CopyIn(16, 4, access, data)
		a.CopyOut(16, 4, access, data)
		width := 4
		if access == gen.AccessBulk {
			width = 0
		}
		if want := []touch{{16, width, true}, {16, width, false}}; !slices.Equal(p.touches, want) {
			t.Errorf("%v: accesses %+v, want %+v", access, p.touches, want)
		}
	}
}

func TestNothingOnAPortAllocates(t *testing.T) {
	p := newTape()
	p.touches = make([]touch, 0, 1<<20)
	a := NewAperture(p, 512, -1)
	data := make([]byte, 32)
	if n := testing.AllocsPerRun(100, func() {
		a.Store(8, 4, 1)
		a.Load(8, 4)
		for _, access := range accesses {
			a.CopyIn(8, 4, access, data)
			a.CopyOut(8, 4, access, data)
			a.Fill(8, 4, access, 1, 32)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestApertureKnowsItsSizeAndSlot(t *testing.T) {
	a := NewAperture(newTape(), 512, 7)
	if a.Size() != 512 || a.Slot() != 7 {
		t.Errorf("size %d, slot %d", a.Size(), a.Slot())
	}
	m := MappedAperture(make([]byte, 64), 16, 32, -1, true)
	if m.Size() != 32 || m.Slot() != -1 || m.Bus != 0 {
		t.Errorf("size %d, slot %d, bus %#x", m.Size(), m.Slot(), m.Bus)
	}
}

func TestMappedApertureStaysInsideTheMapping(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an aperture that is larger than the mapping was made")
		}
	}()
	MappedAperture(make([]byte, 64), 48, 32, -1, false)
}
