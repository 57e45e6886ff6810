package runtime

import (
	"testing"

	"lightmetal/hal"
)

func TestAvailableMemoryIsReadFromMeminfo(t *testing.T) {
	// a kernel whose pages have 16 KiB
	const meminfo = "MemTotal:       131072000 kB\nMemFree:         1000 kB\n" +
		"MemAvailable:    2000 kB\nHugePages_Total:      16\nHugePages_Free:       16\n" +
		"Hugepagesize:      32768 kB\n"
	for free, want := range map[string]uint64{"3\n": 3 << 21, "0\n": 0, "": 0} {
		if pages, huge := parseMemory(meminfo, free); pages != 2000<<10 || huge != want {
			t.Errorf("free huge pages of 2 MiB: %q: %d bytes in pages and %d in huge pages, want "+
				"%d and %d", free, pages, huge, 2000<<10, want)
		}
	}
	total, _ := parseMemory("", "")
	if pages, _ := availableMemoryFor(1 << 40); pages == 0 || pages >= total {
		t.Errorf("%d bytes are available, want more than 0 and less than the total of %d", pages,
			total)
	}
	if long, _ := hal.ReadText("/proc/self/smaps"); len(long) <= 4096 {
		t.Errorf("ReadText of /proc/self/smaps: %d bytes, want more than a page", len(long))
	}
}
