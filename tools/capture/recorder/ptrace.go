//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	optionExitKill = 0x100000 // PTRACE_O_EXITKILL: the program is killed when the recorder ends
	ptraceOptions  = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE |
		unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
		unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESECCOMP | optionExitKill

	// stop signal at a system call, with the option TRACESYSGOOD
	callStopSignal = unix.SIGTRAP | 0x80
)

// ptrace makes a ptrace request. The directive keeps what the arguments point to on the heap: data
// on a goroutine's stack moves if the stack grows during the call.
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

// waitForStop waits until a thread stops or ends. With tid -1 it waits for any thread.
func waitForStop(tid int) (which int, status unix.WaitStatus, err error) {
	for {
		which, err = unix.Wait4(tid, &status, unix.WALL, nil)
		if err != unix.EINTR {
			return which, status, err
		}
	}
}

// transferRegisterSet reads or writes a register set of a thread, and returns its length in bytes.
func transferRegisterSet(request, tid, set int, data []byte) (int, error) {
	vector := unix.Iovec{Base: &data[0], Len: uint64(len(data))}
	err := ptrace(request, tid, uintptr(set), uintptr(unsafe.Pointer(&vector)))
	return int(vector.Len), err
}

// signalInfo is a siginfo_t, with the number of a signal, a code and an address.
type signalInfo [128]byte

func (s *signalInfo) code() int32     { return int32(binary.NativeEndian.Uint32(s[8:])) }
func (s *signalInfo) address() uint64 { return binary.NativeEndian.Uint64(s[16:]) }
func (s *signalInfo) set(number, code int32, address uint64) {
	clear(s[:])
	binary.NativeEndian.PutUint32(s[0:], uint32(number))
	binary.NativeEndian.PutUint32(s[8:], uint32(code))
	binary.NativeEndian.PutUint64(s[16:], address)
}

func signalInfoOf(tid int) (s signalInfo, err error) {
	err = ptrace(unix.PTRACE_GETSIGINFO, tid, 0, uintptr(unsafe.Pointer(&s)))
	return s, err
}

// pageSize is the size in bytes of the parts in which memory of a process is accessed. An access
// that meets an unmapped page still transfers the parts before this page.
const pageSize = 4096

// readMemory reads memory of a program with the access rights of the program. It returns the number
// of bytes that it has read.
func readMemory(tid int, address uint64, data []byte) int {
	return transferMemory(tid, address, data, unix.ProcessVMReadv)
}

func writeMemory(tid int, address uint64, data []byte) int {
	return transferMemory(tid, address, data, unix.ProcessVMWritev)
}

func transferMemory(tid int, address uint64, data []byte,
	move func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) int {
	if len(data) == 0 {
		return 0
	}
	var remote []unix.RemoteIovec
	for at := uint64(0); at < uint64(len(data)); {
		n := min(uint64(len(data))-at, pageSize-(address+at)%pageSize)
		remote = append(remote, unix.RemoteIovec{Base: uintptr(address + at), Len: int(n)})
		at += n
	}
	n, err := move(tid, []unix.Iovec{{Base: &data[0], Len: uint64(len(data))}}, remote, 0)
	if err != nil {
		return 0
	}
	return n
}

// readCode reads instructions. Unlike readMemory, it can read memory that is only executable.
func readCode(tid int, address uint64, data []byte) int {
	n := readMemory(tid, address, data)
	if n == 0 {
		n, _ = unix.PtracePeekText(tid, uintptr(address), data)
	}
	return n
}

// readCString reads a string of at most 255 bytes that ends with a zero byte.
func readCString(tid int, address uint64) string {
	var b [256]byte
	n := readMemory(tid, address, b[:])
	text, _, _ := strings.Cut(string(b[:n]), "\x00")
	return text
}
