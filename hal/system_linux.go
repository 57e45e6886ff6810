package hal

// This file contains functions that make system calls. The functions that run during a replay
// allocate no memory, and use unix.RawSyscall, which bypasses Go's scheduler. Therefore neither the
// garbage collector nor the scheduler delays a replay.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// syscallTable contains the functions by which this package makes system calls to access a device.
// Tests replace some of these functions.
type syscallTable struct {
	open  func(path string, flags int) (fd int, err error)
	close func(fd int) error
	// ioctl passes the pointer `argument` to the driver, or the number `value` if `argument` is
	// nil.
	ioctl  func(fd int, request, value uintptr, argument unsafe.Pointer) (int, error)
	mmap   func(fd int, offset int64, length, protection, flags int) ([]byte, error)
	munmap func(mem []byte) error
	read   func(fd int, data []byte) (int, error)
	pread  func(fd int, data []byte, offset int64) (int, error)
	pwrite func(fd int, data []byte, offset int64) (int, error)
	flock  func(fd, how int) error
}

var syscalls = syscallTable{openFile, unix.Close, ioctl, Mmap, Munmap, Read, pread, pwrite,
	unix.Flock}

// openFile opens a file. It adds the flag O_CLOEXEC, so that programs that this process starts do
// not inherit the file descriptor.
func openFile(path string, flags int) (int, error) {
	return unix.Open(path, flags|unix.O_CLOEXEC, 0)
}

// rawSyscall makes the system call with the given number on the file fd, without informing Go's
// scheduler. Other goroutines may have to wait until the call returns. The error is nil or a
// unix.Errno; returning a unix.Errno allocates nothing.
func rawSyscall(number uintptr, fd int, data []byte, offset int64) (int, error) {
	n, _, errno := unix.RawSyscall6(number, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(offset), 0, 0)
	if number == unix.SYS_WRITE && n == 0 && len(data) > 0 {
		errno = unix.EIO // after the result 0 without an error, callers would write again forever
	}
	return syscallResult(n, 0, errno)
}

// syscallResult converts the three results of unix.RawSyscall to a count and an error: n and nil,
// or -1 and errno if errno is not 0. The second result of the system call is unused.
func syscallResult(n, _ uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// Read reads from a file at its current position. It returns the number of bytes that it has read,
// which is 0 at the end of the file.
func Read(fd int, data []byte) (int, error) { return rawSyscall(unix.SYS_READ, fd, data, 0) }

// Write writes to a file at its current position, and returns the number of bytes that it has
// written. It returns an error if data is not empty but the file accepts no byte.
func Write(fd int, data []byte) (int, error) { return rawSyscall(unix.SYS_WRITE, fd, data, 0) }

// pread reads from a file at an offset, and returns the number of bytes that it has read.
func pread(fd int, data []byte, offset int64) (int, error) {
	return rawSyscall(unix.SYS_PREAD64, fd, data, offset)
}

// pwrite writes to a file at an offset, and returns the number of bytes that it has written.
func pwrite(fd int, data []byte, offset int64) (int, error) {
	return rawSyscall(unix.SYS_PWRITE64, fd, data, offset)
}

// ProgramWindowRequest is the number of the ioctl CONFIGURE_TLB of Tenstorrent's driver (tt-kmd
// ioctl.h). With the backend tt, ProgramWindow makes this ioctl during a replay. Therefore the
// system call filter of a sealed process allows this ioctl.
const ProgramWindowRequest = 0xfa0d

// ioctl makes the ioctl with the number `request` on the file fd. It passes the pointer `argument`,
// or the number `value` if `argument` is nil. The argument list of RawSyscall must contain the
// conversion of the pointer to a number, so that Go keeps the struct at its address until the call
// returns (package unsafe, rule 4).
func ioctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	if argument == nil {
		return syscallResult(unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, value))
	}
	return syscallResult(unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)))
}

// ioctlStruct makes an ioctl whose argument points to a struct. The driver reads the struct, and
// may store results in the struct. requestName and path are for error messages.
func ioctlStruct(fd int, request uintptr, argument unsafe.Pointer, requestName, path string) error {
	_, err := syscalls.ioctl(fd, request, 0, argument)
	return syscallFault(requestName, path, err)
}

// structPointer returns the address of a struct for an ioctl. The struct must have the same layout
// in Go and in C. The files that declare such structs check the layouts.
func structPointer[T any](argument *T) unsafe.Pointer { return unsafe.Pointer(argument) }

// SleepRaw sleeps for the given nanoseconds, or until a signal arrives, without informing Go's
// scheduler.
func SleepRaw(nanoseconds int64) {
	t := unix.NsecToTimespec(nanoseconds)
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

// Mmap maps `length` bytes of the file fd from the given offset on, or `length` bytes of anonymous
// memory if fd is -1. Mmap replaces unix.Mmap, whose table of mappings would add 9 KB to the
// program. Unlike Read and Write, Mmap and Munmap inform Go's scheduler.
func Mmap(fd int, offset int64, length, protection, flags int) ([]byte, error) {
	address, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, uintptr(length), uintptr(protection),
		uintptr(flags), uintptr(fd), uintptr(offset))
	if errno != 0 {
		return nil, errno
	}
	return unsafe.Slice((*byte)(toPointer(address)), length), nil
}

// Munmap releases a mapping that Mmap returned.
func Munmap(mem []byte) error {
	_, err := syscallResult(unix.Syscall(unix.SYS_MUNMAP,
		uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), 0))
	return err
}
