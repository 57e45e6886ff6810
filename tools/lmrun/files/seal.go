package files

import "golang.org/x/sys/unix"

// This file creates the seccomp instructions that allow a sealed process to commit its outputs. A
// sealed process is a process that has called runtime.Seal, which installs a seccomp filter.

// SealRules returns seccomp instructions that allow the system calls of Commit and Discard. The
// instructions allow fsync(2) with any file descriptor. They allow reading the status, renaming
// and removing only with the directories and names of the outputs in the list. After a call of
// SealRules, Commit and Discard do not close file descriptors, because the seal forbids that.
//
// A seccomp filter can compare only the address of a name, and not the name itself. Therefore the
// rest of the filter must forbid mapping memory and changing the protection of memory. Otherwise
// the process could store another name at the same address. The filter must also forbid opening
// and closing files. Otherwise the same file descriptor could later refer to another directory.
//
// For all other system calls, the filter continues with the instruction after those that
// SealRules returns.
func (list Outputs) SealRules() []unix.SockFilter {
	program := appendAllow(nil, unix.SYS_FSYNC)
	for _, f := range list {
		f.sealed = true
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

// Offsets of the fields of struct seccomp_data, in bytes (linux/seccomp.h). The code that uses
// them assumes a little-endian architecture.
const (
	seccompNumber   = 0  // field nr: the number of the system call
	seccompArgument = 16 // field args: the arguments, 8 bytes each
)

// appendAllow appends instructions to program that allow the system call with the given number
// if its first arguments have the values in args. Arguments after these can have any value.
func appendAllow(program []unix.SockFilter, syscall uint32, args ...uintptr) []unix.SockFilter {
	// left is the number of instructions of the comparisons that follow the next comparison. A
	// failed comparison skips these instructions and the final instruction, which allows the
	// call. Each argument has two comparisons, of 32 bits each, with two instructions each.
	left := 4 * len(args)
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
	requireEqual(seccompNumber, syscall)
	for i, arg := range args {
		offset := seccompArgument + 8*i
		requireEqual(offset, uint32(arg))
		requireEqual(offset+4, uint32(arg>>32))
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	return append(program, allow)
}
