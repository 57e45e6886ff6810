package x86

import "math/bits"

// The flags that arithmetic sets.
const (
	carry    = 1 << 0
	parity   = 1 << 2
	adjust   = 1 << 4
	zero     = 1 << 6
	sign     = 1 << 7
	down     = 1 << 10
	overflow = 1 << 11
)

// operation is arithmetic by its number in opcodes: ADD OR ADC SBB AND SUB XOR CMP.
type operation uint8

const (
	opAdd operation = iota
	opOr
	opAdc
	opSbb
	opAnd
	opSub
	opXor
	opCmp
)

// compute gives x op y, of size bytes, and sets the flags.
func (m *machine) compute(op operation, x, y uint64, size int) (z uint64) {
	x, y = x&ones(size), y&ones(size)
	in := m.Flags & carry
	if op == opAdd || op == opSub || op == opCmp {
		in = 0
	}
	var out bool
	var signs uint64 // its top bit is the overflow
	switch op {
	case opAdd, opAdc:
		z = (x + y + in) & ones(size)
		out, signs = z < x || in == 1 && z == x, ^(x^y)&(x^z)
	case opSub, opSbb, opCmp:
		z = (x - y - in) & ones(size)
		out, signs = x < y || in == 1 && x == y, (x^y)&(x^z)
	case opOr:
		z = x | y
	case opAnd:
		z = x & y
	case opXor:
		z = x ^ y
	}
	m.Flags &^= carry | overflow | adjust
	if out {
		m.Flags |= carry
	}
	if signs>>(8*size-1)&1 == 1 {
		m.Flags |= overflow
	}
	if op != opOr && op != opAnd && op != opXor {
		m.Flags |= (x ^ y ^ z) & adjust
	}
	m.result(z, size)
	return z
}

// result sets the flags that tell of a value.
func (m *machine) result(z uint64, size int) {
	m.Flags &^= zero | sign | parity
	if z == 0 {
		m.Flags |= zero
	}
	if z>>(8*size-1)&1 == 1 {
		m.Flags |= sign
	}
	if bits.OnesCount8(uint8(z))%2 == 0 {
		m.Flags |= parity
	}
}

// arithmetic is opcodes 00 to 3B: the low bits say size and direction.
func (m *machine) arithmetic(v uint64, size int) error {
	op := operation(m.opcode >> 3)
	r := m.register(m.reg, size)
	if m.opcode&2 == 0 {
		return m.putBack(op, v, r, size)
	}
	if z := m.compute(op, r, v, size); op != opCmp {
		m.setRegister(m.reg, size, z)
	}
	return nil
}

// putBack computes and stores.
func (m *machine) putBack(op operation, v, by uint64, size int) error {
	if z := m.compute(op, v, by, size); op != opCmp {
		return m.storeNumber(size, z)
	}
	return nil
}

// arithmeticImmediate is group 1.
func (m *machine) arithmeticImmediate(v uint64, size int) error {
	return m.putBack(operation(m.reg&7), v, m.instruction.immediate, size)
}

func (m *machine) test(v uint64, size int) error {
	m.compute(opAnd, v, m.register(m.reg, size), size)
	return nil
}

// testOrOthers is group 3: TEST, TEST, NOT, NEG, MUL, IMUL, DIV, IDIV.
func (m *machine) testOrOthers() error {
	if m.reg&7 > 3 {
		return onCopy(true, false)(m)
	}
	size := m.memoryWidth()
	v, err := m.loadNumber(size)
	switch {
	case err != nil:
		return err
	case m.reg&7 == 2:
		return m.storeNumber(size, ^v)
	case m.reg&7 == 3:
		return m.storeNumber(size, m.compute(opSub, 0, v, size))
	}
	m.compute(opAnd, v, m.instruction.immediate, size)
	return nil
}
