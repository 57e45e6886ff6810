package runtime

// Memory that is available, and the text of /proc.

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// availableMemory returns how many bytes of memory the machine can provide without swapping, and
// how many more in free huge pages, which host windows may use. Only MemAvailable of
// /proc/meminfo counts page cache that can be dropped: sysinfo(2) has free memory and total
// memory, of which one rejects images that fit and the other accepts images that wake the OOM
// killer. Limits of control groups are not read. Up to 1 MiB is assumed to be there, because
// reading the file takes 20 to 50 us.
func availableMemory(wanted uint64) (pages, huge uint64) {
	if pages = 1 << 20; wanted > pages {
		text, _ := hal.ReadText("/proc/meminfo") // empty if /proc is not mounted
		pages, huge = parseMeminfo(text)
	}
	return pages, huge
}

// parseMeminfo returns the available bytes and the bytes in free huge pages. Without /proc it
// returns the total memory of the machine.
func parseMeminfo(meminfo string) (pages, huge uint64) {
	pages = numberAfter(meminfo, "MemAvailable:") << 10
	if pages == 0 {
		var system unix.Sysinfo_t
		_ = unix.Sysinfo(&system) // cannot fail
		pages = uint64(system.Totalram) * uint64(system.Unit)
	}
	hugePages, kib := numberAfter(meminfo, "HugePages_Free:"), numberAfter(meminfo, "Hugepagesize:")
	return pages, hugePages * kib << 10
}

// textAfter returns the part of text that follows name, empty if name does not occur.
// noinline: a copy at each of its calls would take a KiB.
//
//go:noinline
func textAfter(text, name string) string {
	for len(text) > len(name) && text[:len(name)] != name {
		text = text[1:]
	}
	return text[min(len(name), len(text)):]
}

// numberAfter returns the number that follows name and blanks in text, 0 if none exists.
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
