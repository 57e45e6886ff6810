package hal

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/fbs/gen"
)

var (
	widths   = []uint8{1, 2, 4, 8}
	accesses = []gen.Access{gen.AccessExact, gen.AccessFixed, gen.AccessBulk}
)

// mapped is memory outside the Go heap, unmapped when the test ends. A page
// before it and a page after it fault.
func mapped(t testing.TB, size int) []byte {
	page := unix.Getpagesize()
	if size%page != 0 {
		t.Fatalf("%d bytes are not whole pages", size)
	}
	mem, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		err = unix.Mprotect(mem[page:page+size], unix.PROT_READ|unix.PROT_WRITE)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	return mem[page : page+size : page+size]
}

// scramble fills b with bytes that depend on the seed alone.
func scramble(b []byte, seed uint64) {
	random := rand.NewPCG(seed, 1)
	for i := range b {
		b[i] = byte(random.Uint64())
	}
}

// copyBulk copies text to an aperture.
func copyBulk(a *Aperture, offset uint64, text string) {
	a.Copy(gen.OpcodeCopyIn, offset, 1, gen.AccessBulk, []byte(text))
}
