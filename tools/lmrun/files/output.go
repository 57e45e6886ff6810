package files

import (
	"strconv"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Output is an output that is being written. It must be committed or discarded. Both make raw
// system calls: lmrun calls them after runtime.Replay.Freeze, and in other system calls Go's
// scheduler could start a thread, which is forbidden then.
type Output struct {
	Path     string // for messages
	Fd       int    // to which the caller writes
	IsStream bool   // a pipe, a socket or a character device
	// dirFD is the directory of both names; -1: not open. It stays open, so that a change of links
	// cannot redirect the rename.
	dirFD int
	// tempAndFinalName is the name that Discard removes and the final name, each before a zero
	// byte; for Create, only the first; nil: nothing to remove. It is in read-only memory, because
	// a seccomp filter compares only the addresses of names (see PrepareSeal).
	tempAndFinalName []byte
	finalNameOffset  int  // in tempAndFinalName; 0: do not rename
	readsOld         bool // see AllowReadOld
	isSealed         bool // Discard must not close descriptors
}

// OpenToReplace opens an output that replaces the file at path when it is committed. The new file
// has the permissions in mode that the umask leaves. A pipe or a device is written in place;
// OpenToReplace waits for the reader of a FIFO.
func OpenToReplace(path string, mode uint32) (*Output, error) {
	f := &Output{Path: path, Fd: -1, dirFD: -1}
	var status unix.Stat_t
	err := unix.Stat(path, &status)
	inPlace := err == nil && status.Mode&unix.S_IFMT != unix.S_IFREG
	switch {
	case IsStdout(path):
		f.Path, inPlace = "standard output", false
		f.Fd, err = openStdio(1, unix.O_WRONLY)
	case inPlace:
		f.Fd, err = openAt(unix.AT_FDCWD, path, unix.O_WRONLY, 0)
	case err == nil || err == unix.ENOENT:
		err = f.createTemp(mode, &status)
	}
	if err == nil {
		err = unix.Fstat(f.Fd, &status)
	}
	if inPlace && err == nil && status.Mode&unix.S_IFMT == unix.S_IFREG {
		// A regular file took the place of the pipe or device after unix.Stat.
		err = fileChangedError(path)
	}
	f.IsStream = isStream(&status)
	if err != nil {
		f.Discard()
	}
	return f, hal.FileFault(f.Path, err)
}

// IsStdout reports whether path is one of the usual paths of standard output.
func IsStdout(path string) bool {
	return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1"
}

func fileChangedError(path string) error {
	const reason = ": another process has deleted, renamed or changed it"
	return hal.JoinFault(hal.IO, "cannot replace ", path, reason)
}

// createTemp creates the temporary file. `existing` is the status of the file that it will replace,
// or zero.
func (f *Output) createTemp(mode uint32, existing *unix.Stat_t) error {
	var status unix.Stat_t
	dirFD, name, err := followLinks(f.Path, &status)
	f.dirFD = dirFD
	if err != nil {
		return err
	}
	// The text of a link in /proc/self/fd is not always the path of the file that stat(2) finds.
	if existing.Dev != status.Dev || existing.Ino != status.Ino {
		return fileChangedError(f.Path)
	}
	temp, err := tempName(name)
	if err != nil {
		return err
	}
	names, err := copyNamesToReadOnlyMemory(temp, name)
	if err != nil {
		return err
	}
	f.Fd, err = openAt(dirFD, temp, createNewFlags, mode)
	if err != nil {
		return err
	}
	f.tempAndFinalName, f.finalNameOffset = names, len(temp)+1
	return f.lockTemp()
}

// lockTemp keeps RemoveLeftovers of another process from removing the temporary file.
func (f *Output) lockTemp() error {
	var status unix.Stat_t
	_ = unix.Flock(f.Fd, unix.LOCK_EX) // some file systems have no locks
	err := unix.Fstat(f.Fd, &status)
	if err == nil && status.Nlink == 0 { // RemoveLeftovers was faster
		err = unix.EAGAIN
	}
	return err
}

// RemoveLeftovers removes the temporary files that killed writers of this output have left: regular
// files of this user with a name of tempName that no process has locked.
func (f *Output) RemoveLeftovers() {
	if f.finalNameOffset == 0 {
		return
	}
	own := string(f.tempAndFinalName[:f.finalNameOffset-1])
	end := len(own) - len(tempSuffix)
	first := end - tempDigits
	names, _ := hal.ListDir("/proc/self/fd/" + strconv.Itoa(f.dirFD))
	for _, name := range names {
		if len(name) != len(own) || name[:first] != own[:first] || name[end:] != tempSuffix {
			continue
		}
		if _, isTemp := hal.ParseNumber(name[first:end], 16, 1<<64-1); isTemp {
			f.removeIfUnlocked(name)
		}
	}
}

func (f *Output) removeIfUnlocked(name string) {
	fd, err := openAt(f.dirFD, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var status unix.Stat_t
	if unix.Fstat(fd, &status) == nil && status.Mode&unix.S_IFMT == unix.S_IFREG &&
		int(status.Uid) == unix.Geteuid() && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = unix.Unlinkat(f.dirFD, name, 0)
	}
}

const (
	tempDigits = 16 // random, hex
	tempSuffix = ".part"
)

// tempName returns a dot, the output's name, cut if it is long, a dot, random digits, which no
// other process can guess, and tempSuffix.
func tempName(name string) (string, error) {
	const maxNameBytes = 200 // Linux limits a base name to 255 bytes
	var random [8]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return "", err
	}
	digits := strconv.FormatUint(1<<63|fbs.ReadStruct[uint64](random[:]), 16)
	return "." + name[:min(len(name), maxNameBytes)] + "." + digits + tempSuffix, nil
}

