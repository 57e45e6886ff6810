package x86

import (
	"bytes"
	"math/bits"
	"sync/atomic"
)

// A thread that has made an access to a device often makes the next one a few instructions later:
// in a loop that copies, or in the next line of a driver. Stopping the thread for each access takes
// more time than anything else. Therefore the instructions in between are executed here too, if
// they are supported and do not have to be executed by the thread.

// Follower executes the instructions after an instruction that Step has executed. It keeps the
// decoded instructions of one program.
type Follower struct {
	decoded map[uint64]*followed // by address
	machine machine
}

// followed is an instruction that a Follower can execute.
type followed struct {
	instruction
	run     func(*machine) error
	vectors bool // the instruction uses vector registers
}

// followedMax limits the number of decoded instructions that are kept.
const followedMax = 1 << 16

const (
	trap           = 1 << 8  // flag TF: the thread is single-stepped
	alignmentCheck = 1 << 18 // flag AC
)

// Code provides a Follower with the code and memory of a program.
type Code interface {
	// Load and Store make each access, or return an error. After an error the thread executes the
	// instruction itself, so the access must not have been made.
	Memory

	// Fetch returns up to 15 bytes of code at an address.
	Fetch(address uint64) []byte

	// More reports whether another instruction is to be executed.
	More() bool
}

// Follow executes instructions until one cannot be followed, or code.More returns false. Afterwards
// s is the state before the next instruction.
func (f *Follower) Follow(s *State, code Code) {
	run := s.Run
	s.Run = nil // nothing is executed by the thread
	defer func() { s.Run = run }()
	for s.Flags&(trap|alignmentCheck) == 0 && code.More() {
		i := f.decode(s.IP, code.Fetch(s.IP))
		if i == nil || f.execute(i, s, code) != nil {
			return
		}
	}
}

// execute executes one instruction. After an error the state has not changed.
func (f *Follower) execute(i *followed, s *State, memory Memory) (err error) {
	m := &f.machine
	*m = machine{State: s, instruction: &i.instruction, memory: memory, faultChecked: true,
		next: s.IP + uint64(i.length)}
	if i.hasMemory {
		m.address = m.effectiveAddress()
	}
	if i.vectors {
		if m.vectors, err = s.Vectors(); err != nil {
			return err
		}
	}
	flags := s.Flags
	if err = i.run(m); err != nil {
		s.Flags = flags
		return err
	}
	s.IP = m.next
	return nil
}

// decode decodes the instruction at an address. It returns nil if the instruction cannot be
// followed.
func (f *Follower) decode(address uint64, code []byte) *followed {
	if len(code) == 0 {
		return nil
	}
	i := f.decoded[address]
	if i != nil && len(code) >= len(i.code) && bytes.Equal(code[:len(i.code)], i.code) {
		if i.run == nil {
			return nil
		}
		return i
	}
	if len(f.decoded) >= followedMax || f.decoded == nil {
		f.decoded = map[uint64]*followed{}
	}
	i = decodeFollowed(code)
	f.decoded[address] = i
	if i.run == nil {
		return nil
	}
	return i
}

// decodeFollowed decodes an instruction. If it cannot be followed, run is nil.
func decodeFollowed(code []byte) *followed {
	i := &followed{instruction: instruction{code: code, encoding: legacy, base: -1, index: -1}}
	r := &reader{code: code}
	if i.readOpcodeAndPrefixes(r) == "" && !i.lock && !i.address32 {
		i.run = i.decodeWithoutMemory(r)
		i.length = r.position
	}
	switch {
	case i.run == nil:
		i.decodeWithMemory(code)
	case r.truncated, i.segment != 0:
		i.run = nil
	}
	i.code = bytes.Clone(code[:max(min(i.length, len(code)), 1)])
	if i.run == nil {
		i.code = bytes.Clone(code)
	}
	return i
}

// decodeWithMemory decodes an instruction that Step executes without the thread. It excludes string
// instructions and others that access memory twice: if the second access failed, the thread would
// make the first one again.
func (i *followed) decodeWithMemory(code []byte) {
	known, err := decode(code)
	if err != nil || known.form.shape == noModRM || known.lock || known.form.implicitLock ||
		known.address32 {
		return
	}
	const push = 6
	twice := known.table == 0 &&
		(known.opcode == 0x8f || known.opcode == 0xff && known.reg&7 == push) ||
		known.mask != 0 || known.form.maskedBySigns
	flushes := known.table == 1 && known.opcode == 0xae
	isLoad := known.table == 0 && known.opcode&^1 == 0x8a
	if twice || flushes || known.segment != 0 && !(known.segment == 0x64 && isLoad) {
		return
	}
	i.instruction = known
	i.run, i.vectors = known.form.run, known.form.vectors != 0
}

