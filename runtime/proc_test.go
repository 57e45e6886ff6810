package runtime

import "testing"

func TestMemoryIsWhatTheKernelSaysIsAvailable(t *testing.T) {
	const meminfo = "MemTotal:       131072000 kB\nMemFree:         1000 kB\nMemAvailable:    2000 kB\nHugePages_Total:       8\nHugePages_Free:        3\nHugepagesize:       2048 kB\n"
	if pages, huge := memory(meminfo); pages != 2000<<10 || huge != 3*2048<<10 {
		t.Errorf("%d, %d", pages, huge)
	}
	if pages, huge := memory("MemAvailable:   10 kB\nHugePages_Free:        0\nHugepagesize:       2048 kB\n"); pages != 10<<10 || huge != 0 {
		t.Errorf("%d, %d", pages, huge)
	}
	if _, huge := memory("HugePages_Free:       20\nHugepagesize:"); huge != 0 {
		t.Errorf("%d", huge)
	}
	total, _ := memory(kernelText("/proc/none"))
	if pages, _ := available(); pages == 0 || pages >= total {
		t.Errorf("%d available of %d", pages, total)
	}
}
