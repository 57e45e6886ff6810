package files

import (
	"strconv"
	"strings"
	"unsafe"

	"lightmetal/hal"
	"lightmetal/hal/unix"
)

// Output is an output that is being written. Every one ends with Commit, Discard
// or both. Both make raw system calls, since lmrun commits after Freeze: see hal.Write.
type Output struct {
	Path   string
	Fd     int  // for data that Write is not to wait with
	Stream bool // a reader gets the data at once, see isStream
	// dir is the open directory of both names, -1: none. Its path is followed once, so
	// that links and renamed directories lead to no other file afterwards.
	dir int
	// names are the temporary file and the file that it replaces, each with a zero
	// after it, in memory that cannot be written to. Empty: there is no temporary file.
	names  []byte
	to     int // offset of the second name, 0: the file is not renamed
	pinned bool
	// was is what the replaced file must have at Commit, which has the kernel write
	// a unix.Stat_t to now. A seal allows that system call with the address of now only.
	was ownership
	now [unsafe.Sizeof(unix.Stat_t{}) / 8]uint64
}

// ownership is what a new file takes over from the one that it replaces.
type ownership struct{ mode, uid, gid uint32 }

func ownershipOf(status *unix.Stat_t) ownership {
	return ownership{status.Mode, status.Uid, status.Gid}
}

// Replace begins to write to path. Mode is that of a file that does not exist yet,
// less the umask. For a pipe it waits for its reader.
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
		err = irreplaceable(path)
	}
	if f.Stream = isStream(&status); err != nil {
		f.Discard()
	}
	return f, hal.FileFault(f.Path, err)
}

// IsStdout reports whether a path means standard output.
func IsStdout(path string) bool {
	return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1"
}

func irreplaceable(path string) error {
	return hal.NewFault(hal.IO, path+": cannot be replaced: deleted, or renamed meanwhile")
}

// createTemp creates the temporary file in the directory of the file that it
// replaces, and with that file's owner and mode. There is what the kernel finds at the
// path, zeros if nothing: what a link in /proc/self/fd reads as may be no path of it.
func (f *Output) createTemp(mode uint32, there *unix.Stat_t) error {
	var random [8]byte
	var status unix.Stat_t
	dir, name, err := follow(f.Path, &status)
	if f.dir = dir; err == nil && (there.Dev != status.Dev || there.Ino != status.Ino) {
		err = irreplaceable(f.Path)
	}
	if err == nil {
		_, err = unix.Getrandom(random[:], 0)
	}
	if err != nil {
		return err
	}
	const nameMax = 200 // of 255, for what is added
	temp := "." + name[:min(len(name), nameMax)] + "."
	for _, b := range random {
		temp += strconv.FormatUint(uint64(b), 16)
	}
	temp += ".part"
	const writable, private = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANON
	names, err := hal.Mmap(-1, 0, len(temp)+len(name)+2, writable, private)
	if err != nil {
		return err
	}
	copy(names, temp+"\x00"+name)
	_ = unix.Mprotect(names, unix.PROT_READ) // cannot fail: the pages are our own
	replaces := status.Mode != 0
	if replaces {
		mode = 0o600 // until the file has its owner
	}
	f.Fd, err = open(dir, temp, createNew, mode)
	if err != nil {
		return err
	}
	f.names, f.to = names, len(temp)+1
	if replaces {
		_ = unix.Fchown(f.Fd, int(status.Uid), int(status.Gid)) // where that is permitted
		err = unix.Fchmod(f.Fd, status.Mode&0o777)
	} else {
		err = unix.Fstat(f.Fd, &status)
	}
	f.was = ownershipOf(&status)
	return err
}

// createNew are the flags to create a file that must not exist yet.
const createNew = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW

// follow follows the symbolic links at the end of a path. It returns the open
// directory that the last one leads to and the name in it, and fills in the status of
// the file of that name: zeros if there is no such file.
func follow(path string, status *unix.Stat_t) (dir int, name string, err error) {
	const linksMax = 40 // as in the kernel
	var target [unix.PathMax]byte
	from := unix.AT_FDCWD
	for range linksMax {
		dir, name, err = openDir(from, path)
		closeDir(from)
		if err != nil {
			return -1, "", err
		}
		n, err := unix.Readlinkat(dir, name, target[:])
		if err == unix.EINVAL { // no link
			err = unix.Fstatat(dir, name, status, unix.AT_SYMLINK_NOFOLLOW)
		}
		if n <= 0 || err != nil {
			if err == unix.ENOENT {
				err = nil
			}
			return dir, name, err
		}
		from, path = dir, string(target[:n])
	}
	return from, "", unix.ELOOP
}

// openDir opens the directory of a path that begins in another one.
func openDir(from int, path string) (dir int, name string, err error) {
	slash := strings.LastIndexByte(path, '/') + 1
	if name = path[slash:]; name == "" {
		return -1, "", unix.EISDIR
	}
	dir, err = open(from, path[:slash]+".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT {
		parent := path[:slash]
		reason := "there is no folder " + parent + " to write to; mkdir -p " + parent + " makes it"
		err = hal.NewFault(hal.NoFile, reason)
	}
	return dir, name, err
}

