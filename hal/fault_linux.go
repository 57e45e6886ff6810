package hal

// Faults of system calls that failed.

import "golang.org/x/sys/unix"

// callFault returns the fault of a system call on a path that failed, nil if err is nil.
func callFault(call, path string, err error) error {
	if err == nil {
		return nil
	}
	reason := call + " " + path + ": " + err.Error()
	if err == unix.EACCES || err == unix.EPERM {
		return NewFault(Denied, reason+"; run as root, or give this user access to the file "+
			"(kernel lockdown forbids it to everyone)")
	}
	return NewFault(NoDevice, reason)
}

// FileFault returns the fault of a failed system call on a file that is not a device's, nil if
// err is nil.
func FileFault(path string, err error) error {
	if _, ok := err.(*Fault); ok || err == nil {
		return err
	}
	code, remedy := IO, ""
	switch err {
	case unix.EMFILE, unix.ENFILE:
		remedy = "; ulimit -n raises the number that is possible"
	case unix.ENOENT:
		return NewFault(NoFile, path) // whose text says that there is no such file
	case unix.ENOTDIR:
		code = NoFile
	case unix.EACCES, unix.EPERM, unix.EROFS:
		code = Denied
	}
	return NewFault(code, path+": "+err.Error()+remedy)
}
