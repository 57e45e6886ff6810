package x86

import "encoding/binary"

// pushSize returns the operand size in bytes of instructions for which 64 bits are the default.
func pushSize(i *instruction) int {
	if i.operand16 && !i.bitW {
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

// isHighByte reports whether a register operand is AH, CH, DH or BH.
func (m *machine) isHighByte(register uint8, size int) bool {
	return size == 1 && !m.rex && register >= 4 && register < 8
}

func (m *machine) register(register uint8, size int) uint64 {
	if m.isHighByte(register, size) {
		return m.Reg[register-4] >> 8 & 0xff
	}
	return m.Reg[register] & ones(size)
}

// setRegister sets a register. Like the processor, it clears the upper half if it sets 4 bytes.
func (m *machine) setRegister(register uint8, size int, v uint64) {
	switch {
	case m.isHighByte(register, size):
		m.Reg[register-4] = m.Reg[register-4]&^0xff00 | v&0xff<<8
	case size >= 4:
		m.Reg[register] = v & ones(size)
	default:
		m.Reg[register] = m.Reg[register]&^ones(size) | v&ones(size)
	}
}

// ones returns a number in which all bits of the low `size` bytes are set.
func ones(size int) uint64 { return ^uint64(0) >> (64 - 8*size) }

func (m *machine) loadNumber(size int) (uint64, error) {
	var b [8]byte
	err := m.load(b[:size])
	return binary.LittleEndian.Uint64(b[:]), err
}

// operand returns the operand in the field rm of ModRM, which is a register or in memory.
func (m *machine) operand(size int) (uint64, error) {
	if m.hasMemory {
		return m.loadNumber(size)
	}
	return m.register(m.rmRegister(), size), nil
}

// setOperand sets the operand in the field rm of ModRM.
func (m *machine) setOperand(size int, v uint64) error {
	if m.hasMemory {
		return m.storeNumber(size, v)
	}
	m.setRegister(m.rmRegister(), size, v)
	return nil
}

// withOperand returns a function that executes run with the operand in the field rm of ModRM.
func withOperand(run func(m *machine, v uint64, size int) error) func(*machine) error {
	return func(m *machine) error {
		size := m.memoryWidth()
		v, err := m.operand(size)
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
	return m.setOperand(size, m.register(m.reg, size))
}

func (m *machine) moveLoad(v uint64, size int) error {
	m.setRegister(m.reg, size, v)
	return nil
}

func (m *machine) moveImmediate() error {
	return m.setOperand(m.memoryWidth(), m.instruction.immediate)
}

func (m *machine) moveZero(v uint64, _ int) error {
	m.setRegister(m.reg, m.operandSize(), v)
	return nil
}

func (m *machine) moveSigned(v uint64, size int) error {
	m.setRegister(m.reg, m.operandSize(), extend(v, size))
	return nil
}

// bitTest executes group 8: BT, BTS, BTR and BTC with the number of a bit in the immediate.
func (m *machine) bitTest() error { return onCopy(true, m.reg&7 > 4)(m) }

// flushLine executes an instruction on a cache line, which makes no access.
func (m *machine) flushLine() error { return m.checkFault(m.address&^63, 64) }

// increment executes INC and DEC, which do not change the carry flag.
func (m *machine) increment(v uint64, size int) error {
	op, in := opAdd, m.Flags&carry
	if m.reg&7 == 1 {
		op = opSub
	}
	z := m.compute(op, v, 1, size)
	m.Flags = m.Flags&^carry | in
	return m.setOperand(size, z)
}

// group5 executes INC, DEC and PUSH of memory.
func (m *machine) group5() error {
	if m.reg&7 != 6 {
		return withOperand((*machine).increment)(m)
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

// pop executes POP to memory. If the address uses the stack pointer, its value after the POP
// counts.
func (m *machine) pop() error {
	var b [8]byte
	data := b[:pushSize(m.instruction)]
	if m.base == 4 {
		m.address += uint64(len(data))
	}
	if err := m.checkFault(m.address, len(data)); err != nil {
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
