package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// What host tools alone use: no target links it (tools/house looks).

// Create begins a file that must not be there yet.
func Create(path string, mode uint32) (*Output, error) {
	fd, err := open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode)
	if err == unix.EEXIST {
		return nil, &hal.Fault{Code: hal.Usage, Reason: path + " is there and is not replaced"}
	}
	if err != nil {
		return nil, hal.FileFault(path, err)
	}
	f := &Output{path: path, fd: fd, kind: unix.S_IFREG}
	f.from, err = unix.BytePtrFromString(path)
	return f, hal.FileFault(path, err)
}

// Write is Replace, or Create for a file that is not to be replaced, and all that
// follows.
func Write(path string, data []byte, mode uint32, begin func(string, uint32) (*Output, error)) error {
	f, err := begin(path, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// Commit puts in place what was written.
func (f *Output) Commit() error { return Outputs{f}.Commit() }
