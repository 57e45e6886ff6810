package recorder

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	auditArch              = unix.AUDIT_ARCH_AARCH64
	callOpen               = 1 << 31    // arm64 has only openat
	callDup2               = 1<<31 + 1  // arm64 has only dup3
	callPoll               = 1<<31 + 2  // arm64 has only ppoll
	callEpoll              = 1<<31 + 3  // arm64 has only epoll_pwait
	callSelect             = 1<<31 + 4  // arm64 has only pselect6
	callVfork              = ^uint64(0) // arm64 has only clone with a flag
	callKeepsFirstArgument = false      // the result is in the register of the first argument

	widestAccessMax = 16 // width in bytes of the widest access of an instruction

	setGeneral = 1 // NT_PRSTATUS
	setVectors = 2 // NT_PRFPREG
	callNumber = 8 // X8
)

// callInstruction is the system call instruction (SVC 0).
var callInstruction = []byte{0x01, 0x00, 0x00, 0xd4}

// registers are the general registers of a thread: struct user_pt_regs.
type registers struct {
	X          [31]uint64
	SP, PC, PS uint64
}

func (r *registers) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
}

func registersOf(tid int) (*registers, error) {
	r := &registers{}
	_, err := transferRegisterSet(unix.PTRACE_GETREGSET, tid, setGeneral, r.bytes())
	return r, err
}

func (r *registers) write(tid int) error {
	_, err := transferRegisterSet(unix.PTRACE_SETREGSET, tid, setGeneral, r.bytes())
	return err
}

func (r *registers) pc() uint64             { return r.PC }
func (r *registers) setPC(v uint64)         { r.PC = v }
func (r *registers) call() uint64           { return r.X[callNumber] }
func (r *registers) result() uint64         { return r.X[0] }
func (r *registers) setResult(v uint64)     { r.X[0] = v }
func (r *registers) argument(n int) *uint64 { return &r.X[n] }

// isForeign reports whether a thread executes 32-bit code.
func (r *registers) isForeign() bool { return r.PS&(1<<4) != 0 }

// skipCall makes the kernel skip the system call that a thread is entering.
func (r *registers) skipCall(tid int) error {
	const setCall = 0x404 // NT_ARM_SYSTEM_CALL
	_, err := transferRegisterSet(unix.PTRACE_SETREGSET, tid, setCall,
		[]byte{0xff, 0xff, 0xff, 0xff})
	return err
}

func (r *registers) setCall(call uint64, arguments []uint64) {
	r.X[callNumber] = call
	copy(r.X[:], arguments)
}
