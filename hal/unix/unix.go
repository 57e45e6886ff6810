// Package unix has the system calls and constants of Linux that a target uses, under the
// names that golang.org/x/sys/unix has them. That package imports package time, whose
// start-up code links 109 KB of Go's runtime into a program; this one builds on package
// syscall alone. Host tools use golang.org/x/sys/unix.
package unix

import (
	"syscall"
	"unsafe"
)

// Types of package syscall.
type (
	Errno      = syscall.Errno
	Signal     = syscall.Signal
	SockFilter = syscall.SockFilter
	SockFprog  = syscall.SockFprog
	Stat_t     = syscall.Stat_t
	Sysinfo_t  = syscall.Sysinfo_t
	Timespec   = syscall.Timespec
)

// Syscall makes a system call that is announced to Go's scheduler.
func Syscall(number, a1, a2, a3 uintptr) (r1, r2 uintptr, err Errno)

// Syscall6 is Syscall with six arguments.
func Syscall6(number, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err Errno)

// RawSyscall makes a system call that is not announced to Go's scheduler.
func RawSyscall(number, a1, a2, a3 uintptr) (r1, r2 uintptr, err Errno)

// RawSyscall6 is RawSyscall with six arguments.
func RawSyscall6(number, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err Errno)

// Open opens a file.
func Open(path string, flags int, mode uint32) (fd int, err error) {
	return syscall.Open(path, flags, mode)
}

// Openat opens a file whose path begins in an open directory.
func Openat(dir int, path string, flags int, mode uint32) (fd int, err error) {
	return syscall.Openat(dir, path, flags, mode)
}

// Close closes a descriptor.
func Close(fd int) error { return syscall.Close(fd) }

// Read reads from a descriptor.
func Read(fd int, data []byte) (n int, err error) { return syscall.Read(fd, data) }

// Pread reads from an offset of a file.
func Pread(fd int, data []byte, offset int64) (n int, err error) {
	return syscall.Pread(fd, data, offset)
}

// Seek moves the offset of a descriptor.
func Seek(fd int, offset int64, whence int) (at int64, err error) {
	return syscall.Seek(fd, offset, whence)
}

// SetNonblock sets or clears O_NONBLOCK.
func SetNonblock(fd int, on bool) error { return syscall.SetNonblock(fd, on) }

// FcntlInt calls fcntl(2) with an integer as argument.
func FcntlInt(fd uintptr, command, argument int) (int, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, uintptr(command), uintptr(argument))
	return int(n), errorOf(errno)
}

// Flock locks a file.
func Flock(fd, how int) error { return syscall.Flock(fd, how) }

// Fallocate allocates or frees the space of a range of a file.
func Fallocate(fd int, mode uint32, offset, length int64) error {
	return syscall.Fallocate(fd, mode, offset, length)
}

// Fchmod changes the mode of a file.
func Fchmod(fd int, mode uint32) error { return syscall.Fchmod(fd, mode) }

// Fchown changes the owner of a file.
func Fchown(fd, uid, gid int) error { return syscall.Fchown(fd, uid, gid) }

// Stat returns the status of a file. It follows symbolic links.
func Stat(path string, status *Stat_t) error { return syscall.Stat(path, status) }

// Fstat returns the status of an open file.
func Fstat(fd int, status *Stat_t) error { return syscall.Fstat(fd, status) }

// Fstatat returns the status of a file whose path begins in an open directory.
func Fstatat(dir int, path string, status *Stat_t, flags int) error {
	_, err := callWithPath(SYS_NEWFSTATAT, dir, path, unsafe.Pointer(status), flags)
	return err
}

// Readlink reads a symbolic link.
func Readlink(path string, target []byte) (n int, err error) {
	return syscall.Readlink(path, target)
}

// Readlinkat reads a symbolic link whose path begins in an open directory. Target must not
// be empty.
func Readlinkat(dir int, path string, target []byte) (n int, err error) {
	return callWithPath(sysReadlinkat, dir, path, unsafe.Pointer(&target[0]), len(target))
}

