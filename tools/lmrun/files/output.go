package files

import (
	"strconv"
	"unsafe"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file writes outputs. To replace a file, it writes and syncs a temporary file, exchanges the
// names of the two files (RENAME_EXCHANGE), and removes the old file. If there is no old file, it
// renames the temporary file. It writes to pipes and devices in place.

// Output is an output file that is being written. For every Output, the caller must call Commit,
// Discard or both. Commit and Discard make raw system calls, because lmrun calls them after
// runtime.Replay.Freeze: during other system calls, Go's scheduler could start a thread, which is
// forbidden after Freeze.
type Output struct {
	Path     string // path of the output, for error messages
	Fd       int    // file descriptor to which the caller writes the data
	IsStream bool   // true for a pipe, a socket or a character device: see isStream
	// dirFD is the file descriptor of the directory that contains the temporary file and the
	// replaced file; -1: not open. dirFD stays open until the output is committed or discarded.
	// Therefore other processes cannot redirect the rename to another directory by changing links
	// or renaming directories.
	dirFD int
	// tempAndFinalName contains two base names, each followed by a zero byte: the name of the
	// temporary file, which Discard removes, and the final name. For an output of Create, it
	// contains only the name of the new file. It is nil if Discard must not remove a file. The
	// memory is read-only, so that the names cannot change: a seccomp filter (PrepareSeal) compares
	// only their addresses.
	tempAndFinalName []byte
	finalNameOffset  int  // offset of the final name in tempAndFinalName; 0: do not rename
	isSealed         bool // PrepareSeal was called: Discard must not close file descriptors
	// expectedOwnerAndMode has the owner and mode that the file to replace had when the output was
	// opened. If there was no such file, it has the owner and mode of the temporary file. Commit
	// fails if it would replace a file with another owner or mode.
	expectedOwnerAndMode ownerAndMode
	// replacedStatus is a buffer of the size of unix.Stat_t. During Commit, the kernel writes the
	// status of the replaced file to it. The buffer is a field, because PrepareSeal needs its
	// address for the rule that allows this system call.
	replacedStatus [unsafe.Sizeof(unix.Stat_t{}) / 8]uint64
}

// ownerAndMode contains the mode and owner of a file. A new file receives the mode and owner of the
// file that it replaces.
type ownerAndMode struct{ mode, uid, gid uint32 }

// ownerAndModeOf returns the owner and mode of a file with the given status.
func ownerAndModeOf(status *unix.Stat_t) ownerAndMode {
	return ownerAndMode{status.Mode, status.Uid, status.Gid}
}

// OpenToReplace opens an output. When the caller calls Commit, the output replaces the file at
// path. If no file exists at path, the new file has the permissions in mode without those in the
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

// createTemp creates the temporary file in the directory of the file at f.Path. The parameter
// `existing` is the status of the file at f.Path from stat(2); it is zero if no such file exists.
// If the file at f.Path exists, createTemp copies its owner and mode to the temporary file.
// Otherwise the temporary file receives the permissions in mode without those in the umask.
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
	replaces := status.Mode != 0
	if replaces {
		mode = 0o600 // give other users no access before the file has its final owner
	}
	f.Fd, err = openAt(dirFD, temp, createNewFlags, mode)
	if err != nil {
		return err
	}
	f.tempAndFinalName, f.finalNameOffset = names, len(temp)+1
	if replaces {
		// Set the owner before the mode, because a change of the owner can clear bits of the mode.
		// Only root may change the owner. If fchown fails, the new file belongs to the current
		// user.
		_ = unix.Fchown(f.Fd, int(status.Uid), int(status.Gid))
		err = unix.Fchmod(f.Fd, status.Mode&0o777)
	} else {
		err = unix.Fstat(f.Fd, &status)
	}
	f.expectedOwnerAndMode = ownerAndModeOf(&status)
	return err
}

// tempName returns the base name of the temporary file for an output with the given base name.
// The returned name contains random digits, so that other processes cannot guess it.
func tempName(name string) (string, error) {
	// The temporary name contains at most the first maxNameBytes bytes of name. Linux limits a base
	// name to 255 bytes. The other 55 bytes are for the dots, digits and suffix.
	const maxNameBytes = 200
	var random [8]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return "", err
	}
	temp := "." + name[:min(len(name), maxNameBytes)] + "."
	for _, b := range random {
		temp += strconv.FormatUint(uint64(b), 16)
	}
	return temp + ".part", nil
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

// syncToDisk calls fsync(2), which returns after the data of the file have been written to the
// disk. It ignores the errors that fsync returns for pipes and for devices that cannot be synced.
func (f *Output) syncToDisk() error {
	_, _, errno := unix.RawSyscall(unix.SYS_FSYNC, uintptr(f.Fd), 0, 0)
	isPipeOrDevice := errno == unix.EINVAL || errno == unix.EROFS
	if errno == 0 || isPipeOrDevice {
		return nil
	}
	return hal.FileFault(f.Path, errno)
}

