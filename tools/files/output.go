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
	Path   string
	Fd     int    // for data that Write is not to wait with
	Stream bool   // data go to somebody at once, see isStream
	names  []byte // the file that Discard removes and what Commit renames it to, each with a zero behind it. They cannot be written to
	to     int    // where the second begins, 0: it is not renamed
	pinned bool
}

// Replace begins to write to path. Mode is that of a file that is not there yet,
// less the umask. For a pipe it waits for its reader.
func Replace(path string, mode uint32) (*Output, error) {
	f := &Output{Path: path, Fd: -1}
	var old unix.Stat_t
	err := unix.Stat(path, &old)
	switch {
	case IsStdout(path):
		_ = unix.Fstat(1, &old)
		f.Path = "standard output"
		f.Fd, err = standard(1, unix.O_WRONLY)
	case err == unix.ENOENT:
		err = f.beside(mode, nil)
	case err == nil && old.Mode&unix.S_IFMT == unix.S_IFREG && !strings.HasPrefix(path, "/dev/fd/") && !strings.HasPrefix(path, "/proc/"):
		err = f.beside(0o600, &old)
	case err == nil:
		f.Fd, err = open(path, unix.O_WRONLY, 0)
	}
	f.Stream = isStream(&old)
	return f, hal.FileFault(f.Path, err)
}

// IsStdout tells that a path means standard output.
func IsStdout(path string) bool { return path == "-" || path == "/dev/stdout" }

// beside opens the new file beside the one it becomes, like old where there is
// an old one.
func (f *Output) beside(mode uint32, old *unix.Stat_t) error {
	var random [8]byte
	target, err := resolve(f.Path)
	if err == nil && strings.HasSuffix("/"+target, "/") {
		err = unix.EISDIR
	}
	if err == nil {
		_, err = unix.Getrandom(random[:], 0)
	}
	if err != nil {
		return err
	}
	at := strings.LastIndexByte(target, '/') + 1
	const nameMax = 200 // of 255, for what is added
	part := target[:at] + "." + target[at:min(len(target), at+nameMax)] + "."
	for _, b := range random {
		part += strconv.FormatUint(uint64(b), 16)
	}
	part += ".part"
	names, err := hal.Mmap(-1, 0, len(part)+len(target)+2, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		copy(names, part+"\x00"+target)
		_ = unix.Mprotect(names, unix.PROT_READ) // cannot fail: the pages are our own
		f.Fd, err = open(part, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode)
	}
	if err != nil {
		return err
	}
	f.names, f.to = names, len(part)+1
	if old != nil {
		_ = unix.Fchown(f.Fd, int(old.Uid), int(old.Gid)) // where that is permitted
		if err = unix.Fchmod(f.Fd, old.Mode&0o777); err != nil {
			f.Discard()
		}
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

// place puts in place what is on the disk. It allocates nothing.
func (f *Output) place() error {
	if f.to != 0 {
		_, _, errno := unix.RawSyscall6(unix.SYS_RENAMEAT, folder, address(f.names), folder, address(f.names[f.to:]), 0, 0)
		if errno != 0 {
			return hal.FileFault(f.Path, errno)
		}
	}
	f.names = nil
	f.Discard()
	return nil
}

// Discard removes what Commit has not put in place. A file that is written
// where it is stays as it is. The descriptor of a pinned file stays, which a seal
// does not let go.
func (f *Output) Discard() {
	if f.names != nil {
		_, _, _ = unix.RawSyscall(unix.SYS_UNLINKAT, folder, address(f.names), 0)
		f.names = nil
	}
	if f.Fd >= 0 && !f.pinned {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(f.Fd), 0, 0)
		f.Fd = -1
	}
}

// folder is where relative paths begin: AT_FDCWD, as a system call takes it.
const folder = ^uintptr(-unix.AT_FDCWD - 1)

func address(name []byte) uintptr { return uintptr(unsafe.Pointer(&name[0])) }

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

// Pin gives the instructions by which a seccomp filter allows what Commit and
// Discard do with these files: fsync, and the rename and the removal of exactly these
// names. A filter sees addresses and not what is there, so a process that may neither
// map nor protect memory can rename nothing else. Where no instruction allows, they
// end behind the last.
func (list Outputs) Pin() []unix.SockFilter {
	program := allow(nil, unix.SYS_FSYNC)
	for _, f := range list {
		if f.pinned = true; f.to != 0 {
			program = allow(program, unix.SYS_RENAMEAT, folder, address(f.names), folder, address(f.names[f.to:]))
			program = allow(program, unix.SYS_UNLINKAT, folder, address(f.names), 0)
		}
	}
	return program
}

// allow adds instructions that allow a system call with these arguments.
func allow(program []unix.SockFilter, number uint32, args ...uintptr) []unix.SockFilter {
	left := 4 * len(args) // instructions before the answer
	only := func(offset int, value uint32) {
		program = append(program, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(offset)},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(left + 1), K: value})
		left -= 2
	}
	// struct seccomp_data (linux/seccomp.h): the number at 0, arguments of 64
	// bits from 16 on, of little endian.
	only(0, number)
	for i, arg := range args {
		only(16+8*i, uint32(arg))
		only(20+8*i, uint32(arg>>32))
	}
	return append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
}
