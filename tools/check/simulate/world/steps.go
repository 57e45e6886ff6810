//go:build world

package main

import (
	"encoding/binary"
	goruntime "runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// step is a moment of an errand.
func (e *errand) step(name string) {
	w := e.w
	if w.asleep {
		return
	}
	if w.steps++; w.steps > endless || w.now-w.born > endlessNs {
		w.violate("no end after %d s and %d steps", (w.now-w.born)/1e9, w.steps)
		goruntime.Goexit()
	}
	if w.wrong != "" {
		goruntime.Goexit()
	}
	if name == "receiveInputs" { // of frameLoop
		e.machine.feeds.between(e)
		e.received++
		for _, t := range e.turns {
			if t.at == e.received {
				e.turn(t)
			}
		}
	}
	if e.pipe >= 0 && w.random.IntN(3) == 0 {
		e.drain()
	}
}

// turn has something happen to a function.
func (e *errand) turn(t turn) {
	m, f := e.machine, e.machine.functions[t.function]
	e.w.say("turn %+v", t)
	switch t.kind {
	case turnGone:
		f.gone = true
		for _, h := range m.mapped {
			if h.function == f.index && h.bar >= 0 {
				for memory := bytesOf(h.address, h.size); len(memory) > 0 &&
					!e.shadow.broken[[2]int{f.index, h.bar}]; memory = memory[1:] {
					memory[0] = 0xff
				}
			}
		}
	case turnBroken:
		for _, h := range m.mapped {
			if h.function == f.index && h.bar == 0 {
				_ = unix.Mprotect(bytesOf(h.address, h.size), unix.PROT_NONE)
			}
		}
	case turnDMA:
		f.config[7] |= 1 << (13 - 8)
	case turnMasterOff:
		command := f.command() &^ commandMaster
		binary.LittleEndian.PutUint16(f.config[4:], command)
	case turnStop:
		stopRequested.Store(1)
	case turnPause:
		e.w.now += e.w.random.Int64N(40e9)
	}
}

// between is every system call of an errand.
func (e *errand) between(number uintptr, a [6]uintptr, do func() (uintptr, unix.Errno)) (uintptr,
	unix.Errno) {
	w, m := e.w, e.machine
	if w.asleep {
		return do()
	}
	e.step("")
	m.sealed(number, a)
	for i := range w.calls {
		f := &w.calls[i]
		if f.number == number && (number != unix.SYS_MLOCK || f.at > -f.length) {
			if f.at--; f.at <= 0 {
				w.say("system call %d fails: %v", number, f.errno)
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
		m.shielded = a[0] == unix.PR_SET_NO_NEW_PRIVS && a[1] == 1
		return 0, 0
	case number == unix.SYS_SECCOMP:
		return m.seal(a)
	case number == unix.SYS_WRITE && (a[0] == 1 || a[0] == 2):
		w.said[a[0]] = append(w.said[a[0]], bytesOf(a[1], a[2])...)
		return a[2], 0
	case number == unix.SYS_WRITE && m.files[int(a[0])] == w.file("watchdog"):
		m.feeds.eat(e, bytesOf(a[1], a[2]))
		return a[2], 0
	case number == unix.SYS_MMAP:
		if n, errno, answered := m.mmap(a); answered {
			return n, errno
		}
	case number == unix.SYS_MUNMAP:
		m.unmap(a[0])
	default:
		if n, errno, answered := m.call(number, a); answered {
			return n, errno
		}
	}
	return w.noted(number, a, do)
}

// drain takes what is in the pipe.
func (e *errand) drain() {
	buffer := make([]byte, 8192)
	for {
		n, err := unix.Read(e.pipe, buffer)
		if n <= 0 || err != nil {
			return
		}
		e.piped = append(e.piped, buffer[:n]...)
	}
}

// feeding is a watchdog, which starts when it is opened.
type feeding struct {
	timeout int64 // nanoseconds
	wanted  int64 // seconds, 0: as it is
	last    int64 // when it was fed
	runs    int   // received by then
	meals   int
	stopped bool
}

func (d *feeding) eat(e *errand, food []byte) {
	w := e.w
	switch {
	case d.stopped:
		w.violate("%q after the watchdog was stopped", food)
	case len(food) == 1 && food[0] == 'V':
		d.stopped = true
	case len(food) != 1 || food[0] == 'V':
		w.violate("the watchdog is fed %q", food)
	case e.received <= d.runs:
		w.violate("the watchdog is fed twice for one run, or for none")
	case d.meals > 0 && w.now-d.last < d.timeout/4:
		w.violate("the watchdog is fed after %d ns, its timeout is %d", w.now-d.last, d.timeout)
	default:
		d.last, d.runs = w.now, e.received
		d.meals++
	}
}

// between is asked where a run begins, and with it whether the one before fed.
func (d *feeding) between(e *errand) {
	if e.w.options.Watchdog != "" && e.received > 0 &&
		(d.meals == 0 || e.w.now-d.last > d.timeout/4+1e6) {
		e.w.violate("a run is over, and the watchdog was fed %d times, lastly %d ns ago, of %d",
			d.meals, e.w.now-d.last, d.timeout)
	}
}

// judge: it is stopped in order, and only where all is well.
func (d *feeding) judge(e *errand) {
	if e.w.options.Watchdog == "" {
		return
	}
	refused := slices.ContainsFunc(e.mishaps, func(m mishap) bool { return m.at == atWatchdog })
	if want := e.told.exit == 0 && e.told.ran ||
		refused && e.received == 0; d.stopped != want && !refused {
		e.w.violate("status %d, and the watchdog was stopped: %v", e.status, d.stopped)
	}
}