// decodeWithoutMemory decodes the rest of an instruction that accesses no memory except the stack,
// or that Step does not support. It returns nil for other instructions.
func (i *followed) decodeWithoutMemory(r *reader) func(*machine) error {
	i.operandStart = r.position
	if i.encoding == vex && i.table == 1 && i.opcode == 0x77 && i.vectorLength == 0 &&
		i.mandatory == 0 && i.vvvv == 0 {
		i.vectors = true
		return (*machine).zeroUpper
	}
	if run := i.decodeVectorRegisters(r); run != nil {
		i.vectors = true
		return run
	}
	switch {
	case i.encoding != legacy:
		return nil
	case i.table == 1:
		return i.decodeTwoBytes(r)
	case i.table == 0 && i.isBranch(r):
		return i.decodeBranch(r)
	case i.table == 0 && !i.repeat && !i.repeatNot:
		return i.decodeOneByte(r)
	}
	return nil
}

// decodeVectorRegisters decodes XOR and moves of complete vectors between registers.
func (i *instruction) decodeVectorRegisters(r *reader) func(*machine) error {
	isXor := i.opcode == 0x57 && i.mandatory < 2 || i.opcode == 0xef && i.mandatory == 1
	isMove := (i.opcode&0xfe == 0x10 || i.opcode&0xfe == 0x28) && i.mandatory < 2 ||
		(i.opcode == 0x6f || i.opcode == 0x7f) && (i.mandatory == 1 || i.mandatory == 2)
	noModRM := r.position >= len(r.code) || r.code[r.position] < 0xc0 // or an operand in memory
	switch {
	case i.table != 1 || i.encoding == evex || noModRM:
	case isXor:
		return i.decodeRegisters(r, (*machine).xorVectors)
	case isMove && i.vvvv == 0:
		return i.decodeRegisters(r, (*machine).moveVector)
	}
	return nil
}

// isBranch reports whether an instruction of table 0 is a near jump, call or return. The prefixes
// F2 and F3 have no effect on them.
func (i *instruction) isBranch(r *reader) bool {
	switch op := i.opcode; {
	case op&0xf0 == 0x70, op == 0xc2, op == 0xc3, op == 0xe8, op == 0xe9, op == 0xeb:
		return !i.operand16
	case op == 0xff && r.position < len(r.code):
		group := r.code[r.position] >> 3 & 7
		return (group == 2 || group == 4) && !i.operand16
	}
	return false
}

func (i *instruction) decodeBranch(r *reader) func(*machine) error {
	switch op := i.opcode; op {
	case 0xc2:
		i.immediate = uint64(uint16(r.readSigned(2)))
		return (*machine).ret
	case 0xc3:
		return (*machine).ret
	case 0xe8, 0xe9:
		i.immediate = r.readSigned(4)
		if op == 0xe8 {
			return (*machine).callRelative
		}
		return (*machine).jumpRelative
	case 0xeb:
		i.immediate = r.readSigned(1)
		return (*machine).jumpRelative
	case 0xff:
		i.readModRM(r)
		return (*machine).jumpIndirect
	default:
		i.immediate = r.readSigned(1)
		return (*machine).jumpConditional
	}
}

