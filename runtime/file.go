package runtime

import (
	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// File is an image mapped read-only; its pages come from the page cache and
// go to the device without a copy in between.
type File struct {
	path string
	data []byte
}

// Open maps a file. The error is a *hal.Fault.
func Open(path string) (*File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fileFault(path, err)
	}
	defer unix.Close(fd)
	var status unix.Stat_t
	if err := unix.Fstat(fd, &status); err != nil {
		return nil, fileFault(path, err)
	}
	switch {
	case status.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil, &hal.Fault{Code: hal.BadImage, Reason: path + " is a directory, an image is a file"}
	case status.Size == 0:
		return nil, &hal.Fault{Code: hal.BadImage, Reason: path + ": the file is empty"}
	}
	data, err := unix.Mmap(fd, 0, int(status.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fileFault(path, err)
	}
	return &File{path, data}, nil
}

// Verify checks every byte of the file. The error is a *hal.Fault.
func (f *File) Verify() (*fbs.View, error) {
	view, err := fbs.Verify(f.data)
	if err != nil {
		return nil, &hal.Fault{Code: hal.BadImage, Reason: f.path + ": " + err.Error()}
	}
	return view, nil
}

// Bytes is the mapped file. Reading it after another process has truncated it
// is a bus error.
func (f *File) Bytes() []byte { return f.data }

// Close unmaps the file. No View or Replay of it may be used afterwards.
func (f *File) Close() error { return unix.Munmap(f.data) }

func fileFault(path string, err error) error {
	code := hal.IO
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		code = hal.NoFile
	case unix.EACCES, unix.EPERM:
		code = hal.Denied
	}
	return &hal.Fault{Code: code, Reason: path + ": " + err.Error()}
}
