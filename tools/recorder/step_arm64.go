package recorder

import (
	"encoding/binary"
	"unsafe"

	"lightmetal/tools/recorder/a64"

	"golang.org/x/sys/unix"
)

// vectorSet is struct user_fpsimd_state.
type vectorSet struct {
	V          [32][16]byte
	FPSR, FPCR uint32
	_          [2]uint32
}

func (v *vectorSet) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// zeroBlock is the register DCZID_EL0.
func zeroBlock() uint64

// step carries out the instruction that a thread faulted in.
func step(tid int, fault uint64, memory a64.Memory) error {
	r, err := registersOf(tid)
	if err != nil {
		return err
	}
	var code [4]byte
	if readCode(tid, r.PC, code[:]) != len(code) {
		return unix.ESRCH
	}
	var vectors *vectorSet
	s := a64.State{X: r.X, SP: r.SP, PC: r.PC, Zero: 4 << (zeroBlock() & 15), Vectors: func() (*[32][16]byte, error) {
		vectors = &vectorSet{}
		_, err := registerSet(unix.PTRACE_GETREGSET, tid, setVectors, vectors.bytes())
		return &vectors.V, err
	}}
	if err := a64.Step(binary.LittleEndian.Uint32(code[:]), fault, &s, memory); err != nil {
		return err
	}
	if s.VectorsChanged {
		if _, err := registerSet(unix.PTRACE_SETREGSET, tid, setVectors, vectors.bytes()); err != nil {
			return err
		}
	}
	r.X, r.SP, r.PC = s.X, s.SP, s.PC
	return r.put(tid)
}