// decodeOneByte decodes integer instructions of table 0.
func (i *instruction) decodeOneByte(r *reader) func(*machine) error {
	op := i.opcode
	switch {
	case op < 0x40 && op&7 < 4:
		return i.decodeRegisters(r, (*machine).arithmeticRegisters)
	case op < 0x40 && op&7 < 6:
		i.immediate = r.readSigned(min(i.integerSize(), 4))
		return (*machine).arithmeticAccumulator
	case op >= 0x50 && op < 0x60 && !i.operand16:
		if op < 0x58 {
			return (*machine).pushRegister
		}
		return (*machine).popRegister
	case op == 0x63 && !i.operand16:
		return i.decodeRegisters(r, (*machine).moveSignedRegister)
	case op == 0x68 && !i.operand16, op == 0x6a && !i.operand16:
		i.immediate = r.readSigned(map[uint8]int{0x68: 4, 0x6a: 1}[op])
		return (*machine).pushImmediate
	case op == 0x69 || op == 0x6b:
		run := i.decodeRegisters(r, (*machine).multiplyImmediate)
		i.immediate = r.readSigned(map[uint8]int{0x69: min(i.operandSize(), 4), 0x6b: 1}[op])
		return run
	case op == 0x80 || op == 0x81 || op == 0x83:
		run := i.decodeRegisters(r, (*machine).arithmeticRegisterImmediate)
		n := 1
		if op == 0x81 {
			n = min(i.operandSize(), 4)
		}
		i.immediate = r.readSigned(n)
		return run
	case op == 0x84 || op == 0x85:
		return i.decodeRegisters(r, (*machine).testRegisters)
	case op >= 0x88 && op <= 0x8b:
		return i.decodeRegisters(r, (*machine).moveRegisters)
	}
	return i.decodeOneByteFrom8D(r)
}

func (i *instruction) decodeOneByteFrom8D(r *reader) func(*machine) error {
	op := i.opcode
	switch {
	case op == 0x8d:
		if i.readModRM(r); i.hasMemory {
			return (*machine).loadAddress
		}
	case op == 0x90 && !i.rex:
		return (*machine).noOperation
	case op == 0x98:
		return (*machine).extendAccumulator
	case op == 0x99:
		return (*machine).extendToData
	case op == 0xa8 || op == 0xa9:
		i.immediate = r.readSigned(min(i.integerSize(), 4))
		return (*machine).testAccumulator
	case op >= 0xb0 && op < 0xc0:
		n := 1
		if op >= 0xb8 {
			n = i.operandSize()
		}
		i.immediate = r.readSigned(n)
		return (*machine).moveRegisterImmediate
	case op == 0xc0 || op == 0xc1:
		run := i.decodeRegisters(r, (*machine).shift)
		i.immediate = r.readSigned(1)
		return run
	case op >= 0xd0 && op < 0xd4:
		return i.decodeRegisters(r, (*machine).shift)
	case op == 0xc6 || op == 0xc7:
		run := i.decodeRegisters(r, (*machine).moveRegisterImmediate)
		i.immediate = r.readSigned(min(i.integerSize(), 4))
		if i.reg&7 == 0 {
			return run
		}
	case op == 0xc9 && !i.operand16:
		return (*machine).leave
	case op == 0xf6 || op == 0xf7:
		run := i.decodeRegisters(r, (*machine).group3)
		if i.reg&7 < 2 {
			i.immediate = r.readSigned(min(i.integerSize(), 4))
		} else if i.reg&7 > 3 {
			return nil
		}
		return run
	case op == 0xfe || op == 0xff:
		run := i.decodeRegisters(r, (*machine).incrementRegister)
		if i.reg&7 < 2 {
			return run
		}
	}
	return nil
}

// decodeRegisters decodes ModRM. It returns run if both operands are registers, else nil.
func (i *instruction) decodeRegisters(r *reader, run func(*machine) error) func(*machine) error {
	if i.readModRM(r); i.hasMemory {
		return nil
	}
	isShift := i.opcode == 0xc0 || i.opcode == 0xc1 || i.opcode&0xfc == 0xd0
	if group := i.reg & 7; i.table == 0 && isShift && group != 4 && group != 5 && group != 7 {
		return nil // rotations
	}
	return run
}

// decodeTwoBytes decodes integer instructions of table 1.
func (i *instruction) decodeTwoBytes(r *reader) func(*machine) error {
	op := i.opcode
	if op == 0x1e && i.repeat && r.position < len(r.code) && r.code[r.position]&0xfe == 0xfa {
		r.readByte()
		return (*machine).noOperation // ENDBR64, ENDBR32
	}
	if i.repeat || i.repeatNot {
		return nil
	}
	switch {
	case op == 0x0d || op == 0x18 || op == 0x1f: // prefetches, NOP
		i.readModRM(r)
		if !i.hasMemory && op != 0x1f {
			return nil
		}
		i.hasMemory = false
		return (*machine).noOperation
	case op&0xf0 == 0x40:
		i.readModRM(r)
		return (*machine).moveConditional
	case op&0xf0 == 0x80 && !i.operand16:
		i.immediate = r.readSigned(4)
		return (*machine).jumpConditional
	case op&0xf0 == 0x90:
		return i.decodeRegisters(r, (*machine).setConditional)
	case op == 0xae && i.mandatory == 0:
		run := i.decodeRegisters(r, (*machine).fence)
		if i.reg&7 >= 5 && i.rm == 0 {
			return run
		}
	case op == 0xaf:
		return i.decodeRegisters(r, (*machine).multiply)
	case op == 0xb6 || op == 0xb7:
		return i.decodeRegisters(r, (*machine).moveZeroRegister)
	case op == 0xbe || op == 0xbf:
		return i.decodeRegisters(r, (*machine).moveSignedRegister)
	case op >= 0xc8 && op < 0xd0 && !i.operand16:
		return (*machine).swapBytes
	}
	return nil
}

