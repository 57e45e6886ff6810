package hal

// System calls. Those of a run are made without Go's scheduler and allocate nothing.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// syscallTable has the system calls that reach a device. Tests replace some of them.
type syscallTable struct {
	open  func(path string, flags int) (fd int, err error)
	close func(fd int) error
	// ioctl passes a struct by address, or a value if argument is nil.
	ioctl  func(fd int, request, value uintptr, argument unsafe.Pointer) (int, error)
	mmap   func(fd int, offset int64, length, protection, flags int) ([]byte, error)
	munmap func(mem []byte) error
	read   func(fd int, data []byte) (int, error)
	pread  func(fd int, data []byte, offset int64) (int, error)
	pwrite func(fd int, data []byte, offset int64) (int, error)
	memfd  func(flags int) (fd int, err error)
}

var syscalls = syscallTable{openFile, unix.Close, ioctl, Mmap, Munmap, Read, pread, pwrite, memfd}

func openFile(path string, flags int) (int, error) {
	return unix.Open(path, flags|unix.O_CLOEXEC, 0)
}

// memfd creates a file in memory.
func memfd(flags int) (fd int, err error) { return unix.MemfdCreate("", flags) }

// rawSyscall makes the system calls of a run. Go's scheduler does not know of them, so it hands
// the processor to no other thread meanwhile and asks the kernel for none; the rest of the process
// waits until they return. Errors are errnos, which allocate nothing.
func rawSyscall(number uintptr, fd int, data []byte, offset int64) (int, error) {
	n, _, errno := unix.RawSyscall6(number, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(offset), 0, 0)
	if number == unix.SYS_WRITE && n == 0 && len(data) > 0 {
		errno = unix.EIO // a driver that accepts no byte now may never accept one
	}
	return syscallResult(n, 0, errno)
}

// syscallResult returns the result of a system call as Go functions do.
func syscallResult(n, _ uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// Read reads from a file.
func Read(fd int, data []byte) (int, error) { return rawSyscall(unix.SYS_READ, fd, data, 0) }

// Write writes to a file. It returns an error if the file accepts none of some bytes.
func Write(fd int, data []byte) (int, error) { return rawSyscall(unix.SYS_WRITE, fd, data, 0) }

func pread(fd int, data []byte, offset int64) (int, error) {
	return rawSyscall(unix.SYS_PREAD64, fd, data, offset)
}

func pwrite(fd int, data []byte, offset int64) (int, error) {
	return rawSyscall(unix.SYS_PWRITE64, fd, data, offset)
}

// ProgramWindowRequest is the request of the only ioctl that a run makes: ProgramWindow of a tt:
// device (tt-kmd ioctl.h, CONFIGURE_TLB). A seal has to allow it.
const ProgramWindowRequest = 0xfa0d

// ioctl passes a struct by its address, or a value if argument is nil. The address becomes a
// number in the call itself: only there does Go keep the struct where it is (package unsafe, rule
// 4).
func ioctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	if argument == nil {
		return syscallResult(unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, value))
	}
	return syscallResult(unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)))
}

// ioctlStruct makes an ioctl whose only result is the struct. The fault of one that fails has the
// request's name and what it was for.
func ioctlStruct(fd int, request uintptr, argument unsafe.Pointer, name, of string) error {
	_, err := syscalls.ioctl(fd, request, 0, argument)
	return callFault(name, of, err)
}

// structPointer returns the address of a struct that a driver may change. T has the layout that it
// has in C: see the checks next to each struct.
func structPointer[T any](argument *T) unsafe.Pointer { return unsafe.Pointer(argument) }

// SleepRaw sleeps for so many nanoseconds, or until a signal arrives.
func SleepRaw(nanoseconds int64) {
	t := unix.NsecToTimespec(nanoseconds)
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

// Mmap maps a file, or memory if fd is -1. unix.Mmap keeps a table of its mappings, which takes
// 9 KB of program. Go's scheduler knows of this call and of Munmap.
func Mmap(fd int, offset int64, length, protection, flags int) ([]byte, error) {
	address, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, uintptr(length), uintptr(protection),
		uintptr(flags), uintptr(fd), uintptr(offset))
	if errno != 0 {
		return nil, errno
	}
	return unsafe.Slice((*byte)(toPointer(address)), length), nil
}

// Munmap releases a mapping of Mmap.
func Munmap(mem []byte) error {
	_, err := syscallResult(unix.Syscall(unix.SYS_MUNMAP,
		uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), 0))
	return err
}
