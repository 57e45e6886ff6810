package hal

import (
	"testing"

	"golang.org/x/sys/unix"
)

var widths = []uint8{1, 2, 4, 8}

// mapped is memory outside the Go heap, unmapped when the test ends.
func mapped(t testing.TB, size int) []byte {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	return mem
}
