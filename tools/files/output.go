package files

import (
	"strconv"
	"unsafe"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file writes outputs: it creates a temporary file, writes and syncs it, and exchanges
// it with the file that it replaces.

// Output is an output that is being written. Every one ends with Commit, Discard or both.
// Both make raw system calls, since lmrun commits after Freeze: see hal.Write.
type Output struct {
	Path   string
	Fd     int  // for data that must not wait in Write
	Stream bool // a reader gets the data at once, see isStream
	// dir is the open directory of both names, -1: none. Its path is followed once, so that
	// links and renamed directories lead to no other file afterwards.
	dir int
	// names are the temporary file and the file that it replaces, each followed by a zero,
	// in memory that is mapped read-only. Empty: there is no temporary file.
	names  []byte
	nameAt int  // offset of the second name, 0: the file is not renamed
	pinned bool // a seal forbids to close descriptors
	// expected is what the replaced file must have at Commit, for which the kernel writes
	// its status to status. A seal allows that system call with the address of status only.
	expected ownership
	status   [unsafe.Sizeof(unix.Stat_t{}) / 8]uint64
}

// ownership is what a new file gets from the one that it replaces.
type ownership struct{ mode, uid, gid uint32 }

func ownershipOf(status *unix.Stat_t) ownership {
	return ownership{status.Mode, status.Uid, status.Gid}
}

// Replace begins to write to path. Mode is that of a file that does not exist yet, less the
// umask. For a pipe, Replace waits for its reader.
func Replace(path string, mode uint32) (*Output, error) {
	f := &Output{Path: path, Fd: -1, dir: -1}
	var status unix.Stat_t
	err := unix.Stat(path, &status)
	inPlace := err == nil && status.Mode&unix.S_IFMT != unix.S_IFREG
	switch {
	case IsStdout(path):
		f.Path, inPlace = "standard output", false
		f.Fd, err = openStandard(1, unix.O_WRONLY)
	case inPlace:
		f.Fd, err = open(unix.AT_FDCWD, path, unix.O_WRONLY, 0)
	case err == nil || err == unix.ENOENT:
		err = f.createTemp(mode, &status)
	}
	if err == nil {
		err = unix.Fstat(f.Fd, &status)
	}
	if inPlace && err == nil && status.Mode&unix.S_IFMT == unix.S_IFREG {
		err = irreplaceable(path) // a regular file since it was opened
	}
	f.Stream = isStream(&status)
	if err != nil {
		f.Discard()
	}
	return f, hal.FileFault(f.Path, err)
}

// IsStdout reports whether a path means standard output.
func IsStdout(path string) bool {
	return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1"
}

// irreplaceable returns the error for a file that another process deletes or replaces.
func irreplaceable(path string) error {
	reason := path + ": cannot be replaced: another process deleted, renamed or changed it"
	return hal.NewFault(hal.IO, reason)
}

// createTemp creates the temporary file in the directory of the file that it replaces, with
// that file's owner and mode. The parameter found is the status of what the kernel finds at
// the path, zeros if there is nothing.
func (f *Output) createTemp(mode uint32, found *unix.Stat_t) error {
	var status unix.Stat_t
	dir, name, err := followLinks(f.Path, &status)
	f.dir = dir
	if err != nil {
		return err
	}
	// The text of a link in /proc/self/fd need not be the path of the file.
	if found.Dev != status.Dev || found.Ino != status.Ino {
		return irreplaceable(f.Path)
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
		mode = 0o600 // until the file has its owner
	}
	f.Fd, err = open(dir, temp, createNew, mode)
	if err != nil {
		return err
	}
	f.names, f.nameAt = names, len(temp)+1
	if replaces {
		// The owner first: a change of owner can clear bits of the mode.
		_ = unix.Fchown(f.Fd, int(status.Uid), int(status.Gid)) // if that is permitted
		err = unix.Fchmod(f.Fd, status.Mode&0o777)
	} else {
		err = unix.Fstat(f.Fd, &status)
	}
	f.expected = ownershipOf(&status)
	return err
}

// tempName returns the name of a temporary file, which is not guessable.
func tempName(name string) (string, error) {
	const nameMax = 200 // of 255 bytes, for what is added
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

// mapNames copies both names, each followed by a zero, to memory that is then read-only.
func mapNames(temp, name string) ([]byte, error) {
	const writable, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
	names, err := hal.Mmap(-1, 0, len(temp)+len(name)+2, writable, private)
	if err != nil {
		return nil, err
	}
	copy(names, temp+"\x00"+name)
	_ = unix.Mprotect(names, unix.PROT_READ) // cannot fail: the pages are this process's
	return names, nil
}

// createNew are the flags to create a file that must not exist yet.
const createNew = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW

// WriteFull writes all of data to a descriptor. The error is the kernel's.
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

// sync waits until all data are on the disk.
func (f *Output) sync() error {
	_, _, errno := unix.RawSyscall(unix.SYS_FSYNC, uintptr(f.Fd), 0, 0)
	cannotSync := errno == unix.EINVAL || errno == unix.EROFS // a pipe or a device
	if errno == 0 || cannotSync {
		return nil
	}
	return hal.FileFault(f.Path, errno)
}

// rename puts the new file in the place of the one that it replaces. It is an error if that
// file has another owner or mode than the new one was given. It allocates nothing.
func (f *Output) rename() error {
	if f.nameAt == 0 { // written in place, or by Create
		return f.release()
	}
	// Exchange the two files, so that the replaced one can be checked after the fact.
	errno := f.renameAt(unix.RENAME_EXCHANGE)
	if errno == 0 {
		return f.checkExchanged()
	}
	// There is no file to replace: rename, unless one has been created meanwhile.
	if errno == unix.ENOENT {
		errno = f.renameAt(unix.RENAME_NOREPLACE)
	}
	switch errno {
	case 0:
		return f.release()
	case unix.EEXIST:
		return irreplaceable(f.Path)
	}
	// The file system cannot exchange files: check the file, then rename over it.
	if f.hasOtherOwnership(f.names[f.nameAt:]) {
		return irreplaceable(f.Path)
	}
	if errno = f.renameAt(0); errno != 0 {
		return hal.FileFault(f.Path, errno)
	}
	return f.release()
}

// checkExchanged removes the replaced file, which has the temporary name now. If it has
// another owner or mode, the files are exchanged again.
func (f *Output) checkExchanged() error {
	if !f.hasOtherOwnership(f.names) {
		f.Discard()
		return nil
	}
	if f.renameAt(unix.RENAME_EXCHANGE) != 0 {
		// Another process has moved the new file: the replaced one gets its name back.
		f.renameAt(unix.RENAME_NOREPLACE)
		f.names = nil
	}
	return irreplaceable(f.Path)
}

// hasOtherOwnership reports whether the file of a name has another owner or mode than
// expected.
func (f *Output) hasOtherOwnership(name []byte) bool {
	_, _, errno := unix.RawSyscall6(unix.SYS_NEWFSTATAT,
		uintptr(f.dir), nameAddress(name), f.statusAddress(), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	status := (*unix.Stat_t)(unsafe.Pointer(&f.status))
	return errno == 0 && ownershipOf(status) != f.expected
}

// renameAt renames the temporary file to the name of the other one.
func (f *Output) renameAt(flags uintptr) unix.Errno {
	dir := uintptr(f.dir)
	_, _, errno := unix.RawSyscall6(unix.SYS_RENAMEAT2,
		dir, nameAddress(f.names), dir, nameAddress(f.names[f.nameAt:]), flags, 0)
	return errno
}

// release ends an output that has no temporary file any more.
func (f *Output) release() error {
	f.names = nil
	f.Discard()
	return nil
}

// Discard removes the temporary file, unless Commit has renamed it. A file that is written
// in place stays as it is. Descriptors of a pinned file stay open, since a seal forbids to
// close.
func (f *Output) Discard() {
	if f.names != nil {
		_, _, _ = unix.RawSyscall(unix.SYS_UNLINKAT, uintptr(f.dir), nameAddress(f.names), 0)
		f.names = nil
	}
	for _, fd := range [...]*int{&f.Fd, &f.dir} {
		if *fd >= 0 && !f.pinned {
			_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(*fd), 0, 0)
			*fd = -1
		}
	}
}

func nameAddress(name []byte) uintptr { return uintptr(unsafe.Pointer(&name[0])) }

func (f *Output) statusAddress() uintptr { return uintptr(unsafe.Pointer(&f.status)) }

// Outputs are outputs that are committed together.
type Outputs []*Output

// Commit renames all files, and none before all are on the disk.
func (list Outputs) Commit() (err error) {
	for _, step := range [...]func(*Output) error{(*Output).sync, (*Output).rename} {
		for _, f := range list {
			if err == nil {
				err = step(f)
			}
		}
	}
	return err
}

// Discard removes the files that were not renamed.
func (list Outputs) Discard() {
	for _, f := range list {
		f.Discard()
	}
}
