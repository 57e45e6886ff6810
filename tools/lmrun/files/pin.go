package files

import "golang.org/x/sys/unix"

// This file makes seccomp instructions that allow a sealed process to commit its outputs.

// Pin returns seccomp instructions that allow the system calls of Commit and Discard: fsync
// of any file, and the status, rename and removal of the files in the list, by their
// directories and names. After Pin, Commit and Discard do not close file descriptors.
//
// A seccomp filter compares the address of a name, not the name. Therefore the rest of the
// filter must forbid the process to map memory and to change its protection: otherwise the
// process could store another name at the address. It must also forbid opening and closing
// files: otherwise the file descriptor could refer to another directory.
//
// The instructions do not decide about other system calls: for these, the filter continues
// after the last instruction that Pin returns.
func (list Outputs) Pin() []unix.SockFilter {
	program := appendAllow(nil, unix.SYS_FSYNC)
	for _, f := range list {
		f.pinned = true
		if f.finalNameAt == 0 {
			continue
		}
		dir, status := uintptr(f.dirFD), f.statusAddress()
		temp, name := nameAddress(f.names), nameAddress(f.names[f.finalNameAt:])
		program = appendAllow(program, unix.SYS_NEWFSTATAT, dir, name, status)
		program = appendAllow(program, unix.SYS_NEWFSTATAT, dir, temp, status)
		program = appendAllow(program, unix.SYS_RENAMEAT2, dir, temp, dir, name)
		program = appendAllow(program, unix.SYS_UNLINKAT, dir, temp, 0)
	}
	return program
}

// Offsets in struct seccomp_data (linux/seccomp.h), on little-endian architectures.
const (
	seccompNumber   = 0  // nr: the number of the system call
	seccompArgument = 16 // args: the arguments, 64 bits each
)

// appendAllow appends instructions that allow the system call with the given number if its
// first arguments are those given. Further arguments may have any value.
func appendAllow(program []unix.SockFilter, number uint32, args ...uintptr) []unix.SockFilter {
	left := 4 * len(args) // number of instructions between the next comparison and the last one
	requireEqual := func(offset int, value uint32) {
		load := unix.SockFilter{
			Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS,
			K:    uint32(offset),
		}
		skipUnlessEqual := unix.SockFilter{
			Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
			Jf:   uint8(left + 1),
			K:    value,
		}
		program = append(program, load, skipUnlessEqual)
		left -= 2
	}
	requireEqual(seccompNumber, number)
	for i, arg := range args {
		offset := seccompArgument + 8*i
		requireEqual(offset, uint32(arg))
		requireEqual(offset+4, uint32(arg>>32))
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	return append(program, allow)
}
