package unix

// Numbers of system calls that package syscall does not have
// (Linux, arch/x86/entry/syscalls/syscall_64.tbl).
const (
	SYS_NEWFSTATAT = 262
	SYS_RENAMEAT2  = 316
	SYS_SECCOMP    = 317

	sysReadlinkat  = 267
	sysGetrandom   = 318
	sysMemfdCreate = 319
	sysStatx       = 332
)
