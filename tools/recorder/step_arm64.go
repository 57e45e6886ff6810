package recorder

import (
	"encoding/binary"
	"errors"

	"lightmetal/tools/recorder/a64"

	"golang.org/x/sys/unix"
)

// zeroBlock is the register DCZID_EL0.
func zeroBlock() uint64

// copyFlags returns the flags after a set of no bytes (FEAT_MOPS), which has to
// exist: C is the format of registers that the processor uses, option A or B. On
// another one the kernel converts the registers (arm64_mops_reset_regs).
func copyFlags() uint64

const flagC = 1 << 29

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
	s := a64.State{
		X: r.X, SP: r.SP, PC: r.PC, Flags: r.PS, Zero: 4 << (zeroBlock() & 15),
		OptionB: func() bool { return copyFlags()&flagC != 0 },
		Vectors: func() (v *a64.Vectors, err error) {
			vectors, err = vectorsOf(tid)
			if err != nil {
				return nil, err
			}
			return &vectors.Vectors, nil
		},
	}
	err = a64.Step(binary.LittleEndian.Uint32(code[:]), fault, &s, memory)
	var denied *accessFault
	if err != nil && !errors.As(err, &denied) {
		return err
	}
	if s.VectorsChanged {
		if err := vectors.put(tid); err != nil {
			return err
		}
	}
	r.X, r.SP, r.PC, r.PS = s.X, s.SP, s.PC, s.Flags
	if perr := r.put(tid); perr != nil {
		return perr
	}
	return err
}
