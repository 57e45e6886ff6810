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

// either holds the fault against two operands.
func (m *machine) either(size int) error {
	if m.fault-m.Reg[rsi] < uint64(size) {
		m.seen = true
	}
	return m.within(m.Reg[rdi], size)
}

func (m *machine) copyString() error {
	return m.each(func(size int, stride uint64) error {
		var b [8]byte
		if err := m.either(size); err != nil {
			return err
		}
		if err := m.memory.Load(m.Reg[rsi], b[:size]); err != nil {
			return err
		}
		if err := m.memory.Store(m.Reg[rdi], b[:size]); err != nil {
			return err
		}
		m.Reg[rsi] += stride
		m.Reg[rdi] += stride
		return nil
	})
}

func (m *machine) fillString() error {
	return m.each(func(size int, stride uint64) error {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], m.Reg[rax])
		if err := m.within(m.Reg[rdi], size); err != nil {
			return err
		}
		if err := m.memory.Store(m.Reg[rdi], b[:size]); err != nil {
			return err
		}
		m.Reg[rdi] += stride
		return nil
	})
}

func (m *machine) loadString() error {
	return m.each(func(size int, stride uint64) error {
		var b [8]byte
		if err := m.within(m.Reg[rsi], size); err != nil {
			return err
		}
		if err := m.memory.Load(m.Reg[rsi], b[:size]); err != nil {
			return err
		}
		if size >= 4 {
			m.Reg[rax] = 0
		}
		m.Reg[rax] = m.Reg[rax]&^ones(size) | binary.LittleEndian.Uint64(b[:])
		m.Reg[rsi] += stride
		return nil
	})
}
