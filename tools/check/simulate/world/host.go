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

// Kinds of events of a host.
const (
	signalArrives byte = iota
	processKilled
	ringTruncated
	imageRewritten
	clockJumps
	killedAfterInputs // event.at counts the steps since the last input was read
	eventKinds
)

// event happens at a step of a process.
type event struct {
	kind byte
	at   int
}

// callFailure makes calls of a system call fail: `length` calls, starting with call `at`, counted
// from 1.
type callFailure struct {
	number     uintptr
	at, length int
	errno      unix.Errno
}

// possibleFailures are failures of system calls that occur on a real machine.
var possibleFailures = []callFailure{
	{number: unix.SYS_OPENAT, errno: unix.EMFILE}, {number: unix.SYS_MMAP, errno: unix.ENOMEM},
	{number: unix.SYS_FALLOCATE, errno: unix.ENOSPC},
	{number: unix.SYS_FTRUNCATE, errno: unix.EIO}, {number: unix.SYS_WRITE, errno: unix.ENOSPC},
	{number: unix.SYS_WRITE, errno: unix.EINTR},
	{number: unix.SYS_READ, errno: unix.EIO}, {number: unix.SYS_READ, errno: unix.EINTR},
	{number: unix.SYS_FSYNC, errno: unix.EIO},
	{number: unix.SYS_RENAMEAT2, errno: unix.EIO}, {number: unix.SYS_MLOCK, errno: unix.ENOMEM},
	{number: unix.SYS_PREAD64, errno: unix.EIO},
}

// Limits of a process in virtual time and steps. At the first two, it receives a signal. At the
// other two, the world fails because the process does not end.
const (
	signalAfterNs    = 5e9
	signalAfterSteps = 20_000
	maxNs            = 900e9
	maxSteps         = 1_000_000
)

// step runs the events that are due, checks the rings and lets their peers run.
func (w *world) step() {
	if w.inactive {
		return
	}
	w.steps++
	if r := &w.inRing; r.attach() && r.load(readOffset) == uint64(len(w.frames)) {
		w.stepsAfterInputs++
	}
	for _, e := range w.events {
		if e.at == w.steps && e.kind != killedAfterInputs || e.at == w.stepsAfterInputs &&
			e.kind == killedAfterInputs {
			w.applyEvent(e.kind)
		}
	}
	if w.now-w.startTime > signalAfterNs || w.steps > signalAfterSteps {
		stopRequested.Store(1)
	}
	if w.now-w.startTime > maxNs || w.steps > maxSteps {
		w.errorf("the process has not ended after %d s and %d steps", (w.now-w.startTime)/1e9,
			w.steps)
		goruntime.Goexit()
	}
	w.checkRings()
	if w.random.IntN(8) == 0 {
		w.runPeers(!w.slowReader)
	}
}

// applyEvent applies an event to the host.
func (w *world) applyEvent(kind byte) {
	w.logf("event %d", kind)
	switch kind {
	case signalArrives:
		stopRequested.Store(1)
	case processKilled, killedAfterInputs:
		w.killed = true
		goruntime.Goexit()
	case ringTruncated:
		for _, r := range []*ringPeer{&w.inRing, &w.outRing} {
			if r.memory != nil {
				_ = os.Truncate(r.path, []int64{0, 4096}[w.random.IntN(2)])
				r.truncated, w.disturbed = true, true
			}
		}
	case imageRewritten:
		if file, err := os.OpenFile(w.path("image"), os.O_WRONLY, 0); err == nil {
			_, _ = file.Write(bytes.Repeat([]byte{0x55}, len(w.view.Envelope)))
			file.Close()
		}
		w.imageOverwritten = true
	case clockJumps:
		n := w.random.Int64N(2e9)
		w.now += n
		w.clockJump += n
	}
}

// handleSystemCall executes or simulates a system call of the runner.
func (w *world) handleSystemCall(number uintptr, a [6]uintptr,
	do func() (uintptr, unix.Errno)) (uintptr, unix.Errno) {
	if w.inactive {
		return do()
	}
	w.step()
	const keepaliveBytes = 1
	if number == unix.SYS_FSYNC || number == unix.SYS_RENAMEAT2 ||
		number == unix.SYS_WRITE && a[0] > 2 && a[2] > keepaliveBytes {
		w.committing = true
	}
	w.renamed = w.renamed || number == unix.SYS_RENAMEAT2
	for i := range w.callFailures {
		f := &w.callFailures[i]
		if f.number != number || number == unix.SYS_WRITE && (a[0] == 2 || a[2] == keepaliveBytes) {
			continue // the kernel always accepts a byte for a watchdog
		}
		if f.at--; f.at <= 0 && f.at > -f.length {
			w.logf("system call %d fails: %v", number, f.errno)
			w.disturbed = w.disturbed || f.errno != unix.EINTR
			// Behind a rename, the folder is synced, and the files are new already.
			w.syncFailed = w.syncFailed || number == unix.SYS_FSYNC && !w.renamed
			return ^uintptr(0), f.errno
		}
	}
	switch {
	case number == unix.SYS_NANOSLEEP:
		w.now += (*unix.Timespec)(unsafe.Pointer(a[0])).Nano()
		w.runPeers(true)
		return 0, 0
	case number == unix.SYS_IOCTL: // the timeout of a watchdog
		return 4, 0
	case number == unix.SYS_RT_SIGACTION:
		return 0, 0
	case number == unix.SYS_WRITE && (a[0] == 1 || a[0] == 2):
		w.printed[a[0]] = append(w.printed[a[0]], unsafe.Slice((*byte)(unsafe.Pointer(a[1])),
			int(a[2]))...)
		return a[2], 0
	}
	n, errno := w.trackCall(number, a, do)
	if errno == 0 && number == unix.SYS_OPENAT {
		w.openFDs = append(w.openFDs, int(n))
	}
	return n, errno
}

