package runtime

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// available is how many bytes of memory the machine can still give, and how
// many more in huge pages, which host windows may lie in. Limits on a group of
// processes are not looked at, and for a MiB nothing is: that takes 20 to 50 us.
func availableMemory(wanted uint64) (pages, huge uint64) {
	if pages = 1 << 20; wanted > pages {
		text, _ := hal.ReadText("/proc/meminfo") // empty where there is none
		pages, huge = parseMeminfo(text)
	}
	return pages, huge
}

func parseMeminfo(meminfo string) (pages, huge uint64) {
	pages = numberAfter(meminfo, "MemAvailable:") << 10
	if pages == 0 { // no /proc
		var system unix.Sysinfo_t
		_ = unix.Sysinfo(&system) // cannot fail
		pages = uint64(system.Totalram) * uint64(system.Unit)
	}
	return pages, numberAfter(meminfo, "HugePages_Free:") * numberAfter(meminfo,
		"Hugepagesize:") << 10
}

// after is the text behind a name, empty where there is none.
func textAfter(text, name string) string {
	for len(text) > len(name) && text[:len(name)] != name {
		text = text[1:]
	}
	return text[min(len(name), len(text)):]
}

// numberAfter is the number behind a name and blanks, 0 where there is none.
func numberAfter(text, name string) (n uint64) {
	for text = textAfter(text, name); text != "" && text[0] <= '9' &&
		(text[0] >= '0' || n == 0); text = text[1:] {
		n = 10*n + uint64(max(text[0], '0')-'0')
	}
	return n
}
