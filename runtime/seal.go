package runtime

// This file seals the process: it installs a seccomp filter, with which the kernel kills the
// process if it requests memory, files or threads.

import (
	goruntime "runtime"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// sealAllowed lists the system calls that a sealed process may make. None of them creates, maps or
// opens anything.
var sealAllowed = [...]uint32{
	// Writing output, and accessing configuration space, which also shows whether a device that
	// reads all ones is still present.
	unix.SYS_WRITE, unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_PWRITE64,
	// Waiting, in runs and in Go's scheduler.
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EPOLL_PWAIT,
	unix.SYS_SCHED_YIELD, unix.SYS_RESTART_SYSCALL,
	unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	// Handling signals, among them the signal by which Go preempts goroutines. A thread that Go
	// was still starting when the process was sealed also sets its signal stack.
	unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL,
	unix.SYS_GETPID, unix.SYS_GETTID,
	// Ending a thread or the process.
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// Offsets in struct seccomp_data (linux/seccomp.h), on little-endian architectures.
const (
	seccompNumber  = 0  // nr: the number of the system call
	seccompArch    = 4  // arch: the architecture of the system call
	seccompRequest = 24 // the lower half of args[1]: the request of an ioctl
)

// bpfLoad loads the 32-bit word at an offset in struct seccomp_data.
func bpfLoad(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// bpfReturn ends the filter with an action (SECCOMP_RET_...).
func bpfReturn(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// bpfSkip skips the next ifEqual instructions if the loaded word equals value. Otherwise it skips
// the next ifDifferent instructions.
func bpfSkip(value uint32, ifEqual, ifDifferent int) unix.SockFilter {
	return unix.SockFilter{
		Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		Jt:   uint8(ifEqual), Jf: uint8(ifDifferent), K: value,
	}
}

// Seal makes the kernel kill the whole process as soon as one of its threads makes a system call
// that the filter does not allow. The filter allows the calls in sealAllowed, and the ioctl that
// sets a TLB window. A seal cannot be removed. Callers must call Seal after Freeze, and must have
// opened every file that they will write. Seal supports amd64 and arm64. The error is a
// *hal.Fault.
//
// The parameter extra has further instructions of the filter, which can allow more system calls.
// They must load each word that they compare. They must not decide about any other system call:
// for these they jump to the end of extra, after which the filter kills the process.
func Seal(extra ...unix.SockFilter) (err error) {
	// Without extra instructions the program fits this array, so that it stays on the stack.
	var room [len(sealAllowed) + 9]unix.SockFilter
	program := appendSealProgram(room[:0], extra)
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}

	// Forbid the thread to gain privileges, because seccomp requires that. If this call fails, the
	// next one fails too. Both must be raw system calls: PR_SET_NO_NEW_PRIVS applies to one thread
	// only, and during other system calls Go may move the goroutine to another thread.
	unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	// Install the filter on all threads or on none.
	thread, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	const cannotSeal = "cannot seal the process (seccomp): "
	switch {
	case errno != 0:
		err = hal.NewFault(hal.Denied, cannotSeal+errno.Error())
	case thread != 0: // the id of a thread on which the kernel could not install the filter
		err = hal.NewFault(hal.Denied,
			cannotSeal+fbs.Text("thread %d already has another filter", uint64(thread)))
	}
	return err
}

// appendSealProgram appends the instructions of the filter, with those in extra near the end.
func appendSealProgram(program, extra []unix.SockFilter) []unix.SockFilter {
	arch := uint32(unix.AUDIT_ARCH_AARCH64)
	if goruntime.GOARCH == "amd64" {
		arch = unix.AUDIT_ARCH_X86_64
	}
	kill := bpfReturn(unix.SECCOMP_RET_KILL_PROCESS)

	// Kill the process at a system call of another architecture, where the same number names
	// another system call.
	program = append(program, bpfLoad(seccompArch), bpfSkip(arch, 1, 0), kill)
	// If the number is in sealAllowed, jump over the remaining numbers and the three instructions
	// that check an ioctl, to the instruction that allows the system call.
	program = append(program, bpfLoad(seccompNumber))
	for i, number := range sealAllowed {
		program = append(program, bpfSkip(number, len(sealAllowed)-i+2, 0))
	}
	// Allow an ioctl only if its request is the one by which the driver sets a TLB window.
	program = append(program, bpfSkip(unix.SYS_IOCTL, 0, 3), bpfLoad(seccompRequest),
		bpfSkip(hal.ProgramWindowRequest, 0, 1), bpfReturn(unix.SECCOMP_RET_ALLOW))
	// Execute the instructions of the caller. Kill the process if they do not allow the system
	// call.
	return append(append(program, extra...), kill)
}
