package files

import (
	"strconv"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Output is an output file that is being written. For every Output, the caller must call Commit,
// Discard or both. Commit and Discard make raw system calls, because lmrun calls them after
// runtime.Replay.Freeze: during other system calls, Go's scheduler could start a thread, which is
// forbidden after Freeze.
type Output struct {
	Path     string // path of the output, for error messages
	Fd       int    // file descriptor to which the caller writes the data
	IsStream bool   // true for a pipe, a socket or a character device: see isStream
	// dirFD is the directory of the temporary and the final file; -1: not open. It stays open, so
	// that a change of links cannot redirect the rename to another directory.
	dirFD int
	// tempAndFinalName contains two base names, each followed by a zero byte: the name of the
	// temporary file, which Discard removes, and the final name. For an output of Create, it
	// contains only the name of the new file. It is nil if Discard must not remove a file. The
	// memory is read-only, so that the names cannot change: a seccomp filter (PrepareSeal) compares
	// only their addresses.
	tempAndFinalName []byte
	finalNameOffset  int  // offset of the final name in tempAndFinalName; 0: do not rename
	readsOld         bool // see AllowReadOld
	isSealed         bool // PrepareSeal was called: Discard must not close file descriptors
}

// OpenToReplace opens an output. When the caller calls Commit, the output replaces the file at
// path. The new file belongs to the writer, and has the permissions in mode without those in the
// umask. If path is a pipe or a device, the Output writes to the pipe or device in place. If path
// is a FIFO, OpenToReplace waits until another process has opened the FIFO for reading.
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
		// Another process has replaced the pipe or device by a regular file after the call of
		// unix.Stat. A regular file must not be written in place.
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

// fileChangedError returns the error for an output at path that cannot be committed, because
// another process has changed the file at path after the output was opened.
func fileChangedError(path string) error {
	const reason = ": another process has deleted, renamed or changed it"
	return hal.JoinFault(hal.IO, "cannot replace ", path, reason)
}

// createTemp creates the temporary file in the directory of the file at f.Path, whose status is
// `existing`, or zero if there is no such file.
func (f *Output) createTemp(mode uint32, existing *unix.Stat_t) error {
	var status unix.Stat_t
	dirFD, name, err := followLinks(f.Path, &status)
	f.dirFD = dirFD
	if err != nil {
		return err
	}
	// Check that followLinks has found the same file as stat(2). For a link in /proc/self/fd, the
	// two can differ: the text of such a link is not always the path of the file.
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

// lockTemp locks the temporary file, so that RemoveLeftovers of another process keeps it.
func (f *Output) lockTemp() error {
	var status unix.Stat_t
	_ = unix.Flock(f.Fd, unix.LOCK_EX) // some file systems have no locks
	err := unix.Fstat(f.Fd, &status)
	if err == nil && status.Nlink == 0 { // RemoveLeftovers was faster
		err = unix.EAGAIN
	}
	return err
}

// RemoveLeftovers removes the temporary files that killed writers of this output have left:
// regular files of this user with a name of tempName that no process has locked.
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

// removeIfUnlocked removes a temporary file whose writer has ended.
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
	tempDigits = 16 // random hex digits in the name of a temporary file
	tempSuffix = ".part"
)

// tempName returns the base name of the temporary file for an output: a dot, the output's name, a
// dot, random digits, which other processes cannot guess, and tempSuffix.
func tempName(name string) (string, error) {
	const maxNameBytes = 200 // Linux limits a base name to 255 bytes
	var random [8]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return "", err
	}
	digits := strconv.FormatUint(1<<63|fbs.ReadStruct[uint64](random[:]), 16)
	return "." + name[:min(len(name), maxNameBytes)] + "." + digits + tempSuffix, nil
}

// copyNamesToReadOnlyMemory maps memory and writes these bytes to it: temp, a zero byte, name, and
// a zero byte. It then makes the memory read-only and returns the memory. The filter of a sealed
// process allows a rename only of names at these addresses; read-only memory keeps the names as
// they are.
func copyNamesToReadOnlyMemory(temp, name string) ([]byte, error) {
	const writable, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
	names, err := hal.Mmap(-1, 0, len(temp)+len(name)+2, writable, private)
	if err != nil {
		return nil, err
	}
	copy(names, temp+"\x00"+name)
	_ = unix.Mprotect(names, unix.PROT_READ) // cannot fail, because this memory is mapped
	return names, nil
}

// createNewFlags contains the flags with which open(2) creates a file for writing. With these
// flags, open(2) fails if the file exists already.
const createNewFlags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW

// WriteFull writes all of data to the file descriptor fd. It repeats the system call after a
// partial write, and after an interruption by a signal. The error is a unix.Errno.
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

// sync writes the file or directory fd to the disk. It ignores the errors that fsync returns for
// pipes and for devices that cannot be synced.
func (f *Output) sync(fd int) error {
	_, _, errno := unix.RawSyscall(unix.SYS_FSYNC, uintptr(fd), 0, 0)
	if errno == 0 || errno == unix.EINVAL || errno == unix.EROFS {
		return nil
	}
	return hal.FileFault(f.Path, errno)
}

// renameToFinal renames the temporary file, if there is one, to its final name.
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

// Discard closes the file descriptors. If the output was not committed, Discard also removes the
// temporary file, or the file that Create has created. Data that were written to a pipe or a device
// stay written. After a call of PrepareSeal, Discard does not close the file descriptors, because
// the seccomp filter may forbid closing.
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

// nameAddress returns the address of the first byte of name.
func nameAddress(name []byte) uintptr { return uintptr(unsafe.Pointer(&name[0])) }

// Outputs is a list of outputs. It has methods that commit or discard all outputs of the list.
type Outputs []*Output

// Commit syncs all files to the disk, then renames each file to its final name, and then syncs the
// directories. No file has its final name before the data of all files are on the disk. After the
// first error, Commit returns this error and renames no further files.
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

// Discard discards every output of the list. It does not remove files that already have their
// final names.
func (list Outputs) Discard() {
	for _, f := range list {
		f.Discard()
	}
}
