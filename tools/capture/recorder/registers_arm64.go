package recorder

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	auditArch      = unix.AUDIT_ARCH_AARCH64
	callOpen       = 1 << 31    // openat is the only one here
	callDup2       = 1<<31 + 1  // dup3 is
	callPoll       = 1<<31 + 2  // ppoll is
	callEpoll      = 1<<31 + 3  // epoll_pwait is
	callVfork      = ^uint64(0) // a flag of clone here
	callKeepsFirst = false      // the result lies in the register of the first argument

	mostWidth = 16 // bytes of the widest access of an instruction

	setGeneral = 1 // NT_PRSTATUS
	setVectors = 2 // NT_PRFPREG
	callNumber = 8 // X8
)

// callCode is the instruction that calls the kernel.
var callCode = []byte{0x01, 0x00, 0x00, 0xd4}

// registers are a thread's general ones: struct user_pt_regs.
type registers struct {
	X          [31]uint64
	SP, PC, PS uint64
}

func (r *registers) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
}

func registersOf(tid int) (*registers, error) {
	r := &registers{}
	_, err := registerSet(unix.PTRACE_GETREGSET, tid, setGeneral, r.bytes())
	return r, err
}

func (r *registers) put(tid int) error {
	_, err := registerSet(unix.PTRACE_SETREGSET, tid, setGeneral, r.bytes())
	return err
}

func (r *registers) pc() uint64             { return r.PC }
func (r *registers) setPC(v uint64)         { r.PC = v }
func (r *registers) call() uint64           { return r.X[callNumber] }
func (r *registers) result() uint64         { return r.X[0] }
func (r *registers) setResult(v uint64)     { r.X[0] = v }
func (r *registers) argument(n int) *uint64 { return &r.X[n] }

// foreign reports whether a thread runs code of 32 bits.
func (r *registers) foreign() bool { return r.PS&(1<<4) != 0 }

// skip has the kernel skip the call that a thread is on its way into.
func (r *registers) skip(tid int) error {
	const setCall = 0x404 // NT_ARM_SYSTEM_CALL
	_, err := registerSet(unix.PTRACE_SETREGSET, tid, setCall, []byte{0xff, 0xff, 0xff, 0xff})
	return err
}

// prepare makes the registers those of a thread that is about to call the kernel.
func (r *registers) prepare(call uint64, arguments []uint64) {
	r.X[callNumber] = call
	copy(r.X[:], arguments)
}
