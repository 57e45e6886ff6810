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

// answer replaces the result of a system call of a program, or acts right before the call. It is
// written in words:
//
//	mmap 1=/i.lmb-4096 =-12            calls whose argument 1 is the size of this file, less 4096
//	ioctl 1=0xfa0d #2 =-19             the second call whose argument 1 is this fails with ENODEV
//	pread64 /config @0:ffff            each call for a file whose path ends so reads other bytes
//	                                   from offset 0 on
//	ioctl 1=0xfa0f =0 ?                the program need not make this call
//	nanosleep #1 !truncate /i.lmb 4096 a file is cut before the kernel gets the first call
//	pread64 /config !fault             the thread gets a bus error when it continues
//	SIGBUS @304:0000000000000000       the handler of a bus error reads other bytes in its frame;
//	                                   the code of the signal is at 8, the faulting address at 304
type answer struct {
	text         string
	callNumber   uint64
	signal       unix.Signal    // signal whose frame is changed; 0: the answer is to a system call
	dataArg      int            // index of the argument that is the address of the call's data
	dataAddress  uint64         // address of the data in the call that is answered
	pathSuffix   string         // end of the path of the call, or of its file
	argValues    map[int]uint64 // required values of arguments, by index
	nth          int            // number of the answered call among those that match; 0: all
	result       int64
	replacesCall bool // the kernel does not execute the call
	optional     bool // the call need not occur
	newBytes     map[uint64][]byte
	action       []string
	matchCount   int // number of calls that matched
}

// answerableCalls are the system calls that can have answers, with the index of the argument that
// is the address of the data.
var answerableCalls = map[string]struct {
	number  uint64
	dataArg int
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

// parseAnswers parses answers with semicolons between them.
func parseAnswers(text string) (list []*answer, err error) {
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		a := &answer{text: part, argValues: map[int]uint64{}, newBytes: map[uint64][]byte{}}
		words := strings.Fields(part)
		call, known := answerableCalls[words[0]]
		a.callNumber, a.dataArg = call.number, call.dataArg
		if signal := unix.SignalNum(words[0]); signal != 0 {
			a.callNumber, a.signal, known = ^uint64(0), signal, true
		}
		if !known {
			return nil, fmt.Errorf("no call %q", words[0])
		}
		for i, word := range words[1:] {
			if word[0] == '!' {
				a.action = words[1+i:]
				break
			}
			if err = a.parseWord(word); err != nil {
				return nil, fmt.Errorf("%q: %w", word, err)
			}
		}
		list = append(list, a)
	}
	return list, nil
}

func (a *answer) parseWord(word string) (err error) {
	switch left, right, _ := strings.Cut(word[1:], "="); {
	case word == "?":
		a.optional = true
	case word[0] == '#':
		a.nth, err = strconv.Atoi(word[1:])
	case word[0] == '=':
		a.result, err = strconv.ParseInt(word[1:], 0, 64)
		a.replacesCall = true
	case word[0] == '@':
		at, digits, _ := strings.Cut(word[1:], ":")
		offset, err := strconv.ParseUint(at, 0, 64)
		if err != nil {
			return err
		}
		a.newBytes[offset], err = hex.DecodeString(digits)
		return err
	case word[0] >= '0' && word[0] <= '5' && left == "":
		a.argValues[int(word[0]-'0')], err = parseArgument(right)
	default:
		a.pathSuffix = word
	}
	return err
}

// parseArgument parses a number, or a path whose file has this size, and what to subtract.
func parseArgument(text string) (uint64, error) {
	if text == "" || text[0] != '/' {
		return strconv.ParseUint(text, 0, 64)
	}
	path, less, _ := strings.Cut(text, "-")
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	minus, _ := strconv.ParseUint(less, 0, 64) // nothing to subtract if it is missing
	return uint64(info.Size()) - minus, nil
}

