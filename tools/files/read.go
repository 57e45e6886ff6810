package files

import (
	"strconv"

	"lightmetal/hal"
	"lightmetal/hal/unix"
)

// Open opens a file to read from and does not wait for the writer of a pipe:
// without one, nothing is there to read.
func Open(path string) (fd int, stream bool, err error) {
	if fd, stream, err = OpenInput(path, unix.O_NONBLOCK); err != nil {
		return -1, false, err
	}
	return fd, stream, hal.FileFault(path, unix.SetNonblock(fd, false))
}

// streamMax bounds what a pipe or a device gives, which has no size to know it by.
const streamMax = 64 << 20

// Read gives the whole of a file of so many bytes at most. A pipe that nobody
// writes to and a device without an end are errors, and keep nobody waiting.
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
	tooLarge := hal.NewFault(hal.BadImage, path+" has more than the "+strconv.Itoa(most)+
		" bytes that can be read here")
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
			return nil, hal.NewFault(hal.IO, path+" is a pipe that nobody writes to")
		case n == 0:
			return data, nil
		}
		if data = data[:len(data)+n]; len(data) > most {
			return nil, tooLarge
		}
	}
}
