package files

import (
	"strconv"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// OpenWithoutWaiting is OpenInput without the wait for the writer of a FIFO: without a writer, the
// caller reads the end of the file.
func OpenWithoutWaiting(path string) (fd int, stream bool, err error) {
	if fd, stream, err = OpenInput(path, unix.O_NONBLOCK); err != nil {
		return -1, false, err
	}
	return fd, stream, hal.FileFault(path, unix.SetNonblock(fd, false))
}

// maxStreamBytes keeps an endless stream, such as /dev/zero, from filling the memory.
const maxStreamBytes = 64 << 20

// Read returns the content of a file of at most maxBytes, or of a stream of at most maxStreamBytes.
// A FIFO without a writer is an error.
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
