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

// The kernel resets the handler of a fault's signal to the default where the
// thread blocks or ignores it, and each access to a BAR is such a fault to it.
// So the recorder keeps what the program has set for the signals of its own
// stops, SIGSEGV and SIGTRAP, and sets it again before one of them is delivered to the program.

// actionSize is that of the kernel's struct sigaction: handler, flags, restorer
// and a mask of 64 signals.
const actionSize = 32

// action is one, as the program gave it.
type action [actionSize]byte

func (a *action) handler() uint64 { return binary.NativeEndian.Uint64(a[:]) }

// once reports whether the handler is for one signal only (SA_RESETHAND).
func (a *action) once() bool { return binary.NativeEndian.Uint64(a[8:])&0x80000000 != 0 }

const (
	actionDefault = 0 // SIG_DFL
	actionIgnore  = 1 // SIG_IGN
)

// actions are those of the threads that share them, by the signal.
type actions map[unix.Signal]action

// inherit returns what a new thread or process has of its maker's actions.
func (a actions) inherit(flags uint64) actions {
	const clearAll = 1 << 32 // CLONE_CLEAR_SIGHAND
	switch {
	case flags&unix.CLONE_SIGHAND != 0:
		return a
	case flags&clearAll != 0:
		return actions{}
	}
	return maps.Clone(a)
}

// executed returns what another program in the same process has of them: what
// is ignored stays so.
func (a actions) executed() actions {
	a = maps.Clone(a)
	maps.DeleteFunc(a, func(_ unix.Signal, a action) bool { return a.handler() != actionIgnore })
	return a
}

// exitAction keeps what a call of rt_sigaction has set, and corrects what the
// kernel says was set before.
func (t *thread) exitAction(c *call) {
	signal := unix.Signal(c.arguments[0])
	before, known := t.actions[signal]
	var set action
	if new := c.arguments[1]; new != 0 && readMemory(t.tid, new, set[:]) == len(set) {
		t.actions[signal] = set
	}
	if old := c.arguments[2]; old != 0 && known {
		writeMemory(t.tid, old, before[:])
	}
}

// restoreAction sets the program's handler of a signal again if the kernel has
// reset it. true: the thread has made a system call for that, so the signal has
// to come once more.
func (r *recording) restoreAction(t *thread, signal unix.Signal) (restored bool) {
	a, known := t.actions[signal]
	if !known || a.handler() == actionDefault || isCaught(t.tid, signal) {
		return false
	}
	if a.handler() == actionIgnore {
		return false // a fault that is ignored ends the program all the same
	}
	err := r.withPage(t, func(at uint64) error {
		if writeMemory(t.tid, at, a[:]) != len(a) {
			return unix.EFAULT
		}
		const maskSize = 8
		_, err := r.inject(t, unix.SYS_RT_SIGACTION, uint64(signal), at, 0, maskSize)
		return err
	})
	if err == nil {
		return true
	}
	r.report("the handler of process %d for %v is lost: the kernel reset it at an access to "+
		"a BAR, and restoring it failed: %v", t.process,
		unix.SignalName(signal), err)
	delete(t.actions, signal)
	return false
}

// deliver lets a thread go on with a signal of its own, whose handler is the
// program's again. A fault comes once more by itself, another signal is sent again.
func (r *recording) deliver(t *thread, signal unix.Signal, code int32) {
	if code <= 0 && t.ignores(signal) {
		signal = 0
	} else if r.restoreAction(t, signal) {
		if code <= 0 {
			_ = unix.Tgkill(t.process, t.tid, signal)
		}
		signal = 0
	}
	if a := t.actions[signal]; signal != 0 && a.once() {
		delete(t.actions, signal)
	}
	r.resume(t, signal)
}

// ignores reports whether the program ignores a signal, whatever the kernel
// has made of that.
func (t *thread) ignores(signal unix.Signal) bool {
	a, known := t.actions[signal]
	return known && a.handler() == actionIgnore
}

// isCaught reports whether the kernel has a handler for a signal.
func isCaught(tid int, signal unix.Signal) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	_, rest, _ := strings.Cut(string(text), "\nSigCgt:")
	var set uint64
	_, err := fmt.Sscanf(rest, "%x", &set)
	return err == nil && set>>(signal-1)&1 != 0
}
