package unix

import (
	"go/constant"
	"go/importer"
	"go/token"
	"go/types"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// packageOf returns the types of a package for this architecture.
func packageOf(t *testing.T, path string) *types.Scope {
	t.Helper()
	p, err := importer.ForCompiler(token.NewFileSet(), "source", nil).Import(path)
	if err != nil {
		t.Fatal(err)
	}
	return p.Scope()
}

// TestConstantsAreThoseOfThePackageItReplaces compares every exported constant.
func TestConstantsAreThoseOfThePackageItReplaces(t *testing.T) {
	ours, theirs := packageOf(t, "lightmetal/hal/unix"), packageOf(t, "golang.org/x/sys/unix")
	compared := 0
	for _, name := range ours.Names() {
		c, ok := ours.Lookup(name).(*types.Const)
		if !ok || !c.Exported() {
			continue
		}
		other, ok := theirs.Lookup(name).(*types.Const)
		if !ok || !constant.Compare(c.Val(), token.EQL, other.Val()) {
			t.Errorf("%s is %v, want %v", name, c.Val(), other)
		}
		compared++
	}
	if compared < 100 {
		t.Errorf("%d constants were compared", compared)
	}
}

// TestPrivateNumbers compares the numbers of system calls that are not exported.
func TestPrivateNumbers(t *testing.T) {
	numbers := [][2]int{{sysReadlinkat, unix.SYS_READLINKAT}, {sysGetrandom, unix.SYS_GETRANDOM},
		{sysMemfdCreate, unix.SYS_MEMFD_CREATE}, {sysStatx, unix.SYS_STATX}}
	for i, pair := range numbers {
		if pair[0] != pair[1] {
			t.Errorf("number %d is %d, want %d", i, pair[0], pair[1])
		}
	}
}

func TestStatx(t *testing.T) {
	var ours Statx_t
	var theirs unix.Statx_t
	if unsafe.Sizeof(ours) != unsafe.Sizeof(theirs) ||
		unsafe.Offsetof(ours.Dev_major) != unsafe.Offsetof(theirs.Dev_major) ||
		unsafe.Offsetof(ours.Attributes) != unsafe.Offsetof(theirs.Attributes) {
		t.Errorf("%d bytes, want %d", unsafe.Sizeof(ours), unsafe.Sizeof(theirs))
	}
	const mask = 0
	err := Statx(AT_FDCWD, "unix.go", 0, mask, &ours)
	otherErr := unix.Statx(AT_FDCWD, "unix.go", 0, mask, &theirs)
	if err != nil || otherErr != nil || ours.Dev_minor != theirs.Dev_minor {
		t.Errorf("%+v, %v, %v; want %+v", ours, err, otherErr, theirs)
	}
	if err := Statx(AT_FDCWD, "none", 0, mask, &ours); err != ENOENT {
		t.Errorf("a file that does not exist: %v", err)
	}
	if err := Statx(AT_FDCWD, "a\x00", 0, mask, &ours); err != EINVAL {
		t.Errorf("a path with a zero byte: %v", err)
	}
}

// TestFiles does with a file what the target does, each function once.
func TestFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	fd, err := Open("file", O_RDWR|O_CREAT|O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", "link"); err != nil {
		t.Fatal(err)
	}
	var status, other Stat_t
	data, target := make([]byte, 4), make([]byte, 10)
	directory, err := Openat(AT_FDCWD, ".", O_RDONLY|O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, step := range map[string]func() (int, error){
		"space":       func() (int, error) { return 0, Fallocate(fd, 0, 0, 4) },
		"lock":        func() (int, error) { return 0, Flock(fd, LOCK_EX|LOCK_NB) },
		"mode":        func() (int, error) { return 0, Fchmod(fd, 0o640) },
		"owner":       func() (int, error) { return 0, Fchown(fd, os.Getuid(), os.Getgid()) },
		"status":      func() (int, error) { return 0, Stat("link", &status) },
		"open status": func() (int, error) { return 0, Fstat(fd, &status) },
		"directory":   func() (int, error) { return 0, Fstatat(directory, "file", &other, 0) },
		"link 4":      func() (int, error) { return Readlink("link", target) },
		"link at 4":   func() (int, error) { return Readlinkat(directory, "link", target) },
		"random 4":    func() (int, error) { return Getrandom(data, 0) },
		"nonblocking": func() (int, error) { return 0, SetNonblock(fd, true) },
		"descriptor 100": func() (int, error) {
			return FcntlInt(uintptr(fd), F_DUPFD_CLOEXEC, 100)
		},
	} {
		n, err := step()
		want := 0
		switch name {
		case "link 4", "link at 4", "random 4":
			want = 4
		case "descriptor 100":
			want = 100
		}
		if n != want || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if status.Ino == 0 || other.Ino != status.Ino {
		t.Errorf("inodes %d and %d", status.Ino, other.Ino)
	}
	if n, err := Pread(fd, data, 0); n != 4 || err != nil {
		t.Errorf("Pread: %d, %v", n, err)
	}
	if at, err := Seek(fd, 0, SEEK_END); at != 4 || err != nil {
		t.Errorf("Seek: %d, %v", at, err)
	}
	if n, err := Read(fd, data); n != 0 || err != nil {
		t.Errorf("Read at the end: %d, %v", n, err)
	}
	entries := make([]byte, 4096)
	n, err := Getdents(directory, entries)
	if err != nil {
		t.Fatal(err)
	}
	if _, count, names := ParseDirent(entries[:n], -1, nil); count != 2 || len(names) != 2 {
		t.Errorf("the directory has %q", names)
	}
	for _, path := range []string{"none", "a\x00"} {
		_, err := Readlinkat(directory, path, target)
		if err != ENOENT && err != EINVAL {
			t.Errorf("Readlinkat of %q: %v", path, err)
		}
	}
	if err := Close(fd); err != nil {
		t.Error(err)
	}
	if _, err := FcntlInt(uintptr(fd), F_GETFL, 0); err != syscall.EBADF {
		t.Errorf("a closed descriptor: %v", err)
	}
}

func TestMemory(t *testing.T) {
	size := Getpagesize()
	fd, err := MemfdCreate("test", MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if err := Fallocate(fd, 0, 0, int64(size)); err != nil {
		t.Fatal(err)
	}
	at, err := MmapPtr(fd, 0, nil, uintptr(size), PROT_READ|PROT_WRITE, MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	memory := unsafe.Slice((*byte)(at), size)
	memory[0] = 1
	if err := Madvise(memory, MADV_DONTFORK); err != nil {
		t.Error(err)
	}
	if err := Mprotect(memory, PROT_READ); err != nil {
		t.Error(err)
	}
	if err := Mlock(memory); err != nil && err != ENOMEM && err != EPERM {
		t.Error(err)
	}
	if _, err := MmapPtr(-1, 0, nil, 0, PROT_READ, MAP_SHARED); err == nil {
		t.Error("an empty mapping is not an error")
	}
	if _, err := MemfdCreate("a\x00", 0); err != EINVAL {
		t.Errorf("a name with a zero byte: %v", err)
	}
	var info Sysinfo_t
	if err := Sysinfo(&info); err != nil || info.Totalram == 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestRequestsAndClock(t *testing.T) {
	const fionbio = 0x5421 // asm-generic/ioctls.h
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Write(ends[1], []byte("abc")); err != nil {
		t.Fatal(err)
	}
	if n, err := IoctlGetInt(ends[0], unix.TIOCINQ); n != 3 || err != nil {
		t.Errorf("bytes in the pipe: %d, %v", n, err)
	}
	if err := IoctlSetPointerInt(ends[0], fionbio, 1); err != nil {
		t.Error(err)
	}
	if err := IoctlSetPointerInt(ends[0], WDIOC_SETTIMEOUT, 1); err != ENOTTY {
		t.Errorf("a pipe as a watchdog: %v", err)
	}
	if fd, err := EpollCreate1(EPOLL_CLOEXEC); err != nil || Close(fd) != nil {
		t.Errorf("epoll: %v", err)
	}
	const pauseNs = 1000
	for errno := EINTR; errno == EINTR; { // a signal of Go's can end the pause
		start := Nanotime()
		pause := NsecToTimespec(pauseNs)
		_, _, errno = RawSyscall(SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
		took := Nanotime() - start
		if errno != 0 && errno != EINTR || errno == 0 && took < pauseNs {
			t.Errorf("%d ns, %v", took, errno)
		}
	}
	if pid, _, _ := RawSyscall6(SYS_GETPID, 0, 0, 0, 0, 0, 0); int(pid) != os.Getpid() {
		t.Errorf("process %d, want %d", pid, os.Getpid())
	}
}