// callWithPath makes a system call whose arguments are a directory, a path in it, a buffer
// and an integer.
func callWithPath(number uintptr, dir int, path string, buffer unsafe.Pointer, last int) (int,
	error) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return 0, err
	}
	n, _, errno := syscall.Syscall6(number, uintptr(dir), uintptr(unsafe.Pointer(name)),
		uintptr(buffer), uintptr(last), 0, 0)
	return int(n), errorOf(errno)
}

// Statx_t is struct statx (linux/stat.h), with the fields that the target reads.
type Statx_t struct {
	Mask, Blksize        uint32
	Attributes           uint64
	_                    [15]uint64
	Dev_major, Dev_minor uint32
	_                    [14]uint64
}

// Statx returns the status of a file with its attributes. With AT_EMPTY_PATH and an empty
// path it is that of the descriptor.
func Statx(dir int, path string, flags, mask int, status *Statx_t) error {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(sysStatx, uintptr(dir), uintptr(unsafe.Pointer(name)),
		uintptr(flags), uintptr(mask), uintptr(unsafe.Pointer(status)), 0)
	return errorOf(errno)
}

// Getdents reads entries of a directory, ParseDirent returns their names.
func Getdents(fd int, entries []byte) (n int, err error) { return syscall.Getdents(fd, entries) }

// ParseDirent appends the names of at most most entries to names.
func ParseDirent(entries []byte, most int, names []string) (consumed, count int, all []string) {
	return syscall.ParseDirent(entries, most, names)
}

// Getrandom fills data with random bytes. Data must not be empty.
func Getrandom(data []byte, flags int) (n int, err error) {
	got, _, errno := syscall.Syscall(sysGetrandom, uintptr(unsafe.Pointer(&data[0])),
		uintptr(len(data)), uintptr(flags))
	return int(got), errorOf(errno)
}

// EpollCreate1 opens an epoll instance.
func EpollCreate1(flags int) (fd int, err error) { return syscall.EpollCreate1(flags) }

// IoctlGetInt makes an ioctl request that writes an integer.
func IoctlGetInt(fd int, request uint) (value int, err error) {
	_, _, errno := syscall.Syscall(SYS_IOCTL, uintptr(fd), uintptr(request),
		uintptr(unsafe.Pointer(&value)))
	return value, errorOf(errno)
}

// IoctlSetPointerInt makes an ioctl request that reads a C int.
func IoctlSetPointerInt(fd int, request uint, value int) error {
	number := int32(value)
	_, _, errno := syscall.Syscall(SYS_IOCTL, uintptr(fd), uintptr(request),
		uintptr(unsafe.Pointer(&number)))
	return errorOf(errno)
}

// Getpagesize returns the size of a page.
func Getpagesize() int { return syscall.Getpagesize() }

// MemfdCreate makes a file in memory.
func MemfdCreate(name string, flags int) (fd int, err error) {
	text, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	file, _, errno := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(text)),
		uintptr(flags), 0)
	return int(file), errorOf(errno)
}

// MmapPtr maps a file, or memory if fd is -1, at an address if flags has MAP_FIXED.
func MmapPtr(fd int, offset int64, at unsafe.Pointer, length uintptr, protection, flags int) (
	unsafe.Pointer, error) {
	address, _, errno := syscall.Syscall6(SYS_MMAP, uintptr(at), length, uintptr(protection),
		uintptr(flags), uintptr(fd), uintptr(offset))
	return *(*unsafe.Pointer)(unsafe.Pointer(&address)), errorOf(errno)
}

// Mprotect changes the protection of memory.
func Mprotect(memory []byte, protection int) error { return syscall.Mprotect(memory, protection) }

// Madvise advises the kernel of how memory is used.
func Madvise(memory []byte, advice int) error { return syscall.Madvise(memory, advice) }

// Mlock locks memory.
func Mlock(memory []byte) error { return syscall.Mlock(memory) }

// Sysinfo returns figures of the machine.
func Sysinfo(info *Sysinfo_t) error { return syscall.Sysinfo(info) }

// NsecToTimespec converts nanoseconds.
func NsecToTimespec(nanoseconds int64) Timespec { return syscall.NsecToTimespec(nanoseconds) }

// Exit ends the process.
func Exit(status int) { syscall.Exit(status) }

func errorOf(errno Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
