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

func ioctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	if argument != nil {
		value = uintptr(argument)
	}
	n, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, value)
	return answer(n, errno)
}

func pread(fd int, data []byte, offset int64) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(offset), 0, 0)
	return answer(n, errno)
}

func pwrite(fd int, data []byte, offset int64) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_PWRITE64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(offset), 0, 0)
	return answer(n, errno)
}

func answer(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// Mmap maps a file, or memory where fd is -1. unix.Mmap keeps a table of what it
// mapped, for 9 KB of program. Both calls are announced to Go.
func Mmap(fd int, offset int64, length, protection, flags int) ([]byte, error) {
	address, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, uintptr(length), uintptr(protection), uintptr(flags), uintptr(fd), uintptr(offset))
	if errno != 0 {
		return nil, errno
	}
	return unsafe.Slice((*byte)(pointer(address)), length), nil
}

// Munmap gives back what Mmap mapped.
func Munmap(mem []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), 0)
	_, err := answer(0, errno)
	return err
}
