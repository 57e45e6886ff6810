package files

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigevent is the kernel's struct sigevent (include/uapi/asm-generic/siginfo.h in Linux).
type sigevent struct {
	value                  uint64
	signal, notify, thread int32
	_                      [11]int32
}

const notifyThread = 4 // SIGEV_THREAD_ID

// startAlarm makes SIGALRM interrupt the system calls of this thread every 50 ms. open(2) of a FIFO
// waits for the other end, even if a stop signal arrived just before, or on another thread: Go may
// continue a goroutine on another thread after a system call.
func startAlarm() (timer uintptr) {
	event := sigevent{signal: int32(unix.SIGALRM), notify: notifyThread,
		thread: int32(unix.Gettid())}
	interval := unix.Timespec{Nsec: 50_000_000}
	times := unix.ItimerSpec{Interval: interval, Value: interval}
	id := int32(-1)
	if StopRequested != nil {
		unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC,
			uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
		unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(id), 0, uintptr(unsafe.Pointer(&times)),
			0, 0, 0)
	}
	return uintptr(id)
}
