// Package a64 executes one instruction of arm64 that reaches memory, with
// the memory that its caller provides: the recorder of programs (tools/capture/recorder)
// makes each access to a device itself.
//
// It knows the loads and stores of general and vector registers, pairs of them,
// those with ordering, DC ZVA, contiguous accesses of SVE, the copies and sets of
// FEAT_MOPS, and, in memory that no other thread stores to meanwhile, exclusives and
// atomics. Gathers and scatters and what it does not know it refuses by name: it never
// guesses. Source: Arm ARM (DDI 0487)
// C4.1.94, "Loads and Stores", whose names of fields are used.
package a64

import (
	"encoding/binary"
	"fmt"
)

// State is what a program's thread has in its registers.
type State struct {
	X      [31]uint64
	SP, PC uint64
	Flags  uint64 // PSTATE: N, Z, C and V are bits 31 to 28
	Zero   uint64 // bytes that DC ZVA clears, a power of two

	// Alone reports whether no other thread can store to an address while this one
	// executes. Atomics and exclusives are executed there alone; nil: nowhere.
	Alone   func(address uint64) bool
	Monitor Monitor

	// OptionB reports which format the processor uses for the registers of
	// copies and sets (FEAT_MOPS) between their stages: option A or option B.
	OptionB func() bool

	// Vectors returns the vector registers, when an instruction needs them.
	// VectorsChanged is set when it changes them.
	Vectors        func() (*Vectors, error)
	VectorsChanged bool
}

// Vectors are the registers of SVE: the first 16 bytes of Z are the vectors of
// Advanced SIMD. Bytes beyond the length are zero.
type Vectors struct {
	Length   int  // bytes of a vector: 16 to 256, 16 without SVE
	Scalable bool // the thread uses SVE
	Z        [32][256]byte
	P        [16][32]byte // one bit for each byte of a vector
}

// Memory is what the program sees. Each call is one access of len(data) bytes:
// 1, 2, 4, 8 or 16.
type Memory interface {
	Load(address uint64, data []byte) error
	Store(address uint64, data []byte) error

	// IsDevice reports whether an address is a device's: accesses whose width
	// the instruction leaves open must be aligned there.
	IsDevice(address uint64) bool
}

// Refusal is the reason why an instruction is not executed. Nothing has changed.
type Refusal struct {
	Code   uint32
	Reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%08x: %s", r.Code, r.Reason) }

// Step executes an instruction, which made a page fault at an address, and changes
// the state. The error is a *Refusal, or that of the memory or of the
// vectors. Then no register has changed, unless a copy or a set has moved some
// bytes before memory failed: its registers are those of what is left to move.
// A long one is executed in parts: PC stays, and the program faults again.
func Step(code uint32, fault uint64, s *State, memory Memory) error {
	if a, ok := decodeAtomic(code); ok && s.Alone != nil {
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

// machine is one instruction at work.
type machine struct {
	*State
	instruction
	memory     Memory
	unfinished bool // the program is to execute the instruction again
}

// x is a register of data: 31 is zero.
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

// pointer is a register of an address: 31 is the stack pointer.
func (s *State) pointer(n uint8) *uint64 {
	if n == 31 {
		return &s.SP
	}
	return &s.X[n]
}

// address returns the address of the access, and the new value of the base.
func (m *machine) address() (at, base uint64) {
	base = *m.pointer(m.base)
	offset := m.offset
	if m.index {
		offset = m.indexed()
	}
	at = base + offset
	if m.post {
		at = base
	}
	return at, base + offset
}

// indexed is a register as an offset, extended and shifted.
func (m *machine) indexed() uint64 {
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
	if m.cache {
		return m.line(at, fault)
	}
	if size := uint64(m.width * len(m.registers)); fault-at >= size {
		return m.refuseOperand(size, at, fault)
	}
	move := m.general
	if m.vector {
		move = m.vectors
	}
	if err := move(at); err != nil {
		return err
	}
	if m.writeBack {
		*m.pointer(m.base) = base
	}
	return nil
}

// refuseOperand refuses an instruction whose operand did not fault.
func (m *machine) refuseOperand(size, at, fault uint64) error {
	reason := fmt.Sprintf("the recorder does not understand it: its operand is %d bytes at %#x, "+
		"but the fault was at %#x", size, at,
		fault)
	return &Refusal{m.code, reason}
}

// line is an instruction on a block of a cache: DC ZVA clears it, others make no access.
func (m *machine) line(at, fault uint64) error {
	if !m.zero {
		return nil
	}
	at &^= m.Zero - 1
	if fault-at >= m.Zero {
		return &Refusal{m.code, "the fault is in another block"}
	}
	var zeros [16]byte
	for done := uint64(0); done < m.Zero; done += 16 {
		if err := m.memory.Store(at+done, zeros[:]); err != nil {
			return err
		}
	}
	return nil
}

// general moves general registers. All loads are made before a register changes.
func (m *machine) general(at uint64) error {
	var values [2]uint64
	for n, register := range m.registers {
		var b [8]byte
		data := b[:m.width]
		if m.load {
			if err := m.memory.Load(at, data); err != nil {
				return err
			}
			values[n] = m.extended(binary.LittleEndian.Uint64(b[:]))
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

// extended is what a loaded number becomes in a register.
func (m *machine) extended(v uint64) uint64 {
	if !m.signed {
		return v
	}
	shift := 64 - 8*m.width
	v = uint64(int64(v) << shift >> shift)
	if m.narrow {
		v = uint64(uint32(v))
	}
	return v
}

// vectors moves vector registers, or one element of one.
func (m *machine) vectors(at uint64) error {
	v, err := m.Vectors()
	if err != nil {
		return err
	}
	loaded := v.Z
	for _, register := range m.registers {
		switch {
		case m.load && m.element:
			clear(loaded[register][16:]) // as each load to a vector of 16 bytes
		case m.load:
			loaded[register] = [256]byte{}
		}
		data := loaded[register][m.lane : m.lane+m.width]
		if m.load {
			err = m.memory.Load(at, data)
		} else {
			err = m.memory.Store(at, data)
		}
		if err != nil {
			return err
		}
		for to := m.width; m.all && to < m.size; to += m.width { // LD1R
			copy(loaded[register][to:], loaded[register][:m.width])
		}
		at += uint64(m.width)
	}
	if m.load {
		v.Z, m.VectorsChanged = loaded, true
	}
	return nil
}
