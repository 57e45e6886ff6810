package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file opens input files, standard input and standard output.

// OpenInput opens the file at path for reading. The path "-" is standard input. The parameter
// flags contains flags of open(2). If path is a FIFO, OpenInput waits until another process has
// opened the FIFO for writing, unless flags contains unix.O_NONBLOCK. The result stream is true
// if the file is a pipe, a socket or a character device.
func OpenInput(path string, flags int) (fd int, stream bool, err error) {
	var status unix.Stat_t
	if path == "-" {
		path = "standard input"
		fd, err = openStandard(0, flags)
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

// openStandard returns a new file descriptor for standard input (number 0) or standard output
// (number 1). If the file is a stream, openStandard opens it again if the kernel permits this.
// The new descriptor then has its own flags: O_NONBLOCK on a duplicated descriptor would also
// change the descriptors of other processes that share the file, such as the shell. In all other
// cases openStandard duplicates the descriptor.
func openStandard(number, flags int) (fd int, err error) {
	var status unix.Stat_t
	err = unix.Fstat(number, &status)
	if number == 1 && isStdoutClosed(&status) {
		const reason = "standard output is closed; to discard the data, write to /dev/null"
		return -1, hal.NewFault(hal.Usage, reason)
	}
	if err == nil && isStream(&status) {
		// Without O_NONBLOCK, openAt would wait forever if the process at the other end of the
		// pipe has already closed its end.
		path := "/proc/self/fd/" + string(rune('0'+number))
		if fd, err = openAt(unix.AT_FDCWD, path, flags|unix.O_NONBLOCK, 0); err == nil {
			return fd, unix.SetNonblock(fd, flags&unix.O_NONBLOCK != 0)
		}
	}
	return unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
}

// isStdoutClosed reports whether the program was started with standard output closed. The
// parameter status is the status of file descriptor 1. If descriptor 1 is closed at the start, Go
// opens /dev/null as descriptor 1, for reading and writing. After a redirection `>/dev/null`,
// which is allowed, the shell has opened /dev/null for writing only. Therefore the access mode
// distinguishes the two cases.
func isStdoutClosed(status *unix.Stat_t) bool {
	const nullDevice = 1<<8 | 3 // device number of /dev/null: major 1, minor 3
	if status.Rdev != nullDevice {
		return false
	}
	access, _ := unix.FcntlInt(1, unix.F_GETFL, 0)
	return access&unix.O_ACCMODE == unix.O_RDWR
}

// isStream reports whether the status is that of a stream: a pipe, a socket, a terminal or
// another character device. Data that are written to a stream reach the reader immediately and
// cannot be undone. A read from a stream can wait for the writer.
func isStream(status *unix.Stat_t) bool {
	kind := status.Mode & unix.S_IFMT
	return kind == unix.S_IFIFO || kind == unix.S_IFCHR || kind == unix.S_IFSOCK
}

// openAt calls openat(2) with the additional flag O_CLOEXEC. It repeats the call if a signal has
// interrupted it.
func openAt(dirFD int, path string, flags int, mode uint32) (fd int, err error) {
	for {
		fd, err = unix.Openat(dirFD, path, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// EnsureSpareFDs checks that the process can open count more file descriptors, and otherwise
// returns an error. Go's runtime opens file descriptors while a program runs. If it cannot, it
// ends the process with status 2, without an error that the caller could report.
func EnsureSpareFDs(count int) error {
	for range count {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return hal.FileFault("no spare file descriptors", err)
		}
		defer unix.Close(fd)
	}
	return nil
}
