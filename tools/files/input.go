package files

import "golang.org/x/sys/unix"

// OpenInput opens a file to read from, or waits for the other side of a pipe.
// Stream tells that data come from somebody as they are made.
func OpenInput(path string) (fd int, stream bool, err error) {
	for {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			break
		}
	}
	var status unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &status)
	}
	return fd, isStream(status.Mode & unix.S_IFMT), Fault(path, err)
}

func isStream(kind uint32) bool {
	return kind == unix.S_IFIFO || kind == unix.S_IFCHR || kind == unix.S_IFSOCK
}
