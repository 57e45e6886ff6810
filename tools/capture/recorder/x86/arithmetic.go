package x86

import "math/bits"

// Flags that arithmetic sets, and the direction flag.
const (
	carry    = 1 << 0
	parity   = 1 << 2
	adjust   = 1 << 4
	zero     = 1 << 6
	sign     = 1 << 7
	down     = 1 << 10
	overflow = 1 << 11
)

// operation is an arithmetic operation, by its number in opcodes: ADD OR ADC SBB AND SUB XOR CMP.
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

// compute returns x op y, for operands of size bytes, and sets the flags.
func (m *machine) compute(op operation, x, y uint64, size int) (z uint64) {
	x, y = x&ones(size), y&ones(size)
	in := m.Flags & carry
	if op == opAdd || op == opSub || op == opCmp {
		in = 0
	}
	var out bool
	var signs uint64 // the top bit is the overflow
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
	m.setResultFlags(z, size)
	return z
}

// setResultFlags sets the flags that depend only on the result: zero, sign and parity.
func (m *machine) setResultFlags(z uint64, size int) {
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

// arithmetic executes opcodes 00 to 3B. The low bits of the opcode encode the size and the
// direction.
func (m *machine) arithmetic(v uint64, size int) error {
	op := operation(m.opcode >> 3)
	r := m.register(m.reg, size)
	if m.opcode&2 == 0 {
		return m.computeOperand(op, v, r, size)
	}
	m.computeRegister(op, m.reg, v, size)
	return nil
}

// computeOperand computes, and sets the operand in the field rm of ModRM to the result.
func (m *machine) computeOperand(op operation, v, by uint64, size int) error {
	if z := m.compute(op, v, by, size); op != opCmp {
		return m.setOperand(size, z)
	}
	return nil
}

// computeRegister computes with a register, and sets the register to the result.
func (m *machine) computeRegister(op operation, register uint8, by uint64, size int) {
	if z := m.compute(op, m.register(register, size), by, size); op != opCmp {
		m.setRegister(register, size, z)
	}
}

// arithmeticImmediate executes group 1.
func (m *machine) arithmeticImmediate(v uint64, size int) error {
	return m.computeOperand(operation(m.reg&7), v, m.instruction.immediate, size)
}

func (m *machine) test(v uint64, size int) error {
	m.compute(opAnd, v, m.register(m.reg, size), size)
	return nil
}

// group3 executes group 3: TEST, TEST, NOT, NEG, MUL, IMUL, DIV, IDIV.
func (m *machine) group3() error {
	if m.reg&7 > 3 {
		return onCopy(true, false)(m)
	}
	size := m.memoryWidth()
	v, err := m.operand(size)
	switch {
	case err != nil:
		return err
	case m.reg&7 == 2:
		return m.setOperand(size, ^v)
	case m.reg&7 == 3:
		return m.setOperand(size, m.compute(opSub, 0, v, size))
	}
	m.compute(opAnd, v, m.instruction.immediate, size)
	return nil
}
