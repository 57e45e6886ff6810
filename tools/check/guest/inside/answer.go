package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// answer is what a program gets from a system call in place of what the kernel
// would say, or what happens right before one, in words:
//
//	ioctl 1=0xfa0d #2 =-19             the second with this argument 1 fails with ENODEV
//	pread64 /config @0:ffff            of a file whose path ends so: other bytes from 0 on, each
//
// time
//
//	ioctl 1=0xfa0f =0 ?                it need not come
//	nanosleep #1 !truncate /i.lmb 4096 the first, which the kernel gets, behind a file that is cut
//	pread64 /config !fault             the thread gets a bus error when it continues
//	SIGBUS @304:0000000000000000       the handler of a bus error reads other bytes of its frame,
//
// in which the code of the signal is at 8 and the address of the fault at 304
type answer struct {
	words    string
	call     uint64
	signal   unix.Signal    // whose frame is changed; 0: the answer is to a system call
	data     int            // its argument that data are at
	at       uint64         // where they are, of the call that was answered
	path     string         // that the call's, or its file's, ends in
	has      map[int]uint64 // arguments
	nth      int            // of those that match, 0: each
	result   int64
	replaced bool // the kernel is not asked
	may      bool // never come
	bytes    map[uint64][]byte
	act      []string
	came     int // how many matched
}

// calls are those that can be answered, with the argument that data are at.
var calls = map[string]struct {
	number uint64
	data   int
}{
	"openat": {unix.SYS_OPENAT, 1}, "read": {unix.SYS_READ, 1}, "pread64": {unix.SYS_PREAD64, 1},
	"pwrite64": {unix.SYS_PWRITE64, 1},
	"write":    {unix.SYS_WRITE, 1}, "ioctl": {unix.SYS_IOCTL, 2}, "fstat": {unix.SYS_FSTAT, 1},
	"statx": {unix.SYS_STATX, 4}, "mmap": {unix.SYS_MMAP, 0},
	"munmap": {unix.SYS_MUNMAP, 0}, "mlock": {unix.SYS_MLOCK, 0},
	"readlinkat": {unix.SYS_READLINKAT, 2}, "getdents64": {unix.SYS_GETDENTS64, 1},
	"nanosleep": {unix.SYS_NANOSLEEP, 0}, "seccomp": {unix.SYS_SECCOMP, 2},
	"prctl": {unix.SYS_PRCTL, 1}, "rt_sigaction": {unix.SYS_RT_SIGACTION, 1},
	"fcntl": {unix.SYS_FCNTL, 2}, "mprotect": {unix.SYS_MPROTECT, 0}, "lseek": {unix.SYS_LSEEK, 0},
	"getrandom": {unix.SYS_GETRANDOM, 0},
	"fsync":     {unix.SYS_FSYNC, 0}, "linkat": {unix.SYS_LINKAT, 1},
	"renameat": {unix.SYS_RENAMEAT, 1}, "unlinkat": {unix.SYS_UNLINKAT, 1},
}

// parseAnswers reads answers with semicolons between.
func parseAnswers(text string) (list []*answer, err error) {
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		a := &answer{words: part, has: map[int]uint64{}, bytes: map[uint64][]byte{}}
		words := strings.Fields(part)
		call, known := calls[words[0]]
		a.call, a.data = call.number, call.data
		if words[0] == "SIGBUS" {
			a.call, a.signal, known = ^uint64(0), unix.SIGBUS, true
		}
		if !known {
			return nil, fmt.Errorf("no call %q", words[0])
		}
		for i, word := range words[1:] {
			if word[0] == '!' {
				a.act = words[1+i:]
				break
			}
			if err = a.take(word); err != nil {
				return nil, fmt.Errorf("%q: %w", word, err)
			}
		}
		list = append(list, a)
	}
	return list, nil
}

