package recorder

import (
	"encoding/binary"
	"errors"

	"lightmetal/tools/capture/recorder/a64"

	"golang.org/x/sys/unix"
)

// Sets of registers, and the layout of those of SVE: asm/ptrace.h.
const (
	setScalable  = 0x405 // NT_ARM_SVE
	setStreaming = 0x40b // NT_ARM_SSVE

	scalableHeader = 16   // struct user_sve_header
	scalableLength = 8    // its field vl, 2 bytes
	scalableFlags  = 12   // its field flags, 2 bytes
	scalableActive = 1    // SVE_PT_REGS_SVE: else only vectors of 16 bytes have values
	scalableMost   = 8768 // SVE_PT_SIZE of vectors of 256 bytes; must be a multiple of 16
)

// vectorSet is the vector registers of a thread.
type vectorSet struct {
	a64.Vectors
	set int    // of ptrace
	raw []byte // as the kernel has it, other registers too
}

var errStreaming = errors.New("streaming mode (SME) is not recorded; boot the kernel with " +
	"arm64.nosme")

// vectorsOf reads a thread's vector registers: as those of SVE if it uses them,
// since the kernel clears predicates if the other set is written.
func vectorsOf(tid int) (*vectorSet, error) {
	v := &vectorSet{set: setStreaming, raw: make([]byte, scalableMost)}
	if v.read(tid) == nil && v.scalable() {
		return nil, errStreaming
	}
	v.set = setScalable
	if v.read(tid) == nil && v.scalable() {
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
	n, err := registerSet(unix.PTRACE_GETREGSET, tid, v.set, v.raw)
	v.raw = v.raw[:n]
	return err
}

// put writes the registers back.
func (v *vectorSet) put(tid int) error {
	v.each(func(register, raw []byte) { copy(raw, register) })
	_, err := registerSet(unix.PTRACE_SETREGSET, tid, v.set, v.raw)
	return err
}

// scalable reports whether the set has values of registers of SVE.
func (v *vectorSet) scalable() bool {
	return len(v.raw) > scalableHeader && v.raw[scalableFlags]&scalableActive != 0
}

// each calls a function for each register and its place in the set.
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
