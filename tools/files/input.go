package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// OpenInput opens a file to read from, and without unix.O_NONBLOCK waits for the
// other side of a pipe. Stream tells that data come as they are made.
func OpenInput(path string, flags int) (fd int, stream bool, err error) {
	fd, err = open(path, flags|unix.O_RDONLY, 0)
	var status unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &status)
	}
	if err == nil && status.Mode&unix.S_IFMT == unix.S_IFDIR {
		unix.Close(fd)
		err = unix.EISDIR
	}
	return fd, isStream(status.Mode & unix.S_IFMT), hal.FileFault(path, err)
}

func isStream(kind uint32) bool {
	return kind == unix.S_IFIFO || kind == unix.S_IFCHR || kind == unix.S_IFSOCK
}

// Spare holds a process to room for so many more open files. Go itself opens
// some at times of its own, and ends a process that has none with status 2.
func Spare(count int) error {
	for range count {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return hal.FileFault("files that Go opens", err)
		}
		defer unix.Close(fd)
	}
	return nil
}
