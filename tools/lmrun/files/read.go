package files

import (
	"strconv"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file reads whole files, up to a maximum size.

// Open opens a file for reading. If path is a FIFO, Open does not wait until a process opens
// it for writing; without such a process, a read of the FIFO returns end of file at once. The
// result stream is that of OpenInput.
func Open(path string) (fd int, stream bool, err error) {
	if fd, stream, err = OpenInput(path, unix.O_NONBLOCK); err != nil {
		return -1, false, err
	}
	return fd, stream, hal.FileFault(path, unix.SetNonblock(fd, false))
}

// streamMax is the largest number of bytes that Read accepts from a stream. The limit is
// necessary because the size of a stream is not known in advance.
const streamMax = 64 << 20

// Read returns the content of the file at path. It is an error if the file has more than
// maxBytes bytes, or if it is a stream with more than streamMax bytes. Read does not wait for
// a FIFO that no process has opened for writing, but returns an error.
func Read(path string, maxBytes int) ([]byte, error) {
	fd, stream, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var status unix.Stat_t
	if err := unix.Fstat(fd, &status); err != nil {
		return nil, hal.FileFault(path, err)
	}
	if stream {
		maxBytes = min(maxBytes, streamMax)
	}
	tooLarge := hal.NewFault(hal.BadImage, path+" has more than "+strconv.Itoa(maxBytes)+
		" bytes, which is the limit here")
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
			return nil, hal.NewFault(hal.IO, path+" is a pipe without a writer")
		case n == 0:
			return data, nil
		}
		if data = data[:len(data)+n]; len(data) > maxBytes {
			return nil, tooLarge
		}
	}
}
