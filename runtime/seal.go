package runtime

// This file seals the process: it installs a seccomp filter. From then on, the kernel kills the
// process if the process makes a system call that allocates memory, opens a file or starts a
// thread.

import (
	goruntime "runtime"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// sealAllowedSyscalls lists the system calls that a sealed process may make. No system call in the
// list creates, maps or opens anything.
var sealAllowedSyscalls = [...]uint32{
	// Reading inputs, writing outputs, and accessing PCI configuration space. If a load returns all
	// ones, a run reads configuration space, to check whether the device is still present.
	unix.SYS_WRITE, unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_PWRITE64,
	// Waiting, in a run or in Go's scheduler.
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EPOLL_PWAIT,
	unix.SYS_SCHED_YIELD, unix.SYS_RESTART_SYSCALL,
	unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	// Handling and sending signals. Go preempts goroutines with a signal (SIGURG). sigaltstack is
	// allowed because Go may have started a thread just before the seal: this thread calls
	// sigaltstack when it begins to run.
	unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL,
	unix.SYS_GETPID, unix.SYS_GETTID,
	// Ending a thread, and ending the process.
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// Offsets in bytes of fields in struct seccomp_data (linux/seccomp.h), on little-endian
// architectures. The filter reads this struct, which describes a system call.
const (
	seccompNumberOffset  = 0  // nr: number of the system call
	seccompArchOffset    = 4  // arch: architecture of the system call
	seccompRequestOffset = 24 // lower half of args[1]: the request, if the system call is an ioctl
)

// bpfLoad returns an instruction of the filter. The instruction loads the 32-bit word at the given
// offset in struct seccomp_data.
func bpfLoad(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// bpfReturn returns an instruction of the filter. The instruction ends the filter. The parameter
// `action` is a constant SECCOMP_RET_..., which makes the kernel execute the system call or kill
// the process.
func bpfReturn(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// bpfSkip returns an instruction of the filter. The instruction compares the parameter `value` with
// the word that the last bpfLoad loaded. If the two are equal, the filter skips the next `ifEqual`
// instructions; otherwise it skips the next `ifDifferent` instructions.
func bpfSkip(value uint32, ifEqual, ifDifferent int) unix.SockFilter {
	return unix.SockFilter{
		Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		Jt:   uint8(ifEqual), Jf: uint8(ifDifferent), K: value,
	}
}

// Seal installs a seccomp filter on all threads of the process. As soon as a thread makes a system
// call that the filter does not allow, the kernel kills the process. The filter allows the system
// calls in sealAllowedSyscalls, and the ioctl with which Tenstorrent's driver programs a TLB
// window. A process cannot remove the filter. The caller must call Freeze before Seal, and must
// have opened every file that it will write. Seal supports amd64 and arm64. The error is a
// *hal.Fault.
//
// Later, the caller must allocate nothing: Go may map memory for that.
//
// The parameter `extra` contains more instructions of the filter, with which the caller can allow
// more system calls. These instructions must load each word of struct seccomp_data that they
// compare. For a system call that they do not allow, they must jump to the end of `extra`, after
// which Seal appends an instruction that kills the process.
func Seal(extra ...unix.SockFilter) (err error) {
	prepareMemoryFault()
	// If `extra` is empty, the filter fits into this array on the stack, and append does not
	// allocate memory.
	var room [len(sealAllowedSyscalls) + 9]unix.SockFilter
	program := appendSealProgram(room[:0], extra)
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}

	// Forbid this thread to gain privileges (PR_SET_NO_NEW_PRIVS), because seccomp requires this.
	// If prctl fails, seccomp fails too, and Seal returns the error of seccomp. prctl affects only
	// the calling thread, and the same thread must call seccomp. Therefore both calls are raw
	// system calls. During other system calls, Go may move the goroutine to another thread.
	unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	// Install the filter on all threads (TSYNC). If this fails for one thread, the kernel installs
	// the filter on no thread.
	thread, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	const cannotSeal = "cannot seal the process (seccomp): "
	switch {
	case errno != 0:
		err = hal.NewFault(hal.Denied, cannotSeal+errno.Error())
	case thread != 0: // id of a thread on which the kernel could not install the filter
		err = hal.NewFault(hal.Denied,
			cannotSeal+fbs.Text("thread %d has a seccomp filter of its own", uint64(thread)))
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

// prepareMemoryFault makes Go need no memory from the kernel for the panic of a memory fault. Go
// allocates values of one size in spans of 8 KiB; the one at the beginning of a span is followed by
// room for 300 more.
func prepareMemoryFault() {
	const spanBytes = 8 << 10
	for lastPanicValue == nil || uintptr(unsafe.Pointer(lastPanicValue))%spanBytes != 0 {
		lastPanicValue = new(panicValue)
	}
}

// appendSealProgram appends all instructions of the filter to the slice `program`. The filter
// executes the instructions in `extra` for a system call that no earlier instruction allows.
func appendSealProgram(program, extra []unix.SockFilter) []unix.SockFilter {
	arch := uint32(unix.AUDIT_ARCH_AARCH64)
	if goruntime.GOARCH == "amd64" {
		arch = unix.AUDIT_ARCH_X86_64
	}
	kill := bpfReturn(unix.SECCOMP_RET_KILL_PROCESS)

	// Kill the process if it makes a system call of another architecture, such as the 32-bit
	// variant. In another architecture, the same number means another system call.
	program = append(program, bpfLoad(seccompArchOffset), bpfSkip(arch, 1, 0), kill)
	// Compare the number of the system call with each number in sealAllowedSyscalls. If two numbers
	// are equal, jump to the instruction that returns SECCOMP_RET_ALLOW. The jump skips the
	// comparisons with the remaining numbers, and the three instructions that check an ioctl.
	program = append(program, bpfLoad(seccompNumberOffset))
	for i, number := range sealAllowedSyscalls {
		program = append(program, bpfSkip(number, len(sealAllowedSyscalls)-i+2, 0))
	}
	// Allow an ioctl only if its request is the one with which the driver programs a TLB window.
	program = append(program, bpfSkip(unix.SYS_IOCTL, 0, 3), bpfLoad(seccompRequestOffset),
		bpfSkip(hal.ProgramWindowRequest, 0, 1), bpfReturn(unix.SECCOMP_RET_ALLOW))
	// Execute the caller's instructions. If they do not allow the system call, kill the process.
	return append(append(program, extra...), kill)
}
