package recorder

import (
	"encoding/binary"
	"errors"

	"lightmetal/tools/capture/recorder/a64"

	"golang.org/x/sys/unix"
)

// Register sets of ptrace, and the layout of the set of SVE (asm/ptrace.h).
const (
	setScalable  = 0x405 // NT_ARM_SVE
	setStreaming = 0x40b // NT_ARM_SSVE

	scalableHeader = 16   // struct user_sve_header
	scalableLength = 8    // its field vl, 2 bytes
	scalableFlags  = 12   // its field flags, 2 bytes
	scalableActive = 1    // SVE_PT_REGS_SVE: if it is not set, only vectors of 16 bytes have values
	scalableMost   = 8768 // SVE_PT_SIZE of vectors of 256 bytes; must be a multiple of 16
)

type vectorSet struct {
	a64.Vectors
	set int    // number of the register set of ptrace
	raw []byte // all data of the register set, including other registers
}

var errStreaming = errors.New("streaming mode (SME) is not recorded; " +
	"boot the kernel with arm64.nosme")

// vectorsOf reads the vector registers of a thread. It reads the set of SVE if the thread uses SVE,
// because the kernel clears the predicate registers when the other set is written.
func vectorsOf(tid int) (*vectorSet, error) {
	v := &vectorSet{set: setStreaming, raw: make([]byte, scalableMost)}
	if v.read(tid) == nil && v.isScalable() {
		return nil, errStreaming
	}
	v.set = setScalable
	if v.read(tid) == nil && v.isScalable() {
		v.Length, v.Scalable = int(binary.NativeEndian.Uint16(v.raw[scalableLength:])), true
		v.each(func(register, raw []byte) { copy(register, raw) })
		return v, nil
	}
	v.set, v.Length = setVectors, 16
	if err := v.read(tid); err != nil {
		return nil, err
	}
	v.each(func(register, raw []byte) { copy(register, raw) })
	return v, nil
}

func (v *vectorSet) read(tid int) error {
	v.raw = v.raw[:cap(v.raw)]
	n, err := transferRegisterSet(unix.PTRACE_GETREGSET, tid, v.set, v.raw)
	v.raw = v.raw[:n]
	return err
}

// write writes the registers back to the thread.
func (v *vectorSet) write(tid int) error {
	v.each(func(register, raw []byte) { copy(raw, register) })
	_, err := transferRegisterSet(unix.PTRACE_SETREGSET, tid, v.set, v.raw)
	return err
}

// isScalable reports whether the set contains values of SVE registers.
func (v *vectorSet) isScalable() bool {
	return len(v.raw) > scalableHeader && v.raw[scalableFlags]&scalableActive != 0
}

// each calls a function for each register, with the data of the register set that belongs to it.
func (v *vectorSet) each(do func(register, raw []byte)) {
	rest := v.raw
	if v.set == setScalable {
		rest = rest[scalableHeader:]
	}
	next := func(register []byte) {
		do(register, rest[:len(register)])
		rest = rest[len(register):]
	}
	for i := range v.Z {
		next(v.Z[i][:v.Length])
	}
	if v.set == setScalable {
		for i := range v.P {
			next(v.P[i][:v.Length/8])
		}
	}
}
