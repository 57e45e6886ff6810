package hal

// This file converts errors of system calls to Faults.

import "golang.org/x/sys/unix"

// callFault returns the Fault for a system call that failed with err on the file at path. call is
// the name of the system call. It returns nil if err is nil.
func callFault(call, path string, err error) error {
	if err == nil {
		return nil
	}
	reason := call + " " + path + ": " + err.Error()
	if err == unix.EACCES || err == unix.EPERM {
		return NewFault(Denied, reason+"; run as root, or give this user access to the file "+
			"(kernel lockdown denies access to everyone)")
	}
	return NewFault(NoDevice, reason)
}

// FileFault returns the Fault for a system call that failed with err on the file at path, which
// must not be a device. It returns err itself if err is nil or a Fault.
func FileFault(path string, err error) error {
	if _, ok := err.(*Fault); ok || err == nil {
		return err
	}
	code, remedy := IO, ""
	switch err {
	case unix.EMFILE, unix.ENFILE:
		remedy = "; raise the limit of open files with `ulimit -n`"
	case unix.ENOENT:
		return NewFault(NoFile, path) // the text of NoFile already says "no such file"
	case unix.ENOTDIR:
		code = NoFile
	case unix.EACCES, unix.EPERM, unix.EROFS:
		code = Denied
	}
	return NewFault(code, path+": "+err.Error()+remedy)
}
