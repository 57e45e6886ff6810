package hal

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel is the system calls that reach a device. Tests put a stand-in for
// drivers that are not there in place of the real one.
type syscallTable struct {
	open  func(path string, flags int) (fd int, err error)
	close func(fd int) error
	// ioctl takes a struct by address, or a value where argument is nil.
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
	return unix.Open(path, flags|unix.O_CLOEXEC,
		0)
}

// asC is a struct for a driver, which may change it. T lies in memory as C has
// it: tt_test.go pins sizes and offsets.
func structPointer[T any](argument *T) unsafe.Pointer { return unsafe.Pointer(argument) }

// control is an ioctl that gives nothing but the struct, and a fault that names
// it and what it is for.
func ioctlStruct(fd int, request uintptr, argument unsafe.Pointer, name, of string) error {
	_, err := syscalls.ioctl(fd, request, 0, argument)
	return callFault(name, of, err)
}

// PointRequest is the request of the only ioctl that a run makes: Point on a
// tt: device (tt-kmd ioctl.h, CONFIGURE_TLB). A seal has to let it through.
const ProgramWindowRequest = 0xfa0d

// raw is how system calls are made behind Freeze. Go is not told of them, so it
// hands the processor to no other thread meanwhile, and asks the kernel for none.
// All else in the process waits as long as they do. Errors are errnos, which make
// no garbage.
func rawSyscall(number uintptr, fd int, data []byte, offset int64) (int, error) {
	n, _, errno := unix.RawSyscall6(number, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(offset), 0, 0)
	if number == unix.SYS_WRITE && n == 0 && len(data) > 0 {
		errno = unix.EIO // asked again, a driver may take none for ever
	}
	return syscallResult(n, 0, errno)
}

func syscallResult(n, _ uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// Read reads from a file.
func Read(fd int, data []byte) (int, error) { return rawSyscall(unix.SYS_READ, fd, data, 0) }

// Write writes to a file. That none of some bytes is taken is an error.
func Write(fd int, data []byte) (int, error) { return rawSyscall(unix.SYS_WRITE, fd, data, 0) }

func pread(fd int, data []byte, at int64) (int, error) {
	return rawSyscall(unix.SYS_PREAD64, fd, data, at)
}
func pwrite(fd int, data []byte, at int64) (int, error) {
	return rawSyscall(unix.SYS_PWRITE64, fd, data, at)
}

// memfd makes a file in memory.
func memfd(flags int) (fd int, err error) { return unix.MemfdCreate("", flags) }

// ioctl passes a struct by its address, or a value if argument is nil. The address becomes
// a number in the call itself: only there does Go keep the struct where it is (package
// unsafe, rule 4).
func ioctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	if argument == nil {
		return syscallResult(unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, value))
	}
	return syscallResult(unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)))
}

// Pause sleeps for so many nanoseconds, or until a signal comes.
func SleepRaw(nanoseconds int64) {
	t := unix.NsecToTimespec(nanoseconds)
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

// Mmap maps a file, or memory where fd is -1. unix.Mmap keeps a table of what it
// mapped, for 9 KB of program. Both calls are announced to Go.
func Mmap(fd int, offset int64, length, protection, flags int) ([]byte, error) {
	address, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, uintptr(length), uintptr(protection),
		uintptr(flags), uintptr(fd), uintptr(offset))
	if errno != 0 {
		return nil, errno
	}
	return unsafe.Slice((*byte)(toPointer(address)), length), nil
}

// Munmap gives back what Mmap mapped.
func Munmap(mem []byte) error {
	_, err := syscallResult(unix.Syscall(unix.SYS_MUNMAP,
		uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), 0))
	return err
}

// spinMax is the longest wait, in nanoseconds, that is spent awake. The timer
// slack of a thread is 50 us (man 2 prctl, PR_SET_TIMERSLACK), so that a
// nanosleep of a few microseconds takes ten times as long.
const spinMaxNs = 100_000

var clockStart = time.Now()

// Now implements Device. time.Since of a time that holds a monotonic reading asks
// the vDSO and makes no system call; unix.ClockGettime is a system call each time.
func (d *device) Now() int64 { return int64(time.Since(clockStart)) }

// Sleep implements Device. A signal ends a pause early.
func (d *device) Sleep(nanoseconds int64) {
	end := d.Now() + nanoseconds
	for left := nanoseconds; left > 0; left = end - d.Now() {
		if left > spinMaxNs {
			SleepRaw(left)
		}
	}
}
