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

type followed struct {
	instruction
	isFollowed bool // a Follower can execute it
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
	if i.form.vectors != 0 {
		if m.vectors, err = s.Vectors(); err != nil {
			return err
		}
	}
	flags := s.Flags
	if err = i.form.run(m); err != nil {
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
		return i.orNil()
	}
	if len(f.decoded) >= followedMax || f.decoded == nil {
		f.decoded = map[uint64]*followed{}
	}
	i = decodeFollowed(code)
	f.decoded[address] = i
	return i.orNil()
}

// orNil returns the instruction, or nil if it cannot be followed.
func (i *followed) orNil() *followed {
	if i.isFollowed {
		return i
	}
	return nil
}

func decodeFollowed(code []byte) *followed {
	i := &followed{}
	var reason string
	if i.instruction, reason = decodeWith(followedForms, code); reason == "" {
		i.isFollowed = i.hasFollowedPrefixes()
	} else if i.instruction, reason = decodeWith(forms, code); reason == "" {
		i.isFollowed = i.accessesMemoryOnce()
	}
	i.code = bytes.Clone(code)
	if i.isFollowed {
		i.code = i.code[:i.length]
	}
	return i
}

// hasFollowedPrefixes reports whether a Follower executes an instruction of followedForms with the
// prefixes that it has.
func (i *instruction) hasFollowedPrefixes() bool {
	isBranch := i.form.anyRepeat && !i.isIncrement()
	isRepeated := (i.repeat || i.repeatNot) && i.form.vectors == 0
	mayBeExchange := i.table == oneByteMap && i.opcode == 0x90 && i.rex
	switch {
	case i.lock, i.address32, i.segment != 0, mayBeExchange:
		return false
	case isBranch:
		return !i.operand16
	}
	return !isRepeated
}

// isIncrement reports whether an instruction of opcode FF is INC or DEC, not a branch.
func (i *instruction) isIncrement() bool { return i.opcode == 0xff && i.reg&7 < 2 }

// accessesMemoryOnce reports whether Step executes the instruction with one access, without the
// thread. It is false for string instructions and others that access memory twice: if the second
// access failed, the thread would make the first one again.
func (i *instruction) accessesMemoryOnce() bool {
	if i.form.shape == noModRM || i.lock || i.form.implicitLock || i.address32 {
		return false
	}
	const push = 6
	twice := i.table == oneByteMap && (i.opcode == 0x8f || i.opcode == 0xff && i.reg&7 == push) ||
		i.mask != 0 || i.form.maskedBySigns
	flushes := i.table == map0F && i.opcode == 0xae
	isLoad := i.table == oneByteMap && i.opcode&^1 == 0x8a
	return !twice && !flushes && (i.segment == 0 || i.segment == 0x64 && isLoad)
}

// rmRegister returns the register in the field rm of ModRM.
func (m *machine) rmRegister() uint8 { return m.rm | m.highB }

func (m *machine) opcodeRegister() uint8 { return m.opcode&7 | m.highB }

func (m *machine) noOperation() error { return nil }

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

// setVector sets the low bytes of a vector register. If clears is true, it clears the others.
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

func (m *machine) arithmeticAccumulator() error {
	m.computeRegister(operation(m.opcode>>3), rax, m.instruction.immediate, m.integerSize())
	return nil
}

func (m *machine) testAccumulator() error {
	size := m.integerSize()
	m.compute(opAnd, m.register(rax, size), m.instruction.immediate, size)
	return nil
}

func (m *machine) moveImmediateToRegister() error {
	m.setRegister(m.opcodeRegister(), m.memoryWidth(), m.instruction.immediate)
	return nil
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

// shift executes SHL, SHR and SAR of a register by an immediate, by one, or by CL.
func (m *machine) shift(v uint64, size int) error {
	count := m.shiftCount(size)
	if count == 0 {
		return m.setOperand(size, v) // clears the upper half
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
	return m.setOperand(size, z)
}

func (m *machine) shiftCount(size int) uint64 {
	count := uint64(1)
	switch m.opcode {
	case 0xc0, 0xc1:
		count = m.instruction.immediate
	case 0xd2, 0xd3:
		count = m.Reg[rcx]
	}
	if size == 8 {
		return count & 63
	}
	return count & 31
}

func (m *machine) multiply(v uint64, size int) error {
	return m.multiplyBy(v, m.register(m.reg, size), size)
}

func (m *machine) multiplyImmediate(v uint64, size int) error {
	return m.multiplyBy(v, m.instruction.immediate, size)
}

// multiplyBy executes IMUL: it sets the register in reg to the product.
func (m *machine) multiplyBy(v, by uint64, size int) error {
	x, y := int64(extend(v, size)), int64(extend(by, size))
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

func (m *machine) condition() bool {
	f := m.Flags
	less := f&sign != 0 != (f&overflow != 0)
	is := [...]bool{f&overflow != 0, f&carry != 0, f&zero != 0, f&(carry|zero) != 0,
		f&sign != 0, f&parity != 0, less, less || f&zero != 0}[m.opcode>>1&7]
	return is != (m.opcode&1 == 1)
}

func (m *machine) moveConditional(v uint64, size int) error {
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
	return m.setOperand(1, v)
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

// group5Followed executes INC and DEC, and calls and jumps to the address in a register or in
// memory.
func (m *machine) group5Followed() error {
	if m.isIncrement() {
		return withOperand((*machine).increment)(m)
	}
	to, err := m.operand(8)
	if err != nil {
		return err
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
	m.Reg[rsp] += 8 + uint64(uint16(m.instruction.immediate))
	return nil
}

const (
	rsp = 4
	rbp = 5
)

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
