//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// If a thread blocks or ignores the signal of a fault, the kernel resets the handler of the signal
// to the default. Each access to a BAR is such a fault. Therefore the recorder keeps the handlers
// that the program sets for SIGSEGV and SIGTRAP, the signals of the recorder's own stops. It
// restores the handler before one of these signals is delivered to the program.

// actionSize is the size in bytes of the kernel's struct sigaction: handler, flags, restorer and a
// mask of 64 signals.
const actionSize = 32

// signalAction is a struct sigaction that the program passed.
type signalAction [actionSize]byte

func (a *signalAction) handler() uint64 { return binary.NativeEndian.Uint64(a[:]) }

// isOneShot reports whether the handler is reset when it is called (SA_RESETHAND).
func (a *signalAction) isOneShot() bool { return binary.NativeEndian.Uint64(a[8:])&0x80000000 != 0 }

const (
	actionDefault = 0 // SIG_DFL
	actionIgnore  = 1 // SIG_IGN
)

// signalActions has the actions that the program has set, by signal. Threads that share signal
// handlers (CLONE_SIGHAND) share the map.
type signalActions map[unix.Signal]signalAction

// inherit returns the signal actions of a new thread or process, given the flags of clone.
func (a signalActions) inherit(flags uint64) signalActions {
	const clearAll = 1 << 32 // CLONE_CLEAR_SIGHAND
	switch {
	case flags&unix.CLONE_SIGHAND != 0:
		return a
	case flags&clearAll != 0:
		return signalActions{}
	}
	return maps.Clone(a)
}

// afterExec returns the signal actions after execve: only ignored signals stay ignored.
func (a signalActions) afterExec() signalActions {
	a = maps.Clone(a)
	maps.DeleteFunc(a,
		func(_ unix.Signal, a signalAction) bool { return a.handler() != actionIgnore })
	return a
}

// exitSigaction handles the exit of rt_sigaction. It keeps the action that the program has set, and
// corrects the old action that the kernel returns to the program.
func (t *thread) exitSigaction(c *call) {
	signal := unix.Signal(c.arguments[0])
	before, known := t.actions[signal]
	var set signalAction
	if new := c.arguments[1]; new != 0 && readMemory(t.tid, new, set[:]) == len(set) {
		t.actions[signal] = set
	}
	if old := c.arguments[2]; old != 0 && known {
		writeMemory(t.tid, old, before[:])
	}
}

// restoreAction restores the program's handler of a signal if the kernel has reset it. If it
// returns true, the thread has made a system call for this purpose, and the signal must be sent
// again.
func (r *recording) restoreAction(t *thread, signal unix.Signal) (restored bool) {
	a, known := t.actions[signal]
	if !known || a.handler() == actionDefault || isCaught(t.tid, signal) {
		return false
	}
	if a.handler() == actionIgnore {
		return false // a fault kills the program even if its signal is ignored
	}
	err := r.withTemporaryPage(t, func(at uint64) error {
		if writeMemory(t.tid, at, a[:]) != len(a) {
			return unix.EFAULT
		}
		const maskSize = 8
		_, err := r.injectCall(t, unix.SYS_RT_SIGACTION, uint64(signal), at, 0, maskSize)
		return err
	})
	if err == nil {
		return true
	}
	r.reportEvent("process %d lost its handler for %v: the kernel reset the handler "+
		"when lm intercepted an access to a BAR, and lm could not restore it: %v",
		t.process, unix.SignalName(signal), err)
	delete(t.actions, signal)
	return false
}

// deliver resumes a thread with a signal, after it has restored the program's handler. A signal of
// a fault need not be sent again after that, because the thread faults again. A signal that a
// process sent (code <= 0) is sent again.
func (r *recording) deliver(t *thread, signal unix.Signal, code int32) {
	if code <= 0 && t.ignores(signal) {
		signal = 0
	} else if r.restoreAction(t, signal) {
		if code <= 0 {
			_ = unix.Tgkill(t.process, t.tid, signal)
		}
		signal = 0
	}
	if a := t.actions[signal]; signal != 0 && a.isOneShot() {
		delete(t.actions, signal)
	}
	r.resume(t, signal)
}

// ignores reports whether the program has set a signal to be ignored, even if the kernel has reset
// that.
func (t *thread) ignores(signal unix.Signal) bool {
	a, known := t.actions[signal]
	return known && a.handler() == actionIgnore
}

// isCaught reports whether the kernel has a handler for a signal of a thread.
func isCaught(tid int, signal unix.Signal) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	_, rest, _ := strings.Cut(string(text), "\nSigCgt:")
	var set uint64
	_, err := fmt.Sscanf(rest, "%x", &set)
	return err == nil && set>>(signal-1)&1 != 0
}