// trackCall executes a system call and records which memory it maps and unmaps, and which file it
// closes.
func (w *world) trackCall(number uintptr, a [6]uintptr, do func() (uintptr, unix.Errno)) (uintptr,
	unix.Errno) {
	n, errno := do()
	switch {
	case errno != 0:
	case number == unix.SYS_MMAP && n != 0:
		w.mappings[n] = a[1]
	case number == unix.SYS_MUNMAP:
		delete(w.mappings, a[0])
	case number == unix.SYS_CLOSE:
		w.openFDs = slices.DeleteFunc(w.openFDs, func(fd int) bool { return fd == int(a[0]) })
	}
	return n, errno
}

// ringPeer is the process at the other end of a ring (RING.md).
type ringPeer struct {
	path       string // "": the runner uses no such ring
	memory     []byte
	truncated  bool
	movedSlots uint64 // slots that the runner has written or released
}

func (r *ringPeer) counterAt(offset int) *uint64 {
	return (*uint64)(unsafe.Pointer(&r.memory[offset]))
}

func (r *ringPeer) load(offset int) uint64 { return atomic.LoadUint64(r.counterAt(offset)) }

// Offsets of fields in the header of a ring (RING.md).
const closedOffset, writtenOffset, readOffset = 24, 64, 128

// slot returns the bytes of slot n, counted from the first slot that was written.
func (r *ringPeer) slot(n uint64) []byte {
	return r.memory[4096+n%*r.counterAt(16)*images.TensorBytes:][:images.TensorBytes]
}

// attach maps the ring as soon as the runner has created it. It reports whether the ring is mapped
// and has not been truncated.
func (r *ringPeer) attach() bool {
	if r.path == "" || r.truncated || r.memory != nil {
		return r.memory != nil && !r.truncated
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

// runPeers lets the peers of rings and pipes write one input and, if `drains` is set, read one
// output.
func (w *world) runPeers(drains bool) {
	if r := &w.inRing; r.attach() && !w.inactive {
		written := r.load(writtenOffset)
		switch {
		case written < uint64(len(w.frames)) && written-r.load(readOffset) < *r.counterAt(16):
			copy(r.slot(written), w.frames[written])
			atomic.AddUint64(r.counterAt(writtenOffset), 1)
		case written >= uint64(len(w.frames)) && w.inputsEnd:
			atomic.StoreUint32((*uint32)(unsafe.Pointer(r.counterAt(closedOffset))), 1)
		}
	}
	if drains {
		w.drainRing(1)
	}
	w.feedPipe()
}

// drainRing reads at most maxSlots outputs from the ring.
func (w *world) drainRing(maxSlots int) {
	r := &w.outRing
	for ; maxSlots > 0 && r.attach() && r.load(writtenOffset) > r.load(readOffset); maxSlots-- {
		atomic.AddUint64(r.counterAt(readOffset), 1)
	}
}

// checkRings compares the rings with the runs: a written slot must contain the results of the last
// successful run, and the runner must release an input only after it has written the outputs.
func (w *world) checkRings() {
	if r := &w.outRing; r.attach() {
		if waiting := r.load(writtenOffset) - r.load(readOffset); waiting > *r.counterAt(16) {
			w.errorf("%d slots are unread in a ring of %d slots", waiting, *r.counterAt(16))
		}
		for written := r.load(writtenOffset); r.movedSlots < written; r.movedSlots++ {
			switch {
			case written-r.movedSlots > 1 || len(w.results) == 0:
				w.errorf("%d slots were written at once, from %d results", written-r.movedSlots,
					len(w.results))
			case !bytes.Equal(r.slot(r.movedSlots), w.results[len(w.results)-1]):
				w.errorf("slot %d does not contain the results of the last run", r.movedSlots)
			}
		}
	}
	if r := &w.inRing; r.attach() {
		for read := r.load(readOffset); r.movedSlots < read; r.movedSlots++ {
			if r.movedSlots >= uint64(w.completedInputs) {
				w.errorf("input %d was released, but only %d were completed", r.movedSlots,
					w.completedInputs)
			}
		}
		if w.outRing.path != "" && !w.outRing.truncated && w.outRing.memory != nil &&
			r.movedSlots > w.outRing.movedSlots {
			w.errorf("%d inputs were released, but only %d outputs written", r.movedSlots,
				w.outRing.movedSlots)
		}
	}
}

// feedPipe writes to the pipe that is an input, and closes it after the last input.
func (w *world) feedPipe() {
	if w.pipeWriter < 0 {
		return
	}
	n, err := unix.Write(w.pipeWriter, w.pendingPipeData[:min(len(w.pendingPipeData),
		1+w.random.IntN(700))])
	if err == nil {
		w.pendingPipeData = w.pendingPipeData[n:]
	}
	if len(w.pendingPipeData) == 0 && w.inputsEnd && w.sequenceBegan {
		unix.Close(w.pipeWriter)
		w.pipeWriter = -1
	}
}
