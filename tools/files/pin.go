package files

import "golang.org/x/sys/unix"

// This file describes to a seal which system calls the end of outputs needs.

// Pin returns the instructions by which a seccomp filter allows what Commit and Discard do
// with these files: fsync, and status, rename and removal of exactly these names in these
// directories. A filter sees addresses and not the names there. So the process must not be
// able to map or protect memory, since it could put another name there, nor to open or
// close files, since the number of a directory could get another meaning. A system call
// that no instruction allows reaches the end of the list.
func (list Outputs) Pin() []unix.SockFilter {
	program := appendAllow(nil, unix.SYS_FSYNC)
	for _, f := range list {
		f.pinned = true
		if f.nameAt == 0 {
			continue
		}
		dir, status := uintptr(f.dir), f.statusAddress()
		temp, name := nameAddress(f.names), nameAddress(f.names[f.nameAt:])
		program = appendAllow(program, unix.SYS_NEWFSTATAT, dir, name, status)
		program = appendAllow(program, unix.SYS_NEWFSTATAT, dir, temp, status)
		program = appendAllow(program, unix.SYS_RENAMEAT2, dir, temp, dir, name)
		program = appendAllow(program, unix.SYS_UNLINKAT, dir, temp, 0)
	}
	return program
}

// Offsets in struct seccomp_data (linux/seccomp.h): the number, and arguments of 64 bits,
// little endian.
const (
	seccompNumber   = 0
	seccompArgument = 16
)

// appendAllow appends instructions that allow a system call with these arguments.
func appendAllow(program []unix.SockFilter, number uint32, args ...uintptr) []unix.SockFilter {
	left := 4 * len(args) // instructions that follow a comparison before the answer
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
