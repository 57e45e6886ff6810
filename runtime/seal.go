package runtime

// Seal: a seccomp filter that kills the process when it asks for memory, files or threads.

import (
	goruntime "runtime"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// sealAllowed are the system calls of a sealed process. None of them creates, maps or opens
// anything.
var sealAllowed = [...]uint32{
	// Output, and configuration space, which also shows whether a failing device is gone.
	unix.SYS_WRITE, unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_PWRITE64,
	// Waiting, also of Go's scheduler when it has no work.
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EPOLL_PWAIT,
	unix.SYS_SCHED_YIELD, unix.SYS_RESTART_SYSCALL,
	unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	// Signals, among them Go's preemption signal, and the signal stack of a thread of Go that was
	// still starting when the process was sealed.
	unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL,
	unix.SYS_GETPID, unix.SYS_GETTID,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// Offsets of nr, arch and the lower half of args[1] in struct seccomp_data (linux/seccomp.h; both
// architectures are little-endian).
const (
	seccompNumber  = 0
	seccompArch    = 4
	seccompRequest = 24
)

func bpfLoad(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func bpfReturn(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// bpfJumpEqual skips yes instructions if the loaded word is value, else no instructions.
func bpfJumpEqual(value uint32, yes, no int) unix.SockFilter {
	return unix.SockFilter{
		Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		Jt:   uint8(yes), Jf: uint8(no), K: value,
	}
}

// Seal makes the kernel kill the whole process, whichever thread it is, at the first system call
// that is not in sealAllowed. This cannot be undone. Files to be written later must be open. Call
// it after Freeze, on amd64 or arm64. The error is a *hal.Fault.
//
// also are further instructions of the filter, which may allow more calls. They must load what
// they test, and jump behind their last instruction if they do not decide.
func Seal(also ...unix.SockFilter) (err error) {
	var room [len(sealAllowed) + 9]unix.SockFilter // on the stack, if also is empty
	program := appendSealProgram(room[:0], also)
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}

	// Give up new privileges, as seccomp requires. If this fails, so does the next call. Both are
	// raw calls: Go may change the thread at others, and the promise is the thread's.
	unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	// Install the filter on all threads or on none.
	thread, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	const sealing = "sealing the process (seccomp): "
	switch {
	case errno != 0:
		err = hal.NewFault(hal.Denied, sealing+errno.Error())
	case thread != 0: // the kernel returns a thread that it could not synchronize
		err = hal.NewFault(hal.Denied,
			sealing+fbs.Text("thread %d already has another filter", uint64(thread)))
	}
	return err
}

// appendSealProgram appends the instructions of the filter.
func appendSealProgram(program, also []unix.SockFilter) []unix.SockFilter {
	arch := uint32(unix.AUDIT_ARCH_AARCH64)
	if goruntime.GOARCH == "amd64" {
		arch = unix.AUDIT_ARCH_X86_64
	}
	kill := bpfReturn(unix.SECCOMP_RET_KILL_PROCESS)

	// Kill a call of another architecture: its numbers mean other calls.
	program = append(program, bpfLoad(seccompArch), bpfJumpEqual(arch, 1, 0), kill)
	// For an allowed number jump to the instruction that allows, after the two of the ioctl.
	program = append(program, bpfLoad(seccompNumber))
	for i, number := range sealAllowed {
		program = append(program, bpfJumpEqual(number, len(sealAllowed)-i+2, 0))
	}
	// The only ioctl of a run is the one by which a driver sets a TLB window.
	program = append(program, bpfJumpEqual(unix.SYS_IOCTL, 0, 3), bpfLoad(seccompRequest),
		bpfJumpEqual(hal.ProgramWindowRequest, 0, 1), bpfReturn(unix.SECCOMP_RET_ALLOW))
	// The caller's instructions, then kill for everything else.
	return append(append(program, also...), kill)
}
