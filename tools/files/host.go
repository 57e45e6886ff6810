package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file has what only host tools use: no target links it (tools/house checks that).

// Create begins a file that must not exist yet.
func Create(path string, mode uint32) (*Output, error) {
	f := &Output{Path: path, Fd: -1}
	dir, name, err := openDir(unix.AT_FDCWD, path)
	f.dir = dir
	if err == nil {
		f.Fd, err = open(dir, name, createNew, mode)
	}
	if err == nil {
		f.names = []byte(name + "\x00")
		return f, nil
	}
	f.Discard()
	if err == unix.EEXIST {
		reason := path + " exists and is not replaced; name another file or remove it"
		err = hal.NewFault(hal.Usage, reason)
	}
	return nil, hal.FileFault(path, err)
}

// Write writes a complete file. The parameter begin is Replace, or Create for a file that
// must not exist yet.
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

// Commit syncs and renames the file.
func (f *Output) Commit() error { return Outputs{f}.Commit() }
