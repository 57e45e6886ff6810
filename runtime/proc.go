package runtime

// This file reads the amount of available memory, and searches the text of files in /proc.

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// availableMemoryFor returns the bytes that the machine can provide without swapping, and those in
// free huge pages of 2 MiB, which only host windows use. If the caller needs at most 1 MiB, it
// returns 1 MiB and 0 without reading files, because reading /proc/meminfo takes 20 to 50 us.
//
// The first result is MemAvailable of /proc/meminfo, which includes page cache that the kernel can
// drop. sysinfo(2) returns only the free memory and the total memory. With the free memory, Load
// would reject images that fit. With the total memory, Load would accept images that do not fit.
// availableMemoryFor does not consider memory limits of control groups.
func availableMemoryFor(needed uint64) (available, inHugePages uint64) {
	if available = 1 << 20; needed > available {
		meminfo, _ := hal.ReadText("/proc/meminfo") // empty if /proc is not mounted
		freeHuge, _ := hal.ReadText("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
		available, inHugePages = parseMemory(meminfo, freeHuge)
	}
	return available, inHugePages
}

// parseMemory returns the total memory if meminfo is empty. HugePages_Free of meminfo counts pages
// of the default size, which hal does not use.
func parseMemory(meminfo, freeHugePages string) (available, inHugePages uint64) {
	available = numberAfter(meminfo, "MemAvailable:") << 10
	if available == 0 {
		var system unix.Sysinfo_t
		_ = unix.Sysinfo(&system) // cannot fail
		available = uint64(system.Totalram) * uint64(system.Unit)
	}
	return available, numberAfter(freeHugePages, "") << 21
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
