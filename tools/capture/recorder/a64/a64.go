// Package a64 executes one instruction of arm64 that accesses memory. The caller provides the
// memory: the recorder (tools/capture/recorder) makes each access to a device itself.
//
// The package supports loads and stores of general and vector registers, of pairs of them, and with
// ordering, DC ZVA, contiguous accesses of SVE, and the copies and sets of FEAT_MOPS. It also
// supports exclusives and atomics, in memory to which no other thread stores meanwhile. It rejects
// gathers, scatters and unknown instructions with an error that names them: it never guesses.
// Source: Arm ARM (DDI 0487) C4.1.94, "Loads and Stores", whose names of fields are used.
package a64

import (
	"encoding/binary"
	"fmt"
)

// State has the registers of a thread.
type State struct {
	X       [31]uint64
	SP, PC  uint64
	Flags   uint64 // PSTATE: N, Z, C and V are bits 31 to 28
	ZVASize uint64 // number of bytes that DC ZVA clears, a power of two

	// Serialized reports whether no other thread can store to an address while this one executes an
	// instruction. Only there atomics and exclusives are executed. nil: nowhere.
	Serialized func(address uint64) bool
	Monitor    Monitor

	// OptionB reports which format the processor uses for the registers of
	// copies and sets (FEAT_MOPS) between their stages: option A or option B.
	OptionB func() bool

	// Vectors returns the vector registers. It is called only for instructions that need them.
	// VectorsChanged is set if the instruction changes them.
	Vectors        func() (*Vectors, error)
	VectorsChanged bool
}

// Vectors are the SVE registers. The first 16 bytes of each Z register are the vector of Advanced
// SIMD. Bytes beyond Length are zero.
type Vectors struct {
	Length   int  // size of a vector in bytes: 16 to 256, 16 without SVE
	Scalable bool // the thread uses SVE
	Z        [32][256]byte
	P        [16][32]byte // one bit for each byte of a vector
}

// Memory is the memory of the program. Each call is one access of len(data) bytes: 1, 2, 4, 8 or
// 16.
type Memory interface {
	Load(address uint64, data []byte) error
	Store(address uint64, data []byte) error

	// IsDevice reports whether an address belongs to a device. If an instruction does not determine
	// the width of its accesses, they must be aligned there.
	IsDevice(address uint64) bool
}

