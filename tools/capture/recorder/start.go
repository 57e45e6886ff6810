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

// startProgram starts the program, stopped before its first instruction, and installs the filter of
// system calls.
func (r *recording) startProgram() error {
	path, err := exec.LookPath(r.options.Program[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return startFailure(err)
	}
	pid, err := syscall.ForkExec(path, r.options.Program, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Ptrace: true},
	})
	if err == unix.EPERM {
		return &Failure{Forbidden,
			"tracing a program is not permitted here: " +
				"start a container with --cap-add=SYS_PTRACE " +
				"(and no seccomp profile that forbids ptrace); " +
				"on any machine, /proc/sys/kernel/yama/ptrace_scope must be below 3"}
	}
	if err != nil {
		return startFailure(fmt.Errorf("%s: %w", path, err))
	}
	r.mainPID = pid
	t := &thread{tid: pid, process: pid, space: &space{threadCount: 1}, actions: signalActions{}}
	r.threads[pid] = t
	_, status, err := waitForStop(pid)
	if err == nil && !status.Stopped() {
		err = fmt.Errorf("waitpid returned the status 0x%x, not a stop", uint32(status))
	}
	if err != nil {
		return &Failure{Internal, fmt.Sprintf("%s ended before its first instruction: %v", path,
			err)}
	}
	if err := unix.PtraceSetOptions(pid, ptraceOptions); err != nil {
		return &Failure{Forbidden, fmt.Sprintf("cannot trace %s: %v", path, err)}
	}
	if err := r.installFilter(t); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return &Failure{Forbidden, fmt.Sprintf("cannot install the filter "+
			"of system calls in %s: %v",
			path, err)}
	}
	return nil
}

func startFailure(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &Failure{Forbidden, err.Error()}
	}
	if errors.Is(err, unix.ENOEXEC) {
		err = fmt.Errorf("%w: the program must be an executable for this machine, "+
			"or a script that begins with #! and its interpreter", err)
	}
	return &Failure{NoProgram, err.Error()}
}

// installFilter makes the program install the filter itself. For this purpose, a system call
// instruction temporarily replaces the first instruction of the program. This is safe because the
// program has only one thread yet.
func (r *recording) installFilter(t *thread) error {
	regs, err := registersOf(t.tid)
	if err != nil {
		return err
	}
	code := make([]byte, len(callInstruction))
	if _, err := unix.PtracePeekText(t.tid, uintptr(regs.pc()), code); err != nil {
		return err
	}
	if _, err := unix.PtracePokeText(t.tid, uintptr(regs.pc()), callInstruction); err != nil {
		return err
	}
	t.space.callAddress = regs.pc()
	err = r.addFilter(t, baseFilter())
	t.space.callAddress = 0
	_, perr := unix.PtracePokeText(t.tid, uintptr(regs.pc()), code)
	return errors.Join(err, perr)
}

// addFilter makes a stopped thread install a filter for all threads of its process.
func (r *recording) addFilter(t *thread, program []byte) error {
	const together = 1 // SECCOMP_FILTER_FLAG_TSYNC
	return r.addFilterWithFlags(t, program, together)
}

// addFilterWithFlags is addFilter with flags of seccomp(2). With 0 the filter is for the thread
// alone.
func (r *recording) addFilterWithFlags(t *thread, program []byte, flags uint64) error {
	return r.withTemporaryPage(t,
		func(at uint64) error { return r.addFilterFromPage(t, at, program, flags) })
}

// withTemporaryPage maps a page in the process of a stopped thread, calls a function with the
// address of the page, and unmaps the page.
func (r *recording) withTemporaryPage(t *thread, use func(at uint64) error) error {
	at, err := r.injectCall(t, unix.SYS_MMAP, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uint64(0), 0)
	if err != nil {
		return err
	}
	defer func() { _, _ = r.injectCall(t, unix.SYS_MUNMAP, at, pageSize) }()
	return use(at)
}

// addFilterFromPage implements addFilter. It writes the arguments of seccomp(2) to the page at an
// address of the program.
func (r *recording) addFilterFromPage(t *thread, at uint64, program []byte, flags uint64) error {
	head := binary.NativeEndian.AppendUint64(nil, uint64(len(program)/8)) // struct sock_fprog
	head = binary.NativeEndian.AppendUint64(head, at+16)
	if data := append(head, program...); writeMemory(t.tid, at, data) != len(data) {
		return errors.New("lm cannot write the filter of system calls to the program's memory")
	}
	result, err := r.injectCall(t, unix.SYS_SECCOMP, flagMode, flags, at)
	if err == unix.EACCES { // an unprivileged thread must first set no_new_privs
		if _, err = r.injectCall(t, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0,
			0); err == nil {
			result, err = r.injectCall(t, unix.SYS_SECCOMP, flagMode, flags, at)
		}
	}
	if err == nil && result != 0 {
		err = fmt.Errorf("thread %d does not accept the filter of system calls", result)
	}
	return err
}

// callError returns the error that a result of a system call encodes; 0: the call succeeded.
func callError(result uint64) unix.Errno {
	if result > ^uint64(4095) {
		return unix.Errno(-result)
	}
	return 0
}

// runUntilStop resumes a stopped thread with a ptrace request, again after each stop, until one is
// awaited. Other signals that arrive in between are sent to the thread again afterwards.
func (r *recording) runUntilStop(t *thread, request int,
	awaited func(unix.Signal, signalInfo) bool) error {
	for {
		if err := ptrace(request, t.tid, 0, 0); err != nil {
			return err
		}
		_, status, err := waitForStop(t.tid)
		if err != nil || !status.Stopped() {
			r.handleThreadEnd(t, status)
			return unix.ESRCH
		}
		// another thread called execve, and now has the id of this one
		if status.TrapCause() == unix.PTRACE_EVENT_EXEC {
			former, _ := unix.PtraceGetEventMsg(t.tid)
			r.handleExec(t, int(former))
			return unix.ESRCH
		}
		signal := status.StopSignal()
		info, err := signalInfoOf(t.tid)
		switch {
		case awaited(signal, info):
			return nil
		// Otherwise the stop is not a signal but a group stop, from which the thread continues.
		case err == nil && signal != callStopSignal && status.TrapCause() <= 0:
			defer func() { _ = unix.Tgkill(t.process, t.tid, signal) }()
		}
	}
}

// injectCall makes a stopped thread make a system call, and restores its registers afterwards. err
// is the error of the system call, or of ptrace.
func (r *recording) injectCall(t *thread, call uint64, arguments ...uint64) (result uint64,
	err error) {
	before, err := registersOf(t.tid)
	if err != nil {
		return 0, err
	}
	regs := *before
	regs.setPC(t.space.callAddress)
	regs.setCall(call, arguments)
	if err := regs.write(t.tid); err != nil {
		return 0, err
	}
	stops := 0 // a call stops at its entry and at its exit
	if err := r.runUntilStop(t, unix.PTRACE_SYSCALL, func(signal unix.Signal, _ signalInfo) bool {
		if signal == callStopSignal {
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
	if err = before.write(t.tid); err == nil && callError(after.result()) != 0 {
		err = callError(after.result())
	}
	return after.result(), err
}
