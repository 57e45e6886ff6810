package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file has the functions that only host tools use. A test in tools/check/house checks that
// programs for targets do not link them.

// Create begins to write a new file. It is an error if path exists.
func Create(path string, mode uint32) (*Output, error) {
	f := &Output{Path: path, Fd: -1}
	dirFD, name, err := openDir(unix.AT_FDCWD, path)
	f.dirFD = dirFD
	if err == nil {
		f.Fd, err = openAt(dirFD, name, createNew, mode)
	}
	if err == nil {
		f.names = []byte(name + "\x00")
		return f, nil
	}
	f.Discard()
	if err == unix.EEXIST {
		reason := path + " exists and will not be replaced; name another file or remove this one"
		err = hal.NewFault(hal.Usage, reason)
	}
	return nil, hal.FileFault(path, err)
}

// Write writes a complete file. The parameter open is Replace, which replaces an existing
// file, or Create, which returns an error if the file exists.
func Write(path string, data []byte, mode uint32,
	open func(path string, mode uint32) (*Output, error)) error {
	f, err := open(path, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// Write implements io.Writer. It writes all of data, unless it returns an error.
func (f *Output) Write(data []byte) (int, error) {
	if err := WriteFull(f.Fd, data); err != nil {
		return 0, hal.FileFault(f.Path, err)
	}
	return len(data), nil
}

// Commit syncs the file and renames it to its final name.
func (f *Output) Commit() error { return Outputs{f}.Commit() }