func closeDir(dir int) {
	if dir >= 0 {
		_ = unix.Close(dir)
	}
}

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

// sync waits until all that was written is on the disk.
func (f *Output) sync() error {
	_, _, errno := unix.RawSyscall(unix.SYS_FSYNC, uintptr(f.Fd), 0, 0)
	if errno != 0 && errno != unix.EINVAL && errno != unix.EROFS { // of pipes and devices
		return hal.FileFault(f.Path, errno)
	}
	return nil
}

// rename exchanges the temporary file and the file that it replaces. If that has
// another owner or mode than the new one was given, the two are exchanged again, which
// is an error. Some file systems cannot exchange files: there the check comes first. It
// allocates nothing.
func (f *Output) rename() error {
	if f.to == 0 { // written in place, or by Create
		return f.complete()
	}
	errno := f.renameAt(unix.RENAME_EXCHANGE)
	if errno == unix.ENOENT { // there is no file to replace
		switch errno = f.renameAt(unix.RENAME_NOREPLACE); errno {
		case 0:
			return f.complete()
		case unix.EEXIST:
			return irreplaceable(f.Path)
		}
	}
	replaced, exchanged := f.names[f.to:], errno == 0
	if exchanged {
		replaced = f.names
	}
	_, _, errno = unix.RawSyscall6(unix.SYS_NEWFSTATAT,
		uintptr(f.dir), nameAddress(replaced), f.statusAddress(), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	if errno == 0 && ownershipOf((*unix.Stat_t)(unsafe.Pointer(&f.now))) != f.was {
		if exchanged && f.renameAt(unix.RENAME_EXCHANGE) != 0 {
			f.renameAt(unix.RENAME_NOREPLACE) // the new file is no longer there
			f.names = nil
		}
		return irreplaceable(f.Path)
	}
	if exchanged {
		f.Discard() // removes the replaced file
		return nil
	}
	if errno = f.renameAt(0); errno != 0 {
		return hal.FileFault(f.Path, errno)
	}
	return f.complete()
}

// complete ends an output that has no temporary file any more.
func (f *Output) complete() error {
	f.names = nil
	f.Discard()
	return nil
}

func (f *Output) renameAt(flags uintptr) unix.Errno {
	dir := uintptr(f.dir)
	_, _, errno := unix.RawSyscall6(unix.SYS_RENAMEAT2,
		dir, nameAddress(f.names), dir, nameAddress(f.names[f.to:]), flags, 0)
	return errno
}

// Discard removes what Commit has not renamed. A file that is written in place stays
// as it is. Descriptors of a pinned file stay open, since a seal forbids to close.
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

func (f *Output) statusAddress() uintptr { return uintptr(unsafe.Pointer(&f.now)) }

// Outputs are outputs that come together.
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

// Discard removes what is not in place.
func (list Outputs) Discard() {
	for _, f := range list {
		f.Discard()
	}
}

// Pin returns the instructions by which a seccomp filter allows what Commit and
// Discard do with these files: fsync, and status, rename and removal of exactly these
// names in these directories. A filter sees addresses and not what is there, so a
// process that may neither map nor protect memory can rename nothing else, and one
// that may neither open nor close has no other directory of that number. Where no
// instruction allows, they end after the last.
func (list Outputs) Pin() []unix.SockFilter {
	program := appendAllow(nil, unix.SYS_FSYNC)
	for _, f := range list {
		if f.pinned = true; f.to != 0 {
			dir, temp, name := uintptr(f.dir), nameAddress(f.names), nameAddress(f.names[f.to:])
			program = appendAllow(program, unix.SYS_NEWFSTATAT, dir, name, f.statusAddress())
			program = appendAllow(program, unix.SYS_NEWFSTATAT, dir, temp, f.statusAddress())
			program = appendAllow(program, unix.SYS_RENAMEAT2, dir, temp, dir, name)
			program = appendAllow(program, unix.SYS_UNLINKAT, dir, temp, 0)
		}
	}
	return program
}

// allow adds instructions that allow a system call with these arguments.
func appendAllow(program []unix.SockFilter, number uint32, args ...uintptr) []unix.SockFilter {
	left := 4 * len(args) // instructions before the answer
	only := func(offset int, value uint32) {
		program = append(program, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS,
			K: uint32(offset)},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(left + 1),
				K: value})
		left -= 2
	}
	// struct seccomp_data (linux/seccomp.h): the number at 0, arguments of 64
	// bits from 16 on, of little endian.
	only(0, number)
	for i, arg := range args {
		only(16+8*i, uint32(arg))
		only(20+8*i, uint32(arg>>32))
	}
	return append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K,
		K: unix.SECCOMP_RET_ALLOW})
}
