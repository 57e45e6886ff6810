package x86

import "encoding/binary"

// The string instructions move elements between RSI, RDI and the accumulator,
// once or RCX times. Registers follow each element, so that one that fails can
// be taken up where it stood.

const (
	rax = 0
	rcx = 1
	rsi = 6
	rdi = 7
)

// each carries out one element after another.
func (m *machine) each(element func(size int, stride uint64) error) error {
	if m.address32 || m.segment != 0 {
		return m.refuse("a string instruction with another segment or 32-bit addresses")
	}
	size := m.integerSize()
	stride := uint64(size)
	if m.Flags&down != 0 {
		stride = -stride
	}
	if !m.repeat && !m.repeatNot {
		return element(size, stride)
	}
	for m.Reg[rcx] > 0 {
		if err := element(size, stride); err != nil {
			return err
		}
		m.Reg[rcx]--
	}
	return nil
}

// moveString moves an element from memory or the accumulator to memory or the
// accumulator. The fault may lie in either operand in memory.
func moveString(loads, stores bool) func(*machine) error {
	move := func(m *machine, size int, stride uint64) error {
		var b [8]byte
		data, operand := b[:size], rsi
		if stores {
			m.seen = m.seen || loads && m.fault-m.Reg[rsi] < uint64(size)
			operand = rdi
		}
		err := m.within(m.Reg[operand], size)
		binary.LittleEndian.PutUint64(b[:], m.Reg[rax])
		if err == nil && loads {
			err = m.memory.Load(m.Reg[rsi], data)
		}
		if err == nil && stores {
			err = m.memory.Store(m.Reg[rdi], data)
		}
		if err != nil {
			return err
		}
		if loads {
			m.Reg[rsi] += stride
		}
		if stores {
			m.Reg[rdi] += stride
		} else {
			m.setRegister(rax, size, binary.LittleEndian.Uint64(b[:]))
		}
		return nil
	}
	return func(m *machine) error {
		return m.each(func(size int, stride uint64) error { return move(m, size, stride) })
	}
}
