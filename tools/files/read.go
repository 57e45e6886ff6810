package files

import (
	"strconv"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file reads complete files of limited size.

// Open opens a file to read from. It does not wait for the writer of a pipe: reading a pipe
// without a writer ends at once.
func Open(path string) (fd int, stream bool, err error) {
	if fd, stream, err = OpenInput(path, unix.O_NONBLOCK); err != nil {
		return -1, false, err
	}
	return fd, stream, hal.FileFault(path, unix.SetNonblock(fd, false))
}

// streamMax is the most bytes that are read from a pipe or a device, which has no size.
const streamMax = 64 << 20

// Read returns the content of a file of at most so many bytes. A pipe without a writer and a
// device without an end are errors; Read does not wait for them.
func Read(path string, most int) ([]byte, error) {
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
		most = min(most, streamMax)
	}
	tooLarge := hal.NewFault(hal.BadImage, path+" has more than "+strconv.Itoa(most)+
		" bytes, the most that are accepted here")
	if status.Size > int64(most) {
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
		if data = data[:len(data)+n]; len(data) > most {
			return nil, tooLarge
		}
	}
}
