//go:build world

package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// audit is AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64 (linux/audit.h).
var audit = map[bool]uint32{true: 0xc000003e, false: 0xc00000b7}[unix.SYS_READ == 0]

// allows is what a seccomp filter says of a system call: the part of BPF that one
// may be made of (linux/seccomp.h, linux/filter.h).
func allows(filter []unix.SockFilter, arch uint32, number uintptr, a [6]uintptr) bool {
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

// forbidden are system calls of which a seal allows none, with whatever arguments.
var forbidden = []uintptr{unix.SYS_OPENAT, unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MUNMAP,
	unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_EXECVE,
	unix.SYS_SOCKET, unix.SYS_IOCTL, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT,
	unix.SYS_LINKAT, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_PTRACE, unix.SYS_MADVISE,
	unix.SYS_MEMFD_CREATE, unix.SYS_KILL, unix.SYS_MOUNT, unix.SYS_DUP, unix.SYS_FCNTL,
	unix.SYS_SECCOMP, unix.SYS_PRCTL, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_IO_URING_SETUP,
	unix.SYS_CLOSE}

// seal takes a filter, as the kernel does, and holds it against what a seal is for.
func (m *machine) seal(a [6]uintptr) (uintptr, unix.Errno) {
	if a[0] != unix.SECCOMP_SET_MODE_FILTER || a[1]&unix.SECCOMP_FILTER_FLAG_TSYNC == 0 ||
		!m.shielded {
		return ^uintptr(0), unix.EACCES
	}
	p := (*unix.SockFprog)(unsafe.Pointer(a[2]))
	m.filter = append(m.filter, unsafe.Slice(p.Filter, int(p.Len))...)
	if allows(m.filter, audit^1, unix.SYS_WRITE, [6]uintptr{}) {
		m.w.violate("the seal is none for another architecture's numbers")
	}
	const cwd = ^uintptr(99) // AT_FDCWD
	for _, number := range forbidden {
		for _, arguments := range [][6]uintptr{{}, {3, 0x5401}, {cwd, 0x1000, cwd, 0x2000},
			{1, 2, 3, 4, 5, 6}} {
			if allows(m.filter, audit, number, arguments) {
				m.w.violate("the seal allows system call %d with %#x", number, arguments)
			}
		}
	}
	for _, number := range []uintptr{unix.SYS_WRITE, unix.SYS_READ, unix.SYS_PREAD64,
		unix.SYS_PWRITE64, unix.SYS_NANOSLEEP, unix.SYS_EXIT_GROUP, unix.SYS_FUTEX,
		unix.SYS_RT_SIGRETURN} {
		if !allows(m.filter, audit, number, [6]uintptr{}) {
			m.w.violate("the seal forbids system call %d", number)
		}
	}
	return 0, 0
}

// sealed holds a system call against the filter, if there is one.
func (m *machine) sealed(number uintptr, a [6]uintptr) {
	if m.filter != nil && !allows(m.filter, audit, number, a) {
		m.w.violate("system call %d with %#x behind the seal, which would have killed the process",
			number, a)
	}
}
