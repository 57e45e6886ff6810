package main

import (
	"lightmetal/tools/files"

	"golang.org/x/sys/unix"
)

// readFile gives the whole of a small file, such as those in /proc that have
// no size.
func readFile(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data := make([]byte, 0, 4096)
	for {
		if len(data) == cap(data) {
			data = append(data, make([]byte, cap(data))...)[:len(data)]
		}
		n, err := unix.Read(fd, data[len(data):cap(data)])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return data, err
		}
		data = data[:len(data)+n]
	}
}

// readFull reads until data is full or the file ends.
func readFull(fd int, data []byte) (total int, err error) {
	for total < len(data) {
		n, err := unix.Read(fd, data[total:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return total, err
		}
		total += n
	}
	return total, nil
}

// print writes a text to a file descriptor. There is nobody to tell when that
// fails.
func print(fd int, text string) { _ = files.WriteFull(fd, []byte(text)) }

func pathFault(path string, err error) error { return files.Fault(path, err) }
