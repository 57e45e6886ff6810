//go:build world

package main

import (
	"bytes"
	"os"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"lightmetal/tools/check/simulate/images"

	"golang.org/x/sys/unix"
)

// What happens to a host, at a step of its life.
const (
	signalled byte = iota
	killed
	ringCut
	imageRewritten
	clockJumps
	killedAtEnd // steps are counted from when the inputs are over
	eventKinds
)

type event struct {
	kind byte
	at   int
}

// syscallFault is system calls that fail, from the nth on.
type syscallFault struct {
	number     uintptr
	at, length int
	errno      unix.Errno
}

// failable are system calls that can fail on a machine, and how.
var failable = []syscallFault{
	{number: unix.SYS_OPENAT, errno: unix.EMFILE}, {number: unix.SYS_MMAP, errno: unix.ENOMEM},
	{number: unix.SYS_FALLOCATE, errno: unix.ENOSPC},
	{number: unix.SYS_FTRUNCATE, errno: unix.EIO}, {number: unix.SYS_WRITE, errno: unix.ENOSPC},
	{number: unix.SYS_WRITE, errno: unix.EINTR},
	{number: unix.SYS_READ, errno: unix.EIO}, {number: unix.SYS_READ, errno: unix.EINTR},
	{number: unix.SYS_FSYNC, errno: unix.EIO},
	{number: unix.SYS_RENAMEAT2, errno: unix.EIO}, {number: unix.SYS_MLOCK, errno: unix.ENOMEM},
	{number: unix.SYS_PREAD64, errno: unix.EIO},
}

// bounds of a life that is not at its end by then: after the first a signal comes,
// in virtual time; after the others it is one that does not end.
const (
	patienceNs = 5e9
	patience   = 20_000 // steps
	endlessNs  = 900e9
	endless    = 1_000_000 // steps
)

// step is a moment at which anything may happen.
func (w *world) step() {
	if w.asleep {
		return
	}
	w.steps++
	if r := &w.in; r.there() && r.count(readAt) == uint64(len(w.frames)) {
		w.over++
	}
	for _, e := range w.events {
		if e.at == w.steps && e.kind != killedAtEnd || e.at == w.over && e.kind == killedAtEnd {
			w.happens(e.kind)
		}
	}
	if w.now-w.born > patienceNs || w.steps > patience {
		stopRequested.Store(1)
	}
	if w.now-w.born > endlessNs || w.steps > endless {
		w.violate("no end after %d s and %d steps", (w.now-w.born)/1e9, w.steps)
		goruntime.Goexit()
	}
	w.look()
	if w.random.IntN(8) == 0 {
		w.peers(!w.slow)
	}
}

func (w *world) happens(kind byte) {
	w.say("event %d", kind)
	switch kind {
	case signalled:
		stopRequested.Store(1)
	case killed, killedAtEnd:
		w.killed = true
		goruntime.Goexit()
	case ringCut:
		for _, r := range []*partner{&w.in, &w.out} {
			if r.memory != nil {
				_ = os.Truncate(r.path, []int64{0, 4096}[w.random.IntN(2)])
				r.cut, w.hurt = true, true
			}
		}
	case imageRewritten:
		if file, err := os.OpenFile(w.file("image"), os.O_WRONLY, 0); err == nil {
			_, _ = file.Write(bytes.Repeat([]byte{0x55}, len(w.view.Envelope)))
			file.Close()
		}
		w.rewritten = true
	case clockJumps:
		n := w.random.Int64N(2e9)
		w.now += n
		w.jumped += n
	}
}

// between is every system call of the runner.
func (w *world) between(number uintptr, a [6]uintptr, do func() (uintptr, unix.Errno)) (uintptr,
	unix.Errno) {
	if w.asleep {
		return do()
	}
	w.step()
	const watchdogFood = 1
	if number == unix.SYS_FSYNC || number == unix.SYS_RENAMEAT2 ||
		number == unix.SYS_WRITE && a[0] > 2 && a[2] > watchdogFood {
		w.committing = true
	}
	for i := range w.calls {
		f := &w.calls[i]
		if f.number != number || number == unix.SYS_WRITE && (a[0] == 2 || a[2] == watchdogFood) {
			continue // of a watchdog the kernel takes a byte at once
		}
		if f.at--; f.at <= 0 && f.at > -f.length {
			w.say("system call %d fails: %v", number, f.errno)
			w.hurt = w.hurt || f.errno != unix.EINTR
			w.unsynced = w.unsynced || number == unix.SYS_FSYNC
			return ^uintptr(0), f.errno
		}
	}
	switch {
	case number == unix.SYS_NANOSLEEP:
		w.now += (*unix.Timespec)(unsafe.Pointer(a[0])).Nano()
		w.peers(true)
		return 0, 0
	case number == unix.SYS_IOCTL: // of a watchdog: its timeout
		return 4, 0
	case number == unix.SYS_RT_SIGACTION:
		return 0, 0
	case number == unix.SYS_WRITE && (a[0] == 1 || a[0] == 2):
		w.said[a[0]] = append(w.said[a[0]], unsafe.Slice((*byte)(unsafe.Pointer(a[1])),
			int(a[2]))...)
		return a[2], 0
	}
	n, errno := w.noted(number, a, do)
	if errno == 0 && number == unix.SYS_OPENAT {
		w.open = append(w.open, int(n))
	}
	return n, errno
}

