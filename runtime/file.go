package runtime

import (
	"runtime/debug"

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
	// A pipe that nobody writes to must not keep us: O_NONBLOCK.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fileFault(path, err)
	}
	defer unix.Close(fd)
	var status unix.Stat_t
	err = unix.Fstat(fd, &status)
	switch {
	case err != nil || status.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, &hal.Fault{Code: hal.BadImage, Reason: path + " is a directory or a device, an image is a file"}
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
func (f *File) Verify() (view *fbs.View, err error) {
	err = f.Check(func(data []byte) (err error) {
		view, err = fbs.Verify(data)
		return err
	})
	return view, err
}

// Check has a function look at the bytes of the file. Its error becomes a
// *hal.Fault with the path of the file, as does a file that is cut short
// meanwhile. An error without a code counts as a bad image.
func (f *File) Check(check func(data []byte) error) error {
	var err error
	code := f.guarded(check, &err)
	reason := "the file was cut short while it was read"
	if code == hal.OK && err == nil {
		return nil
	}
	if code == hal.OK {
		code, reason = hal.BadImage, err.Error()
		if fault, ok := err.(*hal.Fault); ok {
			code, reason = fault.Code, fault.Reason
		}
	}
	return &hal.Fault{Code: code, Reason: f.path + ": " + reason}
}

func (f *File) guarded(check func(data []byte) error, err *error) (code hal.Code) {
	defer guard(debug.SetPanicOnFault(true), &code)
	*err = check(f.data)
	return hal.OK
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
