//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// start starts the program and stops it before its first instruction, with the
// filter in it.
func (r *recording) start() error {
	path, err := exec.LookPath(r.options.Program[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return notRun(err)
	}
	pid, err := syscall.ForkExec(path, r.options.Program, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Ptrace: true},
	})
	if err == unix.EPERM {
		return &Failure{Forbidden,
			"tracing a program is not permitted here: a container needs " +
				"--cap-add=SYS_PTRACE (and no seccomp profile that " +
				"forbids ptrace), " +
				"any machine /proc/sys/kernel/yama/ptrace_scope below 3"}
	}
	if err != nil {
		return notRun(fmt.Errorf("%s: %w", path, err))
	}
	r.main = pid
	t := &thread{tid: pid, process: pid, space: &space{uses: 1}, actions: actions{}}
	r.threads[pid] = t
	_, status, err := wait(pid)
	if err == nil && !status.Stopped() {
		err = fmt.Errorf("wait status 0x%x", uint32(status))
	}
	if err != nil {
		return &Failure{Internal, fmt.Sprintf("%s ended before its first instruction: %v", path,
			err)}
	}
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		return &Failure{Forbidden, fmt.Sprintf("tracing %s: %v", path, err)}
	}
	if err := r.installFilter(t); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return &Failure{Forbidden, fmt.Sprintf("cannot install the filter of system calls "+
			"in %s: %v",
			path, err)}
	}
	return nil
}

// notRun is why a program cannot be.
func notRun(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &Failure{Forbidden, err.Error()}
	}
	if errors.Is(err, unix.ENOEXEC) {
		err = fmt.Errorf("%w: it must be a program for this machine, or a script that "+
			"begins with #! and its interpreter", err)
	}
	return &Failure{NoProgram, err.Error()}
}

// installFilter has the program ask for the filter itself, by an instruction
// that stands for a moment where its first one does: there is one thread.
func (r *recording) installFilter(t *thread) error {
	regs, err := registersOf(t.tid)
	if err != nil {
		return err
	}
	code := make([]byte, len(callCode))
	if _, err := unix.PtracePeekText(t.tid, uintptr(regs.pc()), code); err != nil {
		return err
	}
	if _, err := unix.PtracePokeText(t.tid, uintptr(regs.pc()), callCode); err != nil {
		return err
	}
	t.space.gate = regs.pc()
	err = r.addFilter(t, filter())
	t.space.gate = 0
	_, perr := unix.PtracePokeText(t.tid, uintptr(regs.pc()), code)
	return errors.Join(err, perr)
}

// addFilter has a stopped thread ask for a filter, of all threads that it
// shares memory with.
func (r *recording) addFilter(t *thread, program []byte) error {
	const together = 1 // SECCOMP_FILTER_FLAG_TSYNC
	return r.addFilterOf(t, program, together)
}

// addFilterOf is addFilter with flags of seccomp's; 0: of the thread alone.
func (r *recording) addFilterOf(t *thread, program []byte, flags uint64) error {
	return r.withPage(t, func(at uint64) error { return r.addFilterAt(t, at, program, flags) })
}

// withPage calls a function with the address of a page that a stopped thread
// has for the time of the call.
func (r *recording) withPage(t *thread, use func(at uint64) error) error {
	at, err := r.inject(t, unix.SYS_MMAP, 0, page, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uint64(0), 0)
	if err != nil {
		return err
	}
	defer func() { _, _ = r.inject(t, unix.SYS_MUNMAP, at, page) }()
	return use(at)
}

// addFilterAt is addFilter with a page for the request.
func (r *recording) addFilterAt(t *thread, at uint64, program []byte, flags uint64) error {
	head := binary.NativeEndian.AppendUint64(nil, uint64(len(program)/8)) // struct sock_fprog
	head = binary.NativeEndian.AppendUint64(head, at+16)
	if data := append(head, program...); writeMemory(t.tid, at, data) != len(data) {
		return errors.New("lm cannot write the filter to the program's memory")
	}
	result, err := r.inject(t, unix.SYS_SECCOMP, flagMode, flags, at)
	if err == unix.EACCES { // without privileges it takes a promise to gain none
		if _, err = r.inject(t, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err == nil {
			result, err = r.inject(t, unix.SYS_SECCOMP, flagMode, flags, at)
		}
	}
	if err == nil && result != 0 {
		err = fmt.Errorf("thread %d does not accept the filter", result)
	}
	return err
}

// callError is the error in the result of a system call, 0 if there is none.
func callError(result uint64) unix.Errno {
	if result > ^uint64(4095) {
		return unix.Errno(-result)
	}
	return 0
}

// until has a stopped thread go on, by requests of ptrace's, to the stop that is
// awaited. Signals that come meanwhile come again.
func (r *recording) until(t *thread, request int,
	awaited func(unix.Signal, signalInfo) bool) error {
	for {
		if err := ptrace(request, t.tid, 0, 0); err != nil {
			return err
		}
		_, status, err := wait(t.tid)
		if err != nil || !status.Stopped() {
			r.ended(t, status)
			return unix.ESRCH
		}
		if status.TrapCause() == unix.PTRACE_EVENT_EXEC { // another thread's, which is this one now
			former, _ := unix.PtraceGetEventMsg(t.tid)
			r.executed(t, int(former))
			return unix.ESRCH
		}
		signal := status.StopSignal()
		info, err := signalOf(t.tid)
		switch {
		case awaited(signal, info):
			return nil
		// else no signal: the program is stopped as a group, which goes on
		case err == nil && signal != stopCall && status.TrapCause() <= 0:
			defer func() { _ = unix.Tgkill(t.process, t.tid, signal) }()
		}
	}
}

// inject has a stopped thread make a system call, and leaves its registers as
// they were. The error is the call's too.
func (r *recording) inject(t *thread, call uint64, arguments ...uint64) (result uint64, err error) {
	before, err := registersOf(t.tid)
	if err != nil {
		return 0, err
	}
	regs := *before
	regs.setPC(t.space.gate)
	regs.prepare(call, arguments)
	if err := regs.put(t.tid); err != nil {
		return 0, err
	}
	stops := 0 // at its entry and at its exit
	if err := r.until(t, unix.PTRACE_SYSCALL, func(signal unix.Signal, _ signalInfo) bool {
		if signal == stopCall {
			stops++
		}
		return stops == 2
	}); err != nil {
		return 0, err
	}
	after, err := registersOf(t.tid)
	if err != nil {
		return 0, err
	}
	if err = before.put(t.tid); err == nil && callError(after.result()) != 0 {
		err = callError(after.result())
	}
	return after.result(), err
}
