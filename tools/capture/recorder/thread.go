//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

type thread struct {
	tid, process    int
	space           *space
	awaitsFirstStop bool  // the thread has not made its first stop yet, which the kernel causes
	call            *call // system call that the thread is in, if its exit matters
	actions         signalActions
	// pages that were opened for the postponed call that the thread now makes again
	openedPages []span
	// seccomp's strict mode: the thread may only read, write, return from a signal and exit
	isStrict bool
}

// resume lets a stopped thread continue, with a signal or with 0 for no signal. The error is
// ignored: it means that the thread has been killed.
func (r *recording) resume(t *thread, signal unix.Signal) {
	_ = ptrace(unix.PTRACE_CONT, t.tid, 0, uintptr(signal))
}

func (r *recording) handleThreadEnd(t *thread, status unix.WaitStatus) {
	t.leaveCall()
	delete(r.threads, t.tid)
	r.leaveSpace(t.space)
	if t.tid != r.mainPID {
		return
	}
	r.result.ExitStatus = status.ExitStatus()
	if status.Signaled() {
		r.result.ExitStatus = 128 + int(status.Signal())
	}
}

// leaveCall ends the state of the system call that a thread was in.
func (t *thread) leaveCall() {
	if t.call != nil {
		t.call.close()
		if !t.call.isMinor {
			t.space.changingCalls--
		}
		t.call = nil
	}
}

// handleStop handles one stop of a thread, and lets the thread continue.
func (r *recording) handleStop(t *thread, status unix.WaitStatus) {
	switch signal := status.StopSignal(); {
	case signal == callStopSignal:
		r.exitCall(t)
		r.resume(t, 0)
	case signal == unix.SIGTRAP && status.TrapCause() > 0:
		r.handleEvent(t, status.TrapCause())
	case t.awaitsFirstStop && signal == unix.SIGSTOP:
		t.awaitsFirstStop = false
		r.resume(t, 0)
	case signal == unix.SIGSEGV:
		r.handleFault(t)
	default:
		info, err := signalInfoOf(t.tid)
		if err != nil { // this is not a signal but a group stop, from which the thread continues
			signal = 0
		}
		r.deliver(t, signal, info.code())
	}
}

// handleEvent handles a stop that an option of ptrace causes.
func (r *recording) handleEvent(t *thread, cause int) {
	switch cause {
	case unix.PTRACE_EVENT_SECCOMP:
		if !r.enterCall(t) {
			r.resume(t, 0)
		}
		return
	case unix.PTRACE_EVENT_CLONE, unix.PTRACE_EVENT_FORK, unix.PTRACE_EVENT_VFORK:
		if child, err := unix.PtraceGetEventMsg(t.tid); err == nil {
			r.addChild(t, int(child))
		}
	case unix.PTRACE_EVENT_EXEC:
		if former, err := unix.PtraceGetEventMsg(t.tid); err == nil {
			r.handleExec(t, int(former))
		}
	}
	r.resume(t, 0)
}

// addChild adds a thread or a process that t has created.
func (r *recording) addChild(t *thread, tid int) {
	flags := cloneFlags(t.tid)
	child := &thread{tid: tid, process: tid, space: t.space, awaitsFirstStop: true}
	if flags&unix.CLONE_THREAD != 0 {
		child.process = t.process
	} else {
		r.inheritVFIOFDs(t.process, tid)
	}
	if flags&unix.CLONE_VM == 0 {
		child.space = t.space.clone()
		child.space.removeUnmapped(tid)
	}
	child.actions = t.actions.inherit(flags)
	child.space.threadCount++
	r.threads[tid] = child
	if r.stoppedEarly[tid] {
		delete(r.stoppedEarly, tid)
		child.awaitsFirstStop = false
		r.resume(child, 0)
	}
}

// cloneFlags returns the flags of the clone call that a thread is in.
func cloneFlags(tid int) uint64 {
	regs, err := registersOf(tid)
	if err != nil {
		return 0
	}
	switch regs.call() {
	case unix.SYS_CLONE:
		return *regs.argument(0)
	case unix.SYS_CLONE3:
		var flags [8]byte
		readMemory(tid, *regs.argument(0), flags[:])
		return binary.NativeEndian.Uint64(flags[:])
	case callVfork:
		return unix.CLONE_VM | unix.CLONE_VFORK
	}
	return 0
}

// handleExec handles execve: the other threads of the process have ended, and all its mappings are
// gone.
func (r *recording) handleExec(t *thread, former int) {
	if old := r.threads[former]; old != nil && former != t.tid {
		t.leaveCall()
		r.leaveSpace(t.space)
		t.space = old.space
		delete(r.threads, former)
		old.leaveCall()
	}
	r.leaveSpace(t.space)
	t.space, t.actions = &space{threadCount: 1}, t.actions.afterExec()
}

func (r *recording) handleFault(t *thread) {
	info, err := signalInfoOf(t.tid)
	if err != nil || info.code() != codeNotMapped && info.code() != codeForbidden {
		r.deliver(t, unix.SIGSEGV, info.code())
		return
	}
	fault := info.address()
	if a := t.space.areaAt(fault); a == nil || t.space.released {
		if t.space.changingCalls > 0 || t.space.released && a != nil {
			r.resume(t, 0) // another thread may just be mapping this memory: repeat the instruction
			return
		}
		r.deliver(t, unix.SIGSEGV, info.code())
		return
	}
	if a := t.space.areaAt(fault); a.guard != nil {
		if !r.handleStoreFault(t, a, &info) {
			r.deliver(t, unix.SIGSEGV, info.code())
			return
		}
		r.resume(t, 0)
		return
	}
	err = step(t.tid, fault, &memory{r, t})
	var denied *accessFault
	switch {
	case errors.As(err, &denied):
		info.set(int32(denied.signal), denied.code, denied.address)
		if denied.signal == unix.SIGSEGV && r.restoreAction(t, denied.signal) {
			r.resume(t, 0) // the thread faults again, and the handler is then installed
			return
		}
		_ = ptrace(unix.PTRACE_SETSIGINFO, t.tid, 0, uintptr(unsafe.Pointer(&info)))
		r.resume(t, denied.signal)
		return
	case err != nil && !errors.Is(err, unix.ESRCH):
		r.handleUnsupported(t, err)
	}
	if limit := r.options.AccessLimit; limit > 0 && r.accesses >= limit {
		r.killProgram("it made as many accesses as --limit allows")
	}
	r.resume(t, 0)
}

// handleUnsupported handles an instruction that cannot be executed: the program is killed, or
// continues without being recorded.
func (r *recording) handleUnsupported(t *thread, err error) {
	place := ""
	if regs, rerr := registersOf(t.tid); rerr == nil {
		place = describeAddress(t.process, regs.pc())
	}
	r.reportGap("an access is not recorded: lm does not support the instruction at %s: %v", place,
		err)
	if !r.options.ContinueUnrecorded {
		r.killProgram("it made an access that lm cannot record")
		return
	}
	r.releaseMappings(t)
}

// releaseMappings makes the program's mappings of devices accessible to the program. Its further
// accesses are not recorded.
func (r *recording) releaseMappings(t *thread) {
	for _, a := range t.space.areas {
		if _, err := r.injectCall(t, unix.SYS_MPROTECT, a.start, a.end-a.start,
			a.prot); err != nil {
			r.killProgram("lm could not make the program's mappings of the device accessible again")
			return
		}
	}
	t.space.released = true
}
