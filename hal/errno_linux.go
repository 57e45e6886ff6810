package hal

// This file converts errors of system calls to Faults.

import "golang.org/x/sys/unix"

// syscallFault converts the error of a system call on a device or on a file of the device to a
// Fault. `call` is the name of the system call, and `path` is the path of the file. If `err` is
// nil, syscallFault returns nil.
func syscallFault(call, path string, err error) error {
	if err == nil {
		return nil
	}
	code, remedy := NoDevice, ""
	switch errnoOf(err) {
	case unix.EACCES, unix.EPERM:
		code, remedy = Denied, "; run as root, or give this user access to the file"+
			"; if root is denied too, kernel lockdown is on"
	case unix.EROFS:
		remedy = "; run `mount -o remount,rw /sys`"
	}
	return JoinFault(code, call, " ", path, ": ", err.Error(), remedy)
}

// errnoOf returns the errno of `err`, the error of a system call: 0 if `err` is nil, and EIO if
// `err` is not a unix.Errno. The compiler must not inline errnoOf, because the inlined copies would
// make the program larger.
//
//go:noinline
func errnoOf(err error) unix.Errno {
	errno, isErrno := err.(unix.Errno)
	if err != nil && !isErrno {
		return unix.EIO
	}
	return errno
}

// FileFault converts the error of a system call on an ordinary file (not a device) to a Fault.
// `path` is the path of the file. If `err` is nil or already a Fault, FileFault returns `err`
// unchanged.
func FileFault(path string, err error) error {
	if _, ok := err.(*Fault); ok || err == nil {
		return err
	}
	code, remedy := IO, ""
	switch errnoOf(err) {
	case unix.EMFILE:
		remedy = "; raise the limit with `ulimit -n`"
	case unix.ENFILE:
		remedy = "; raise the system limit fs.file-max"
	case unix.ENOENT:
		return NewFault(NoFile, path) // the message is "no such file: " and the path
	case unix.ENOTDIR:
		code = NoFile
	case unix.EACCES, unix.EPERM, unix.EROFS:
		code = Denied
	}
	return JoinFault(code, path, ": ", err.Error(), remedy)
}
