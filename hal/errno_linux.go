package hal

import "golang.org/x/sys/unix"

// syscallFault is for a system call on a device or on a file of a device. It returns nil for nil.
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

// errnoOf returns 0 for nil, and EIO for an error that is no unix.Errno. Inlined copies would
// enlarge programs.
//
//go:noinline
func errnoOf(err error) unix.Errno {
	errno, isErrno := err.(unix.Errno)
	if err != nil && !isErrno {
		return unix.EIO
	}
	return errno
}

// FileFault converts the error of a system call on an ordinary file (not a device) to a Fault. It
// returns nil and Faults unchanged.
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
