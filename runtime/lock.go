package runtime

// This file locks the memory of the process, so that the kernel does not evict pages that a run
// needs.

import (
	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// LockMemory locks all memory that the process has mapped: the payload of images, default data of
// inputs, the program itself, and Go's heap and stacks. It reads the pages of files that are not in
// memory yet. Afterwards the kernel evicts none of these pages. Therefore no run has to wait until
// a page has been read.
//
// Freeze locks only commands and arena. A process that calls LockMemory should call it after
// Freeze, because Freeze maps memory, and before Seal, because Seal forbids LockMemory. Memory that
// is mapped later is not locked.
//
// The error is a *hal.Fault with the code hal.Denied if RLIMIT_MEMLOCK is too small. This limit
// must allow all mappings, including about 40 MB that Go has mapped but hardly uses.
func LockMemory() error {
	text, err := hal.ReadText("/proc/self/maps")
	for text != "" && err == nil {
		var line string
		line, text = hal.Cut(text, '\n')
		err = lockMapping(line)
	}
	return err
}

// lockMapping locks the mapping that one line of /proc/self/maps describes, for example
// "00400000-0048a000 r-xp 00000000 fd:03 960637 /sbin/lmrun". It skips two kinds of mappings. One
// kind is address space that the process cannot read: Go reserves gigabytes of it. The other is the
// vsyscall page of amd64, which cannot be locked. Its address is above addressMax. For mappings of
// BARs, mlock2 does nothing.
func lockMapping(line string) error {
	addresses, rest := hal.Cut(line, ' ')
	first, end := hal.Cut(addresses, '-')
	const addressMax = 1<<63 - 1
	from, isUserSpace := hal.ParseNumber(first, 16, addressMax)
	to, _ := hal.ParseNumber(end, 16, addressMax)
	if !isUserSpace || rest[0] != 'r' {
		return nil
	}
	for range 3 { // skip permissions, offset and device
		_, rest = hal.Cut(rest, ' ')
	}
	// Lock a page of anonymous memory (inode number 0) only when the page is first used. Go maps
	// tables of 32 MiB, but uses only a few of their pages.
	flags := uintptr(0)
	if rest[0] == '0' {
		flags = unix.MLOCK_ONFAULT
	}
	_, _, errno := unix.Syscall(unix.SYS_MLOCK2, uintptr(from), uintptr(to-from), flags)
	if errno == 0 {
		return nil
	}
	return hal.NewFault(hal.Denied, fbs.Text("cannot lock %d bytes of memory: ", to-from)+
		errno.Error()+"; raise RLIMIT_MEMLOCK with `ulimit -l unlimited`")
}
