package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file contains functions that only host tools use. A test in tools/check/house checks that
// the linker does not include these functions in lmrun or lminit.

// Create creates a new file at path and returns an Output for writing the file. It returns an error
// if a file exists at path. The parameter `mode` contains the permissions of the file. The kernel
// removes the permissions that are in the umask.
func Create(path string, mode uint32) (*Output, error) {
	f := &Output{Path: path, Fd: -1}
	dirFD, name, err := openParent(unix.AT_FDCWD, path)
	f.dirFD = dirFD
	if err == nil {
		f.Fd, err = openAt(dirFD, name, createNewFlags, mode)
	}
	if err == nil {
		f.tempAndFinalName = []byte(name + "\x00")
		return f, nil
	}
	f.Discard()
	if err == unix.EEXIST {
		reason := path + " exists and will not be replaced; name another file or remove this one"
		err = hal.NewFault(hal.Usage, reason)
	}
	return nil, hal.FileFault(path, err)
}

// Write writes data to the file at path and commits the file. The parameter `open` is the function
// OpenToReplace or Create. With OpenToReplace, Write replaces an existing file. With Create, Write
// returns an error if the file exists.
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

// Write writes all of data to the file, or returns an error. It implements io.Writer.
func (f *Output) Write(data []byte) (int, error) {
	if err := WriteFull(f.Fd, data); err != nil {
		return 0, hal.FileFault(f.Path, err)
	}
	return len(data), nil
}

// Commit syncs the file to the disk. If the file was opened by OpenToReplace, Commit then renames
// the file to its final name.
func (f *Output) Commit() error { return Outputs{f}.Commit() }
