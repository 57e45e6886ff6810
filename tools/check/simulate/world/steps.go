//go:build world

package main

import (
	goruntime "runtime"
	"slices"
	"unsafe"

	"lightmetal/tools/check/fakekernel"
	"lightmetal/tools/check/vectors/vector"

	"golang.org/x/sys/unix"
)

// step is called at each function and system call of the runner. It runs the events before a run.
func (e *processRun) step(name string) {
	w := e.w
	if w.inactive {
		return
	}
	if w.steps++; w.steps > maxSteps || w.now-w.startTime > maxNs {
		w.errorf("the process has not ended after %d s and %d steps", (w.now-w.startTime)/1e9,
			w.steps)
		goruntime.Goexit()
	}
	if w.firstError != "" {
		goruntime.Goexit()
	}
	if name == "receiveInputs" { // of runLoop
		e.machine.watchdog.checkFed(e)
		e.runsBegun++
		for _, t := range e.events {
			if t.beforeRun == e.runsBegun {
				e.applyEvent(t)
			}
		}
	}
	if e.outputPipe >= 0 && w.random.IntN(3) == 0 {
		e.drainPipe()
	}
}

// applyEvent applies an event to the machine.
func (e *processRun) applyEvent(t runEvent) {
	m, f := e.machine, e.machine.functions[t.function]
	e.w.logf("event %+v", t)
	switch t.kind {
	case eventDeviceGone:
		f.Gone = true
		for _, h := range m.Mappings {
			if h.Function == f.Function && h.Bar >= 0 {
				for memory := memoryAt(h.Address, h.Size); len(memory) > 0 &&
					!e.reference.busErrors[vector.OfBar(f.Index, h.Bar)]; memory = memory[1:] {
					memory[0] = 0xff
				}
			}
		}
	case eventBusErrors:
		for _, h := range m.Mappings {
			if h.Function == f.Function && h.Bar == 0 {
				_ = unix.Mprotect(memoryAt(h.Address, h.Size), unix.PROT_NONE)
			}
		}
	case eventDMAFault:
		f.Config[7] |= 1 << (13 - 8)
	case eventBusMasterOff:
		f.SetCommand(f.Command() &^ fakekernel.CommandMaster)
	case eventSignal:
		stopRequested.Store(1)
	case eventPause:
		e.w.now += e.w.random.Int64N(40e9)
	}
}

// handleSystemCall executes or simulates a system call of the runner.
func (e *processRun) handleSystemCall(number uintptr, a [6]uintptr,
	do func() (uintptr, unix.Errno)) (uintptr, unix.Errno) {
	w, m := e.w, e.machine
	if w.inactive {
		return do()
	}
	e.step("")
	m.checkFilter(number, a)
	for i := range w.callFailures {
		f := &w.callFailures[i]
		if f.number == number && (number != unix.SYS_MLOCK || f.at > -f.length) {
			if f.at--; f.at <= 0 {
				w.logf("system call %d fails: %v", number, f.errno)
				return ^uintptr(0), f.errno
			}
		}
	}
	switch {
	case number == unix.SYS_NANOSLEEP:
		w.now += (*unix.Timespec)(unsafe.Pointer(a[0])).Nano()
		return 0, 0
	case number == unix.SYS_RT_SIGACTION:
		return 0, 0
	case number == unix.SYS_PRCTL:
		m.noNewPrivileges = a[0] == unix.PR_SET_NO_NEW_PRIVS && a[1] == 1
		return 0, 0
	case number == unix.SYS_SECCOMP:
		return m.installFilter(a)
	case number == unix.SYS_WRITE && (a[0] == 1 || a[0] == 2):
		w.printed[a[0]] = append(w.printed[a[0]], memoryAt(a[1], a[2])...)
		return a[2], 0
	case number == unix.SYS_WRITE && m.OpenFiles[int(a[0])] == w.path("watchdog"):
		m.watchdog.write(e, memoryAt(a[1], a[2]))
		return a[2], 0
	case number == unix.SYS_MMAP:
		if n, errno, answered := m.mmap(a); answered {
			return n, errno
		}
	case number == unix.SYS_MUNMAP:
		if errno, handled := m.munmap(a); handled {
			return 0, errno
		}
	default:
		if n, errno, answered := m.handleCall(number, a); answered {
			return n, errno
		}
	}
	return w.trackCall(number, a, do)
}

// drainPipe reads the pipe until it is empty.
func (e *processRun) drainPipe() {
	buffer := make([]byte, 8192)
	for {
		n, err := unix.Read(e.outputPipe, buffer)
		if n <= 0 || err != nil {
			return
		}
		e.pipeData = append(e.pipeData, buffer[:n]...)
	}
}

// watchdogModel is a watchdog, which starts when it is opened.
type watchdogModel struct {
	timeoutNs        int64
	requestedSeconds int64 // 0: the option sets no timeout
	lastWriteTime    int64
	runsAtLastWrite  int // runsBegun at the last write
	writes           int
	stopped          bool
}

// write handles a write of the runner to the watchdog.
func (d *watchdogModel) write(e *processRun, data []byte) {
	w := e.w
	switch {
	case d.stopped:
		w.errorf("%q written after the watchdog was stopped", data)
	case len(data) == 1 && data[0] == 'V':
		d.stopped = true
	case len(data) != 1 || data[0] == 'V':
		w.errorf("%q written to the watchdog, expected 1 byte", data)
	case e.runsBegun <= d.runsAtLastWrite:
		w.errorf("the watchdog was fed twice in a run, or before the first run")
	case d.writes > 0 && w.now-d.lastWriteTime < d.timeoutNs/4:
		w.errorf("the watchdog was fed after %d ns, too early for its timeout of %d ns",
			w.now-d.lastWriteTime, d.timeoutNs)
	default:
		d.lastWriteTime, d.runsAtLastWrite = w.now, e.runsBegun
		d.writes++
	}
}

// checkFed is called when a run begins. It checks that the runner has fed the watchdog in time.
func (d *watchdogModel) checkFed(e *processRun) {
	if e.w.options.Watchdog != "" && e.runsBegun > 0 &&
		(d.writes == 0 || e.w.now-d.lastWriteTime > d.timeoutNs/4+1e6) {
		e.w.errorf("the watchdog was fed %d times, last %d ns before the run's end, timeout %d ns",
			d.writes, e.w.now-d.lastWriteTime, d.timeoutNs)
	}
}

// checkStop checks that the runner stops the watchdog only after a successful run.
func (d *watchdogModel) checkStop(e *processRun) {
	if e.w.options.Watchdog == "" {
		return
	}
	setupFails := slices.ContainsFunc(e.faults,
		func(m injectedFault) bool { return m.step == stepWatchdog })
	if want := e.expected.exitStatus == 0 && e.expected.runsBegin ||
		setupFails && e.runsBegun == 0; d.stopped != want && !setupFails {
		e.w.errorf("status %d, watchdog stopped: %v", e.exitStatus, d.stopped)
	}
}
