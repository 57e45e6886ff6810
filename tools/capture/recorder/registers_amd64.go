package recorder

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	callOpen  = unix.SYS_OPEN
	callPoll  = unix.SYS_POLL
	callEpoll = unix.SYS_EPOLL_WAIT
	x32       = 1 << 30 // set in the number of a system call with 32-bit pointers
	mostWidth = 64      // bytes of the widest access of an instruction
)

// callCode is the instruction that calls the kernel.
var callCode = []byte{0x0f, 0x05}

// registers are a thread's general ones.
type registers struct{ unix.PtraceRegs }

func registersOf(tid int) (*registers, error) {
	r := &registers{}
	return r, unix.PtraceGetRegs(tid, &r.PtraceRegs)
}

func (r *registers) put(tid int) error { return unix.PtraceSetRegs(tid, &r.PtraceRegs) }

func (r *registers) pc() uint64         { return r.Rip }
func (r *registers) setPC(v uint64)     { r.Rip = v }
func (r *registers) call() uint64       { return r.Orig_rax }
func (r *registers) result() uint64     { return r.Rax }
func (r *registers) setResult(v uint64) { r.Rax = v }
func (r *registers) argument(n int) *uint64 {
	return [...]*uint64{&r.Rdi, &r.Rsi, &r.Rdx, &r.R10, &r.R8, &r.R9}[n]
}

// foreign reports whether a thread runs code of 32 bits, or with its calls.
func (r *registers) foreign() bool {
	return r.Cs != 0x33 || r.Orig_rax&x32 != 0 && int64(r.Orig_rax) > 0
}

// skip has the kernel skip the call that a thread is on its way into.
func (r *registers) skip(tid int) error {
	skipped := *r
	skipped.Orig_rax = ^uint64(0)
	return skipped.put(tid)
}

// prepare makes the registers those of a thread that is about to call the kernel.
func (r *registers) prepare(call uint64, arguments []uint64) {
	r.Rax, r.Orig_rax = call, ^uint64(0) // no call to take up again
	for n, v := range arguments {
		*r.argument(n) = v
	}
}

const (
	callDup2       = unix.SYS_DUP2
	callVfork      = unix.SYS_VFORK
	callKeepsFirst = true // the result does not lie in the register of the first argument
)
