package unix

// Numbers of system calls that package syscall does not have
// (Linux, include/uapi/asm-generic/unistd.h).
const (
	SYS_NEWFSTATAT = 79
	SYS_RENAMEAT2  = 276
	SYS_SECCOMP    = 277

	sysReadlinkat  = 78
	sysGetrandom   = 278
	sysMemfdCreate = 279
	sysStatx       = 291
)