func (a *answer) take(word string) (err error) {
	switch left, right, _ := strings.Cut(word[1:], "="); {
	case word == "?":
		a.may = true
	case word[0] == '#':
		a.nth, err = strconv.Atoi(word[1:])
	case word[0] == '=':
		a.result, err = strconv.ParseInt(word[1:], 0, 64)
		a.replaced = true
	case word[0] == '@':
		at, digits, _ := strings.Cut(word[1:], ":")
		offset, err := strconv.ParseUint(at, 0, 64)
		if err != nil {
			return err
		}
		a.bytes[offset], err = hex.DecodeString(digits)
		return err
	case word[0] >= '0' && word[0] <= '5' && left == "":
		a.has[int(word[0]-'0')], err = strconv.ParseUint(right, 0, 64)
	default:
		a.path = word
	}
	return err
}

// matches tells whether a call that begins is one of an answer's.
func (a *answer) matches(tid int, r *registers) bool {
	if r[8] != a.call {
		return false
	}
	for i, want := range a.has {
		if r[i] != want {
			return false
		}
	}
	if a.path != "" && !strings.HasSuffix(pathOf(tid, r), a.path) {
		return false
	}
	a.came++
	return a.nth == 0 || a.nth == a.came
}

// pathOf is the path that a call names, or that of its file.
func pathOf(tid int, r *registers) string {
	switch r[8] {
	case unix.SYS_OPENAT, unix.SYS_READLINKAT, unix.SYS_UNLINKAT, unix.SYS_LINKAT,
		unix.SYS_RENAMEAT:
		var text [256]byte
		_, _ = unix.PtracePeekData(tid, uintptr(r[1]), text[:]) // what is there of it
		path, _, _ := bytes.Cut(text[:], []byte{0})
		return string(path)
	}
	fd := r[0]
	if r[8] == unix.SYS_MMAP {
		fd = r[4]
	}
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd)))
	return path
}

// do does what is to happen before a call.
func (a *answer) do(pid int) error {
	switch a.act[0] {
	case "!truncate": // PATH SIZE
		size, _ := strconv.ParseInt(a.act[2], 0, 64)
		return os.Truncate(a.act[1], size)
	case "!write": // PATH OFFSET HEX
		file, err := os.OpenFile(a.act[1], os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		offset, _ := strconv.ParseInt(a.act[2], 0, 64)
		data, _ := hex.DecodeString(a.act[3])
		_, err = file.WriteAt(data, offset)
		return err
	case "!signal": // NUMBER
		number, _ := strconv.Atoi(a.act[1])
		return unix.Kill(pid, unix.Signal(number))
	}
	return fmt.Errorf("nothing to do is called %q", a.act[0])
}

// asked is a program whose system calls are answered.
type asked struct {
	pid     int
	answers []*answer
	pending map[int]*answer // by thread
	threads map[int]bool    // that were seen
	faults  map[int]bool    // threads that get a bus error when they continue
	frames  map[int]*answer // by thread, the answer to the signal that it handles next
	err     error
}

// runAnswered is run, of a program whose system calls get answers. Every answer
// has to be given.
func runAnswered(text, program string, args ...string) (output string, exit int, err error) {
	runtime.LockOSThread() // which alone may ask for the program's registers
	defer runtime.UnlockOSThread()
	a := asked{pending: map[int]*answer{}, threads: map[int]bool{}, faults: map[int]bool{},
		frames: map[int]*answer{}}
	if a.answers, err = parseAnswers(text); err != nil {
		return "", 0, err
	}
	said, err := os.Create("/tmp/said")
	if err != nil {
		return "", 0, err
	}
	defer said.Close()
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr, c.SysProcAttr = said, said, &syscall.SysProcAttr{Ptrace: true}
	if err := c.Start(); err != nil {
		return "", 0, err
	}
	limit := time.AfterFunc(runLimit, func() { _ = c.Process.Kill() })
	defer limit.Stop()
	a.pid = c.Process.Pid
	exit = a.follow()
	_ = c.Process.Release()
	for _, given := range a.answers {
		if given.came < max(given.nth, 1) && !given.may && a.err == nil {
			a.err = fmt.Errorf("%q came %d times", given.words, given.came)
		}
	}
	all, err := os.ReadFile("/tmp/said")
	if a.err == nil {
		a.err = err
	}
	return string(all), exit, a.err
}

// follow takes what threads of the program stop at, until that ends.
func (a *asked) follow() (exit int) {
	const ofCall = unix.SIGTRAP | 0x80 // TRACESYSGOOD
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			a.err = err
			return 0
		case tid == a.pid && status.Exited():
			return status.ExitStatus()
		case tid == a.pid && status.Signaled():
			return 128 + int(status.Signal())
		case !status.Stopped():
			continue
		}
		signal, request := status.StopSignal(), unix.PTRACE_SYSCALL
		switch {
		case signal == ofCall:
			a.call(tid)
			signal = 0
			if a.faults[tid] {
				delete(a.faults, tid)
				signal = unix.SIGBUS
			}
		case signal == unix.SIGTRAP && a.frames[tid] != nil:
			a.changeFrame(tid, a.frames[tid])
			delete(a.frames, tid)
			signal = 0
		case !a.threads[tid], signal == unix.SIGTRAP: // its first stop, or news of another thread
			a.threads[tid] = true
			const exitKill = 0x100000
			_ = unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|
				exitKill)
			signal = 0
		default:
			if given := a.answerTo(signal); given != nil {
				a.frames[tid] = given
				request = unix.PTRACE_SINGLESTEP // into the handler
			}
		}
		_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), 0,
			uintptr(signal), 0, 0)
	}
}

