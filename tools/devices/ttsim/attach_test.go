package ttsim

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTransferReportsMemoryThatIsMissing shortens the file of the memory to one page. Transfers to
// the missing page must report this, and transfers to the remaining page must work.
func TestTransferReportsMemoryThatIsMissing(t *testing.T) {
	fd, err := unix.MemfdCreate("client", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 2*pageSize); err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(fd, 0, 2*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	lent := func(address, size uint64) []byte { return memory[address:][:size] }
	buffer := make([]byte, 1+chunkMax)
	for _, test := range []struct {
		op      opcode
		address uint64
		there   byte
	}{{opStore, 0, 1}, {opLoad, 0, 1}, {opStore, pageSize, 0}, {opLoad, pageSize, 0},
		{opLoad, pageSize - 4, 0}} {
		if err := unix.Ftruncate(fd, pageSize); err != nil {
			t.Fatal(err)
		}
		answer, err := transfer(bytes.NewReader([]byte("12345678")),
			request{op: test.op, address: test.address, size: 8}, buffer, lent)
		if err != nil || answer[0] != test.there {
			t.Errorf("transfer %d at %#x: there %d, want %d, %v", test.op, test.address, answer[0],
				test.there, err)
		}
		if test.op == opLoad && test.there == 1 && string(answer[1:]) != "12345678" {
			t.Errorf("loaded %q, want \"12345678\"", answer[1:])
		}
	}
}
