package runtime

import (
	goruntime "runtime"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// sealAllowedSyscalls create, map and open nothing.
var sealAllowedSyscalls = [...]uint32{
	// Inputs, outputs, and configuration space, which a run reads after a load of all ones.
	unix.SYS_WRITE, unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_PWRITE64,
	// Waits of runs and of Go's scheduler.
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EPOLL_PWAIT,
	unix.SYS_SCHED_YIELD, unix.SYS_RESTART_SYSCALL,
	unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	// Signals, with which Go preempts goroutines. A thread that Go has started just before the seal
	// calls sigaltstack.
	unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL,
	unix.SYS_GETPID, unix.SYS_GETTID,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// Offsets in struct seccomp_data (linux/seccomp.h), little-endian.
const (
	seccompNumberOffset  = 0  // nr
	seccompArchOffset    = 4  // arch
	seccompRequestOffset = 24 // lower half of args[1], the request of an ioctl
)

// bpfLoad loads the 32-bit word at this offset in struct seccomp_data.
func bpfLoad(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// bpfReturn ends the filter with SECCOMP_RET_ALLOW or SECCOMP_RET_KILL_PROCESS.
func bpfReturn(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// bpfSkip compares value with the loaded word, and skips so many instructions.
func bpfSkip(value uint32, ifEqual, ifDifferent int) unix.SockFilter {
	return unix.SockFilter{
		Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		Jt:   uint8(ifEqual), Jf: uint8(ifDifferent), K: value,
	}
}

// Seal installs a seccomp filter on all threads of the process, for the rest of its life. The
// kernel then kills the process at any system call other than sealAllowedSyscalls and the ioctl
// with which Tenstorrent's driver programs a TLB window. Before, the caller must call Freeze, and
// open every file that it will write. Later, it must allocate nothing: Go may map memory for that.
// Seal supports amd64 and arm64. The error is a *hal.Fault.
//
// extra are more instructions of the filter, which may allow more system calls. They must load each
// word of struct seccomp_data that they compare, and for the rest jump to their end, where Seal
// kills the process.
func Seal(extra ...unix.SockFilter) (err error) {
	prepareMemoryFault()
	// Without extra, the filter fits in here, and append does not allocate.
	var room [len(sealAllowedSyscalls) + 9]unix.SockFilter
	program := appendSealProgram(room[:0], extra)
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}

	// Without no_new_privs of this thread, seccomp fails. Both calls are raw: during others, Go may
	// move the goroutine to another thread.
	unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	// TSYNC: on all threads, or if that fails for one, on none.
	thread, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	const cannotSeal = "cannot seal the process (seccomp): "
	switch {
	case errno != 0:
		err = hal.NewFault(hal.Denied, cannotSeal+errno.Error()+
			"; the kernel needs CONFIG_SECCOMP_FILTER=y")
	case thread != 0: // its filter prevents TSYNC
		err = hal.NewFault(hal.Denied,
			cannotSeal+fbs.Text("thread %d has a seccomp filter that others lack; "+
				"install it on all threads (SECCOMP_FILTER_FLAG_TSYNC), or after the seal",
				uint64(thread)))
	}
	return err
}

// panicValue is as large as the value of Go's panic after a memory fault, and has a pointer like it
// (Go 1.26, runtime/error.go, errorAddressString).
type panicValue struct {
	_ string
	_ uintptr
}

var lastPanicValue *panicValue

// prepareMemoryFault makes room for 300 panics of memory faults: it allocates the first value of a
// new span, the 8 KiB that Go allocates for values of one size.
func prepareMemoryFault() {
	const spanBytes = 8 << 10
	for lastPanicValue == nil || uintptr(unsafe.Pointer(lastPanicValue))%spanBytes != 0 {
		lastPanicValue = new(panicValue)
	}
}

func appendSealProgram(program, extra []unix.SockFilter) []unix.SockFilter {
	arch := uint32(unix.AUDIT_ARCH_AARCH64)
	if goruntime.GOARCH == "amd64" {
		arch = unix.AUDIT_ARCH_X86_64
	}
	kill := bpfReturn(unix.SECCOMP_RET_KILL_PROCESS)

	// In another architecture, such as the 32-bit variant, the numbers mean other system calls.
	program = append(program, bpfLoad(seccompArchOffset), bpfSkip(arch, 1, 0), kill)
	// An allowed number jumps over the rest, and the check of an ioctl, to ALLOW.
	program = append(program, bpfLoad(seccompNumberOffset))
	for i, number := range sealAllowedSyscalls {
		program = append(program, bpfSkip(number, len(sealAllowedSyscalls)-i+2, 0))
	}
	program = append(program, bpfSkip(unix.SYS_IOCTL, 0, 3), bpfLoad(seccompRequestOffset),
		bpfSkip(hal.ProgramWindowRequest, 0, 1), bpfReturn(unix.SECCOMP_RET_ALLOW))
	return append(append(program, extra...), kill)
}