// registers are X0 to X30, SP, PC and PSTATE of a processor for arm64, and those alone are
// understood: the program there is for it.
type registers [34]uint64

func (r *registers) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
}

// registerSet reads or writes one of a thread's sets.
func registerSet(request, tid, set int, data []byte) error {
	vector := unix.Iovec{Base: &data[0], Len: uint64(len(data))}
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), uintptr(set),
		uintptr(unsafe.Pointer(&vector)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

const general = 1 // NT_PRSTATUS

// call sees to a thread that stops where a system call begins or ends: register 7
// tells which (Linux, arch/arm64/kernel/ptrace.c).
func (a *asked) call(tid int) {
	var r registers
	if err := registerSet(unix.PTRACE_GETREGSET, tid, general, r.bytes()); err != nil {
		return // it has been killed
	}
	if given := a.pending[tid]; r[7] == 1 && given != nil {
		delete(a.pending, tid)
		for at, data := range given.bytes {
			if _, err := unix.PtracePokeData(tid, uintptr(given.at+at), data); err != nil {
				a.err = fmt.Errorf("%q: %w", given.words, err)
			}
		}
		if given.replaced {
			r[0] = uint64(given.result)
			a.err = first(a.err, registerSet(unix.PTRACE_SETREGSET, tid, general, r.bytes()))
		}
		return
	}
	for _, given := range a.answers {
		if r[7] == 0 && given.matches(tid, &r) {
			a.begin(tid, given, &r)
			return
		}
	}
}

// answerTo returns the answer to a signal, or nil.
func (a *asked) answerTo(signal unix.Signal) *answer {
	for _, given := range a.answers {
		if given.signal != 0 && given.signal == signal {
			given.came++
			if given.nth == 0 || given.nth == given.came {
				return given
			}
		}
	}
	return nil
}

// changeFrame changes the frame of a signal. The thread must be at the first instruction of
// the handler: then register 1 has the address of the frame (Linux,
// arch/arm64/kernel/signal.c, struct rt_sigframe).
func (a *asked) changeFrame(tid int, given *answer) {
	var r registers
	err := registerSet(unix.PTRACE_GETREGSET, tid, general, r.bytes())
	for at, data := range given.bytes {
		if err == nil {
			_, err = unix.PtracePokeData(tid, uintptr(r[1]+at), data)
		}
	}
	if err != nil {
		a.err = first(a.err, fmt.Errorf("%q: %w", given.words, err))
	}
}

// begin is where a call begins that has an answer.
func (a *asked) begin(tid int, given *answer, r *registers) {
	a.pending[tid], given.at = given, r[given.data]
	switch {
	case len(given.act) == 0:
	case given.act[0] == "!fault":
		a.faults[tid] = true
	default:
		a.err = first(a.err, given.do(a.pid))
	}
	if given.replaced {
		none := binary.LittleEndian.AppendUint32(nil, unix.SYS_GETPID) // which a seal lets through
		const systemCall = 0x404                                       // NT_ARM_SYSTEM_CALL
		a.err = first(a.err, registerSet(unix.PTRACE_SETREGSET, tid, systemCall, none))
	}
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
