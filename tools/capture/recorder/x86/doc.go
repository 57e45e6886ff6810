// Package x86 executes one instruction of amd64 that accesses memory. The caller provides the
// memory: the recorder (tools/capture/recorder) makes each access to a device itself.
//
// The package supports the moves, arithmetic and string instructions that compilers and C libraries
// use on a mapping. For instructions that compute more than that, the program's thread executes the
// instruction on a copy of the operand. It rejects unknown instructions with an error that names
// them: it never guesses. A Follower executes the instructions after such an instruction. Sources:
// Intel SDM volume 2, chapters 2 (formats), 3 to 5 (instructions) and appendix A (opcode maps). In
// comments, "table" means one of appendix A.
//
// The thread could execute all arithmetic on a copy, but does so only for rare instructions. A
// thread needs two more stops for each instruction on a copy, so a Follower, which makes no stop,
// cannot use it: loops that compute with a BAR, and unoptimized loops, whose counter is on the
// stack, would run a hundred times slower. The copy also needs a writable and executable page in
// the program, which some systems forbid, and an operand whose address does not use FS, GS or 32
// bits.
package x86

import "fmt"

// State has the registers of a thread.
type State struct {
	Reg            [16]uint64 // RAX RCX RDX RBX RSP RBP RSI RDI R8 to R15
	IP, Flags      uint64
	FSBase, GSBase uint64

	// Vectors returns the vector registers. It is called only for instructions that need them.
	// VectorsChanged is set if the instruction changes them.
	Vectors        func() (*Vectors, error)
	VectorsChanged bool

	// Serialized reports whether only the recorder accesses an address for all threads of the
	// program, one access after the other. Only there locked instructions are executed. nil:
	// nowhere.
	Serialized func(address uint64) bool

	// Prepare copies an instruction to where the thread can execute it. Run makes the thread
	// execute it with data, which is DataOffset bytes after the instruction. Ran is set if Run was
	// called. In this case the current registers are those of the thread, except for IP.
	Prepare, Run func([]byte) error
	Ran          bool
}

// DataOffset is the offset of the data of State.Run from the instruction. It is aligned for every
// instruction.
const DataOffset = 64

// Vectors are the vector and mask registers.
type Vectors struct {
	Z [32][64]byte // XMM, YMM and ZMM
	K [8]uint64
}

// Memory is the memory of the program. Each call is one access of len(data) bytes: 1, 2, 4, 8, 16,
// 32 or 64.
type Memory interface {
	Load(address uint64, data []byte) error
	Store(address uint64, data []byte) error
}

// Runs is an optional interface of a Memory. Its methods make several accesses of one instruction:
// to consecutive addresses, in ascending order, width bytes each. They return the number of bytes
// that were accessed before an error.
type Runs interface {
	LoadRun(address uint64, data []byte, width int) (done int, err error)
	StoreRun(address uint64, data []byte, width int) (done int, err error)

	// IsDevice reports whether the order of accesses to an address matters.
	IsDevice(address uint64) bool
}

// Refusal is the error of an instruction that is not executed. Registers and memory have not
// changed.
type Refusal struct {
	Code   []byte // bytes of the instruction, possibly with bytes that follow it
	Reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("% x: %s", r.Code, r.Reason) }

// Step executes the instruction in code, which has made a page fault at an address, and changes the
// state. code has 15 bytes, or fewer if the memory ends. The error is a *Refusal, or an error of
// the memory, of Vectors, Prepare or Run. After an error, the registers of a repeated instruction
// show how far it has got, and other instructions have changed no register of the state. If Ran is
// set, the thread may have changed its registers.
func Step(code []byte, fault uint64, s *State, memory Memory) error {
	i, err := decode(code)
	if err != nil {
		return err
	}
	m := &machine{State: s, instruction: &i, memory: memory, fault: fault}
	m.address = m.effectiveAddress()
	if (i.lock || i.form.implicitLock) && (s.Serialized == nil || !s.Serialized(m.address)) {
		return m.refusal("lm cannot execute a locked instruction for the program")
	}
	if i.form.vectors != 0 {
		if m.vectors, err = s.Vectors(); err != nil {
			return err
		}
	}
	flags := s.Flags
	if err := i.form.run(m); err != nil {
		s.Flags = flags
		return err
	}
	s.IP += uint64(i.length)
	return nil
}

// machine is the execution of one instruction.
type machine struct {
	*State
	*instruction
	memory       Memory
	vectors      *Vectors // vector registers, if the instruction uses them
	address      uint64   // address of the memory operand
	fault        uint64   // address of the page fault
	faultChecked bool     // it was checked that the operand contains the address of the fault
	next         uint64   // address of the next instruction, which branches change
}

func (m *machine) refusal(format string, a ...any) error {
	return &Refusal{m.code[:min(m.length, len(m.code))], fmt.Sprintf(format, a...)}
}

// checkFault rejects the instruction if the operand does not contain the address of the fault: the
// instruction was decoded wrongly.
func (m *machine) checkFault(address uint64, size int) error {
	if m.faultChecked || m.fault-address < uint64(size) {
		m.faultChecked = true
		return nil
	}
	return m.refusal("the recorder cannot decode this instruction: "+
		"its operand would be %d bytes at %#x, but the fault was at %#x", size, address, m.fault)
}

func (m *machine) load(data []byte) error {
	if err := m.checkFault(m.address, len(data)); err != nil {
		return err
	}
	return m.memory.Load(m.address, data)
}

func (m *machine) store(data []byte) error {
	if err := m.checkFault(m.address, len(data)); err != nil {
		return err
	}
	return m.memory.Store(m.address, data)
}

func (m *machine) effectiveAddress() uint64 {
	a := m.displacement
	if m.base >= 0 {
		a += m.Reg[m.base]
	}
	if m.index >= 0 {
		a += m.Reg[m.index] << m.scale
	}
	if m.ipRelative {
		a += m.IP + uint64(m.length)
	}
	if m.address32 {
		a = uint64(uint32(a))
	}
	switch m.segment {
	case 0x64:
		a += m.FSBase
	case 0x65:
		a += m.GSBase
	}
	return a
}