// renameToFinal renames the temporary file to its final name and removes the replaced file. It
// returns an error if the owner or mode of the replaced file has changed since the output was
// opened. It allocates memory only for an error, because lmrun calls it after
// runtime.Replay.Freeze.
func (f *Output) renameToFinal() error {
	if f.finalNameOffset == 0 { // nothing to rename: f is a pipe, a device or an output of Create
		return f.closeFDs()
	}
	// Exchange the names of the two files before removeReplacedFile checks the replaced file. After
	// the exchange, the replaced file has the random temporary name, which other processes do not
	// know. Therefore no process can change the file between the check and the removal.
	errno := f.renameTemp(unix.RENAME_EXCHANGE)
	if errno == 0 {
		return f.removeReplacedFile()
	}
	// If no file has the final name (ENOENT), rename the temporary file. With RENAME_NOREPLACE, the
	// call fails if another process has just created a file with the final name.
	if errno == unix.ENOENT {
		errno = f.renameTemp(unix.RENAME_NOREPLACE)
	}
	switch errno {
	case 0:
		return f.closeFDs()
	case unix.EEXIST:
		return fileChangedError(f.Path)
	}
	// After any other error, assume that the file system cannot exchange names. Check the file to
	// replace, and then rename the temporary file over it. If another process changes the file
	// between these two system calls, the change is lost.
	if f.ownerOrModeChanged(f.tempAndFinalName[f.finalNameOffset:]) {
		return fileChangedError(f.Path)
	}
	if errno = f.renameTemp(0); errno != 0 {
		return hal.FileFault(f.Path, errno)
	}
	return f.closeFDs()
}

// removeReplacedFile checks and removes the replaced file after the names have been exchanged. At
// this time the replaced file has the temporary name. If the owner or mode of the replaced file has
// changed, removeReplacedFile exchanges the names back and returns an error.
func (f *Output) removeReplacedFile() error {
	if !f.ownerOrModeChanged(f.tempAndFinalName) {
		f.Discard() // removes the file with the temporary name, which is the replaced file
		return nil
	}
	if f.renameTemp(unix.RENAME_EXCHANGE) != 0 {
		// Another process has renamed or removed the new file. Give the replaced file its final
		// name again, unless another file has this name.
		f.renameTemp(unix.RENAME_NOREPLACE)
		f.tempAndFinalName = nil // so that Discard does not remove the replaced file
	}
	return fileChangedError(f.Path)
}

// ownerOrModeChanged reports whether the owner or mode of a file differs from
// f.expectedOwnerAndMode. The parameter `name` is the base name of the file in the directory
// f.dirFD. ownerOrModeChanged returns false if it cannot read the status of the file.
func (f *Output) ownerOrModeChanged(name []byte) bool {
	_, _, errno := unix.RawSyscall6(unix.SYS_NEWFSTATAT,
		uintptr(f.dirFD), nameAddress(name), f.statusAddress(), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	status := (*unix.Stat_t)(unsafe.Pointer(&f.replacedStatus))
	return errno == 0 && ownerAndModeOf(status) != f.expectedOwnerAndMode
}

// renameTemp renames the temporary file to its final name. The parameter `flags` contains flags of
// renameat2(2). With RENAME_EXCHANGE, renameTemp exchanges the two names.
func (f *Output) renameTemp(flags uintptr) unix.Errno {
	dirFD := uintptr(f.dirFD)
	temp, final := f.tempAndFinalName, f.tempAndFinalName[f.finalNameOffset:]
	_, _, errno := unix.RawSyscall6(unix.SYS_RENAMEAT2,
		dirFD, nameAddress(temp), dirFD, nameAddress(final), flags, 0)
	return errno
}

// closeFDs closes the file descriptors of an output, and removes no file. The caller must call it
// only when no temporary file exists.
func (f *Output) closeFDs() error {
	f.tempAndFinalName = nil
	f.Discard()
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

// statusAddress returns the address of f.replacedStatus, for the system call that reads the status
// of a file. PrepareSeal also needs this address: in a sealed process, the seccomp filter allows
// the system call only with this address.
func (f *Output) statusAddress() uintptr { return uintptr(unsafe.Pointer(&f.replacedStatus)) }

// Outputs is a list of outputs. It has methods that commit or discard all outputs of the list.
type Outputs []*Output

// Commit first syncs all files to the disk, and then renames each file to its final name. Therefore
// no file has its final name before the data of all files are on the disk. After the first error,
// Commit returns this error and renames no further files.
func (list Outputs) Commit() error {
	for _, f := range list {
		if err := f.syncToDisk(); err != nil {
			return err
		}
	}
	for _, f := range list {
		if err := f.renameToFinal(); err != nil {
			return err
		}
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
