package files

import (
	"sync/atomic"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file opens input files, standard input and standard output.

// OpenInput opens the file at path for reading. The path "-" is standard input. The parameter
// `flags` contains flags of open(2). If path is a FIFO, OpenInput waits until another process has
// opened the FIFO for writing, unless flags contains unix.O_NONBLOCK. The result `stream` is true
// if the file is a pipe, a socket or a character device.
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

// openStdio returns a new file descriptor for standard input (number 0) or standard output
// (number 1).
//
// If the file is a stream, openStdio opens the stream again through /proc, so that the caller can
// set O_NONBLOCK on the new descriptor without an effect on other processes that share the stream,
// such as the shell. If the kernel does not permit this, or for a regular file, openStdio
// duplicates the descriptor.
func openStdio(fdNumber, flags int) (fd int, err error) {
	var status unix.Stat_t
	err = unix.Fstat(fdNumber, &status)
	if fdNumber == 1 && isStdoutClosed(&status) {
		const reason = "standard output is closed; to discard the data, write to /dev/null"
		return -1, hal.NewFault(hal.Usage, reason)
	}
	if err == nil && isStream(&status) {
		// Without O_NONBLOCK, openAt would wait forever if the process at the other end of a pipe
		// has already closed that end.
		path := "/proc/self/fd/" + string(rune('0'+fdNumber))
		if fd, err = openAt(unix.AT_FDCWD, path, flags|unix.O_NONBLOCK, 0); err == nil {
			return fd, unix.SetNonblock(fd, flags&unix.O_NONBLOCK != 0)
		}
	}
	return unix.FcntlInt(uintptr(fdNumber), unix.F_DUPFD_CLOEXEC, 0)
}

// isStdoutClosed reports whether the program was started with standard output closed. The parameter
// `stdout` is the status of file descriptor 1.
//
// If descriptor 1 is closed at the start of the program, Go's runtime opens /dev/null as descriptor
// 1 for reading and writing. In contrast, a shell that redirects standard output to /dev/null opens
// it only for writing. isStdoutClosed distinguishes the two cases by the access mode.
func isStdoutClosed(stdout *unix.Stat_t) bool {
	const nullDevice = 1<<8 | 3 // device number of /dev/null: major 1, minor 3
	if stdout.Rdev != nullDevice {
		return false
	}
	access, _ := unix.FcntlInt(1, unix.F_GETFL, 0)
	return access&unix.O_ACCMODE == unix.O_RDWR
}

// isStream reports whether status is the status of a stream. A stream is a pipe, a socket, a
// terminal or another character device. Data that are written to a stream reach the reader
// immediately and cannot be undone. A read from a stream can wait for the writer.
func isStream(status *unix.Stat_t) bool {
	kind := status.Mode & unix.S_IFMT
	return kind == unix.S_IFIFO || kind == unix.S_IFCHR || kind == unix.S_IFSOCK
}

// StopRequested makes openAt give up, if it points to a number that is not 0.
var StopRequested *atomic.Uint32

// openAt calls openat(2) with the additional flag O_CLOEXEC. It repeats the call after an
// interruption by a signal, unless a stop is requested.
func openAt(dirFD int, path string, flags int, mode uint32) (fd int, err error) {
	for {
		fd, err = unix.Openat(dirFD, path, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR || StopRequested != nil && StopRequested.Load() != 0 {
			return fd, err
		}
	}
}

// EnsureSpareFDs returns an error if the process cannot open `count` more file descriptors. Go's
// runtime opens file descriptors while a program runs. If it cannot open one, it ends the process
// with status 2, without an error that the caller could report.
func EnsureSpareFDs(count int) error {
	for range count {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return hal.FileFault("no spare file descriptors (ulimit -n)", err)
		}
		defer unix.Close(fd)
	}
	return nil
}
