package hal

// System calls. During a replay the program makes system calls without informing Go's scheduler,
// and they allocate nothing.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// syscallTable contains the system calls by which this package accesses a device. Tests replace
// some of them.
type syscallTable struct {
	open  func(path string, flags int) (fd int, err error)
	close func(fd int) error
	// ioctl passes the pointer argument to the kernel, or value if argument is nil.
	ioctl  func(fd int, request, value uintptr, argument unsafe.Pointer) (int, error)
	mmap   func(fd int, offset int64, length, protection, flags int) ([]byte, error)
	munmap func(mem []byte) error
	read   func(fd int, data []byte) (int, error)
	pread  func(fd int, data []byte, offset int64) (int, error)
	pwrite func(fd int, data []byte, offset int64) (int, error)
	memfd  func(flags int) (fd int, err error)
}

var syscalls = syscallTable{openFile, unix.Close, ioctl, Mmap, Munmap, Read, pread, pwrite, memfd}

// openFile opens a file so that programs started by this process do not inherit it.
func openFile(path string, flags int) (int, error) {
	return unix.Open(path, flags|unix.O_CLOEXEC, 0)
}

// memfd creates an anonymous file in memory.
func memfd(flags int) (fd int, err error) { return unix.MemfdCreate("", flags) }

// rawSyscall makes a system call without informing Go's scheduler. Therefore the scheduler neither
// hands its processor to another thread nor starts a thread during the call, and other goroutines
// may have to wait until the call returns. The error is a unix.Errno, which allocates nothing.
func rawSyscall(number uintptr, fd int, data []byte, offset int64) (int, error) {
	n, _, errno := unix.RawSyscall6(number, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(offset), 0, 0)
	if number == unix.SYS_WRITE && n == 0 && len(data) > 0 {
		errno = unix.EIO // without an error here, the caller might try again forever
	}
	return syscallResult(n, 0, errno)
}

// syscallResult converts the results of unix.RawSyscall to a count and an error: n and nil, or -1
// and errno if errno is not 0.
func syscallResult(n, _ uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// Read reads from a file at its current position and returns the number of bytes.
func Read(fd int, data []byte) (int, error) { return rawSyscall(unix.SYS_READ, fd, data, 0) }

// Write writes to a file and returns the number of bytes. It returns an error if data is not empty
// but the file accepts no byte.
func Write(fd int, data []byte) (int, error) { return rawSyscall(unix.SYS_WRITE, fd, data, 0) }

// pread reads from a file at an offset and returns the number of bytes.
func pread(fd int, data []byte, offset int64) (int, error) {
	return rawSyscall(unix.SYS_PREAD64, fd, data, offset)
}

// pwrite writes to a file at an offset and returns the number of bytes.
func pwrite(fd int, data []byte, offset int64) (int, error) {
	return rawSyscall(unix.SYS_PWRITE64, fd, data, offset)
}

// ProgramWindowRequest is the request code of the only ioctl that the program makes during a
// replay: ProgramWindow of a tt: device makes it (tt-kmd ioctl.h, CONFIGURE_TLB). Therefore the
// system call filter of a sealed process must allow this request.
const ProgramWindowRequest = 0xfa0d

// ioctl passes the pointer argument to the kernel, or value if argument is nil. The pointer is
// converted to a number in the argument list of RawSyscall, because Go keeps the struct at its
// address only for a conversion there (package unsafe, rule 4).
func ioctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	if argument == nil {
		return syscallResult(unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, value))
	}
	return syscallResult(unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)))
}

// ioctlStruct makes an ioctl that returns its result in the struct at argument. If the ioctl fails,
// the text of the Fault contains requestName and path.
func ioctlStruct(fd int, request uintptr, argument unsafe.Pointer, requestName, path string) error {
	_, err := syscalls.ioctl(fd, request, 0, argument)
	return callFault(requestName, path, err)
}

// structPointer returns the address of a struct that is passed to a driver. The type T must have
// the same layout as in C; constant expressions next to each struct check that.
func structPointer[T any](argument *T) unsafe.Pointer { return unsafe.Pointer(argument) }

// SleepRaw sleeps for the given nanoseconds, or until a signal arrives. Go's scheduler does not
// know of the call.
func SleepRaw(nanoseconds int64) {
	t := unix.NsecToTimespec(nanoseconds)
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

// Mmap maps a file, or anonymous memory if fd is -1. This package does not use unix.Mmap, because
// its table of mappings adds 9 KB to the program. Mmap and Munmap inform Go's scheduler.
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
