package x86

import "encoding/binary"

// integers are the instructions on general registers, by table and opcode.
var integers = integerForms()

func integerForms() map[uint16]*form {
	forms := map[uint16]*form{
		0x88: {size: integerSize, run: (*machine).moveStore},
		0x89: {size: integerSize, run: (*machine).moveStore},
		0x8a: {size: integerSize, run: loaded((*machine).moveLoad)},
		0x8b: {size: integerSize, run: loaded((*machine).moveLoad)},
		0xc6: {size: integerSize, wants: oneByte, groups: 1, run: (*machine).moveImmediate},
		0xc7: {size: integerSize, wants: operandBytes, groups: 1, run: (*machine).moveImmediate},
		0xa0: {shape: offset, size: integerSize, run: loaded((*machine).moveLoad)}, // reg is 0: the accumulator
		0xa1: {shape: offset, size: integerSize, run: loaded((*machine).moveLoad)},
		0xa2: {shape: offset, size: integerSize, run: (*machine).moveStore},
		0xa3: {shape: offset, size: integerSize, run: (*machine).moveStore},
		0x63: {size: fixed(4), run: loaded((*machine).moveSigned)},
		0x80: {size: integerSize, wants: oneByte, run: loaded((*machine).arithmeticImmediate)},
		0x81: {size: integerSize, wants: operandBytes, run: loaded((*machine).arithmeticImmediate)},
		0x83: {size: integerSize, wants: oneByte, run: loaded((*machine).arithmeticImmediate)},
		0x84: {size: integerSize, run: loaded((*machine).test)},
		0x85: {size: integerSize, run: loaded((*machine).test)},
		0xf6: {size: integerSize, wants: oneByte, run: (*machine).testOrOthers},
		0xf7: {size: integerSize, wants: operandBytes, run: (*machine).testOrOthers},
		0xfe: {size: integerSize, groups: 0b11, run: onCopy(true, true)},
		0xff: {size: farSize, groups: 0b1000011, run: (*machine).stepOrPush},
		0x8f: {size: pushSize, groups: 1, run: (*machine).pop},
		0xa4: {shape: noModRM, run: (*machine).copyString},
		0xa5: {shape: noModRM, run: (*machine).copyString},
		0xaa: {shape: noModRM, run: (*machine).fillString},
		0xab: {shape: noModRM, run: (*machine).fillString},
		0xac: {shape: noModRM, run: (*machine).loadString},
		0xad: {shape: noModRM, run: (*machine).loadString},

		0x1b6: {size: fixed(1), run: loaded((*machine).moveZero)},
		0x1b7: {size: fixed(2), run: loaded((*machine).moveZero)},
		0x1be: {size: fixed(1), run: loaded((*machine).moveSigned)},
		0x1bf: {size: fixed(2), run: loaded((*machine).moveSigned)},
		0x1af: {size: operandSize, run: onCopy(true, false)},
		0x69:  {size: operandSize, wants: operandBytes, run: onCopy(true, false)},
		0x6b:  {size: operandSize, wants: oneByte, run: onCopy(true, false)},
		0x1c3: {size: operandSize, not16: true, run: (*machine).moveStore}, // MOVNTI
		0x86:  {size: integerSize, locks: true, run: onCopy(true, true)},   // XCHG
		0x87:  {size: integerSize, locks: true, run: onCopy(true, true)},
		0x1b0: {size: integerSize, run: onCopy(true, true)}, // CMPXCHG, XADD
		0x1b1: {size: integerSize, run: onCopy(true, true)},
		0x1c0: {size: integerSize, run: onCopy(true, true)},
		0x1c1: {size: integerSize, run: onCopy(true, true)},
		0x1ba: {size: operandSize, wants: oneByte, groups: 0b11110000, run: (*machine).bit},
		0x1ae: {size: fixed(1), groups: 0b11000000, run: (*machine).flush}, // CLFLUSH, CLFLUSHOPT, CLWB
		0x2f0: {size: operandSize, run: onCopy(true, false)},               // MOVBE
		0x2f1: {size: operandSize, run: onCopy(false, true)},
	}
	addRanges(forms)
	return forms
}

// addRanges adds what has an opcode for each operation or condition.
func addRanges(forms map[uint16]*form) {
	for operation := range uint16(8) {
		for direction := range uint16(4) { // memory and register, of one byte and more
			forms[operation<<3|direction] = &form{size: integerSize, run: loaded((*machine).arithmetic)}
		}
	}
	for condition := range uint16(16) {
		forms[0x140|condition] = &form{size: operandSize, run: onCopy(true, false)}
		forms[0x190|condition] = &form{size: fixed(1), run: onCopy(false, true)}
	}
	for _, shift := range []uint16{0xc0, 0xc1, 0xd0, 0xd1, 0xd2, 0xd3} {
		f := &form{size: integerSize, groups: 0b10111111, run: onCopy(true, true)} // with RCL and RCR
		if shift < 0xd0 {
			f.wants = oneByte
		}
		forms[shift] = f
	}
}

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

// stepOrPush is group 5.
func (m *machine) stepOrPush() error {
	if m.reg&7 != 6 {
		return onCopy(true, true)(m)
	}
	var b [8]byte
	data := b[:pushSize(&m.instruction)]
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
	data := b[:pushSize(&m.instruction)]
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
