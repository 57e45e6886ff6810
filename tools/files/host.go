package files

import (
	"lightmetal/hal"
	"lightmetal/hal/unix"
)

// What host tools alone use: no target links it (tools/house looks).

// Create begins a file that must not exist yet.
func Create(path string, mode uint32) (*Output, error) {
	f := &Output{Path: path, Fd: -1}
	dir, name, err := openDir(unix.AT_FDCWD, path)
	if f.dir = dir; err == nil {
		f.Fd, err = open(dir, name, createNew, mode)
	}
	if err == nil {
		f.names = []byte(name + "\x00")
		return f, nil
	}
	f.Discard()
	if err == unix.EEXIST {
		err = hal.NewFault(hal.Usage, path+" is there and is not replaced")
	}
	return nil, hal.FileFault(path, err)
}

// Write is Replace, or Create for a file that is not to be replaced, and all that
// follows.
func Write(path string, data []byte, mode uint32,
	begin func(string, uint32) (*Output, error)) error {
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

// Write writes all of data.
func (f *Output) Write(data []byte) (int, error) {
	if err := WriteFull(f.Fd, data); err != nil {
		return 0, hal.FileFault(f.Path, err)
	}
	return len(data), nil
}

// Commit puts in place what was written.
func (f *Output) Commit() error { return Outputs{f}.Commit() }
