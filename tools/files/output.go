package files

import (
	"strconv"
	"strings"
	"unsafe"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Output is an output that is being written. Every one ends with Commit, Discard
// or both. What writes and ends it are raw system calls, since that is behind Freeze:
// see hal.Write.
type Output struct {
	path   string
	fd     int
	kind   uint32 // unix.S_IFREG and so on
	from   *byte  // the file that Discard removes, nil: none
	to     *byte  // what Commit renames it to, nil: nothing
	pinned bool
}

// Replace begins to write to path. Mode is that of a file that is not there yet,
// less the umask. For a pipe it waits for its reader.
func Replace(path string, mode uint32) (*Output, error) {
	f := &Output{path: path, fd: -1}
	var old unix.Stat_t
	err := unix.Stat(path, &old)
	f.kind = old.Mode & unix.S_IFMT
	switch {
	case IsStdout(path):
		f.path, err = "standard output", f.stdout()
	case err == unix.ENOENT:
		f.kind, err = unix.S_IFREG, f.beside(mode, nil)
	case err == nil && f.kind == unix.S_IFREG && !strings.HasPrefix(path, "/dev/fd/") && !strings.HasPrefix(path, "/proc/"):
		err = f.beside(0o600, &old)
	case err == nil:
		f.fd, err = open(path, unix.O_WRONLY, 0)
	}
	return f, hal.FileFault(f.path, err)
}

// IsStdout tells that a path means standard output.
func IsStdout(path string) bool { return path == "-" || path == "/dev/stdout" }

// stdout opens standard output. A stream is opened anew where that is possible,
// so that what is set for this descriptor is not set for others.
func (f *Output) stdout() error {
	var status unix.Stat_t
	err := unix.Fstat(1, &status)
	f.kind = status.Mode & unix.S_IFMT
	if err == nil && f.Stream() {
		f.fd, _ = open("/proc/self/fd/1", unix.O_WRONLY, 0)
	}
	if err == nil && f.fd < 0 {
		f.fd, err = unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 0)
	}
	return err
}

// beside opens the new file beside the one it becomes, like old where there is
// an old one.
func (f *Output) beside(mode uint32, old *unix.Stat_t) error {
	target, err := resolve(f.path)
	if err == nil && strings.HasSuffix("/"+target, "/") {
		err = unix.EISDIR
	}
	if err != nil {
		return err
	}
	var random [8]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return err
	}
	suffix := "."
	for _, b := range random {
		suffix += strconv.FormatUint(uint64(b), 16)
	}
	at := strings.LastIndexByte(target, '/') + 1
	const nameMax = 200 // of 255, for what is added
	part := target[:at] + "." + target[at:min(len(target), at+nameMax)] + suffix + ".part"
	if f.fd, err = open(part, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode); err != nil {
		return err
	}
	if f.from, err = unix.BytePtrFromString(part); err == nil {
		f.to, err = unix.BytePtrFromString(target)
	}
	if err == nil && old != nil {
		_ = unix.Fchown(f.fd, int(old.Uid), int(old.Gid)) // where that is permitted
		err = unix.Fchmod(f.fd, old.Mode&0o777)
	}
	if err != nil {
		f.Discard()
	}
	return err
}

// resolve follows symbolic links, also to a file that is not there yet.
func resolve(path string) (string, error) {
	const most = 40 // links, as in the kernel
	var target [unix.PathMax]byte
	for range most {
		n, err := unix.Readlink(path, target[:])
		switch {
		case err == unix.EINVAL || err == unix.ENOENT: // no link, or nothing
			return path, nil
		case err != nil:
			return "", err
		}
		folder := path[:strings.LastIndexByte(path, '/')+1]
		if path = string(target[:n]); path[0] != '/' {
			path = folder + path
		}
	}
	return "", unix.ELOOP
}

func open(path string, flags int, mode uint32) (fd int, err error) {
	for {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, mode)
		if folder := path[:strings.LastIndexByte(path, '/')+1]; folder != "" && err == unix.ENOENT && flags&unix.O_CREAT != 0 {
			return fd, &hal.Fault{Code: hal.NoFile, Reason: "there is no folder " + folder + " to write to; mkdir -p " + folder + " makes it"}
		} else if err != unix.EINTR {
			return fd, err
		}
	}
}

// Stream tells that data go to somebody at once: to a pipe, a terminal or
// another device of characters.
func (f *Output) Stream() bool { return isStream(f.kind) }

// Fd is the file's descriptor, for data that Write is not to wait with.
func (f *Output) Fd() int { return f.fd }

// Write writes all of data.
func (f *Output) Write(data []byte) (int, error) {
	err := WriteFull(f.fd, data)
	if err != nil {
		return 0, hal.FileFault(f.path, err)
	}
	return len(data), nil
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
	_, _, errno := unix.RawSyscall(unix.SYS_FSYNC, uintptr(f.fd), 0, 0)
	if errno != 0 && errno != unix.EINVAL && errno != unix.EROFS { // of pipes and devices
		return hal.FileFault(f.path, errno)
	}
	return nil
}

// place puts in place what is on the disk. It allocates nothing.
func (f *Output) place() error {
	if f.to != nil {
		_, _, errno := unix.RawSyscall6(unix.SYS_RENAMEAT, folder, uintptr(unsafe.Pointer(f.from)), folder, uintptr(unsafe.Pointer(f.to)), 0, 0)
		if errno != 0 {
			return hal.FileFault(f.path, errno)
		}
	}
	f.from = nil
	f.close()
	return nil
}

// Discard removes what Commit has not put in place. A file that is written
// where it is stays as it is.
func (f *Output) Discard() {
	if f.from != nil {
		_, _, _ = unix.RawSyscall(unix.SYS_UNLINKAT, folder, uintptr(unsafe.Pointer(f.from)), 0)
	}
	f.from = nil
	f.close()
}

// close leaves the descriptor of a pinned file, which a seal does not let go.
func (f *Output) close() {
	if f.fd >= 0 && !f.pinned {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(f.fd), 0, 0)
		f.fd = -1
	}
}

// folder is where relative paths begin: AT_FDCWD, as a system call takes it.
const folder = ^uintptr(-unix.AT_FDCWD - 1)

// Outputs are outputs that come together.
type Outputs []*Output

// Commit puts all in place, and none before all are on the disk.
func (list Outputs) Commit() (err error) {
	for _, step := range [...]func(*Output) error{(*Output).sync, (*Output).place} {
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
