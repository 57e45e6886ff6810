package hal

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestRawCallsReadAndWriteAndAllocateNothing(t *testing.T) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	data := make([]byte, 8)
	if n := testing.AllocsPerRun(10, func() {
		if n, err := Write(ends[1], []byte("four")); n != 4 || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
		if n, err := Read(ends[0], data); n != 4 || err != nil || string(data[:n]) != "four" {
			t.Errorf("Read: %d, %v, %q", n, err, data)
		}
		if n, err := Read(ends[0], data); n != -1 || err != unix.EAGAIN {
			t.Errorf("Read of an empty pipe: %d, %v", n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if _, err := Write(-1, nil); err != unix.EBADF {
		t.Errorf("Write to no file: %v", err)
	}
}