// matches reports whether the answer applies to a call that begins.
func (a *answer) matches(tid int, r *registers) bool {
	if r[8] != a.callNumber {
		return false
	}
	for i, want := range a.argValues {
		if r[i] != want {
			return false
		}
	}
	if a.pathSuffix != "" && !strings.HasSuffix(pathOf(tid, r), a.pathSuffix) {
		return false
	}
	a.matchCount++
	return a.nth == 0 || a.nth == a.matchCount
}

// pathOf returns the path in the arguments of a call, or the path of its file.
func pathOf(tid int, r *registers) string {
	switch r[8] {
	case unix.SYS_OPENAT, unix.SYS_READLINKAT, unix.SYS_UNLINKAT, unix.SYS_LINKAT,
		unix.SYS_RENAMEAT:
		var text [256]byte
		_, _ = unix.PtracePeekData(tid, uintptr(r[1]), text[:]) // may end early
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

// runAction executes the action of the answer, before the call.
func (a *answer) runAction(pid int) error {
	switch a.action[0] {
	case "!truncate": // PATH SIZE
		size, _ := strconv.ParseInt(a.action[2], 0, 64)
		return os.Truncate(a.action[1], size)
	case "!write": // PATH OFFSET HEX
		file, err := os.OpenFile(a.action[1], os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		offset, _ := strconv.ParseInt(a.action[2], 0, 64)
		data, _ := hex.DecodeString(a.action[3])
		_, err = file.WriteAt(data, offset)
		return err
	case "!signal": // NUMBER
		number, _ := strconv.Atoi(a.action[1])
		return unix.Kill(pid, unix.Signal(number))
	}
	return fmt.Errorf("unknown action %q", a.action[0])
}

// tracedProgram is a program whose system calls get answers.
type tracedProgram struct {
	pid             int
	answers         []*answer
	pending         map[int]*answer // by thread; the answer to the system call that it is in
	knownThreads    map[int]bool    // threads that have stopped before
	faultingThreads map[int]bool    // threads that get a bus error when they continue
	frameAnswers    map[int]*answer // by thread, the answer to the signal that it handles next
	err             error
}

// runAnswered is like run for a program whose system calls get answers. It fails if an answer was
// not used, unless the answer has a ?.
func runAnswered(text, program string, args ...string) (output string, exit int, err error) {
	runtime.LockOSThread() // only this thread may read the program's registers
	defer runtime.UnlockOSThread()
	a := tracedProgram{pending: map[int]*answer{}, knownThreads: map[int]bool{},
		faultingThreads: map[int]bool{},
		frameAnswers:    map[int]*answer{}}
	if a.answers, err = parseAnswers(text); err != nil {
		return "", 0, err
	}
	outputFile, err := os.Create("/tmp/said")
	if err != nil {
		return "", 0, err
	}
	defer outputFile.Close()
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr, c.SysProcAttr = outputFile, outputFile, &syscall.SysProcAttr{Ptrace: true}
	if err := c.Start(); err != nil {
		return "", 0, err
	}
	limit := time.AfterFunc(runLimit, func() { _ = c.Process.Kill() })
	defer limit.Stop()
	a.pid = c.Process.Pid
	exit = a.handleStops()
	_ = c.Process.Release()
	for _, answer := range a.answers {
		if answer.matchCount < max(answer.nth, 1) && !answer.optional && a.err == nil {
			a.err = fmt.Errorf("%q matched %d times", answer.text, answer.matchCount)
		}
	}
	all, err := os.ReadFile("/tmp/said")
	if a.err == nil {
		a.err = err
	}
	return string(all), exit, a.err
}

// handleStops handles each stop of the program's threads until the program ends.
func (a *tracedProgram) handleStops() (exit int) {
	const callStop = unix.SIGTRAP | 0x80 // TRACESYSGOOD
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
		case signal == callStop:
			a.handleCallStop(tid)
			signal = 0
			if a.faultingThreads[tid] {
				delete(a.faultingThreads, tid)
				signal = unix.SIGBUS
			}
		case signal == unix.SIGTRAP && a.frameAnswers[tid] != nil:
			a.changeFrame(tid, a.frameAnswers[tid])
			delete(a.frameAnswers, tid)
			signal = 0
		// first stop of a thread, or the event that a thread began
		case !a.knownThreads[tid], signal == unix.SIGTRAP:
			a.knownThreads[tid] = true
			const exitKill = 0x100000
			_ = unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|
				exitKill)
			signal = 0
		default:
			if given := a.signalAnswer(signal); given != nil {
				a.frameAnswers[tid] = given
				request = unix.PTRACE_SINGLESTEP // stop at the first instruction of the handler
			}
		}
		_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), 0,
			uintptr(signal), 0, 0)
	}
}

