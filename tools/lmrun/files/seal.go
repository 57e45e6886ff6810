package files

import "golang.org/x/sys/unix"

// PrepareSeal returns the seccomp instructions that let a process commit and discard the outputs
// after runtime.Seal:
//   - fsync(2) with any descriptor,
//   - renaming and removing, but only with the directories and names of these outputs,
//   - after AllowReadOld, locking the directory and opening the file with the final name.
//
// The filter continues after them for all other calls. From now on, Commit and Discard close
// nothing, because runtime.Seal forbids closing.
//
// A filter can compare the address of a name, but not its text, and the number of a descriptor, but
// not its file. The rest of the filter must forbid mapping memory and changing its protection, so
// that the text stays, and closing, so that each number keeps its file.
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

// Offsets in struct seccomp_data (linux/seccomp.h). appendAllow compares 64-bit arguments in two
// halves, the lower half first (little-endian).
const (
	seccompNumberOffset    = 0  // nr
	seccompArgumentsOffset = 16 // args, 8 bytes each
)

// appendAllow allows a system call if its first arguments have the values in args.
func appendAllow(program []unix.SockFilter, syscall uint32, args ...uintptr) []unix.SockFilter {
	// Each comparison, of the number of the call or of half an argument, is a load and a jump. If
	// it fails, the filter skips the instructions that are left, and the last one, which allows the
	// call.
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
