package files

import (
	"sync/atomic"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// OpenInput opens a file for reading, with additional flags of open(2). The path "-" is standard
// input. It waits for the writer of a FIFO, unless flags has O_NONBLOCK. `stream` is true for a
// pipe, a socket or a character device.
func OpenInput(path string, flags int) (fd int, stream bool, err error) {
	var status unix.Stat_t
	if path == "-" {
		path = "standard input"
		fd, err = openStdio(0, flags)
	} else {
		fd, err = openAt(unix.AT_FDCWD, path, flags, 0)
	}
	if err == nil {
		err = unix.Fstat(fd, &status)
	}
	if err == nil && status.Mode&unix.S_IFMT == unix.S_IFDIR {
		unix.Close(fd)
		err = unix.EISDIR
	}
	return fd, isStream(&status), hal.FileFault(path, err)
}

// openStdio returns a new descriptor of standard input (0) or output (1). It opens a stream again
// through /proc, so that O_NONBLOCK does not affect other processes that share it, such as the
// shell. If the kernel does not permit this, and for a regular file, it duplicates the descriptor.
func openStdio(fdNumber, flags int) (fd int, err error) {
	var status unix.Stat_t
	err = unix.Fstat(fdNumber, &status)
	if fdNumber == 1 && isStdoutClosed(&status) {
		const reason = "standard output is closed; to discard the data, write to /dev/null"
		return -1, hal.NewFault(hal.Usage, reason)
	}
	if err == nil && isStream(&status) {
		// Without O_NONBLOCK, openAt would wait forever if the other end of a pipe is closed.
		path := "/proc/self/fd/" + string(rune('0'+fdNumber))
		if fd, err = openAt(unix.AT_FDCWD, path, flags|unix.O_NONBLOCK, 0); err == nil {
			return fd, unix.SetNonblock(fd, flags&unix.O_NONBLOCK != 0)
		}
	}
	return unix.FcntlInt(uintptr(fdNumber), unix.F_DUPFD_CLOEXEC, 0)
}

// isStdoutClosed reports whether the program was started with standard output closed: Go's runtime
// then opens /dev/null for reading and writing, while a shell's redirection opens it only for
// writing.
func isStdoutClosed(stdout *unix.Stat_t) bool {
	const nullDevice = 1<<8 | 3 // /dev/null: major 1, minor 3
	if stdout.Rdev != nullDevice {
		return false
	}
	access, _ := unix.FcntlInt(1, unix.F_GETFL, 0)
	return access&unix.O_ACCMODE == unix.O_RDWR
}

// isStream reports whether data reach the reader at once and cannot be undone, and a read can wait
// for the writer: a pipe, a socket, a terminal or another character device.
func isStream(status *unix.Stat_t) bool {
	kind := status.Mode & unix.S_IFMT
	return kind == unix.S_IFIFO || kind == unix.S_IFCHR || kind == unix.S_IFSOCK
}

// StopRequested, if not nil, ends the waits of this package once it is not 0. The process must then
// have a handler for SIGALRM.
var StopRequested *atomic.Uint32

// openAt opens with an alarm: without it, a stop could not end the wait for a FIFO's other end.
func openAt(dirFD int, path string, flags int, mode uint32) (fd int, err error) {
	for {
		timer := startAlarm()
		fd, err = unix.Openat(dirFD, path, flags|unix.O_CLOEXEC, mode)
		unix.RawSyscall(unix.SYS_TIMER_DELETE, timer, 0, 0)
		if err != unix.EINTR || StopRequested != nil && StopRequested.Load() != 0 {
			return fd, err
		}
	}
}

// EnsureSpareFDs returns an error if the process cannot open count more descriptors. Go's runtime
// opens some while a program runs; if it cannot, it ends the process with status 2 and no error to
// report.
func EnsureSpareFDs(count int) error {
	for range count {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return hal.FileFault("no spare file descriptors; raise the limit with `ulimit -n`", err)
		}
		defer unix.Close(fd)
	}
	return nil
}