// registers are X0 to X30, SP, PC and PSTATE of an arm64 processor. Answers support no other
// architecture.
type registers [34]uint64

func (r *registers) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
}

// transferRegisters reads or writes a set of a thread's registers.
func transferRegisters(request, tid, set int, data []byte) error {
	vector := unix.Iovec{Base: &data[0], Len: uint64(len(data))}
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), uintptr(set),
		uintptr(unsafe.Pointer(&vector)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

const generalRegisters = 1 // NT_PRSTATUS

// handleCallStop handles a stop at the beginning or the end of a system call. Register 7
// distinguishes them (Linux, arch/arm64/kernel/ptrace.c).
func (a *tracedProgram) handleCallStop(tid int) {
	var r registers
	if err := transferRegisters(unix.PTRACE_GETREGSET, tid, generalRegisters,
		r.bytes()); err != nil {
		return // the thread was killed
	}
	if given := a.pending[tid]; r[7] == 1 && given != nil {
		delete(a.pending, tid)
		for at, data := range given.newBytes {
			if _, err := unix.PtracePokeData(tid, uintptr(given.dataAddress+at), data); err != nil {
				a.err = fmt.Errorf("%q: %w", given.text, err)
			}
		}
		if given.replacesCall {
			r[0] = uint64(given.result)
			a.err = firstError(a.err, transferRegisters(unix.PTRACE_SETREGSET, tid,
				generalRegisters, r.bytes()))
		}
		return
	}
	for _, given := range a.answers {
		if r[7] == 0 && given.matches(tid, &r) {
			a.beginAnswered(tid, given, &r)
			return
		}
	}
}

// signalAnswer returns the answer to a signal, or nil.
func (a *tracedProgram) signalAnswer(signal unix.Signal) *answer {
	for _, given := range a.answers {
		if given.signal != 0 && given.signal == signal {
			given.matchCount++
			if given.nth == 0 || given.nth == given.matchCount {
				return given
			}
		}
	}
	return nil
}

// changeFrame changes the frame of a signal. The thread must be at the first instruction of the
// handler, when register 1 contains the address of the frame (Linux, arch/arm64/kernel/signal.c,
// struct rt_sigframe).
func (a *tracedProgram) changeFrame(tid int, given *answer) {
	var r registers
	err := transferRegisters(unix.PTRACE_GETREGSET, tid, generalRegisters, r.bytes())
	for at, data := range given.newBytes {
		if err == nil {
			_, err = unix.PtracePokeData(tid, uintptr(r[1]+at), data)
		}
	}
	if err != nil {
		a.err = firstError(a.err, fmt.Errorf("%q: %w", given.text, err))
	}
}

// beginAnswered runs the action of an answer at the beginning of a system call. If the answer
// replaces the call, it makes the kernel execute getpid instead.
func (a *tracedProgram) beginAnswered(tid int, given *answer, r *registers) {
	a.pending[tid], given.dataAddress = given, r[given.dataArg]
	switch {
	case len(given.action) == 0:
	case given.action[0] == "!fault":
		a.faultingThreads[tid] = true
	default:
		a.err = firstError(a.err, given.runAction(a.pid))
	}
	if given.replacesCall {
		none := binary.LittleEndian.AppendUint32(nil, unix.SYS_GETPID) // a seal permits it
		const systemCall = 0x404                                       // NT_ARM_SYSTEM_CALL
		a.err = firstError(a.err, transferRegisters(unix.PTRACE_SETREGSET, tid, systemCall, none))
	}
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
