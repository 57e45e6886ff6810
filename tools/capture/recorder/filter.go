//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Constants of seccomp filters, which examine struct seccomp_data.
const (
	dataCall = 0
	dataArch = 4
	dataArgs = 16 // 8 bytes for each argument, the low half first

	filterAllow = 0x7fff0000 // SECCOMP_RET_ALLOW
	filterTrace = 0x7ff00000 // SECCOMP_RET_TRACE

	flagMode = 1 // SECCOMP_SET_MODE_FILTER

	mask32 = 1<<32 - 1 // mask for all 32 bits
)

// condition selects system calls: the low half of an argument, masked, must equal a value. The zero
// value selects all calls.
type condition struct {
	argument    int
	mask, equal uint32
}

type watchedCall struct {
	call uint32
	when condition
}

// watchedCalls are the system calls that stop a program. A call with several alternative conditions
// is listed several times. baseFilter adds the ioctl requests of ioctlHandlers.
var watchedCalls = []watchedCall{
	{unix.SYS_MMAP, condition{3, unix.MAP_ANONYMOUS, 0}},
	{unix.SYS_MMAP, condition{3, unix.MAP_FIXED, unix.MAP_FIXED}},
	{unix.SYS_MMAP, condition{3, unix.MAP_HUGETLB, unix.MAP_HUGETLB}},
	{unix.SYS_MUNMAP, condition{}},
	{unix.SYS_MPROTECT, condition{}},
	{unix.SYS_PKEY_MPROTECT, condition{}},
	{unix.SYS_MREMAP, condition{}},
	{unix.SYS_CLONE, condition{0, unix.CLONE_UNTRACED, unix.CLONE_UNTRACED}},
	{unix.SYS_CLONE3, condition{}},
	{unix.SYS_EXIT_GROUP, condition{}},
	{unix.SYS_OPENAT, condition{}},
	{unix.SYS_OPENAT2, condition{}},
	{unix.SYS_MEMFD_CREATE, condition{}},
	{callOpen, condition{}},
	{unix.SYS_DUP, condition{}},
	{callDup2, condition{}},
	{unix.SYS_DUP3, condition{}},
	{unix.SYS_FCNTL, condition{1, mask32, unix.F_DUPFD}},
	{unix.SYS_FCNTL, condition{1, mask32, unix.F_DUPFD_CLOEXEC}},
	{unix.SYS_IO_URING_SETUP, condition{}},
	{unix.SYS_IO_SETUP, condition{}},
	{unix.SYS_SENDMSG, condition{}},
	{unix.SYS_REMAP_FILE_PAGES, condition{}},
	{unix.SYS_PRCTL, condition{0, mask32, unix.PR_SET_SECCOMP}},
	{unix.SYS_SECCOMP, condition{0, mask32, modeStrict}},
	{unix.SYS_RT_SIGACTION, condition{0, mask32, uint32(unix.SIGSEGV)}},
	{unix.SYS_RT_SIGACTION, condition{0, mask32, uint32(unix.SIGTRAP)}},
}

// baseFilter returns the filter that seccomp executes at every system call.
func baseFilter() []byte {
	calls := watchedCalls
	for _, c := range ioctlHandlers {
		calls = append(calls, watchedCall{unix.SYS_IOCTL, condition{1, mask32, c.request}})
	}
	return buildFilter(calls)
}

// buildFilter returns a filter that stops the given calls, and calls with an argument in one of the
// given address ranges. The upper 32 bits must be the same for all addresses of a range. The filter
// also stops all calls of another architecture, including 32-bit code.
func buildFilter(calls []watchedCall, pointers ...pageRange) []byte {
	var code []unix.SockFilter
	add := func(op uint16, k uint32, yes, no uint8) {
		code = append(code, unix.SockFilter{Code: op, K: k, Jt: yes, Jf: no})
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		and   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		end   = unix.BPF_RET | unix.BPF_K
	)
	add(load, dataArch, 0, 0)
	add(equal, auditArch, 1, 0)
	add(end, filterTrace, 0, 0)
	for _, w := range calls {
		add(load, dataCall, 0, 0)
		add(equal, w.call, 0, 4)
		add(load, uint32(dataArgs+8*w.when.argument), 0, 0)
		add(and, w.when.mask, 0, 0)
		add(equal, w.when.equal, 0, 1)
		add(end, filterTrace, 0, 0)
	}
	const least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	for _, p := range pointers {
		for n := range uint32(6) {
			add(load, dataArgs+8*n+4, 0, 0)
			add(equal, uint32(p.start>>32), 0, 4)
			add(load, dataArgs+8*n, 0, 0)
			add(least, uint32(p.start), 0, 2)
			last := unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
			add(uint16(last), uint32(p.end-1), 1, 0)
			add(end, filterTrace, 0, 0)
		}
	}
	add(end, filterAllow, 0, 0)
	b, _ := binary.Append(nil, binary.NativeEndian, code) // no error: the size of the data is fixed
	return b
}
