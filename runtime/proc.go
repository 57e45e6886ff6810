package runtime

// This file finds out how much memory is available, and searches texts of /proc.

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// availableMemory returns two numbers of bytes: the memory that the machine can provide without
// swapping, and the memory in free huge pages, which host windows can use in addition. If at most
// 1 MiB is wanted, it assumes that 1 MiB is available, because reading /proc/meminfo takes 20 to
// 50 us.
//
// The first number is MemAvailable of /proc/meminfo, which includes the page cache that the kernel
// can drop. The numbers of sysinfo(2) do not replace it: with its free memory Load would reject
// images that fit, and with its total memory Load would accept images that do not. Limits of
// control groups are not considered.
func availableMemory(wanted uint64) (available, inHugePages uint64) {
	if available = 1 << 20; wanted > available {
		text, _ := hal.ReadText("/proc/meminfo") // empty if /proc is not mounted
		available, inHugePages = parseMeminfo(text)
	}
	return available, inHugePages
}

// parseMeminfo returns the bytes of available memory and the bytes in free huge pages, from the
// text of /proc/meminfo. If the text is empty, it returns the total memory of the machine and 0.
func parseMeminfo(meminfo string) (available, inHugePages uint64) {
	available = numberAfter(meminfo, "MemAvailable:") << 10
	if available == 0 {
		var system unix.Sysinfo_t
		_ = unix.Sysinfo(&system) // cannot fail
		available = uint64(system.Totalram) * uint64(system.Unit)
	}
	hugePages, kib := numberAfter(meminfo, "HugePages_Free:"), numberAfter(meminfo, "Hugepagesize:")
	return available, hugePages * kib << 10
}

// textAfter returns the part of text that follows the first occurrence of name, or "" if name does
// not occur. It is not inlined, because the copies at its calls would add 1 KiB to the program.
//
//go:noinline
func textAfter(text, name string) string {
	for len(text) > len(name) && text[:len(name)] != name {
		text = text[1:]
	}
	return text[min(len(name), len(text)):]
}

// numberAfter returns the decimal number that follows name and blanks in text, or 0 if name does
// not occur. It is not inlined, because the copies at its calls would make the program larger.
//
//go:noinline
func numberAfter(text, name string) (n uint64) {
	for _, digit := range []byte(textAfter(text, name)) {
		switch {
		case digit >= '0' && digit <= '9':
			n = 10*n + uint64(digit-'0')
		case digit != ' ':
			return n
		}
	}
	return n
}