// rmRegister returns the register in the field rm of ModRM.
func (m *machine) rmRegister() uint8 { return m.rm | m.highB }

// opcodeRegister returns the register in the opcode.
func (m *machine) opcodeRegister() uint8 { return m.opcode&7 | m.highB }

func (m *machine) noOperation() error { return nil }

// fenceVariable is the variable that fence modifies.
var fenceVariable atomic.Int64

// fence executes a fence. It orders the accesses of the recorder's process, which makes the
// accesses of the program. It uses a locked instruction, which also orders accesses to
// write-combining memory.
func (m *machine) fence() error {
	fenceVariable.Add(0)
	return nil
}

func (m *machine) zeroUpper() error {
	for n := range 16 {
		m.setVector(n, m.vectors.Z[n][:16], true)
	}
	return nil
}

// setVector sets the low bytes of a vector register. If clearsRest is true, it clears the others.
func (m *machine) setVector(register int, data []byte, clears bool) {
	z := m.vectors.Z[register]
	if n := copy(z[:], data); clears {
		clear(z[n:])
	}
	if z != m.vectors.Z[register] { // an unchanged register is not written to the thread
		m.vectors.Z[register] = z
		m.VectorsChanged = true
	}
}

// legacyOrVectorSize returns the number of bytes of a register that an instruction sets, without
// those that it clears.
func (m *machine) legacyOrVectorSize() int {
	if m.encoding == legacy {
		return 16
	}
	return m.vectorSize()
}

func (m *machine) xorVectors() error {
	first := int(m.reg)
	if m.encoding != legacy {
		first = int(m.vvvv)
	}
	data := m.vectors.Z[first]
	for n, b := range m.vectors.Z[m.rmRegister()] {
		data[n] ^= b
	}
	m.setVector(int(m.reg), data[:m.legacyOrVectorSize()], m.encoding != legacy)
	return nil
}

// moveVector copies a vector register. The destination is ModRM's reg, or rm if the opcode is odd.
func (m *machine) moveVector() error {
	to, from := int(m.reg), int(m.rmRegister())
	if m.opcode&1 == 1 && m.opcode != 0x6f {
		to, from = from, to
	}
	data := m.vectors.Z[from]
	m.setVector(to, data[:m.legacyOrVectorSize()], m.encoding != legacy)
	return nil
}

func (m *machine) arithmeticRegisters() error {
	size, op := m.integerSize(), operation(m.opcode>>3)
	to, from := m.rmRegister(), m.reg
	if m.opcode&2 != 0 {
		to, from = from, to
	}
	m.computeRegister(op, to, m.register(from, size), size)
	return nil
}

// computeRegister computes with a register, and sets the register to the result.
func (m *machine) computeRegister(op operation, register uint8, v uint64, size int) {
	if z := m.compute(op, m.register(register, size), v, size); op != opCmp {
		m.setRegister(register, size, z)
	}
}

func (m *machine) arithmeticAccumulator() error {
	m.computeRegister(operation(m.opcode>>3), rax, m.instruction.immediate, m.integerSize())
	return nil
}

func (m *machine) arithmeticRegisterImmediate() error {
	m.computeRegister(operation(m.reg&7), m.rmRegister(), m.instruction.immediate, m.integerSize())
	return nil
}

func (m *machine) testRegisters() error {
	size := m.integerSize()
	m.compute(opAnd, m.register(m.rmRegister(), size), m.register(m.reg, size), size)
	return nil
}

func (m *machine) testAccumulator() error {
	size := m.integerSize()
	m.compute(opAnd, m.register(rax, size), m.instruction.immediate, size)
	return nil
}

