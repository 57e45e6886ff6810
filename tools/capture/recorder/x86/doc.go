// Package x86 carries out one instruction of amd64 that reaches memory, with
// the memory given by its caller: the recorder of programs (tools/capture/recorder)
// makes each access to a device itself.
//
// It knows the moves, arithmetic and string instructions that compilers and
// libraries of C use on a mapping, has the program's thread compute what is more
// than that with a copy of the operand, and refuses by name what it does not know:
// it never guesses. A Follower executes what follows such an instruction.
// Sources: Intel SDM volume 2,
// chapters 2 (formats), 3 to 5 (instructions) and appendix A (opcode maps);
// "table" in comments means those of appendix A.
package x86

import "fmt"

// State is what a program's thread has in its registers.
type State struct {
	Reg            [16]uint64 // RAX RCX RDX RBX RSP RBP RSI RDI R8 to R15
	IP, Flags      uint64
	FSBase, GSBase uint64

	// Vectors gives the vector registers, when an instruction needs them.
	// VectorsChanged tells that it changed them.
	Vectors        func() (*Vectors, error)
	VectorsChanged bool

	// Alone tells that nobody but the program reaches a place in memory, whose
	// accesses come one after the other: only there an instruction is locked.
	Alone func(address uint64) bool

	// Prepare puts code where the thread can carry it out, Run has it do so with data
	// DataAt behind the start. Ran tells that: but for IP, registers are the thread's.
	Prepare, Run func([]byte) error
	Ran          bool
}

// DataAt is where data of State.Run lies, aligned for every instruction.
const DataAt = 64

// Vectors are the vector and mask registers.
type Vectors struct {
	Z [32][64]byte // XMM, YMM and ZMM
	K [8]uint64
}

// Memory is what the program sees. Each call is one access of len(data) bytes:
// 1, 2, 4, 8, 16, 32 or 64.
type Memory interface {
	Load(address uint64, data []byte) error
	Store(address uint64, data []byte) error
}

// Runs is what Memory may have besides: neighbours that one instruction accesses one after
// the other, width bytes each, from the lowest address on. It returns how many bytes have been
// accessed before the error.
type Runs interface {
	LoadRun(address uint64, data []byte, width int) (done int, err error)
	StoreRun(address uint64, data []byte, width int) (done int, err error)

	// IsDevice reports whether the order of accesses to an address matters.
	IsDevice(address uint64) bool
}

// Refusal is why an instruction is not carried out. Nothing has happened.
type Refusal struct {
	Code   []byte // of the instruction; what follows it may be there too
	Reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("% x: %s", r.Code, r.Reason) }

// Step carries out the instruction in code, which made a page fault at an
// address, and changes the state. code holds 15 bytes, or as many as there are
// before memory ends. The error is a *Refusal, or that of the memory, the vectors,
// Prepare or Run; then an instruction that repeats has got as far as its registers
// say, and another one has changed none here: where Ran is set, the thread may have.
func Step(code []byte, fault uint64, s *State, memory Memory) error {
	i, err := decode(code)
	if err != nil {
		return err
	}
	m := &machine{State: s, instruction: &i, memory: memory, fault: fault}
	m.address = m.effective()
	if (i.lock || i.form.locks) && (s.Alone == nil || !s.Alone(m.address)) {
		return m.refuse("a locked instruction, which lm cannot execute for the program here")
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

// machine is one instruction at work.
type machine struct {
	*State
	*instruction
	memory  Memory
	vectors *Vectors // of a vector instruction
	address uint64   // of the memory operand
	fault   uint64   // address of the page fault
	seen    bool     // that the fault lies in the operand
	next    uint64   // address of the instruction to follow, which branches change
}

func (m *machine) refuse(format string, a ...any) error {
	return &Refusal{m.code[:min(m.length, len(m.code))], fmt.Sprintf(format, a...)}
}

// within refuses an operand that the fault does not lie in: then the
// instruction was not understood.
func (m *machine) within(address uint64, size int) error {
	if m.seen || m.fault-address < uint64(size) {
		m.seen = true
		return nil
	}
	return m.refuse("the recorder does not understand it: its operand is %d bytes at %#x, but "+
		"the fault was at %#x", size, address,
		m.fault)
}

func (m *machine) load(data []byte) error {
	if err := m.within(m.address, len(data)); err != nil {
		return err
	}
	return m.memory.Load(m.address, data)
}

func (m *machine) store(data []byte) error {
	if err := m.within(m.address, len(data)); err != nil {
		return err
	}
	return m.memory.Store(m.address, data)
}

// effective is the address of the memory operand.
func (m *machine) effective() uint64 {
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
