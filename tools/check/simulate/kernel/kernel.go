// Package kernel stands between the runner and the machine in a simulated world:
// tools/check/simulate builds the runner with its system calls led through here, and
// with places where it can be broken on purpose. No other program links it.
package kernel

import (
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Between, where it is set, makes or answers a system call; do makes it.
var Between func(number uintptr, arguments [6]uintptr, do func() (uintptr, unix.Errno)) (uintptr,
	unix.Errno)

// Entered, where it is set, is called where a function of the runner begins.
var Entered func(name string)

// Enter begins a function of the runner.
func Enter(name string) {
	if Entered != nil {
		Entered(name)
	}
}

// Path, where it is set, says which file a path means, or why it cannot be opened.
var Path func(path string) (string, unix.Errno)

func meant(path string) (string, error) {
	if Path == nil {
		return path, nil
	}
	other, errno := Path(path)
	if errno != 0 {
		return path, errno
	}
	return other, nil
}

// Opened, where it is set, is told by which path a file was opened.
var Opened func(path string, fd int)

// Clock, where it is set, is how much time is over.
var Clock func() time.Duration

// Since stands for time.Since.
func Since(t time.Time) time.Duration {
	if Clock == nil {
		return time.Since(t)
	}
	return Clock()
}

// Line is the command line of the runner, and Exit, where it is set, ends it.
var (
	Line []string
	End  func(status int)
)

// CommandLine stands for args.Words.
func CommandLine() []string { return Line }

// Exit stands for unix.Exit.
func Exit(status int) {
	if End == nil {
		unix.Exit(status)
	}
	End(status)
}

func call(number uintptr, arguments [6]uintptr, do func() (uintptr, unix.Errno)) (uintptr,
	unix.Errno) {
	if Between == nil {
		return do()
	}
	return Between(number, arguments, do)
}

// of is call for functions whose result is an error.
func of(number uintptr, fd int, do func() error) error {
	_, errno := call(number, [6]uintptr{uintptr(fd)}, func() (uintptr, unix.Errno) {
		errno, _ := do().(unix.Errno)
		return 0, errno
	})
	if errno != 0 {
		return errno
	}
	return nil
}

// counted is call for functions that give a number, too.
func counted(number uintptr, fd int, do func() (int, error)) (int, error) {
	n, errno := call(number, [6]uintptr{uintptr(fd)}, func() (uintptr, unix.Errno) {
		n, err := do()
		errno, _ := err.(unix.Errno)
		return uintptr(n), errno
	})
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

//go:uintptrescapes
func RawSyscall(number, a, b, c uintptr) (uintptr, uintptr, unix.Errno) {
	return RawSyscall6(number, a, b, c, 0, 0, 0)
}

//go:uintptrescapes
func RawSyscall6(number, a, b, c, d, e, f uintptr) (uintptr, uintptr, unix.Errno) {
	n, errno := call(number, [6]uintptr{a, b, c, d, e, f}, func() (uintptr, unix.Errno) {
		n, _, errno := unix.RawSyscall6(number, a, b, c, d, e, f)
		return n, errno
	})
	return n, 0, errno
}

//go:uintptrescapes
func Syscall(number, a, b, c uintptr) (uintptr, uintptr, unix.Errno) {
	return RawSyscall6(number, a, b, c, 0, 0, 0)
}

//go:uintptrescapes
func Syscall6(number, a, b, c, d, e, f uintptr) (uintptr, uintptr, unix.Errno) {
	return RawSyscall6(number, a, b, c, d, e, f)
}

func Open(path string, flags int, mode uint32) (int, error) {
	return Openat(unix.AT_FDCWD, path, flags, mode)
}

func Openat(dir int, path string, flags int, mode uint32) (int, error) {
	fd, err := counted(unix.SYS_OPENAT, dir, func() (int, error) {
		other, err := meant(path)
		if err != nil {
			return -1, err
		}
		return unix.Openat(dir, other, flags, mode)
	})
	if err == nil && Opened != nil {
		Opened(path, fd)
	}
	return fd, err
}

func Readlink(path string, target []byte) (int, error) {
	other, err := meant(path)
	if err != nil {
		return -1, err
	}
	return unix.Readlink(other, target)
}

// Fstat reports a file with the name watchdog as a device of characters.
func Fstat(fd int, status *unix.Stat_t) error {
	err := of(unix.SYS_FSTAT, fd, func() error { return unix.Fstat(fd, status) })
	if path, _ := os.Readlink("/proc/self/fd/" +
		strconv.Itoa(fd)); filepath.Base(path) == "watchdog" {
		status.Mode = status.Mode&^unix.S_IFMT | unix.S_IFCHR
	}
	return err
}

func Mprotect(memory []byte, protection int) error {
	return of(unix.SYS_MPROTECT, -1, func() error { return unix.Mprotect(memory, protection) })
}

func EpollCreate1(flags int) (int, error) {
	return counted(unix.SYS_EPOLL_CREATE1, -1,
		func() (int, error) { return unix.EpollCreate1(flags) })
}

func Prctl(option int, a, b, c, d uintptr) error {
	_, errno := call(unix.SYS_PRCTL, [6]uintptr{uintptr(option), a, b, c, d},
		func() (uintptr, unix.Errno) { return 0, unix.EINVAL })
	if errno != 0 {
		return errno
	}
	return nil
}

func Close(fd int) error {
	return of(unix.SYS_CLOSE, fd, func() error { return unix.Close(fd) })
}

func Read(fd int, data []byte) (int, error) {
	return counted(unix.SYS_READ, fd, func() (int, error) { return unix.Read(fd, data) })
}

func Pread(fd int, data []byte, offset int64) (int, error) {
	return counted(unix.SYS_PREAD64, fd, func() (int,
		error) {
		return unix.Pread(fd, data, offset)
	})
}

func Ftruncate(fd int, size int64) error {
	return of(unix.SYS_FTRUNCATE, fd, func() error { return unix.Ftruncate(fd, size) })
}

func Fallocate(fd int, mode uint32, offset, size int64) error {
	return of(unix.SYS_FALLOCATE, fd,
		func() error { return unix.Fallocate(fd, mode, offset, size) })
}

func Mlock([]byte) error {
	// who is not root may lock less than all worlds together have
	return of(unix.SYS_MLOCK, -1, func() error { return nil })
}

func MmapPtr(fd int, offset int64, address unsafe.Pointer, length uintptr, protection,
	flags int) (pointer unsafe.Pointer, err error) {
	err = of(unix.SYS_MMAP, fd, func() (err error) {
		pointer, err = unix.MmapPtr(fd, offset, address, length, protection, flags)
		return err
	})
	return pointer, err
}

func IoctlSetPointerInt(fd int, request uint, value int) error {
	_, err := IoctlGetInt(fd, request|uint(value)<<32)
	return err
}

// IoctlGetInt is told to call with the request, and above it the value of one that
// sets something.
func IoctlGetInt(fd int, request uint) (int, error) {
	n, errno := call(unix.SYS_IOCTL, [6]uintptr{uintptr(fd), uintptr(request)},
		func() (uintptr, unix.Errno) { return 0, unix.ENOTTY })
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// broken is what is broken on purpose: a name, or the number of a place.
var broken = os.Getenv("LM_BROKEN")

var brokenAt, _ = strconv.Atoi(broken)

// Is tells whether something with a name is broken.
func Is(name string) bool { return broken == name }

// Not is a condition, or the opposite of it where place n is broken.
func Not[T ~bool](n int, condition T) T { return condition != (n == brokenAt) }

// Never is a condition, or false.
func Never[T ~bool](n int, condition T) T { return condition && n != brokenAt }

// Edge is a comparison, which where it is broken holds for what is equal, or does
// not, other than it should.
func Edge[T ~bool](n int, condition, equal T) T { return condition != (n == brokenAt && equal) }

// Next is a number, or the next.
func Next[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
	~uintptr](n int, number T) T {
	if n == brokenAt {
		return number + 1
	}
	return number
}

// One is the first of two, or the other.
func One[T any](n int, first, other T) T {
	if n == brokenAt {
		return other
	}
	return first
}

// Left tells whether the statement at place n is left out.
func Left(n int) bool { return n == brokenAt }
