package files

import (
	"strconv"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file reads complete files, up to a maximum size.

// OpenWithoutWaiting opens the file at path for reading. In contrast to OpenInput, it does not wait
// for the writer of a FIFO. If the FIFO has no writer, the caller reads the end of the file. The
// result `stream` is true for a pipe, a socket or a character device.
func OpenWithoutWaiting(path string) (fd int, stream bool, err error) {
	if fd, stream, err = OpenInput(path, unix.O_NONBLOCK); err != nil {
		return -1, false, err
	}
	return fd, stream, hal.FileFault(path, unix.SetNonblock(fd, false))
}

// maxStreamBytes is the largest number of bytes that Read accepts from a stream. Without a limit,
// an endless stream, such as /dev/zero, would fill the memory.
const maxStreamBytes = 64 << 20

// Read returns the content of the file at path. It returns an error if the file has more than
// maxBytes bytes, or if the file is a stream and has more than maxStreamBytes bytes. If path is a
// FIFO that no process has open for writing, Read returns an error and does not wait.
func Read(path string, maxBytes int) ([]byte, error) {
	fd, stream, err := OpenWithoutWaiting(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var status unix.Stat_t
	if err := unix.Fstat(fd, &status); err != nil {
		return nil, hal.FileFault(path, err)
	}
	if stream {
		maxBytes = min(maxBytes, maxStreamBytes)
	}
	tooLarge := hal.NewFault(hal.Usage, path+" is larger than the limit of "+
		strconv.Itoa(maxBytes)+" bytes; name a smaller file")
	if status.Size > int64(maxBytes) {
		return nil, tooLarge
	}
	data := make([]byte, 0, max(int(status.Size), 4095)+1)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, hal.FileFault(path, err)
		case n == 0 && stream && len(data) == 0 && status.Mode&unix.S_IFMT == unix.S_IFIFO:
			const reason = " is a pipe without a writer; start the writer first"
			return nil, hal.NewFault(hal.IO, path+reason)
		case n == 0:
			return data, nil
		}
		if data = data[:len(data)+n]; len(data) > maxBytes {
			return nil, tooLarge
		}
	}
}
