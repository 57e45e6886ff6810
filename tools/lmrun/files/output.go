package files

import (
	"strconv"
	"unsafe"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file writes outputs: it creates a temporary file, writes and syncs it, and exchanges
// its name with the name of the file that it replaces.

// Output is a file that is being written. The caller must end every Output with Commit,
// Discard or both. These methods make raw system calls, because lmrun calls them after
// Freeze, when Go must not start threads: see hal.Write.
type Output struct {
	Path   string // the path of the output, for messages
	Fd     int    // the file descriptor to which the caller writes the data
	Stream bool   // the file is a stream, so that data reach the reader at once: see isStream
	// dirFD is the file descriptor of the directory that contains both names; -1: no such
	// directory. It stays open, so that links and renamed directories cannot lead to
	// another file later.
	dirFD int
	// names contains the base name of the temporary file and that of the replaced file. A
	// zero byte follows each name. The memory is read-only, because a seal relies on its
	// content. It is empty if no temporary file exists.
	names       []byte
	finalNameAt int  // offset of the replaced file's name in names; 0: Commit does not rename
	pinned      bool // Pin was called: a seal may forbid closing file descriptors
	// expected is the ownership that the replaced file must still have at Commit. Commit
	// makes the kernel write the status of that file to the field status. A seal allows
	// this system call only with the address of this field.
	expected ownership
	status   [unsafe.Sizeof(unix.Stat_t{}) / 8]uint64
}

// ownership is the mode and owner that a new file receives from the file that it replaces.
type ownership struct{ mode, uid, gid uint32 }

func ownershipOf(status *unix.Stat_t) ownership {
	return ownership{status.Mode, status.Uid, status.Gid}
}

// Replace begins to write the file at path, which replaces an existing file at Commit. The
// parameter mode, less the umask, is used only if no file exists there. If path is a FIFO,
// Replace waits until a process has opened it for reading.
func Replace(path string, mode uint32) (*Output, error) {
	f := &Output{Path: path, Fd: -1, dirFD: -1}
	var status unix.Stat_t
	err := unix.Stat(path, &status)
	inPlace := err == nil && status.Mode&unix.S_IFMT != unix.S_IFREG
	switch {
	case IsStdout(path):
		f.Path, inPlace = "standard output", false
		f.Fd, err = openStandard(1, unix.O_WRONLY)
	case inPlace:
		f.Fd, err = openAt(unix.AT_FDCWD, path, unix.O_WRONLY, 0)
	case err == nil || err == unix.ENOENT:
		err = f.createTemp(mode, &status)
	}
	if err == nil {
		err = unix.Fstat(f.Fd, &status)
	}
	if inPlace && err == nil && status.Mode&unix.S_IFMT == unix.S_IFREG {
		err = irreplaceableError(path) // a regular file has taken the place of the pipe or device
	}
	f.Stream = isStream(&status)
	if err != nil {
		f.Discard()
	}
	return f, hal.FileFault(f.Path, err)
}

// IsStdout reports whether path is a name of standard output.
func IsStdout(path string) bool {
	return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1"
}

// irreplaceableError returns the error for a file that another process has changed while its
// replacement was written.
func irreplaceableError(path string) error {
	reason := "cannot replace " + path + ": another process has deleted, renamed or changed it"
	return hal.NewFault(hal.IO, reason)
}

// createTemp creates the temporary file in the directory of the file that it will replace.
// The temporary file receives the owner and mode of that file. The parameter found is the
// status of the file at f.Path, or the zero value if no file exists there.
func (f *Output) createTemp(mode uint32, found *unix.Stat_t) error {
	var status unix.Stat_t
	dirFD, name, err := followLinks(f.Path, &status)
	f.dirFD = dirFD
	if err != nil {
		return err
	}
	// Check that followLinks has found the file that the kernel finds. The two can differ
	// below /proc/self/fd, where the text of a link need not be the path of the file.
	if found.Dev != status.Dev || found.Ino != status.Ino {
		return irreplaceableError(f.Path)
	}
	temp, err := tempName(name)
	if err != nil {
		return err
	}
	names, err := mapNames(temp, name)
	if err != nil {
		return err
	}
	replaces := status.Mode != 0
	if replaces {
		mode = 0o600 // only for this user, until the file has its final owner
	}
	f.Fd, err = openAt(dirFD, temp, createNew, mode)
	if err != nil {
		return err
	}
	f.names, f.finalNameAt = names, len(temp)+1
	if replaces {
		// Set the owner before the mode, because a change of the owner can clear bits of the
		// mode. Without the permission to set the owner, the file keeps this user as owner.
		_ = unix.Fchown(f.Fd, int(status.Uid), int(status.Gid))
		err = unix.Fchmod(f.Fd, status.Mode&0o777)
	} else {
		err = unix.Fstat(f.Fd, &status)
	}
	f.expected = ownershipOf(&status)
	return err
}

// tempName returns a base name for the temporary file of the file name. It contains random
// digits, so that other processes cannot guess it.
func tempName(name string) (string, error) {
	// A temporary name contains at most this many bytes of the file's name. Linux allows 255; the
	// rest is for the prefix and the suffix.
	const nameMax = 200
	var random [8]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return "", err
	}
	temp := "." + name[:min(len(name), nameMax)] + "."
	for _, b := range random {
		temp += strconv.FormatUint(uint64(b), 16)
	}
	return temp + ".part", nil
}

