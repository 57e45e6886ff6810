package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Only host tools use these functions; a test in tools/check/house looks for them in lmrun and
// lminit.

// Create creates a new file, with the permissions in mode that the umask leaves. It returns an
// error if a file exists at path.
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

// Write writes and commits a file. `open` is OpenToReplace or Create.
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

// Write writes all of data, or returns an error. It implements io.Writer.
func (f *Output) Write(data []byte) (int, error) {
	if err := WriteFull(f.Fd, data); err != nil {
		return 0, hal.FileFault(f.Path, err)
	}
	return len(data), nil
}

// Commit is Outputs.Commit for one output.
func (f *Output) Commit() error { return Outputs{f}.Commit() }
