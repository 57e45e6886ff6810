package hal

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/fbs/gen"
)

var (
	widths      = []uint8{1, 2, 4, 8}
	accessModes = []gen.Access{gen.AccessExact, gen.AccessFixed, gen.AccessBulk}
)

// guardedMemory returns memory outside the Go heap, and unmaps it when the test ends. An access to
// the page before this memory, or to the page after it, faults.
func guardedMemory(t testing.TB, size int) []byte {
	page := unix.Getpagesize()
	if size%page != 0 {
		t.Fatalf("size %d is not a multiple of a page", size)
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

// The bytes depend only on the seed.
func scramble(b []byte, seed uint64) {
	random := rand.NewPCG(seed, 1)
	for i := range b {
		b[i] = byte(random.Uint64())
	}
}

func copyBulk(a *Aperture, offset uint64, text string) {
	a.Copy(gen.OpcodeCopyIn, offset, 1, gen.AccessBulk, []byte(text))
}

// wantFault checks that err is a Fault with this code, and that its reason contains the words.
func wantFault(t *testing.T, what string, err error, code Code, words ...string) {
	t.Helper()
	var fault *Fault
	if !errors.As(err, &fault) || fault.Code != code {
		t.Errorf("%s: error %v, want a fault %q", what, err, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(fault.Reason, word) {
			t.Errorf("%s: reason %q does not contain %q", what, fault.Reason, word)
		}
	}
}

var realSyscalls = syscalls

func TestPanicTextOfEachKindOfCause(t *testing.T) {
	texts := map[any]string{"text": "text", error(BusFault): "bus fault",
		7: "panic with a value of unknown type"}
	for cause, want := range texts {
		if got := PanicText(cause); got != want {
			t.Errorf("PanicText(%v) = %q, want %q", cause, got, want)
		}
	}
}