func (m *machine) moveRegisters() error {
	size := m.integerSize()
	if m.opcode&2 != 0 {
		m.setRegister(m.reg, size, m.register(m.rmRegister(), size))
	} else {
		m.setRegister(m.rmRegister(), size, m.register(m.reg, size))
	}
	return nil
}

func (m *machine) moveRegisterImmediate() error {
	size, register := 1, m.opcodeRegister()
	if m.opcode >= 0xb8 {
		size = m.operandSize()
	}
	if m.opcode >= 0xc0 {
		size, register = m.integerSize(), m.rmRegister()
	}
	m.setRegister(register, size, m.instruction.immediate)
	return nil
}

// sourceSize returns the size in bytes of the source operand of MOVZX, MOVSX and MOVSXD.
func (m *machine) sourceSize() int {
	switch {
	case m.table == 0:
		return 4
	case m.opcode&1 == 0:
		return 1
	}
	return 2
}

func (m *machine) moveZeroRegister() error {
	return m.moveZero(m.register(m.rmRegister(), m.sourceSize()), 0)
}

func (m *machine) moveSignedRegister() error {
	size := m.sourceSize()
	return m.moveSigned(m.register(m.rmRegister(), size), size)
}

func (m *machine) loadAddress() error {
	m.setRegister(m.reg, m.operandSize(), m.address)
	return nil
}

func (m *machine) extendAccumulator() error {
	size := m.operandSize()
	m.setRegister(rax, size, extend(m.Reg[rax], size/2))
	return nil
}

func (m *machine) extendToData() error {
	const rdx = 2
	size := m.operandSize()
	m.setRegister(rdx, size, uint64(int64(extend(m.Reg[rax], size))>>63))
	return nil
}

func (m *machine) swapBytes() error {
	v := bits.ReverseBytes64(m.Reg[m.opcodeRegister()])
	if size := m.operandSize(); size == 4 {
		v >>= 32
	}
	m.setRegister(m.opcodeRegister(), m.operandSize(), v)
	return nil
}

// incrementRegister executes INC and DEC of a register.
func (m *machine) incrementRegister() error {
	size, in, op := m.integerSize(), m.Flags&carry, opAdd
	if m.reg&7 == 1 {
		op = opSub
	}
	m.computeRegister(op, m.rmRegister(), 1, size)
	m.Flags = m.Flags&^carry | in
	return nil
}

// group3 executes TEST, NOT and NEG of a register.
func (m *machine) group3() error {
	size := m.integerSize()
	v := m.register(m.rmRegister(), size)
	switch m.reg & 7 {
	case 0, 1:
		m.compute(opAnd, v, m.instruction.immediate, size)
	case 2:
		m.setRegister(m.rmRegister(), size, ^v)
	case 3:
		m.setRegister(m.rmRegister(), size, m.compute(opSub, 0, v, size))
	}
	return nil
}

// shift executes SHL, SHR and SAR of a register by an immediate, by one, or by CL.
func (m *machine) shift() error {
	size, count := m.integerSize(), uint64(1)
	switch m.opcode {
	case 0xc0, 0xc1:
		count = m.instruction.immediate
	case 0xd2, 0xd3:
		count = m.Reg[rcx]
	}
	if count &= 31; size == 8 {
		count = m.shiftCount()
	}
	v := m.register(m.rmRegister(), size)
	if count == 0 {
		m.setRegister(m.rmRegister(), size, v) // clears the upper half
		return nil
	}
	var z, out, signs uint64
	top := 8*size - 1
	switch m.reg & 7 {
	case 4:
		z = v << count & ones(size)
		if count <= uint64(8*size) {
			out = v >> (uint64(8*size) - count) & 1
		}
		signs = z>>top ^ out
	case 5:
		z, out, signs = v>>count, v>>(count-1)&1, v>>top
	default:
		wide := int64(extend(v, size))
		z, out = uint64(wide>>count)&ones(size), uint64(wide>>(count-1))&1
	}
	m.Flags = m.Flags&^(carry|overflow|adjust) | out*carry | signs*overflow
	m.setResultFlags(z, size)
	m.setRegister(m.rmRegister(), size, z)
	return nil
}

