package files

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"lightmetal/hal"
)

// Pin moves the names of files to memory that can only be read, and gives the
// instructions by which a seccomp filter allows what Commit and Discard do with
// these files: fsync, and the rename and the removal of exactly these names. A
// filter sees addresses and not what is there, so a process that may neither map
// nor protect memory can rename nothing else. Where no instruction allows, they
// end behind the last.
func (list Outputs) Pin() ([]unix.SockFilter, error) {
	var names []byte
	for _, f := range list {
		if f.pinned = true; f.to != nil {
			names = append(append(append(append(names, text(f.from)...), 0), text(f.to)...), 0)
		}
	}
	memory, err := hal.Mmap(-1, 0, len(names)+1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		copy(memory, names)
		err = unix.Mprotect(memory, unix.PROT_READ)
	}
	if err != nil {
		return nil, hal.FileFault("the names of the outputs", err)
	}
	program := allow(nil, unix.SYS_FSYNC)
	for _, f := range list {
		if f.to == nil {
			continue
		}
		for _, name := range []**byte{&f.from, &f.to} {
			size := len(text(*name)) + 1
			*name, memory = &memory[0], memory[size:]
		}
		from, to := address(f.from), address(f.to)
		program = allow(program, unix.SYS_RENAMEAT, uint64(folder), from, uint64(folder), to)
		program = allow(program, unix.SYS_UNLINKAT, uint64(folder), from, 0)
	}
	return program, nil
}

func text(name *byte) string    { return unix.BytePtrToString(name) }
func address(name *byte) uint64 { return uint64(uintptr(unsafe.Pointer(name))) }

// allow adds instructions that allow a system call with these arguments.
func allow(program []unix.SockFilter, number uint32, args ...uint64) []unix.SockFilter {
	left := 4 * len(args) // instructions before the answer
	only := func(offset int, value uint32) {
		program = append(program, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(offset)},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(left + 1), K: value})
		left -= 2
	}
	// struct seccomp_data (linux/seccomp.h): the number at 0, arguments of 64
	// bits from 16 on, of little endian.
	only(0, number)
	for i, arg := range args {
		only(16+8*i, uint32(arg))
		only(20+8*i, uint32(arg>>32))
	}
	return append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
}