// noted makes a system call, and notes what it maps, unmaps and closes.
func (w *world) noted(number uintptr, a [6]uintptr, do func() (uintptr, unix.Errno)) (uintptr,
	unix.Errno) {
	n, errno := do()
	switch {
	case errno != 0:
	case number == unix.SYS_MMAP && n != 0:
		w.maps[n] = a[1]
	case number == unix.SYS_MUNMAP:
		delete(w.maps, a[0])
	case number == unix.SYS_CLOSE:
		w.open = slices.DeleteFunc(w.open, func(fd int) bool { return fd == int(a[0]) })
	}
	return n, errno
}

// partner is the other side of a ring, by RING.md.
type partner struct {
	path   string // empty: there is none
	memory []byte
	cut    bool
	moved  uint64 // slots that the runner has written, or given back
}

func (r *partner) at(offset int) *uint64 { return (*uint64)(unsafe.Pointer(&r.memory[offset])) }

func (r *partner) count(offset int) uint64 { return atomic.LoadUint64(r.at(offset)) }

const closedAt, writtenAt, readAt = 24, 64, 128

// slot is that of a number.
func (r *partner) slot(n uint64) []byte {
	return r.memory[4096+n%*r.at(16)*images.TensorBytes:][:images.TensorBytes]
}

// there maps a ring as soon as there is one.
func (r *partner) there() bool {
	if r.path == "" || r.cut || r.memory != nil {
		return r.memory != nil && !r.cut
	}
	file, err := os.OpenFile(r.path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	magic := make([]byte, 8)
	status, err := file.Stat()
	if n, _ := file.Read(magic); err != nil || n != 8 || string(magic) != "LMRING1\x00" {
		return false
	}
	r.memory, _ = unix.Mmap(int(file.Fd()), 0, int(status.Size()), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	return r.memory != nil
}

// peers lets those on the other side of rings and pipes do something. One that is
// slow takes results only while the runner waits.
func (w *world) peers(drains bool) {
	if r := &w.in; r.there() && !w.asleep {
		written := r.count(writtenAt)
		switch {
		case written < uint64(len(w.frames)) && written-r.count(readAt) < *r.at(16):
			copy(r.slot(written), w.frames[written])
			atomic.AddUint64(r.at(writtenAt), 1)
		case written >= uint64(len(w.frames)) && w.closes:
			atomic.StoreUint32((*uint32)(unsafe.Pointer(r.at(closedAt))), 1)
		}
	}
	if drains {
		w.drain(1)
	}
	w.pump()
}

// drain takes what the runner has handed on, at most so many slots.
func (w *world) drain(most int) {
	r := &w.out
	for ; most > 0 && r.there() && r.count(writtenAt) > r.count(readAt); most-- {
		atomic.AddUint64(r.at(readAt), 1)
	}
}

// look holds the rings against what the runs gave: a slot that is written has the
// results of the last good run, and no input is given back before its results are
// handed on.
func (w *world) look() {
	if r := &w.out; r.there() {
		if waiting := r.count(writtenAt) - r.count(readAt); waiting > *r.at(16) {
			w.violate("%d slots wait in a ring of %d", waiting, *r.at(16))
		}
		for written := r.count(writtenAt); r.moved < written; r.moved++ {
			switch {
			case written-r.moved > 1 || len(w.results) == 0:
				w.violate("%d slots are written at once, of %d results", written-r.moved,
					len(w.results))
			case !bytes.Equal(r.slot(r.moved), w.results[len(w.results)-1]):
				w.violate("slot %d does not have the results of the last run", r.moved)
			}
		}
	}
	if r := &w.in; r.there() {
		for read := r.count(readAt); r.moved < read; r.moved++ {
			if r.moved >= uint64(w.done) {
				w.violate("input %d is given back, %d are done", r.moved, w.done)
			}
		}
		if w.out.path != "" && !w.out.cut && w.out.memory != nil && r.moved > w.out.moved {
			w.violate("%d inputs are given back, %d results handed on", r.moved, w.out.moved)
		}
	}
}

// pump feeds the pipe that is an input, and ends it.
func (w *world) pump() {
	if w.pipe < 0 {
		return
	}
	n, err := unix.Write(w.pipe, w.flow[:min(len(w.flow), 1+w.random.IntN(700))])
	if err == nil {
		w.flow = w.flow[n:]
	}
	if len(w.flow) == 0 && w.closes && w.begun {
		unix.Close(w.pipe)
		w.pipe = -1
	}
}