// mapNames returns read-only memory with both names. A zero byte follows each name.
func mapNames(temp, name string) ([]byte, error) {
	const writable, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
	names, err := hal.Mmap(-1, 0, len(temp)+len(name)+2, writable, private)
	if err != nil {
		return nil, err
	}
	copy(names, temp+"\x00"+name)
	_ = unix.Mprotect(names, unix.PROT_READ) // cannot fail: mapped pages of this process
	return names, nil
}

// createNew are flags of open(2) that create a file. The call fails if the file exists.
const createNew = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW

// WriteFull writes all of data to a file descriptor. It continues after short writes and
// signals. The error is a unix.Errno.
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

// sync waits until the data of the file are on the disk.
func (f *Output) sync() error {
	_, _, errno := unix.RawSyscall(unix.SYS_FSYNC, uintptr(f.Fd), 0, 0)
	isPipeOrDevice := errno == unix.EINVAL || errno == unix.EROFS // these cannot be synced
	if errno == 0 || isPipeOrDevice {
		return nil
	}
	return hal.FileFault(f.Path, errno)
}

// rename renames the temporary file to the name of the file that it replaces. It is an error
// if the replaced file no longer has the expected owner and mode. rename allocates nothing.
func (f *Output) rename() error {
	if f.finalNameAt == 0 { // Create made the file, or it is a pipe or a device
		return f.closeWithoutUnlink()
	}
	// Exchange the names of the two files. The replaced file can then be checked under the
	// temporary name, where it cannot be replaced any more.
	errno := f.renameAt(unix.RENAME_EXCHANGE)
	if errno == 0 {
		return f.checkExchanged()
	}
	// If no file exists under the final name, rename the temporary file, unless another
	// process creates such a file before the rename.
	if errno == unix.ENOENT {
		errno = f.renameAt(unix.RENAME_NOREPLACE)
	}
	switch errno {
	case 0:
		return f.closeWithoutUnlink()
	case unix.EEXIST:
		return irreplaceableError(f.Path)
	}
	// The file system cannot exchange names. Therefore check the replaced file before the
	// rename.
	if f.ownershipDiffers(f.names[f.finalNameAt:]) {
		return irreplaceableError(f.Path)
	}
	if errno = f.renameAt(0); errno != 0 {
		return hal.FileFault(f.Path, errno)
	}
	return f.closeWithoutUnlink()
}

// checkExchanged checks the replaced file, which has the temporary name after the exchange.
// If it has the expected owner and mode, checkExchanged removes it. Otherwise checkExchanged
// exchanges the names back and returns an error.
func (f *Output) checkExchanged() error {
	if !f.ownershipDiffers(f.names) {
		f.Discard()
		return nil
	}
	if f.renameAt(unix.RENAME_EXCHANGE) != 0 {
		// Another process has moved the new file away. Give the replaced file its old name again.
		f.renameAt(unix.RENAME_NOREPLACE)
		f.names = nil
	}
	return irreplaceableError(f.Path)
}

// ownershipDiffers reports whether the file with the given base name has another owner or
// mode than f.expected. It returns false if the status of the file cannot be read.
func (f *Output) ownershipDiffers(name []byte) bool {
	_, _, errno := unix.RawSyscall6(unix.SYS_NEWFSTATAT,
		uintptr(f.dirFD), nameAddress(name), f.statusAddress(), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	status := (*unix.Stat_t)(unsafe.Pointer(&f.status))
	return errno == 0 && ownershipOf(status) != f.expected
}

// renameAt renames the temporary file to its final name, with flags of renameat2(2).
func (f *Output) renameAt(flags uintptr) unix.Errno {
	dirFD := uintptr(f.dirFD)
	_, _, errno := unix.RawSyscall6(unix.SYS_RENAMEAT2,
		dirFD, nameAddress(f.names), dirFD, nameAddress(f.names[f.finalNameAt:]), flags, 0)
	return errno
}

// closeWithoutUnlink closes the file descriptors of an output. It removes no file, because the
// temporary file has its final name, or never existed.
func (f *Output) closeWithoutUnlink() error {
	f.names = nil
	f.Discard()
	return nil
}

// Discard removes the temporary file, unless Commit has renamed it, and closes the file
// descriptors. Data that were written in place, to a pipe or a device, are not undone. If Pin
// was called, the file descriptors stay open, because a seal may forbid closing them.
func (f *Output) Discard() {
	if f.names != nil {
		_, _, _ = unix.RawSyscall(unix.SYS_UNLINKAT, uintptr(f.dirFD), nameAddress(f.names), 0)
		f.names = nil
	}
	for _, fd := range [...]*int{&f.Fd, &f.dirFD} {
		if *fd >= 0 && !f.pinned {
			_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(*fd), 0, 0)
			*fd = -1
		}
	}
}

// nameAddress returns the address of the first byte of name.
func nameAddress(name []byte) uintptr { return uintptr(unsafe.Pointer(&name[0])) }

// statusAddress returns the address of the field status.
func (f *Output) statusAddress() uintptr { return uintptr(unsafe.Pointer(&f.status)) }

// Outputs is a list of outputs that are committed together.
type Outputs []*Output

// Commit syncs all files, then renames each one to its final name. It renames no file before
// the data of all files are on the disk. It stops at the first error.
func (list Outputs) Commit() error {
	for _, f := range list {
		if err := f.sync(); err != nil {
			return err
		}
	}
	for _, f := range list {
		if err := f.rename(); err != nil {
			return err
		}
	}
	return nil
}

// Discard discards every output of the list. Files that Commit has renamed stay.
func (list Outputs) Discard() {
	for _, f := range list {
		f.Discard()
	}
}
