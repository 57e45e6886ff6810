// Package kernel replaces the system calls of the runner in a simulated world. The program
// tools/check/simulate builds the runner so that it calls this package, and adds defects that can
// be switched on. No other program links this package.
package kernel

import (
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OnSystemCall, if it is set, executes or simulates a system call. The parameter do is the function
// that executes it.
var OnSystemCall func(number uintptr, arguments [6]uintptr,
	do func() (uintptr, unix.Errno)) (uintptr, unix.Errno)

// OnEnter, if it is set, is called at the beginning of the runner's functions.
var OnEnter func(name string)

// EnterFunction calls OnEnter. The build inserts it at the beginning of the runner's functions.
func EnterFunction(name string) {
	if OnEnter != nil {
		OnEnter(name)
	}
}

// ResolvePath, if it is set, returns the path of the simulated file for a path, or an error that
// opening it returns.
var ResolvePath func(path string) (string, unix.Errno)

func resolvedPath(path string) (string, error) {
	if ResolvePath == nil {
		return path, nil
	}
	resolved, errno := ResolvePath(path)
	if errno != 0 {
		return path, errno
	}
	return resolved, nil
}

// OnOpen, if it is set, is called after a file was opened, with the path that the runner opened.
var OnOpen func(path string, fd int)

// ElapsedTime, if it is set, replaces the result of Since.
var ElapsedTime func() time.Duration

// Since replaces time.Since.
func Since(t time.Time) time.Duration {
	if ElapsedTime == nil {
		return time.Since(t)
	}
	return ElapsedTime()
}

// RunnerArguments is the command line of the runner. OnExit, if it is set, is called instead of
// exiting the process.
var (
	RunnerArguments []string
	OnExit          func(status int)
)

// CommandLine replaces args.CommandLine.
func CommandLine() []string { return RunnerArguments }

// Exit replaces unix.Exit.
func Exit(status int) {
	if OnExit == nil {
		unix.Exit(status)
	}
	OnExit(status)
}

func systemCall(number uintptr, arguments [6]uintptr, do func() (uintptr, unix.Errno)) (uintptr,
	unix.Errno) {
	if OnSystemCall == nil {
		return do()
	}
	return OnSystemCall(number, arguments, do)
}

// callForError calls systemCall for a function that returns only an error.
func callForError(number uintptr, fd int, do func() error) error {
	_, errno := systemCall(number, [6]uintptr{uintptr(fd)}, func() (uintptr, unix.Errno) {
		errno, _ := do().(unix.Errno)
		return 0, errno
	})
	if errno != 0 {
		return errno
	}
	return nil
}

// callForCount calls systemCall for a function that returns a number and an error.
func callForCount(number uintptr, fd int, do func() (int, error)) (int, error) {
	n, errno := systemCall(number, [6]uintptr{uintptr(fd)}, func() (uintptr, unix.Errno) {
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
	switch number {
	case unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE:
		return 0, 0, 0 // no call waits, and a process that is killed would leave its timers
	}
	n, errno := systemCall(number, [6]uintptr{a, b, c, d, e, f}, func() (uintptr, unix.Errno) {
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
	fd, err := callForCount(unix.SYS_OPENAT, dir, func() (int, error) {
		resolved, err := resolvedPath(path)
		if err != nil {
			return -1, err
		}
		return unix.Openat(dir, resolved, flags, mode)
	})
	if err == nil && OnOpen != nil {
		OnOpen(path, fd)
	}
	return fd, err
}

func Readlink(path string, target []byte) (int, error) {
	resolved, err := resolvedPath(path)
	if err != nil {
		return -1, err
	}
	return unix.Readlink(resolved, target)
}

// Fstat reports a file named "watchdog" as a character device.
func Fstat(fd int, status *unix.Stat_t) error {
	err := callForError(unix.SYS_FSTAT, fd, func() error { return unix.Fstat(fd, status) })
	if path, _ := os.Readlink("/proc/self/fd/" +
		strconv.Itoa(fd)); filepath.Base(path) == "watchdog" {
		status.Mode = status.Mode&^unix.S_IFMT | unix.S_IFCHR
	}
	return err
}

func Mprotect(memory []byte, protection int) error {
	return callForError(unix.SYS_MPROTECT, -1,
		func() error { return unix.Mprotect(memory, protection) })
}

func EpollCreate1(flags int) (int, error) {
	return callForCount(unix.SYS_EPOLL_CREATE1, -1,
		func() (int, error) { return unix.EpollCreate1(flags) })
}

func Prctl(option int, a, b, c, d uintptr) error {
	_, errno := systemCall(unix.SYS_PRCTL, [6]uintptr{uintptr(option), a, b, c, d},
		func() (uintptr, unix.Errno) { return 0, unix.EINVAL })
	if errno != 0 {
		return errno
	}
	return nil
}

func Close(fd int) error {
	return callForError(unix.SYS_CLOSE, fd, func() error { return unix.Close(fd) })
}

func Read(fd int, data []byte) (int, error) {
	return callForCount(unix.SYS_READ, fd, func() (int, error) { return unix.Read(fd, data) })
}

func Pread(fd int, data []byte, offset int64) (int, error) {
	return callForCount(unix.SYS_PREAD64, fd, func() (int, error) {
		return unix.Pread(fd, data, offset)
	})
}

func Ftruncate(fd int, size int64) error {
	return callForError(unix.SYS_FTRUNCATE, fd, func() error { return unix.Ftruncate(fd, size) })
}

func Fallocate(fd int, mode uint32, offset, size int64) error {
	return callForError(unix.SYS_FALLOCATE, fd,
		func() error { return unix.Fallocate(fd, mode, offset, size) })
}

func Mlock([]byte) error {
	// An unprivileged process may not lock the memory of all worlds, so nothing is locked.
	return callForError(unix.SYS_MLOCK, -1, func() error { return nil })
}

func MmapPtr(fd int, offset int64, address unsafe.Pointer, length uintptr, protection,
	flags int) (pointer unsafe.Pointer, err error) {
	err = callForError(unix.SYS_MMAP, fd, func() (err error) {
		pointer, err = unix.MmapPtr(fd, offset, address, length, protection, flags)
		return err
	})
	return pointer, err
}

func IoctlSetPointerInt(fd int, request uint, value int) error {
	_, err := IoctlGetInt(fd, request|uint(value)<<32)
	return err
}

// IoctlGetInt passes the request to systemCall. If IoctlSetPointerInt calls it, the upper 32 bits
// of the request are the value that is set.
func IoctlGetInt(fd int, request uint) (int, error) {
	n, errno := systemCall(unix.SYS_IOCTL, [6]uintptr{uintptr(fd), uintptr(request)},
		func() (uintptr, unix.Errno) { return 0, unix.ENOTTY })
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// defect is the name of the active past defect, or the number of the active mutant. It is empty if
// no defect is active.
var defect = os.Getenv("LM_DEFECT")

var mutantNumber, _ = strconv.Atoi(defect)

// HasDefect reports whether the past defect with this name is active.
func HasDefect(name string) bool { return defect == name }

// Reached says by the mutant's number whether code that a mutant can change has run.
var Reached [1 << 16]bool

// isActive reports whether mutant n is active, and notes that its code runs.
func isActive(n int) bool {
	Reached[n] = true
	return n == mutantNumber
}

// Negate returns the condition, or its negation if mutant n is active.
func Negate[T ~bool](n int, condition T) T { return condition != T(isActive(n)) }

// NeverTrue returns the condition, or false if mutant n is active.
func NeverTrue[T ~bool](n int, condition T) T { return !T(isActive(n)) && condition }

// ToggleIfEqual returns the condition. If mutant n is active and the operands of the comparison are
// equal, it returns the negation.
func ToggleIfEqual[T ~bool](n int, condition, equal T) T {
	return condition != (T(isActive(n)) && equal)
}

// Increment returns the number, or the number plus 1 if mutant n is active.
func Increment[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 |
	~uint64 | ~uintptr](n int, number T) T {
	if isActive(n) {
		return number + 1
	}
	return number
}

// Swap returns the value first, or the value other if mutant n is active.
func Swap[T any](n int, first, other T) T {
	if isActive(n) {
		return other
	}
	return first
}

// IsOmitted reports whether the statement of mutant n is omitted.
func IsOmitted(n int) bool { return isActive(n) }
