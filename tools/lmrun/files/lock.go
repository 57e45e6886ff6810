package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

const lockPauseNs = 10_000_000 // 100 attempts take 1 s

// Lock locks an open file (flock). It returns unix.EAGAIN if another process holds the lock at all
// of the attempts, which are 10 ms apart. It makes raw system calls only.
func Lock(fd, attempts int) error {
	for range attempts {
		switch errno := flock(fd, unix.LOCK_EX|unix.LOCK_NB); errno {
		case 0:
			return nil
		case unix.EAGAIN:
		default:
			return errno
		}
		hal.SleepRaw(lockPauseNs)
	}
	return unix.EAGAIN
}

func flock(fd int, operation uintptr) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_FLOCK, uintptr(fd), operation, 0)
	return errno
}

// AllowReadOld makes PrepareSeal allow LockDir, ReadOld and UnlockDir for this output, which must
// replace a regular file.
func (f *Output) AllowReadOld() error {
	if f.finalNameOffset == 0 {
		return hal.NewFault(hal.Usage, f.Path+" is not a regular file; name another file")
	}
	f.readsOld = true
	return nil
}

// LockDir locks the directory of the output: until UnlockDir, no other process that calls LockDir
// replaces the file. A process that may list the directory can hold the lock, too.
func (f *Output) LockDir() error {
	err := Lock(f.dirFD, 100)
	if err == unix.EAGAIN {
		err = hal.NewFault(hal.IO, f.Path+": another process has locked its directory (flock) "+
			"for 1 s; move the file to a directory that only this user may list")
	}
	return hal.FileFault(f.Path, err)
}

// UnlockDir releases the lock of LockDir, as Commit and Discard do, unless the process is sealed.
func (f *Output) UnlockDir() { _ = flock(f.dirFD, unix.LOCK_UN) }

const readOldFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// ReadOld reads the file that Commit would replace, up to the size of data. Without a file it
// returns nil.
func (f *Output) ReadOld(data []byte) ([]byte, error) {
	name := nameAddress(f.tempAndFinalName[f.finalNameOffset:])
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(f.dirFD), name, readOldFlags, 0, 0, 0)
	if errno == unix.ENOENT {
		return nil, nil
	}
	if errno != 0 {
		return nil, hal.FileFault(f.Path, errno)
	}
	n, err := hal.Read(int(fd), data)
	if !f.isSealed {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
	return data[:max(n, 0)], hal.FileFault(f.Path, err)
}
