package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file opens inputs, and standard input and output.

// OpenInput opens a file to read from; "-" is standard input. Without unix.O_NONBLOCK it
// waits for the other side of a pipe. It reports whether the file is a stream, whose data
// arrive while they are read.
func OpenInput(path string, flags int) (fd int, stream bool, err error) {
	var status unix.Stat_t
	if path == "-" {
		path = "standard input"
		fd, err = openStandard(0, flags)
	} else {
		fd, err = open(unix.AT_FDCWD, path, flags, 0)
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

// openStandard opens standard input or output (number 0 or 1). A stream is opened again if
// that is possible: flags that are set for a duplicate would be set for all processes that
// share it.
func openStandard(number, flags int) (fd int, err error) {
	var status unix.Stat_t
	err = unix.Fstat(number, &status)
	if number == 1 && isStdoutClosed(&status) {
		const reason = "standard output is closed; to discard data, name /dev/null"
		return -1, hal.NewFault(hal.Usage, reason)
	}
	if err == nil && isStream(&status) {
		// O_NONBLOCK, since the other side of a pipe may have gone already.
		path := "/proc/self/fd/" + string(rune('0'+number))
		if fd, err = open(unix.AT_FDCWD, path, flags|unix.O_NONBLOCK, 0); err == nil {
			return fd, unix.SetNonblock(fd, flags&unix.O_NONBLOCK != 0)
		}
	}
	return unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
}

// isStdoutClosed reports whether the program was started without standard output. Go then
// opens the null device for reading and writing.
func isStdoutClosed(status *unix.Stat_t) bool {
	const nullDevice = 1<<8 | 3 // mem(4)
	if status.Rdev != nullDevice {
		return false
	}
	access, _ := unix.FcntlInt(1, unix.F_GETFL, 0)
	return access&unix.O_ACCMODE == unix.O_RDWR
}

// isStream reports whether data go to a reader, or come from a writer, at once: a pipe, a
// socket, a terminal or another character device.
func isStream(status *unix.Stat_t) bool {
	kind := status.Mode & unix.S_IFMT
	return kind == unix.S_IFIFO || kind == unix.S_IFCHR || kind == unix.S_IFSOCK
}

// open is openat(2), repeated if a signal interrupts it.
func open(dir int, path string, flags int, mode uint32) (fd int, err error) {
	for {
		fd, err = unix.Openat(dir, path, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// EnsureSpareFDs returns an error unless the process can open count more files. Go opens
// files itself, and ends a process that cannot with status 2.
func EnsureSpareFDs(count int) error {
	for range count {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return hal.FileFault("descriptors for files that Go opens", err)
		}
		defer unix.Close(fd)
	}
	return nil
}
