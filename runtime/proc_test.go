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
}

// TestReadOnlySuperblockIsRecognized: the options of the superblock count, not those of a mount,
// and neither names that look like options nor truncated lines.
func TestReadOnlySuperblockIsRecognized(t *testing.T) {
	for _, test := range []struct {
		mountinfo string
		want      bool
	}{
		{"", false},
		{"22 1 259:2 / / ro,relatime shared:1 - ext4 /dev/root ro,errors=remount-ro\n", true},
		{"22 1 259:2 / / rw,relatime - squashfs /dev/root ro\n", true}, // the last options count
		{"21 1 259:1 / / rw - ext4 /dev/a rw\n22 1 259:2 / /b rw shared:1 master:2 - erofs " +
			"/dev/b ro\n23 1 259:3 / /c rw - ext4 /dev/c rw\n", true},
		{"22 1 259:2 / /bound ro,relatime - ext4 /dev/root rw,errors=remount-ro\n", false},
		{"22 1 259:21 / / ro - ext4 /dev/root ro\n22 1 1259:2 / / ro - ext4 /dev/root ro\n", false},
		{"22 1 259:2 / /media ro - fuseblk /dev/b ro,user_id=0\n", false},
		// the name of a source looks like the device number
		{"22 1 0:5 / /x ro - fuse 259:2 ro,user_id=0\n23 1 259:2 / /y rw - ext4 /dev/y rw\n",
			false},
		{"22 1 259:2 / /\\040-\\040ext4\\040x\\040ro ro - ext4 /dev/root rw\n", false},
		{"22 1 259:2 / / ro - ext4 /dev/root r", false},
		{"22 1 259:2 / / ro - ext4 ro", false},
		{"22 1 259:2 / / ro -", false},
		{"22 1 259:2 /", false},
	} {
		t.Run(test.mountinfo, func(t *testing.T) {
			if got := isReadOnlySuperblock(test.mountinfo, "259:2"); got != test.want {
				t.Errorf("mountinfo %q: got %v, want %v", test.mountinfo, got, test.want)
			}
		})
	}
	if long, _ := hal.ReadText("/proc/self/smaps"); len(long) <= 4096 {
		t.Errorf("ReadText of /proc/self/smaps: %d bytes, want more than a page", len(long))
	}
}
