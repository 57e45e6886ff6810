package hal

// System calls of a replay allocate nothing, and use unix.RawSyscall, which bypasses Go's
// scheduler: neither the scheduler nor the garbage collector delays a replay.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// syscallTable has the system calls on devices. Tests replace them.
type syscallTable struct {
	open  func(path string, flags int) (fd int, err error)
	close func(fd int) error
	// passes value if argument is nil
	ioctl  func(fd int, request, value uintptr, argument unsafe.Pointer) (int, error)
	mmap   func(fd int, offset int64, length, protection, flags int) ([]byte, error)
	munmap func(mem []byte) error
	read   func(fd int, data []byte) (int, error)
	pread  func(fd int, data []byte, offset int64) (int, error)
	pwrite func(fd int, data []byte, offset int64) (int, error)
	flock  func(fd, how int) error

	openEventPoller func() (event, poller int, err error)
}

var syscalls = syscallTable{openFile, unix.Close, ioctl, Mmap, Munmap, Read, pread, pwrite,
	unix.Flock, openEventPoller}

func openFile(path string, flags int) (int, error) {
	return unix.Open(path, flags|unix.O_CLOEXEC, 0)
}

// rawSyscall does not inform Go's scheduler: other goroutines may have to wait. Its errors are
// unix.Errno, which allocate nothing.
func rawSyscall(number uintptr, fd int, data []byte, offset int64) (int, error) {
	n, _, errno := unix.RawSyscall6(number, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(offset), 0, 0)
	if number == unix.SYS_WRITE && n == 0 && len(data) > 0 {
		errno = unix.EIO // after the result 0 without an error, callers would write again forever
	}
	return syscallResult(n, 0, errno)
}

func syscallResult(n, _ uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// Read reads at the file's position. It returns the number of bytes, 0 at the end of the file.
func Read(fd int, data []byte) (int, error) { return rawSyscall(unix.SYS_READ, fd, data, 0) }

// Write writes at the file's position, and returns the number of bytes. It fails if the file
// accepts no byte of data.
func Write(fd int, data []byte) (int, error) { return rawSyscall(unix.SYS_WRITE, fd, data, 0) }

func pread(fd int, data []byte, offset int64) (int, error) {
	return rawSyscall(unix.SYS_PREAD64, fd, data, offset)
}

func pwrite(fd int, data []byte, offset int64) (int, error) {
	return rawSyscall(unix.SYS_PWRITE64, fd, data, offset)
}

// ProgramWindowRequest is the ioctl CONFIGURE_TLB of tt-kmd (ioctl.h). ProgramWindow makes this
// call during a replay, so that the system call filter of a sealed process allows it.
const ProgramWindowRequest = 0xfa0d

// The conversion of argument stands in the argument list, so that Go keeps the struct where it is
// until the call returns (package unsafe, rule 4).
func ioctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	if argument == nil {
		return syscallResult(unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, value))
	}
	return syscallResult(unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)))
}

func ioctlStruct(fd int, request uintptr, argument unsafe.Pointer, requestName, path string) error {
	_, err := syscalls.ioctl(fd, request, 0, argument)
	return syscallFault(requestName, path, err)
}

// structPointer is for structs with the same layout in Go and C.
func structPointer[T any](argument *T) unsafe.Pointer { return unsafe.Pointer(argument) }

// SleepRaw sleeps without informing Go's scheduler. A signal ends the sleep.
func SleepRaw(nanoseconds int64) {
	t := unix.NsecToTimespec(nanoseconds)
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

// openEventPoller returns an eventfd, and an epoll file that reports each write to it once. The
// epoll file is edge-triggered, so that nothing has to read the eventfd.
func openEventPoller() (event, poller int, err error) {
	poller = -1
	event, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err == nil {
		poller, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	}
	if err == nil {
		err = unix.EpollCtl(poller, unix.EPOLL_CTL_ADD, event,
			&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET})
	}
	return event, poller, err
}

// epollWait returns 1 after an event, 0 after the time. A sealed process may make this system call,
// because Go's scheduler makes it too.
func epollWait(fd int, milliseconds int64) (events int) {
	var event unix.EpollEvent
	n, _, _ := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&event)), 1, uintptr(milliseconds), 0, 0)
	return int(n)
}

// Mmap maps `length` bytes of the file `fd`, from `offset` on, or of anonymous memory if `fd` is
// -1. unix.Mmap would add 9 KB to the program, for a table of mappings. Unlike Read and Write, Mmap
// and Munmap inform Go's scheduler.
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
