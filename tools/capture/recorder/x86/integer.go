package x86

import "encoding/binary"

// pushSize is that of instructions that are 64 bits wide without being told.
func pushSize(i *instruction) int {
	if i.operand16 && !i.wide {
		return 2
	}
	return 8
}

func farSize(i *instruction) int {
	if i.reg&7 == 6 {
		return pushSize(i)
	}
	return i.operandSize()
}

// high tells whether a byte register is AH, CH, DH or BH.
func (m *machine) high(register uint8, size int) bool {
	return size == 1 && !m.rex && register >= 4 && register < 8
}

func (m *machine) register(register uint8, size int) uint64 {
	if m.high(register, size) {
		return m.Reg[register-4] >> 8 & 0xff
	}
	return m.Reg[register] & ones(size)
}

// setRegister clears the upper half where it writes four bytes.
func (m *machine) setRegister(register uint8, size int, v uint64) {
	switch {
	case m.high(register, size):
		m.Reg[register-4] = m.Reg[register-4]&^0xff00 | v&0xff<<8
	case size >= 4:
		m.Reg[register] = v & ones(size)
	default:
		m.Reg[register] = m.Reg[register]&^ones(size) | v&ones(size)
	}
}

// ones is all the bits of a width in bytes.
func ones(size int) uint64 { return ^uint64(0) >> (64 - 8*size) }

func (m *machine) loadNumber(size int) (uint64, error) {
	var b [8]byte
	err := m.load(b[:size])
	return binary.LittleEndian.Uint64(b[:]), err
}

// loaded has an instruction carried out on its memory operand, which has size
// bytes, once that is loaded.
func loaded(run func(m *machine, v uint64, size int) error) func(*machine) error {
	return func(m *machine) error {
		size := m.memoryWidth()
		v, err := m.loadNumber(size)
		if err != nil {
			return err
		}
		return run(m, v, size)
	}
}

func (m *machine) storeNumber(size int, v uint64) error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return m.store(b[:size])
}

func (m *machine) moveStore() error {
	size := m.memoryWidth()
	return m.storeNumber(size, m.register(m.reg, size))
}

func (m *machine) moveLoad(v uint64, size int) error {
	m.setRegister(m.reg, size, v)
	return nil
}

func (m *machine) moveImmediate() error {
	return m.storeNumber(m.memoryWidth(), m.instruction.immediate)
}

func (m *machine) moveZero(v uint64, _ int) error {
	m.setRegister(m.reg, m.operandSize(), v)
	return nil
}

func (m *machine) moveSigned(v uint64, size int) error {
	m.setRegister(m.reg, m.operandSize(), extend(v, size))
	return nil
}

// bit is group 8: BT, BTS, BTR, BTC with the number of a bit in the operand.
func (m *machine) bit() error { return onCopy(true, m.reg&7 > 4)(m) }

// flush is an instruction on a cache line: no access.
func (m *machine) flush() error { return m.within(m.address&^63, 64) }

// step is INC and DEC, which leave the carry.
func (m *machine) step() error {
	size := m.memoryWidth()
	v, err := m.loadNumber(size)
	if err != nil {
		return err
	}
	op, in := opAdd, m.Flags&carry
	if m.reg&7 == 1 {
		op = opSub
	}
	z := m.compute(op, v, 1, size)
	m.Flags = m.Flags&^carry | in
	return m.storeNumber(size, z)
}

// stepOrPush is group 5.
func (m *machine) stepOrPush() error {
	if m.reg&7 != 6 {
		return m.step()
	}
	var b [8]byte
	data := b[:pushSize(m.instruction)]
	if err := m.load(data); err != nil {
		return err
	}
	if err := m.memory.Store(m.Reg[4]-uint64(len(data)), data); err != nil {
		return err
	}
	m.Reg[4] -= uint64(len(data))
	return nil
}

// pop computes its address with the stack pointer that it leaves.
func (m *machine) pop() error {
	var b [8]byte
	data := b[:pushSize(m.instruction)]
	if m.base == 4 {
		m.address += uint64(len(data))
	}
	if err := m.within(m.address, len(data)); err != nil {
		return err
	}
	if err := m.memory.Load(m.Reg[4], data); err != nil {
		return err
	}
	if err := m.store(data); err != nil {
		return err
	}
	m.Reg[4] += uint64(len(data))
	return nil
}
