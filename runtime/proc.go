package runtime

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// available is how many bytes of memory the machine can still give, and how
// many more in huge pages, which host windows may lie in. Limits on a group of
// processes are not looked at.
func available() (pages, huge uint64) { return memory(kernelText("/proc/meminfo")) }

func memory(meminfo string) (pages, huge uint64) {
	pages = numberAfter(meminfo, "MemAvailable:") << 10
	if pages == 0 { // no /proc
		var system unix.Sysinfo_t
		_ = unix.Sysinfo(&system) // cannot fail
		pages = uint64(system.Totalram) * uint64(system.Unit)
	}
	return pages, numberAfter(meminfo, "HugePages_Free:") * numberAfter(meminfo, "Hugepagesize:") << 10
}

// numberAfter is the number behind a name and blanks, 0 where there is none.
func numberAfter(text, name string) (n uint64) {
	for ; len(text) > len(name); text = text[1:] {
		for i := len(name); text[:len(name)] == name && i < len(text) && text[i] <= '9'; i++ {
			if text[i] < '0' && n > 0 {
				return n
			}
			n = 10*n + uint64(max(text[i], '0')-'0')
		}
	}
	return n
}

// kernelText is a file of /proc or /sys, empty where there is none.
func kernelText(path string) string {
	text, _ := hal.ReadText(path)
	return text
}
