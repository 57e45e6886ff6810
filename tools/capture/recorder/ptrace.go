//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	optionExitKill = 0x100000 // PTRACE_O_EXITKILL: no program goes on without its recorder
	options        = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE |
		unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
		unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESECCOMP | optionExitKill

	stopCall = unix.SIGTRAP | 0x80 // what TRACESYSGOOD makes of a stop at a system call
)

// ptrace makes a request. What its arguments point at lies on the heap: a stack
// that grows on the way to the kernel moves.
//
//go:uintptrescapes
func ptrace(request, tid int, address, data uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), address, data, 0,
		0)
	if errno != 0 {
		return errno
	}
	return nil
}

// wait waits for the next stop or the end of a thread, -1: of any thread.
func wait(tid int) (which int, status unix.WaitStatus, err error) {
	for {
		which, err = unix.Wait4(tid, &status, unix.WALL, nil)
		if err != unix.EINTR {
			return which, status, err
		}
	}
}

// registerSet reads or writes one of a thread's sets, and returns its length.
func registerSet(request, tid, set int, data []byte) (int, error) {
	vector := unix.Iovec{Base: &data[0], Len: uint64(len(data))}
	err := ptrace(request, tid, uintptr(set), uintptr(unsafe.Pointer(&vector)))
	return int(vector.Len), err
}

// signalInfo is a siginfo_t: the number, a code and an address.
type signalInfo [128]byte

func (s *signalInfo) code() int32     { return int32(binary.NativeEndian.Uint32(s[8:])) }
func (s *signalInfo) address() uint64 { return binary.NativeEndian.Uint64(s[16:]) }
func (s *signalInfo) set(number, code int32, address uint64) {
	clear(s[:])
	binary.NativeEndian.PutUint32(s[0:], uint32(number))
	binary.NativeEndian.PutUint32(s[8:], uint32(code))
	binary.NativeEndian.PutUint64(s[16:], address)
}

func signalOf(tid int) (s signalInfo, err error) {
	err = ptrace(unix.PTRACE_GETSIGINFO, tid, 0, uintptr(unsafe.Pointer(&s)))
	return s, err
}

// page is a bound that accesses to another process do not cross in one piece:
// what lies before a hole is read.
const page = 4096

// readMemory reads a program's memory with the rights of the program, and returns the
// number of bytes that could be read.
func readMemory(tid int, address uint64, data []byte) int {
	return transfer(tid, address, data, unix.ProcessVMReadv)
}

func writeMemory(tid int, address uint64, data []byte) int {
	return transfer(tid, address, data, unix.ProcessVMWritev)
}

func transfer(tid int, address uint64, data []byte,
	move func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) int {
	if len(data) == 0 {
		return 0
	}
	var remote []unix.RemoteIovec
	for at := uint64(0); at < uint64(len(data)); {
		n := min(uint64(len(data))-at, page-(address+at)%page)
		remote = append(remote, unix.RemoteIovec{Base: uintptr(address + at), Len: int(n)})
		at += n
	}
	n, err := move(tid, []unix.Iovec{{Base: &data[0], Len: uint64(len(data))}}, remote, 0)
	if err != nil {
		return 0
	}
	return n
}

// readCode reads an instruction, from memory that can only be executed too.
func readCode(tid int, address uint64, data []byte) int {
	n := readMemory(tid, address, data)
	if n == 0 {
		n, _ = unix.PtracePeekText(tid, uintptr(address), data)
	}
	return n
}

// readText reads a string that ends with a zero byte.
func readText(tid int, address uint64) string {
	var b [256]byte
	n := readMemory(tid, address, b[:])
	text, _, _ := strings.Cut(string(b[:n]), "\x00")
	return text
}
