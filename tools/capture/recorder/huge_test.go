//go:build linux && (amd64 || arm64)

package recorder

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// runWithoutPrivileges calls do in a thread that has no capabilities.
func runWithoutPrivileges(t *testing.T, do func()) {
	t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the function
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		err := unix.Capset(&header, &none[0])
		if err == nil {
			do()
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// TestHugePagesAreDetectedWithoutPrivileges: the record reports that memory in huge pages is not
// protected, also if lm runs as an ordinary user. The test needs no free huge page, because its
// mappings do not reserve memory.
func TestHugePagesAreDetectedWithoutPrivileges(t *testing.T) {
	const size = 2 << 20
	const huge = unix.MAP_HUGETLB | 21<<unix.MAP_HUGE_SHIFT
	for name, c := range map[string]struct {
		flags int
		want  uint64
	}{
		"shared huge pages":  {unix.MAP_SHARED | huge, size},
		"private huge pages": {unix.MAP_PRIVATE | huge, size},
		"pages of 4 KiB":     {unix.MAP_SHARED, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
				c.flags|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
			if err != nil {
				t.Skipf("needs a kernel with huge pages of 2 MiB: %v", err)
			}
			defer unix.Munmap(b)
			runWithoutPrivileges(t, func() {
				p, err := mappingAt(unix.Getpid(), addressOf(b))
				if got := p.hugePageSize(unix.Getpid()); err != nil || got != c.want {
					t.Errorf("hugePageSize %d, error %v; want %d", got, err, c.want)
				}
			})
		})
	}
}
