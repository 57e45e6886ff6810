package recorder

import "golang.org/x/sys/unix"

const (
	auditArch       = unix.AUDIT_ARCH_X86_64
	callOpen        = unix.SYS_OPEN
	callPoll        = unix.SYS_POLL
	callEpoll       = unix.SYS_EPOLL_WAIT
	callSelect      = unix.SYS_SELECT
	x32             = 1 << 30 // bit in the numbers of system calls with 32-bit pointers (x32)
	widestAccessMax = 64      // width in bytes of the widest access of an instruction
)

// callInstruction is the system call instruction (SYSCALL).
var callInstruction = []byte{0x0f, 0x05}

// registers are the general registers of a thread.
type registers struct{ unix.PtraceRegs }

func registersOf(tid int) (*registers, error) {
	r := &registers{}
	return r, unix.PtraceGetRegs(tid, &r.PtraceRegs)
}

func (r *registers) write(tid int) error { return unix.PtraceSetRegs(tid, &r.PtraceRegs) }

func (r *registers) pc() uint64         { return r.Rip }
func (r *registers) setPC(v uint64)     { r.Rip = v }
func (r *registers) call() uint64       { return r.Orig_rax }
func (r *registers) result() uint64     { return r.Rax }
func (r *registers) setResult(v uint64) { r.Rax = v }
func (r *registers) argument(n int) *uint64 {
	return [...]*uint64{&r.Rdi, &r.Rsi, &r.Rdx, &r.R10, &r.R8, &r.R9}[n]
}

// isForeign reports whether a thread executes 32-bit code, or makes a system call of the x32 ABI.
func (r *registers) isForeign() bool {
	return r.Cs != 0x33 || r.Orig_rax&x32 != 0 && int64(r.Orig_rax) > 0
}

// skipCall makes the kernel skip the system call that a thread is entering.
func (r *registers) skipCall(tid int) error {
	skipped := *r
	skipped.Orig_rax = ^uint64(0)
	return skipped.write(tid)
}

func (r *registers) setCall(call uint64, arguments []uint64) {
	r.Rax, r.Orig_rax = call, ^uint64(0) // no interrupted system call to restart
	for n, v := range arguments {
		*r.argument(n) = v
	}
}

const (
	callDup2               = unix.SYS_DUP2
	callVfork              = unix.SYS_VFORK
	callKeepsFirstArgument = true // the result is not in the register of the first argument
)
