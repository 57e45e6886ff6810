package runtime

import (
	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// LockMemory locks all memory that the process has mapped: payload, default data of inputs, the
// program itself, and Go's heap and stacks. Pages of files are read first. Call it after Freeze,
// which maps memory, and before Seal, which forbids locking.
//
// It fails with a *hal.Fault, with hal.Denied if RLIMIT_MEMLOCK does not allow all mappings,
// including about 40 MB that Go hardly uses.
func LockMemory() error {
	text, err := hal.ReadText("/proc/self/maps")
	for text != "" && err == nil {
		var line string
		line, text = hal.Cut(text, '\n')
		err = lockMapping(line)
	}
	return err
}

// lockMapping locks the mapping of a line of /proc/self/maps, such as
//
//	00400000-0048a000 r-xp 00000000 fd:03 960637 /sbin/lmrun
func lockMapping(line string) error {
	addresses, rest := hal.Cut(line, ' ')
	first, end := hal.Cut(addresses, '-')
	const addressMax = 1<<63 - 1
	from, isUserSpace := hal.ParseNumber(first, 16, addressMax)
	to, _ := hal.ParseNumber(end, 16, addressMax)
	// Skip what Go only reserves, and the vsyscall page of amd64, which cannot be locked.
	if !isUserSpace || rest[0] != 'r' {
		return nil
	}
	for range 3 { // skip permissions, offset and device
		_, rest = hal.Cut(rest, ' ')
	}
	// Anonymous memory (inode 0) only on its first use: Go maps tables of 32 MiB, but uses a few
	// pages of them.
	flags := uintptr(0)
	if rest[0] == '0' {
		flags = unix.MLOCK_ONFAULT
	}
	// For BARs, mlock2 does nothing.
	_, _, errno := unix.Syscall(unix.SYS_MLOCK2, uintptr(from), uintptr(to-from), flags)
	if errno == 0 {
		return nil
	}
	return hal.NewFault(hal.Denied, fbs.Text("cannot lock %d bytes of memory: ", to-from)+
		errno.Error()+"; raise RLIMIT_MEMLOCK with `ulimit -l unlimited`")
}
