package hal

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls that are made behind Freeze. They are raw: Go is not told of
// them, so it hands the processor to no other thread meanwhile, and asks the
// kernel for none. All else in the process waits as long as they do. Errors are
// errnos, which make no garbage.

// Read reads from a file.
func Read(fd int, data []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)))
	return answer(n, errno)
}

// Write writes to a file.
func Write(fd int, data []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)))
	return answer(n, errno)
}

// Pause sleeps for so many nanoseconds, or until a signal comes.
func Pause(nanoseconds int64) {
	t := unix.NsecToTimespec(nanoseconds)
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

func (linux) ioctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	if argument != nil {
		value = uintptr(argument)
	}
	n, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, value)
	return answer(n, errno)
}

func (linux) read(fd int, data []byte) (int, error) { return Read(fd, data) }

func (linux) pread(fd int, data []byte, offset int64) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(offset), 0, 0)
	return answer(n, errno)
}

func (linux) pwrite(fd int, data []byte, offset int64) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_PWRITE64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(offset), 0, 0)
	return answer(n, errno)
}

func answer(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
