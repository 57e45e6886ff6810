package a64

// Atomics (LSE) and exclusives are executed as a load and a store, in memory to which no other
// thread of the program can store between the two. Source: Arm ARM C4.1.94, "Load/store exclusive",
// "Compare and swap" and "Atomic memory operations".

import (
	"bytes"
	"encoding/binary"
)

// Monitor is the exclusive monitor of a thread: what its last exclusive load read.
type Monitor struct {
	Stored bool // the last exclusive store succeeded

	valid   bool
	address uint64
	data    []byte
}

// Kinds of atomic instructions.
const (
	exclusiveLoad = iota
	exclusiveStore
	compareAndSwap
	arithmetic
)

// atomic is a decoded atomic or exclusive instruction.
type atomic struct {
	kind       int
	width      int   // bytes of one register; a pair accesses twice as many
	pair       bool  // it moves two registers
	base       uint8 // register of the address
	data       uint8 // Rt
	second     uint8 // Rt2 of exclusives of pairs
	status     uint8 // Rs: result of an exclusive store, else the operand
	operation  uint32
	exchanging bool // SWP
}

// IsExclusive reports whether an instruction is an exclusive load or store.
func IsExclusive(code uint32) bool {
	a, ok := decodeAtomic(code)
	return ok && (a.kind == exclusiveLoad || a.kind == exclusiveStore)
}

// IsExclusiveStore reports whether an instruction is STXR, STLXR, STXP or STLXP, of any width.
func IsExclusiveStore(code uint32) bool {
	a, ok := decodeAtomic(code)
	return ok && a.kind == exclusiveStore
}

func decodeAtomic(code uint32) (a atomic, ok bool) {
	a = atomic{
		width: 1 << bits(code, 31, 30), base: uint8(bits(code, 9, 5)),
		data: uint8(bits(code, 4, 0)), second: uint8(bits(code, 14, 10)),
		status: uint8(bits(code, 20, 16)), operation: bits(code, 14, 12),
	}
	switch {
	case bits(code, 29, 24) == 0x08:
		return a, a.decodeExclusive(code)
	case bits(code, 29, 24) == 0x38 && bits(code, 21, 21) == 1 && bits(code, 11, 10) == 0:
		a.kind = arithmetic
		a.exchanging = bits(code, 15, 15) == 1
		return a, !a.exchanging || a.operation == 0
	}
	return a, false
}

// decodeExclusive decodes exclusives, CAS and CASP. ok is false for LDAR, STLR and similar
// instructions.
func (a *atomic) decodeExclusive(code uint32) (ok bool) {
	ordered, load := bits(code, 23, 23) == 1, bits(code, 22, 22) == 1
	a.pair = bits(code, 21, 21) == 1
	switch {
	case ordered: // CAS has the bit of pairs too
		isCAS := a.pair && a.second == 31
		a.kind, a.pair = compareAndSwap, false
		return isCAS
	case a.pair && a.width < 4: // CASP
		a.kind, a.width = compareAndSwap, a.width*4
		return a.second == 31 && a.status&1 == 0 && a.data&1 == 0
	case load:
		a.kind = exclusiveLoad
		return a.status == 31 && (a.pair || a.second == 31)
	}
	a.kind = exclusiveStore
	return a.pair || a.second == 31
}

// size returns the number of accessed bytes.
func (a *atomic) size() int {
	if a.pair {
		return 2 * a.width
	}
	return a.width
}

// registerPair returns the numbers of the two data registers of a pair. Those of CASP are
// consecutive.
func (a *atomic) registerPair(first uint8) [2]uint8 {
	if a.kind == compareAndSwap {
		return [2]uint8{first, first + 1}
	}
	return [2]uint8{first, a.second}
}

// bytesOf returns one register, or two, as bytes in memory.
func (a *atomic) bytesOf(s *State, first uint8) []byte {
	registers := a.registerPair(first)
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], s.x(registers[0]))
	if a.pair {
		binary.LittleEndian.PutUint64(b[a.width:], s.x(registers[1]))
	}
	return b[:a.size()]
}

// setRegisters sets one register, or two, from bytes of memory.
func (a *atomic) setRegisters(s *State, first uint8, data []byte) {
	var b [16]byte
	registers := a.registerPair(first)
	copy(b[:8], data[:a.width])
	s.setX(registers[0], binary.LittleEndian.Uint64(b[:]))
	if a.pair {
		clear(b[:])
		copy(b[:8], data[a.width:])
		s.setX(registers[1], binary.LittleEndian.Uint64(b[:]))
	}
}

// run executes the instruction. After an error nothing has changed.
func (a *atomic) run(code uint32, s *State, memory Memory) error {
	at, size := *s.addressRegister(a.base), a.size()
	switch {
	case at%uint64(size) != 0:
		return &Refusal{code, "an atomic access to an unaligned address"}
	case !s.Serialized(at):
		return &Refusal{code, "an atomic instruction: the recorder cannot perform its load " +
			"and store as one access"}
	}
	now := make([]byte, size)
	if err := memory.Load(at, now); err != nil {
		return err
	}
	var err error
	switch a.kind {
	case exclusiveLoad:
		s.Monitor = Monitor{valid: true, address: at, data: now}
		a.setRegisters(s, a.data, now)
	case exclusiveStore:
		err = a.storeExclusive(s, memory, at, now)
	case compareAndSwap:
		if bytes.Equal(now, a.bytesOf(s, a.status)) {
			err = memory.Store(at, a.bytesOf(s, a.data))
		}
		if err == nil {
			a.setRegisters(s, a.status, now)
		}
	case arithmetic:
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], a.compute(littleEndian(now), s.x(a.status)))
		if err = memory.Store(at, b[:size]); err == nil {
			a.setRegisters(s, a.data, now)
		}
	}
	if err == nil {
		s.PC += 4
	}
	return err
}

// storeExclusive makes the store if the memory still contains what the exclusive load has read.
func (a *atomic) storeExclusive(s *State, memory Memory, at uint64, now []byte) error {
	m := s.Monitor
	failed := uint64(1)
	if m.valid && m.address == at && bytes.Equal(m.data, now) {
		if err := memory.Store(at, a.bytesOf(s, a.data)); err != nil {
			return err
		}
		failed = 0
	}
	s.Monitor = Monitor{Stored: failed == 0}
	s.setX(a.status, failed)
	return nil
}

// littleEndian returns up to 8 bytes of memory as a number.
func littleEndian(data []byte) uint64 {
	var b [8]byte
	copy(b[:], data)
	return binary.LittleEndian.Uint64(b[:])
}

// compute returns the number that an atomic stores, given the number in memory and the operand.
func (a *atomic) compute(old, operand uint64) uint64 {
	if a.exchanging {
		return operand
	}
	shift := 64 - 8*a.width
	operand = operand << shift >> shift
	signed := func(v uint64) int64 { return int64(v << shift) }
	switch a.operation {
	case 0: // LDADD
		return old + operand
	case 1: // LDCLR
		return old &^ operand
	case 2: // LDEOR
		return old ^ operand
	case 3: // LDSET
		return old | operand
	}
	isLess := old < operand // LDUMAX, LDUMIN
	if a.operation < 6 {    // LDSMAX, LDSMIN
		isLess = signed(old) < signed(operand)
	}
	if isMax := a.operation&1 == 0; isLess == isMax {
		return operand
	}
	return old
}
