package runtime

// This file reads the amount of available memory from /proc/meminfo, and contains functions that
// search the text of files in /proc.

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// availableMemoryFor returns the memory that the machine can provide without swapping, and the
// memory in free huge pages, both in bytes. Only host windows can use huge pages. The parameter
// `needed` is the number of bytes that the caller needs. If it is at most 1 MiB, availableMemoryFor
// returns 1 MiB and 0 and does not read /proc/meminfo, because reading this file takes 20 to 50 us.
//
// The first result is MemAvailable of /proc/meminfo, which includes page cache that the kernel can
// drop. sysinfo(2) returns only the free memory and the total memory. With the free memory, Load
// would reject images that fit. With the total memory, Load would accept images that do not fit.
// availableMemoryFor does not consider memory limits of control groups.
func availableMemoryFor(needed uint64) (available, inHugePages uint64) {
	if available = 1 << 20; needed > available {
		text, _ := hal.ReadText("/proc/meminfo") // empty if /proc is not mounted
		available, inHugePages = parseMeminfo(text)
	}
	return available, inHugePages
}

// parseMeminfo returns the available memory and the memory in free huge pages, both in bytes. The
// parameter `meminfo` is the text of /proc/meminfo. If the text is empty, parseMeminfo returns the
// total memory of the machine and 0.
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

// textAfter returns the part of `text` after the first occurrence of `name`. It returns "" if
// `name` does not occur in `text`. The compiler must not inline textAfter, because the inlined
// copies would add 1 KiB to the program.
//
//go:noinline
func textAfter(text, name string) string {
	for len(text) > len(name) && text[:len(name)] != name {
		text = text[1:]
	}
	return text[min(len(name), len(text)):]
}

// numberAfter returns the decimal number that follows `name` in `text`. It skips blanks between the
// name and the number. It returns 0 if `name` does not occur in `text`. The compiler must not
// inline numberAfter, because the inlined copies would make the program larger.
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
