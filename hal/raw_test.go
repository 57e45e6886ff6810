package hal

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestReadAndWriteDoNotAllocate(t *testing.T) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	data := make([]byte, 8)
	if n := testing.AllocsPerRun(10, func() {
		if n, err := Write(ends[1], []byte("four")); n != 4 || err != nil {
			t.Errorf("Write of 4 bytes: %d, %v", n, err)
		}
		if n, err := Read(ends[0], data); n != 4 || err != nil || string(data[:n]) != "four" {
			t.Errorf("Read: %d, %v, %q, want 4 bytes, \"four\"", n, err, data)
		}
		if n, err := Read(ends[0], data); n != -1 || err != unix.EAGAIN {
			t.Errorf("Read of an empty pipe: %d, %v, want -1, %v", n, err, unix.EAGAIN)
		}
	}); n != 0 {
		t.Errorf("Write and Read: %v allocations, want 0", n)
	}
	if _, err := Write(-1, nil); err != unix.EBADF {
		t.Errorf("Write to descriptor -1: %v, want %v", err, unix.EBADF)
	}
}

// TestWriteThatAcceptsNoByteFails checks Write if the system call returns 0, as some drivers do:
// they report success, but have accepted no byte. A seccomp filter imitates such a driver. It
// applies to one thread, which ends with the test.
func TestWriteThatAcceptsNoByteFails(t *testing.T) {
	const filteredFD = 1 << 20 // a descriptor that is not open; the filter recognizes it
	got := make(chan [2]error)
	go func() {
		runtime.LockOSThread() // never unlocked: the filter stays in force for the thread
		filter := []unix.SockFilter{
			// load the lower half of the first argument of the system call
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: filteredFD},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO}, // 0
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP,
				unix.SECCOMP_MODE_FILTER,
				uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(filter)),
					Filter: &filter[0]})))
			if errno != 0 {
				err = errno
			}
		}
		_, writeError := Write(filteredFD, []byte{1})
		got <- [2]error{err, writeError}
	}()
	codes := <-got
	if codes[0] != nil {
		t.Skip("cannot install a seccomp filter: ", codes[0])
	}
	if codes[1] != unix.EIO {
		t.Errorf("Write of a byte that is not accepted: %v, want %v", codes[1], unix.EIO)
	}
	if n, err := Write(1, nil); n != 0 || err != nil {
		t.Errorf("Write of no bytes: %d, %v, want 0 and no error", n, err)
	}
}

// TestIoctlPassesItsValue uses TCFLSH of a terminal, which rejects a queue that does not exist.
func TestIoctlPassesItsValue(t *testing.T) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	for queue, want := range map[uintptr]error{unix.TCIFLUSH: nil, 99: unix.EINVAL} {
		if _, err := ioctl(fd, unix.TCFLSH, queue, nil); err != want {
			t.Errorf("TCFLSH of queue %d: %v, want %v", queue, err, want)
		}
	}
}
