package runtime

import (
	goruntime "runtime"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// sealAllowed are the system calls of a sealed process: output, waiting, time,
// configuration space, also to tell a failing device from one that is
// gone, the way out, and what Go does on its own account: its preemption
// signals, looking for work, and the signal stack of a thread that was still
// starting, as Go's monitor may be. None of them makes, maps or opens anything.
var sealAllowed = [...]uint32{
	unix.SYS_WRITE, unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_PWRITE64,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EPOLL_PWAIT,
	unix.SYS_SCHED_YIELD, unix.SYS_RESTART_SYSCALL,
	unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL,
	unix.SYS_GETPID, unix.SYS_GETTID,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// Offsets of nr, arch and the lower half of args[1] in struct seccomp_data
// (linux/seccomp.h; both architectures are little endian).
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
func bpfJumpEqual(value uint32, yes, no int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(yes),
		Jf: uint8(no), K: value}
}

// Seal makes the kernel kill the whole process at the first system call that
// is not one of a few which neither make, map nor open anything, on every
// thread and for good. Files that are written later must be open by now. Also
// are instructions that may allow more, and otherwise end behind their last;
// they begin by loading what they judge. Call it after Freeze, on amd64 or arm64.
// The error is a *hal.Fault.
func Seal(also ...unix.SockFilter) (err error) {
	// a constant below: off the heap
	kill, n := bpfReturn(unix.SECCOMP_RET_KILL_PROCESS), len(sealAllowed)
	arch := uint32(unix.AUDIT_ARCH_AARCH64)
	if goruntime.GOARCH == "amd64" {
		arch = unix.AUDIT_ARCH_X86_64
	}
	program := append(make([]unix.SockFilter, 0, len(sealAllowed)+9), bpfLoad(seccompArch),
		bpfJumpEqual(arch, 1, 0), kill, bpfLoad(seccompNumber))
	for i, number := range sealAllowed {
		program = append(program, bpfJumpEqual(number, n-i+2, 0)) // to the answer behind the ioctl
	}
	// The one ioctl that a run makes aims a window by the device's driver.
	program = append(program, bpfJumpEqual(unix.SYS_IOCTL, 0, 3), bpfLoad(seccompRequest),
		bpfJumpEqual(hal.ProgramWindowRequest, 0, 1), bpfReturn(unix.SECCOMP_RET_ALLOW))
	program = append(append(program, also...), kill)

	// Raw: the promise is the thread's, which Go may change between other calls. If it fails, so
	// does the second.
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	thread, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	const sealing = "sealing the process (seccomp): "
	switch {
	case errno != 0:
		err = hal.NewFault(hal.Denied, sealing+errno.Error())
	// no thread is sealed where one cannot be, and the kernel then gives that thread in place of an
	// error
	case thread != 0:
		err = hal.NewFault(hal.Denied, sealing+
			fbs.Text("thread %d has a filter of its own", uint64(thread)))
	}
	return err
}
