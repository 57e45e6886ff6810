//go:build world

package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// auditArch is AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64 (linux/audit.h).
var auditArch = map[bool]uint32{true: 0xc000003e, false: 0xc00000b7}[unix.SYS_READ == 0]

// filterAllows reports whether a seccomp filter allows a system call. It executes the instructions
// of BPF that the runner's filters use (linux/seccomp.h, linux/filter.h), and denies the call at
// any other instruction.
func filterAllows(filter []unix.SockFilter, arch uint32, number uintptr, a [6]uintptr) bool {
	var data [64]byte
	*(*uint32)(unsafe.Pointer(&data[0])), *(*uint32)(unsafe.Pointer(&data[4])) = uint32(number),
		arch
	for i, n := range a {
		*(*uint64)(unsafe.Pointer(&data[16+8*i])) = uint64(n)
	}
	accumulator := uint32(0)
	for at := 0; at < len(filter); at++ {
		switch c := filter[at]; c.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			accumulator = *(*uint32)(unsafe.Pointer(&data[c.K]))
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			if accumulator == c.K {
				at += int(c.Jt)
			} else {
				at += int(c.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			return c.K == unix.SECCOMP_RET_ALLOW
		default:
			return false
		}
	}
	return false
}

// forbiddenCalls are system calls that a sealed process must not make, whatever the arguments.
var forbiddenCalls = []uintptr{unix.SYS_OPENAT, unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MUNMAP,
	unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_EXECVE,
	unix.SYS_SOCKET, unix.SYS_IOCTL, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT,
	unix.SYS_LINKAT, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_PTRACE, unix.SYS_MADVISE,
	unix.SYS_MEMFD_CREATE, unix.SYS_KILL, unix.SYS_MOUNT, unix.SYS_DUP, unix.SYS_FCNTL,
	unix.SYS_SECCOMP, unix.SYS_PRCTL, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_IO_URING_SETUP,
	unix.SYS_CLOSE}

// installFilter simulates seccomp: it adds a filter and checks that the filter allows and forbids
// the right system calls.
func (m *machine) installFilter(a [6]uintptr) (uintptr, unix.Errno) {
	if a[0] != unix.SECCOMP_SET_MODE_FILTER || a[1]&unix.SECCOMP_FILTER_FLAG_TSYNC == 0 ||
		!m.noNewPrivileges {
		return ^uintptr(0), unix.EACCES
	}
	p := (*unix.SockFprog)(unsafe.Pointer(a[2]))
	m.seccompFilter = append(m.seccompFilter, unsafe.Slice(p.Filter, int(p.Len))...)
	if filterAllows(m.seccompFilter, auditArch^1, unix.SYS_WRITE, [6]uintptr{}) {
		m.w.errorf("the filter allows system calls of another architecture")
	}
	const cwd = ^uintptr(99) // AT_FDCWD
	for _, number := range forbiddenCalls {
		for _, arguments := range [][6]uintptr{{}, {3, 0x5401}, {cwd, 0x1000, cwd, 0x2000},
			{1, 2, 3, 4, 5, 6}} {
			if filterAllows(m.seccompFilter, auditArch, number, arguments) {
				m.w.errorf("the filter allows system call %d with arguments %#x", number, arguments)
			}
		}
	}
	for _, number := range []uintptr{unix.SYS_WRITE, unix.SYS_READ, unix.SYS_PREAD64,
		unix.SYS_PWRITE64, unix.SYS_NANOSLEEP, unix.SYS_EXIT_GROUP, unix.SYS_FUTEX,
		unix.SYS_RT_SIGRETURN} {
		if !filterAllows(m.seccompFilter, auditArch, number, [6]uintptr{}) {
			m.w.errorf("the filter forbids system call %d", number)
		}
	}
	return 0, 0
}

// checkFilter checks that the filter, if there is one, allows a system call.
func (m *machine) checkFilter(number uintptr, a [6]uintptr) {
	if m.seccompFilter != nil && !filterAllows(m.seccompFilter, auditArch, number, a) {
		m.w.errorf("the filter would kill the process at system call %d with arguments %#x",
			number, a)
	}
}
