package files

import "golang.org/x/sys/unix"

// This file creates the seccomp instructions that allow a sealed process to commit its outputs. A
// process is sealed after a call of runtime.Seal, which installs a seccomp filter. The filter
// forbids most system calls.

// SealRules returns seccomp instructions that allow the system calls of Commit and Discard. The
// instructions allow fsync(2) with any file descriptor. They allow a sealed process to read the
// status of a file, to rename a file and to remove a file only with the directories and names of
// the outputs in the list. After a call of SealRules, Commit and Discard do not close file
// descriptors, because runtime.Seal forbids closing.
//
// A seccomp filter can compare only the address of a name, and not the name itself. Therefore the
// rest of the filter must forbid mapping memory and changing the protection of memory. Otherwise
// the process could store another name at the same address. The filter also compares only the
// number of a file descriptor. Therefore the rest of the filter must forbid opening and closing
// files. Otherwise the same number could later refer to another directory.
//
// For all other system calls, the filter continues after the instructions that SealRules returns.
func (list Outputs) SealRules() []unix.SockFilter {
	program := appendAllow(nil, unix.SYS_FSYNC)
	for _, f := range list {
		f.isSealed = true
		if f.finalNameOffset == 0 {
			continue
		}
		dir, status := uintptr(f.dirFD), f.statusAddress()
		temp, name := nameAddress(f.names), nameAddress(f.names[f.finalNameOffset:])
		program = appendAllow(program, unix.SYS_NEWFSTATAT, dir, name, status)
		program = appendAllow(program, unix.SYS_NEWFSTATAT, dir, temp, status)
		program = appendAllow(program, unix.SYS_RENAMEAT2, dir, temp, dir, name)
		program = appendAllow(program, unix.SYS_UNLINKAT, dir, temp, 0)
	}
	return program
}

// Offsets of the fields of struct seccomp_data, in bytes (linux/seccomp.h). appendAllow compares
// 64-bit arguments in two halves and assumes that the lower half comes first (little-endian).
const (
	seccompNumberOffset    = 0  // field nr: the number of the system call
	seccompArgumentsOffset = 16 // field args: the arguments, 8 bytes each
)

// appendAllow appends instructions to program. These instructions allow the system call with the
// given number if its first arguments have the values in args. The arguments that follow can have
// any value.
func appendAllow(program []unix.SockFilter, syscall uint32, args ...uintptr) []unix.SockFilter {
	// The instructions compare the number of the system call, and then each argument in two halves
	// of 32 bits. Each comparison has two instructions: one loads a value, and the other compares
	// the value. The last instruction allows the call.
	//
	// left is the number of instructions between the current comparison and the last instruction.
	// If a comparison fails, the filter skips these instructions and the last one.
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
	requireEqual(seccompNumberOffset, syscall)
	for i, arg := range args {
		offset := seccompArgumentsOffset + 8*i
		requireEqual(offset, uint32(arg))
		requireEqual(offset+4, uint32(arg>>32))
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	return append(program, allow)
}