// copyNamesToReadOnlyMemory returns both names, each with a zero byte after it.
func copyNamesToReadOnlyMemory(temp, name string) ([]byte, error) {
	const writable, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
	names, err := hal.Mmap(-1, 0, len(temp)+len(name)+2, writable, private)
	if err != nil {
		return nil, err
	}
	copy(names, temp+"\x00"+name)
	_ = unix.Mprotect(names, unix.PROT_READ) // cannot fail: it is mapped
	return names, nil
}

// createNewFlags make open(2) fail if the file exists.
const createNewFlags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW

// WriteFull writes all of data, in several system calls if necessary. The error is a unix.Errno.
func WriteFull(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := hal.Write(fd, data)
		if err != nil && err != unix.EINTR {
			return err
		}
		data = data[max(n, 0):]
	}
	return nil
}

// sync ignores the errors of pipes and of devices that cannot be synced.
func (f *Output) sync(fd int) error {
	_, _, errno := unix.RawSyscall(unix.SYS_FSYNC, uintptr(fd), 0, 0)
	if errno == 0 || errno == unix.EINVAL || errno == unix.EROFS {
		return nil
	}
	return hal.FileFault(f.Path, errno)
}

func (f *Output) renameToFinal() error {
	if f.finalNameOffset != 0 {
		dirFD := uintptr(f.dirFD)
		_, _, errno := unix.RawSyscall6(unix.SYS_RENAMEAT2, dirFD, nameAddress(f.tempAndFinalName),
			dirFD, nameAddress(f.tempAndFinalName[f.finalNameOffset:]), 0, 0)
		if errno != 0 {
			return hal.FileFault(f.Path, errno)
		}
	}
	f.tempAndFinalName = nil
	return nil
}

// Discard closes the descriptors, and removes the file if it was not committed. Data in a pipe or a
// device stay written. After PrepareSeal the descriptors stay open: the filter may forbid closing.
func (f *Output) Discard() {
	if temp := f.tempAndFinalName; temp != nil {
		_, _, _ = unix.RawSyscall(unix.SYS_UNLINKAT, uintptr(f.dirFD), nameAddress(temp), 0)
		f.tempAndFinalName = nil
	}
	for _, fd := range [...]*int{&f.Fd, &f.dirFD} {
		if *fd >= 0 && !f.isSealed {
			_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(*fd), 0, 0)
			*fd = -1
		}
	}
}

func nameAddress(name []byte) uintptr { return uintptr(unsafe.Pointer(&name[0])) }

// Outputs is a list of outputs that are committed or discarded together.
type Outputs []*Output

// Commit syncs all files, then renames each to its final name, and then syncs the directories: no
// file has its final name before all data are on the disk. It stops at the first error.
func (list Outputs) Commit() error {
	for _, f := range list {
		if err := f.sync(f.Fd); err != nil {
			return err
		}
	}
	for _, f := range list {
		if err := f.renameToFinal(); err != nil {
			return err
		}
	}
	for _, f := range list {
		if f.dirFD >= 0 {
			if err := f.sync(f.dirFD); err != nil {
				return err
			}
		}
		f.Discard()
	}
	return nil
}

// Discard discards every output. Files that have their final names stay.
func (list Outputs) Discard() {
	for _, f := range list {
		f.Discard()
	}
}