// Refusal is the error of an instruction that is not executed. Registers and memory have not
// changed.
type Refusal struct {
	Code   uint32
	Reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%08x: %s", r.Code, r.Reason) }

// Step executes an instruction that has made a page fault at an address, and changes the state. The
// error is a *Refusal, or an error of the memory or of Vectors. After an error no register has
// changed, with one exception: if a copy or a set has moved some bytes before the memory failed,
// its registers describe the bytes that remain. Step executes a long copy or set in parts: PC does
// not change, and the program executes the instruction again.
func Step(code uint32, fault uint64, s *State, memory Memory) error {
	if a, ok := decodeAtomic(code); ok && s.Serialized != nil {
		return a.run(code, s, memory)
	}
	i, reason := decode(code)
	if reason != "" {
		return &Refusal{code, reason}
	}
	m := &machine{State: s, instruction: i, memory: memory}
	if err := m.run(fault); err != nil {
		return err
	}
	if !m.unfinished {
		s.PC += 4
	}
	return nil
}

// machine is the execution of one instruction.
type machine struct {
	*State
	instruction
	memory     Memory
	unfinished bool // the program is to execute the instruction again
}

// x returns a data register. Number 31 is the zero register.
func (s *State) x(n uint8) uint64 {
	if n == 31 {
		return 0
	}
	return s.X[n]
}

func (s *State) setX(n uint8, v uint64) {
	if n != 31 {
		s.X[n] = v
	}
}

// addressRegister returns an address register. Number 31 is the stack pointer.
func (s *State) addressRegister(n uint8) *uint64 {
	if n == 31 {
		return &s.SP
	}
	return &s.X[n]
}

// address returns the address of the access, and the new value of the base register after a
// write-back.
func (m *machine) address() (at, base uint64) {
	base = *m.addressRegister(m.base)
	offset := m.offset
	if m.hasIndex {
		offset = m.indexOffset()
	}
	at = base + offset
	if m.isPostIndex {
		at = base
	}
	return at, base + offset
}

// indexOffset returns the offset in the index register, extended and shifted.
func (m *machine) indexOffset() uint64 {
	v := m.x(m.second)
	switch m.option {
	case 2: // UXTW
		v = uint64(uint32(v))
	case 6: // SXTW
		v = uint64(int64(int32(v)))
	}
	return v << m.shift
}

func (m *machine) run(fault uint64) error {
	switch {
	case m.scalable != nil:
		return m.moveScalable(fault)
	case m.bulk != nil:
		return m.moveBulk(fault)
	}
	at, base := m.address()
	if m.isCacheOperation {
		return m.accessCacheBlock(at, fault)
	}
	if size := uint64(m.width * len(m.registers)); fault-at >= size {
		return m.refuseOperand(size, at, fault)
	}
	move := m.moveGeneral
	if m.vector {
		move = m.moveVectors
	}
	if err := move(at); err != nil {
		return err
	}
	if m.writeBack {
		*m.addressRegister(m.base) = base
	}
	return nil
}

// refuseOperand returns the Refusal of an instruction whose operand does not contain the address of
// the fault.
func (m *machine) refuseOperand(size, at, fault uint64) error {
	reason := fmt.Sprintf("the recorder cannot decode this instruction: "+
		"its operand would be %d bytes at %#x, but the fault was at %#x", size, at,
		fault)
	return &Refusal{m.code, reason}
}

// accessCacheBlock executes an instruction on a block of a cache. DC ZVA clears the block. The
// other instructions make no access.
func (m *machine) accessCacheBlock(at, fault uint64) error {
	if !m.isDCZVA {
		return nil
	}
	at &^= m.ZVASize - 1
	if fault-at >= m.ZVASize {
		return &Refusal{m.code, "the fault is outside the block that DC ZVA clears"}
	}
	var zeros [16]byte
	for done := uint64(0); done < m.ZVASize; done += 16 {
		if err := m.memory.Store(at+done, zeros[:]); err != nil {
			return err
		}
	}
	return nil
}

// moveGeneral loads or stores general registers. It makes all loads before it changes a register.
func (m *machine) moveGeneral(at uint64) error {
	var values [2]uint64
	for n, register := range m.registers {
		var b [8]byte
		data := b[:m.width]
		if m.load {
			if err := m.memory.Load(at, data); err != nil {
				return err
			}
			values[n] = m.extendLoaded(binary.LittleEndian.Uint64(b[:]))
		} else {
			binary.LittleEndian.PutUint64(b[:], m.x(register))
			if err := m.memory.Store(at, data); err != nil {
				return err
			}
		}
		at += uint64(m.width)
	}
	for n, register := range m.registers {
		if m.load {
			m.setX(register, values[n])
		}
	}
	return nil
}

// extendLoaded extends a loaded number as the instruction specifies.
func (m *machine) extendLoaded(v uint64) uint64 {
	if !m.signed {
		return v
	}
	shift := 64 - 8*m.width
	v = uint64(int64(v) << shift >> shift)
	if m.to32Bits {
		v = uint64(uint32(v))
	}
	return v
}

// moveVectors loads or stores vector registers, or one element of a vector register.
func (m *machine) moveVectors(at uint64) error {
	v, err := m.Vectors()
	if err != nil {
		return err
	}
	loaded := v.Z
	for _, register := range m.registers {
		switch {
		case m.load && m.isElement:
			// a load to a vector of 16 bytes clears the rest of the SVE register
			clear(loaded[register][16:])
		case m.load:
			loaded[register] = [256]byte{}
		}
		data := loaded[register][m.elementOffset : m.elementOffset+m.width]
		if m.load {
			err = m.memory.Load(at, data)
		} else {
			err = m.memory.Store(at, data)
		}
		if err != nil {
			return err
		}
		for to := m.width; m.isReplicated && to < m.size; to += m.width { // LD1R
			copy(loaded[register][to:], loaded[register][:m.width])
		}
		at += uint64(m.width)
	}
	if m.load {
		v.Z, m.VectorsChanged = loaded, true
	}
	return nil
}
