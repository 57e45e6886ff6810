package runtime

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// availableMemoryFor returns the bytes that the machine can provide without swapping (just 1 MiB if
// that is enough), and those in free huge pages of 2 MiB, which only host windows use. Limits of
// control groups do not count.
func availableMemoryFor(needed uint64) (available, inHugePages uint64) {
	if available = 1 << 20; needed > available { // reading meminfo takes 20 to 50 us
		meminfo, _ := hal.ReadText("/proc/meminfo") // empty if /proc is not mounted
		freeHuge, _ := hal.ReadText("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
		available, inHugePages = parseMemory(meminfo, freeHuge)
	}
	return available, inHugePages
}

// parseMemory reads MemAvailable, which includes page cache that the kernel can drop, or else the
// total memory. HugePages_Free of meminfo counts pages of the default size, which hal does not use.
func parseMemory(meminfo, freeHugePages string) (available, inHugePages uint64) {
	available = numberAfter(meminfo, "MemAvailable:") << 10
	if available == 0 {
		var system unix.Sysinfo_t
		_ = unix.Sysinfo(&system) // cannot fail
		available = uint64(system.Totalram) * uint64(system.Unit)
	}
	return available, numberAfter(freeHugePages, "") << 21
}

// numberAfter returns the decimal number after name and blanks in text, or 0.
func numberAfter(text, name string) (n uint64) {
	for len(text) > len(name) && text[:len(name)] != name {
		text = text[1:]
	}
	for _, digit := range []byte(text[min(len(name), len(text)):]) {
		switch {
		case digit >= '0' && digit <= '9':
			n = 10*n + uint64(digit-'0')
		case digit != ' ':
			return n
		}
	}
	return n
}
