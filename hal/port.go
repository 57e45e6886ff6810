package hal

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Port carries single accesses to a device that is not mapped memory: a mock,
// a simulator, PCI configuration space. Offsets are from the start of the
// aperture the port belongs to. A store is complete when Store returns.
type Port interface {
	Load(offset uint64, width uint8) (uint64, Code)
	Store(offset uint64, width uint8, value uint64) Code
}

// BlockPort is a Port that copies ranges of memory in one go, as a simulator
// does. It serves access Bulk only.
type BlockPort interface {
	CopyIn(offset uint64, data []byte) Code
	CopyOut(offset uint64, data []byte) Code
}

// On carries out Next on the port of an aperture, as Run does on mapped memory,
// and goes on to the command behind it where nothing is left to look at. lead is
// where the window begins in its BAR: bulk copies are aligned there. A code of
// the port's that is not OK ends the command.
func (w *Walk) On(a *Aperture, lead uint64) Code { return w.step(a.port, a.block, 0, lead) }

// step is what a command means, in plain Go: what the assembly is tested
// against. base is added to the port's offsets.
func (w *Walk) step(p Port, block BlockPort, base, lead uint64) (code Code) {
	c := w.Next
	at := base + uint64(c.Offset)
	bulk := block != nil && gen.Access(c.Mode) == gen.AccessBulk
	w.Why = Left
	switch c.Opcode {
	case gen.OpcodeWrite:
		code = p.Store(at, c.Width, c.Value)
	case gen.OpcodeCopyIn:
		if data := w.memory(); bulk {
			code = block.CopyIn(at, data)
		} else {
			code = w.copyIn(p, at, lead, data)
		}
	case gen.OpcodeFill:
		code = w.fill(p, at)
	case gen.OpcodeCopyOut:
		data := w.memory()
		if bulk {
			code = block.CopyOut(at, data)
		} else {
			code = w.copyOut(p, at, lead, data)
		}
		if data[len(data)-1] == 0xff {
			w.Why = Taken
		}
	case gen.OpcodeCheck:
		code = w.check(p, at)
	case gen.OpcodeCompare:
		code = w.compare(p, at)
	default:
		return OK
	}
	if code == OK && w.Why == Left {
		w.Skip()
	}
	return code
}

// memory is the range that the next command's index, value and amount name.
func (w *Walk) memory() []byte {
	c := w.Next
	return bytesAt(*entry(w.Memories, c.Index)+uintptr(c.Value), c.Amount)
}

func (w *Walk) check(p Port, at uint64) Code {
	c := w.Next
	got, code := p.Load(at, c.Width)
	if gen.Condition(c.Mode) != gen.ConditionEqual || got&c.Mask != c.Value || got == fbs.WidthMask(c.Width) {
		w.Why, w.Got = Loaded, got
	}
	return code
}

func (w *Walk) compare(p Port, at uint64) Code {
	c, golden := w.Next, w.memory()
	for i := uint64(0); i < uint64(len(golden)); i += uint64(c.Width) {
		got, code := p.Load(at+i, c.Width)
		if code != OK {
			return code
		}
		if want := get(golden[i:][:c.Width]); got != want {
			w.Why, w.Got, w.Want, w.At = Differs, got, want, i
			return OK
		}
	}
	return OK
}

func (w *Walk) copyIn(p Port, at, lead uint64, data []byte) Code {
	for c := w.Next; len(data) > 0; {
		n := next(c, at+lead, uint64(len(data)))
		if code := p.Store(at, n, get(data[:n])); code != OK {
			return code
		}
		data = data[n:]
		at += step(c, n)
	}
	return OK
}

func (w *Walk) copyOut(p Port, at, lead uint64, data []byte) Code {
	for c := w.Next; len(data) > 0; {
		n := next(c, at+lead, uint64(len(data)))
		value, code := p.Load(at, n)
		if code != OK {
			return code
		}
		put(data[:n], value)
		data = data[n:]
		at += step(c, n)
	}
	return OK
}

func (w *Walk) fill(p Port, at uint64) Code {
	c := w.Next
	for size := c.Amount; size > 0; size -= uint32(c.Width) {
		if code := p.Store(at, c.Width, c.Value); code != OK {
			return code
		}
		at += step(c, c.Width)
	}
	return OK
}

// next is the width of the next access of a copy at an address with size bytes
// left: that of the command, or in bulk the widest naturally aligned one that is
// no wider.
func next(c *fbs.Command, address, size uint64) uint8 {
	width := c.Width
	if gen.Access(c.Mode) == gen.AccessBulk {
		for uint64(width) > size || address%uint64(width) != 0 {
			width /= 2
		}
	}
	return width
}

// step is how far an access of n bytes moves the device's address.
func step(c *fbs.Command, n uint8) uint64 {
	if gen.Access(c.Mode) == gen.AccessFixed {
		return 0
	}
	return uint64(n)
}

// get and put hold the bytes of one access as they lie on the bus: little endian.
func get(data []byte) (value uint64) {
	for i := len(data) - 1; i >= 0; i-- {
		value = value<<8 | uint64(data[i])
	}
	return value
}

func put(data []byte, value uint64) {
	for i := range data {
		data[i] = byte(value)
		value >>= 8
	}
}
