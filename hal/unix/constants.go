package unix

import "syscall"

// This file has the constants. Those that package syscall does not have are numbers from
// the kernel's headers, the same on all architectures.

// Errors.
const (
	EACCES, EAGAIN, EBUSY   = syscall.EACCES, syscall.EAGAIN, syscall.EBUSY
	EEXIST, EINTR, EINVAL   = syscall.EEXIST, syscall.EINTR, syscall.EINVAL
	EIO, EISDIR, ELOOP      = syscall.EIO, syscall.EISDIR, syscall.ELOOP
	EMFILE, ENFILE, ENODEV  = syscall.EMFILE, syscall.ENFILE, syscall.ENODEV
	ENOENT, ENOMEM, ENOTDIR = syscall.ENOENT, syscall.ENOMEM, syscall.ENOTDIR
	ENOTTY, ENXIO, EPERM    = syscall.ENOTTY, syscall.ENXIO, syscall.EPERM
	EPIPE, EROFS, ESPIPE    = syscall.EPIPE, syscall.EROFS, syscall.ESPIPE
)

// Flags of open(2), and of system calls that take a directory.
const (
	O_ACCMODE, O_APPEND                          = syscall.O_ACCMODE, syscall.O_APPEND
	O_CLOEXEC                                    = syscall.O_CLOEXEC
	O_CREAT, O_DIRECTORY                         = syscall.O_CREAT, syscall.O_DIRECTORY
	O_EXCL                                       = syscall.O_EXCL
	O_NOCTTY, O_NOFOLLOW                         = syscall.O_NOCTTY, syscall.O_NOFOLLOW
	O_NONBLOCK                                   = syscall.O_NONBLOCK
	O_RDONLY, O_RDWR                             = syscall.O_RDONLY, syscall.O_RDWR
	O_WRONLY                                     = syscall.O_WRONLY
	AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW = 0x1000, -100, 0x100
	O_PATH                                       = 0x200000
)

// Bits of the mode of a file.
const (
	S_IFBLK, S_IFCHR, S_IFDIR = syscall.S_IFBLK, syscall.S_IFCHR, syscall.S_IFDIR
	S_IFIFO, S_IFMT, S_IFREG  = syscall.S_IFIFO, syscall.S_IFMT, syscall.S_IFREG
	S_IFSOCK                  = syscall.S_IFSOCK
)

// Memory.
const (
	MADV_DONTFORK, MADV_HUGEPAGE       = syscall.MADV_DONTFORK, syscall.MADV_HUGEPAGE
	MAP_ANON                           = syscall.MAP_ANON
	MAP_FIXED, MAP_HUGETLB, MAP_LOCKED = syscall.MAP_FIXED, syscall.MAP_HUGETLB, syscall.MAP_LOCKED
	MAP_POPULATE, MAP_PRIVATE          = syscall.MAP_POPULATE, syscall.MAP_PRIVATE
	MAP_SHARED                         = syscall.MAP_SHARED
	PROT_NONE, PROT_READ, PROT_WRITE   = syscall.PROT_NONE, syscall.PROT_READ, syscall.PROT_WRITE
	MFD_CLOEXEC, MFD_HUGETLB           = 1, 4
)

// Files: locks, descriptors, space, renaming, attributes.
const (
	EPOLL_CLOEXEC                                              = syscall.EPOLL_CLOEXEC
	F_DUPFD_CLOEXEC                                            = syscall.F_DUPFD_CLOEXEC
	F_GETFL                                                    = syscall.F_GETFL
	LOCK_EX, LOCK_NB                                           = syscall.LOCK_EX, syscall.LOCK_NB
	LOCK_UN                                                    = syscall.LOCK_UN
	PathMax                                                    = syscall.PathMax
	FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, RENAME_EXCHANGE = 1, 2, 2
	RENAME_NOREPLACE, SEEK_END, STATX_ATTR_VERITY              = 1, 2, 0x100000
	WDIOC_GETTIMEOUT, WDIOC_SETTIMEOUT                         = 0x80045707, 0xc0045706
)

// Signals.
const (
	SIGHUP, SIGINT, SIGTERM = syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM
	SIGURG                  = syscall.SIGURG
)

// Seccomp filters (linux/seccomp.h, linux/filter.h, linux/audit.h) and prctl(2).
const (
	BPF_ABS, BPF_JEQ                                           = syscall.BPF_ABS, syscall.BPF_JEQ
	BPF_JMP                                                    = syscall.BPF_JMP
	BPF_K, BPF_LD                                              = syscall.BPF_K, syscall.BPF_LD
	BPF_RET                                                    = syscall.BPF_RET
	BPF_W                                                      = syscall.BPF_W
	AUDIT_ARCH_AARCH64, AUDIT_ARCH_X86_64, PR_SET_NO_NEW_PRIVS = 0xc00000b7, 0xc000003e, 38
	SECCOMP_FILTER_FLAG_TSYNC, SECCOMP_RET_ALLOW               = 1, 0x7fff0000
	SECCOMP_RET_KILL_PROCESS                                   = 0x80000000
	SECCOMP_SET_MODE_FILTER                                    = 1
)

// Numbers of system calls that package syscall has.
const (
	SYS_CLOCK_GETTIME, SYS_CLOCK_NANOSLEEP = syscall.SYS_CLOCK_GETTIME, syscall.SYS_CLOCK_NANOSLEEP
	SYS_CLOSE                              = syscall.SYS_CLOSE
	SYS_EPOLL_PWAIT, SYS_EXIT              = syscall.SYS_EPOLL_PWAIT, syscall.SYS_EXIT
	SYS_EXIT_GROUP                         = syscall.SYS_EXIT_GROUP
	SYS_FSYNC, SYS_FUTEX                   = syscall.SYS_FSYNC, syscall.SYS_FUTEX
	SYS_GETPID                             = syscall.SYS_GETPID
	SYS_GETTID, SYS_GETTIMEOFDAY           = syscall.SYS_GETTID, syscall.SYS_GETTIMEOFDAY
	SYS_IOCTL                              = syscall.SYS_IOCTL
	SYS_MMAP, SYS_MUNMAP                   = syscall.SYS_MMAP, syscall.SYS_MUNMAP
	SYS_NANOSLEEP                          = syscall.SYS_NANOSLEEP
	SYS_PRCTL, SYS_PREAD64                 = syscall.SYS_PRCTL, syscall.SYS_PREAD64
	SYS_PWRITE64                           = syscall.SYS_PWRITE64
	SYS_READ, SYS_RESTART_SYSCALL          = syscall.SYS_READ, syscall.SYS_RESTART_SYSCALL
	SYS_RT_SIGACTION                       = syscall.SYS_RT_SIGACTION
	SYS_RT_SIGPROCMASK, SYS_RT_SIGRETURN   = syscall.SYS_RT_SIGPROCMASK, syscall.SYS_RT_SIGRETURN
	SYS_SCHED_YIELD                        = syscall.SYS_SCHED_YIELD
	SYS_SIGALTSTACK, SYS_TGKILL            = syscall.SYS_SIGALTSTACK, syscall.SYS_TGKILL
	SYS_UNLINKAT                           = syscall.SYS_UNLINKAT
	SYS_WRITE                              = syscall.SYS_WRITE
)
