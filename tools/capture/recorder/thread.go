//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// thread is one of the program's.
type thread struct {
	tid, process int
	space        *space
	fresh        bool  // its first stop, which is the kernel's own, has not been seen
	call         *call // that is followed to its end
	actions      actions
	opened       []span // pages that were opened for the call that it makes again
	strict       bool   // it may only read, write and end: seccomp's strict mode
}

// resume lets a stopped thread go on, with a signal or none. To one that has
// been killed meanwhile it does not matter.
func (r *recording) resume(t *thread, signal unix.Signal) {
	_ = ptrace(unix.PTRACE_CONT, t.tid, 0, uintptr(signal))
}

// ended follows the end of a thread.
func (r *recording) ended(t *thread, status unix.WaitStatus) {
	t.leave()
	delete(r.threads, t.tid)
	r.drop(t.space)
	if t.tid != r.main {
		return
	}
	r.result.Exit = status.ExitStatus()
	if status.Signaled() {
		r.result.Exit = 128 + int(status.Signal())
	}
}

// leave forgets the call that a thread is in.
func (t *thread) leave() {
	if t.call != nil {
		t.call.close()
		if !t.call.only {
			t.space.changing--
		}
		t.call = nil
	}
}

// stopped handles one stop, and lets the thread go on.
func (r *recording) stopped(t *thread, status unix.WaitStatus) {
	switch signal := status.StopSignal(); {
	case signal == stopCall:
		r.exit(t)
		r.resume(t, 0)
	case signal == unix.SIGTRAP && status.TrapCause() > 0:
		r.event(t, status.TrapCause())
	case t.fresh && signal == unix.SIGSTOP:
		t.fresh = false
		r.resume(t, 0)
	case signal == unix.SIGSEGV:
		r.faulted(t)
	default:
		info, err := signalOf(t.tid)
		if err != nil { // no signal: the program is stopped as a group, which goes on
			signal = 0
		}
		r.deliver(t, signal, info.code())
	}
}

// event handles what the options of ptrace ask for.
func (r *recording) event(t *thread, cause int) {
	switch cause {
	case unix.PTRACE_EVENT_SECCOMP:
		if !r.enter(t) {
			r.resume(t, 0)
		}
		return
	case unix.PTRACE_EVENT_CLONE, unix.PTRACE_EVENT_FORK, unix.PTRACE_EVENT_VFORK:
		if child, err := unix.PtraceGetEventMsg(t.tid); err == nil {
			r.born(t, int(child))
		}
	case unix.PTRACE_EVENT_EXEC:
		if former, err := unix.PtraceGetEventMsg(t.tid); err == nil {
			r.executed(t, int(former))
		}
	}
	r.resume(t, 0)
}

// born adds a thread or a process that t has made.
func (r *recording) born(t *thread, tid int) {
	flags := cloneFlags(t.tid)
	child := &thread{tid: tid, process: tid, space: t.space, fresh: true}
	if flags&unix.CLONE_THREAD != 0 {
		child.process = t.process
	} else {
		r.inherit(t.process, tid)
	}
	if flags&unix.CLONE_VM == 0 {
		child.space = t.space.copy()
		child.space.removeUnmapped(tid)
	}
	child.actions = t.actions.inherit(flags)
	child.space.uses++
	r.threads[tid] = child
	if r.early[tid] {
		delete(r.early, tid)
		child.fresh = false
		r.resume(child, 0)
	}
}

// cloneFlags are those of the call that a thread is in.
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

// executed follows execve: the other threads of the process are gone, and so is all that it
// had mapped.
func (r *recording) executed(t *thread, former int) {
	if old := r.threads[former]; old != nil && former != t.tid {
		t.leave()
		r.drop(t.space)
		t.space = old.space
		delete(r.threads, former)
		old.leave()
	}
	r.drop(t.space)
	t.space, t.actions = &space{uses: 1}, t.actions.executed()
}

// faulted handles a SIGSEGV.
func (r *recording) faulted(t *thread) {
	info, err := signalOf(t.tid)
	if err != nil || info.code() != codeNotMapped && info.code() != codeForbidden {
		r.deliver(t, unix.SIGSEGV, info.code())
		return
	}
	fault := info.address()
	if a := t.space.find(fault); a == nil || t.space.released {
		if t.space.changing > 0 || t.space.released && a != nil {
			r.resume(t, 0) // it may have hit what another thread is mapping: again
			return
		}
		r.deliver(t, unix.SIGSEGV, info.code())
		return
	}
	if a := t.space.find(fault); a.guard != nil {
		if !r.storeFaulted(t, a, &info) {
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
		info.set(int32(denied.signal), denied.code, denied.at)
		if denied.signal == unix.SIGSEGV && r.restoreAction(t, denied.signal) {
			r.resume(t, 0) // it faults again, and then has its handler
			return
		}
		_ = ptrace(unix.PTRACE_SETSIGINFO, t.tid, 0, uintptr(unsafe.Pointer(&info)))
		r.resume(t, denied.signal)
		return
	case err != nil && !errors.Is(err, unix.ESRCH):
		r.unknown(t, err)
	}
	if limit := r.options.Limit; limit > 0 && r.accesses >= limit {
		r.end("it made as many accesses as the limit allows")
	}
	r.resume(t, 0)
}

// unknown handles an instruction that cannot be executed: the program ends, or continues
// unrecorded.
func (r *recording) unknown(t *thread, err error) {
	place := ""
	if regs, rerr := registersOf(t.tid); rerr == nil {
		place = locate(t.process, regs.pc())
	}
	r.gap("an access by an instruction that is not recorded, at %s: %v", place, err)
	if !r.options.GoOn {
		r.end("it made an access that lm cannot record")
		return
	}
	r.release(t)
}

// release makes a program's mappings accessible to it. What it does from now on is not
// recorded.
func (r *recording) release(t *thread) {
	for _, a := range t.space.areas {
		if _, err := r.inject(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot); err != nil {
			r.end("lm could not return its mappings of the device to it")
			return
		}
	}
	t.space.released = true
}
