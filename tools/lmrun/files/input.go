package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file opens inputs, standard input and standard output.

// OpenInput opens a file for reading. The path "-" is standard input. Unless flags contain
// unix.O_NONBLOCK, opening a FIFO waits until a process has opened it for writing. The
// result stream is true for a pipe, a socket or a character device: see isStream.
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

// openStandard returns a new file descriptor for standard input (number 0) or standard
// output (number 1). If it is a stream, openStandard opens the file again where the kernel
// permits that, because the flags of a duplicated descriptor would also change for the other
// processes that share the file. Otherwise openStandard duplicates the descriptor.
func openStandard(number, flags int) (fd int, err error) {
	var status unix.Stat_t
	err = unix.Fstat(number, &status)
	if number == 1 && isStdoutClosed(&status) {
		const reason = "standard output is closed; to discard the data, write to /dev/null"
		return -1, hal.NewFault(hal.Usage, reason)
	}
	if err == nil && isStream(&status) {
		// O_NONBLOCK: otherwise the open would wait forever if the other side of the pipe has
		// closed it already.
		path := "/proc/self/fd/" + string(rune('0'+number))
		if fd, err = openAt(unix.AT_FDCWD, path, flags|unix.O_NONBLOCK, 0); err == nil {
			return fd, unix.SetNonblock(fd, flags&unix.O_NONBLOCK != 0)
		}
	}
	return unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
}

// isStdoutClosed reports whether the program was started without standard output. In this
// case Go has opened /dev/null in its place, for reading and writing. A shell opens
// /dev/null for writing only, which makes the two cases different.
func isStdoutClosed(status *unix.Stat_t) bool {
	const nullDevice = 1<<8 | 3 // device number of /dev/null: major 1, minor 3
	if status.Rdev != nullDevice {
		return false
	}
	access, _ := unix.FcntlInt(1, unix.F_GETFL, 0)
	return access&unix.O_ACCMODE == unix.O_RDWR
}

// isStream reports whether the file is a stream: a pipe, a socket, a terminal or another
// character device. Data in a stream reach the reader immediately, and reading one can wait
// for the writer.
func isStream(status *unix.Stat_t) bool {
	kind := status.Mode & unix.S_IFMT
	return kind == unix.S_IFIFO || kind == unix.S_IFCHR || kind == unix.S_IFSOCK
}

// openAt calls openat(2), and repeats the call if a signal interrupted it.
func openAt(dirFD int, path string, flags int, mode uint32) (fd int, err error) {
	for {
		fd, err = unix.Openat(dirFD, path, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// EnsureSpareFDs returns an error unless the process can open count more files. Go itself
// opens files while a program runs, and ends the process with status 2 if it cannot.
func EnsureSpareFDs(count int) error {
	for range count {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return hal.FileFault("cannot reserve file descriptors for Go", err)
		}
		defer unix.Close(fd)
	}
	return nil
}