// shiftCount returns the shift count for an operand of 64 bits.
func (m *machine) shiftCount() uint64 {
	switch m.opcode {
	case 0xc1:
		return m.instruction.immediate & 63
	case 0xd3:
		return m.Reg[rcx] & 63
	}
	return 1
}

func (m *machine) multiply() error {
	return m.multiplyBy(m.register(m.reg, m.operandSize()))
}

func (m *machine) multiplyImmediate() error { return m.multiplyBy(m.instruction.immediate) }

// multiplyBy executes IMUL: it multiplies the register in rm by a number, and sets the register in
// reg.
func (m *machine) multiplyBy(by uint64) error {
	size := m.operandSize()
	x, y := int64(extend(m.register(m.rmRegister(), size), size)), int64(extend(by, size))
	high, low := bits.Mul64(uint64(x), uint64(y))
	if x < 0 {
		high -= uint64(y)
	}
	if y < 0 {
		high -= uint64(x)
	}
	m.setRegister(m.reg, size, low)
	m.Flags &^= carry | overflow
	if extend(low, size) != low || high != uint64(int64(low)>>63) {
		m.Flags |= carry | overflow
	}
	return nil
}

// condition reports whether the condition in the opcode is true.
func (m *machine) condition() bool {
	f := m.Flags
	less := f&sign != 0 != (f&overflow != 0)
	is := [...]bool{f&overflow != 0, f&carry != 0, f&zero != 0, f&(carry|zero) != 0,
		f&sign != 0, f&parity != 0, less, less || f&zero != 0}[m.opcode>>1&7]
	return is != (m.opcode&1 == 1)
}

func (m *machine) moveConditional() (err error) {
	size := m.operandSize()
	v := uint64(0)
	if m.hasMemory {
		v, err = m.loadNumber(size)
	} else {
		v = m.register(m.rmRegister(), size)
	}
	if err != nil {
		return err
	}
	if !m.condition() {
		v = m.register(m.reg, size)
	}
	m.setRegister(m.reg, size, v) // clears the upper half in both cases
	return nil
}

func (m *machine) setConditional() error {
	v := uint64(0)
	if m.condition() {
		v = 1
	}
	m.setRegister(m.rmRegister(), 1, v)
	return nil
}

func (m *machine) jumpConditional() error {
	if m.condition() {
		m.next += m.instruction.immediate
	}
	return nil
}

func (m *machine) jumpRelative() error {
	m.next += m.instruction.immediate
	return nil
}

func (m *machine) callRelative() error {
	return m.callTo(m.next + m.instruction.immediate)
}

// callTo pushes the address of the next instruction, and continues at another address.
func (m *machine) callTo(address uint64) error {
	if err := m.push(m.next); err != nil {
		return err
	}
	m.next = address
	return nil
}

// jumpIndirect executes calls and jumps to the address in a register or in memory.
func (m *machine) jumpIndirect() (err error) {
	to := m.Reg[m.rmRegister()&15]
	if m.hasMemory {
		if to, err = m.loadNumber(8); err != nil {
			return err
		}
	}
	if m.reg&7 == 2 {
		return m.callTo(to)
	}
	m.next = to
	return nil
}

func (m *machine) ret() error {
	to, err := m.top()
	if err != nil {
		return err
	}
	m.next = to
	m.Reg[rsp] += 8 + m.instruction.immediate
	return nil
}

const (
	rsp = 4
	rbp = 5
)

// push pushes a number on the stack.
func (m *machine) push(v uint64) error {
	before := m.address
	m.address = m.Reg[rsp] - 8
	err := m.storeNumber(8, v)
	m.address = before
	if err == nil {
		m.Reg[rsp] -= 8
	}
	return err
}

// top returns the number on top of the stack.
func (m *machine) top() (uint64, error) {
	m.address = m.Reg[rsp]
	return m.loadNumber(8)
}

func (m *machine) pushRegister() error  { return m.push(m.Reg[m.opcodeRegister()]) }
func (m *machine) pushImmediate() error { return m.push(m.instruction.immediate) }

func (m *machine) popRegister() error {
	v, err := m.top()
	if err == nil {
		m.Reg[rsp] += 8
		m.Reg[m.opcodeRegister()] = v
	}
	return err
}

func (m *machine) leave() error {
	m.address = m.Reg[rbp]
	v, err := m.loadNumber(8)
	if err == nil {
		m.Reg[rsp], m.Reg[rbp] = m.Reg[rbp]+8, v
	}
	return err
}
