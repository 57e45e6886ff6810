package files

import (
	"lightmetal/hal"
	"lightmetal/hal/unix"
)

// OpenInput opens a file to read from, "-" being standard input, and without
// unix.O_NONBLOCK waits for the other side of a pipe. Stream tells that data come as
// they are made.
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

// standard opens standard input or output. A stream is opened again where that is
// possible, so that what is set for this descriptor is not set for others.
func openStandard(number, flags int) (fd int, err error) {
	var status unix.Stat_t
	err = unix.Fstat(number, &status)
	const nullDevice = 1<<8 | 3 // mem(4)
	if number == 1 && status.Rdev == nullDevice {
		// Go opens the null device to read and write if a program is started without.
		if access, _ := unix.FcntlInt(1, unix.F_GETFL, 0); access&unix.O_ACCMODE == unix.O_RDWR {
			const reason = "standard output is closed; to discard data, name /dev/null"
			return -1, hal.NewFault(hal.Usage, reason)
		}
	}
	if err == nil && isStream(&status) {
		// Of a pipe, the other side may have gone already.
		path := "/proc/self/fd/" + string(rune('0'+number))
		if fd, err = open(unix.AT_FDCWD, path, flags|unix.O_NONBLOCK, 0); err == nil {
			return fd, unix.SetNonblock(fd, flags&unix.O_NONBLOCK != 0)
		}
	}
	return unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
}

// isStream tells that data go to or come from somebody at once: a pipe, a terminal
// or another device of characters.
func isStream(status *unix.Stat_t) bool {
	kind := status.Mode & unix.S_IFMT
	return kind == unix.S_IFIFO || kind == unix.S_IFCHR || kind == unix.S_IFSOCK
}

func open(dir int, path string, flags int, mode uint32) (fd int, err error) {
	for {
		fd, err = unix.Openat(dir, path, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// Spare holds a process to room for so many more open files. Go itself opens
// some at times of its own, and ends a process that has none with status 2.
func EnsureSpareFDs(count int) error {
	for range count {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return hal.FileFault("files that Go opens", err)
		}
		defer unix.Close(fd)
	}
	return nil
}
