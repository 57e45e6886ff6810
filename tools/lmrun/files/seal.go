package files

import "golang.org/x/sys/unix"

// This file creates the seccomp instructions that allow a sealed process to commit its outputs. A
// process is sealed after a call of runtime.Seal, which installs a seccomp filter. The filter
// forbids most system calls.

// PrepareSeal prepares the outputs for runtime.Seal. It returns seccomp instructions that allow the
// system calls of Commit and Discard:
//   - fsync(2) with any file descriptor,
//   - renaming and removing a file, but only with the directories and names of the outputs in the
//     list,
//   - after AllowReadOld, locking the directory and opening the file with the final name.
//
// For all other system calls, the filter continues after these instructions. After a call of
// PrepareSeal, Commit and Discard do not close file descriptors, because runtime.Seal forbids
// closing.
//
// A seccomp filter can compare the address of a name, but not the text at this address. Therefore
// the rest of the filter must forbid mapping memory and changing its protection, so that the text
// stays the same. The filter can compare the number of a file descriptor, but not its file.
// Therefore the rest of the filter must forbid closing files, so that each number keeps its file.
func (list Outputs) PrepareSeal() []unix.SockFilter {
	program := appendAllow(nil, unix.SYS_FSYNC)
	for _, f := range list {
		f.isSealed = true
		if f.finalNameOffset == 0 {
			continue
		}
		dir := uintptr(f.dirFD)
		temp := nameAddress(f.tempAndFinalName)
		name := nameAddress(f.tempAndFinalName[f.finalNameOffset:])
		program = appendAllow(program, unix.SYS_RENAMEAT2, dir, temp, dir, name, 0)
		program = appendAllow(program, unix.SYS_UNLINKAT, dir, temp, 0)
		if f.readsOld {
			program = appendAllow(program, unix.SYS_FLOCK, dir)
			program = appendAllow(program, unix.SYS_OPENAT, dir, name, readOldFlags)
		}
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
	// If a comparison fails, the filter skips all remaining instructions. `left` is the number of
	// instructions between the current comparison and the last instruction.
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
