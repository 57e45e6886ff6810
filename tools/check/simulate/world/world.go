//go:build world

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
	"lightmetal/tools/check/simulate/images"
	"lightmetal/tools/check/simulate/kernel"

	"golang.org/x/sys/unix"
)

// world is an image, its devices and a host, in which the runner lives and may
// live again, in time that is not ours. A seed makes it, to the last access.
type world struct {
	random  *rand.Rand
	dir     string
	talk    bool
	wrong   string // the first thing that must not be
	hash    uint64 // of all that happened
	nowhere uintptr

	fate
	view     *fbs.View
	payload  []byte
	model    *model
	devices  []*device
	memories []*memory
	buses    []uint64       // of windows
	slots    map[int]uint16 // windows by 1000 * device + hardware window

	now, born int64
	jumped    int64 // of now, by the clock alone, since the last look
	steps     int
	over      int  // of them, since the inputs were
	asleep    bool // nothing happens
	armed     int  // resets that a driver was told of

	in, out    partner
	frames     [][]byte // inputs, in order
	pipe       int      // end that the other side writes to, -1: none
	flow       []byte   // what it has still to write
	taken      int      // inputs that a run began with, of a pipe
	current    int
	done       int // inputs that a run ended well with
	results    [][]byte
	said       [3][]byte
	open       []int
	maps       map[uintptr]uintptr
	old        map[string][]byte // files as they were
	begun      bool
	killed     bool
	hurt       bool // a system call failed, or a ring is cut
	rewritten  bool
	committing bool
	unsynced   bool // an output may not be on the disk
}

// violate notes the first thing that must not be.
func (w *world) violate(format string, values ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf("step %d: ", w.steps) + fmt.Sprintf(format, values...)
		w.say("WRONG: %s", w.wrong)
	}
}

func (w *world) say(format string, values ...any) {
	if w.talk {
		fmt.Fprintf(os.Stderr, "%8d %12d "+format+"\n", append([]any{w.steps, w.now}, values...)...)
	}
}

// digest adds an access to what two runs of a seed have to have in common.
func (w *world) digest(a access) {
	for _, n := range [...]uint64{uint64(w.now), uint64(a.kind), uint64(a.window), a.offset,
		uint64(a.width), a.value} {
		w.hash = (w.hash ^ n) * 0x100000001b3
	}
	if w.talk {
		w.say("%s window %d +%#x width %d value %#x",
			[...]string{"", "load", "store", "point", "nap"}[a.kind], a.window, a.offset, a.width,
			a.value)
	}
}

func (w *world) name(sequence int) string {
	if sequence < 0 || sequence >= len(w.view.Sequences) {
		return ""
	}
	return w.view.Name(w.view.Sequences[sequence].Name)
}

// play lets a world go by, and gives what was wrong in it.
func play(seed uint64, talk bool) (wrong string, hash uint64, ended int) {
	w := &world{random: rand.New(rand.NewPCG(seed, 0x516)), talk: talk, pipe: -1, asleep: true,
		nowhere: nowherePage()}
	defer func() { _ = unix.Munmap(bytesOf(w.nowhere, 4096)) }()
	var err error
	// memory, where there is a place for it
	if w.dir, err = os.MkdirTemp("/dev/shm", "world"); err != nil {
		w.dir, err = os.MkdirTemp("", "world")
	}
	if err != nil {
		return err.Error(), 0, 0
	}
	defer os.RemoveAll(w.dir)
	if seed%3 == 0 {
		return w.errand(int(seed / 3))
	}
	if w.fate, err = newFate(w); err != nil {
		return err.Error(), 0, 0
	}
	kernel.Entered, kernel.Between = func(string) { w.step() }, w.between
	w.prepare()
	w.say("%+v", w.options)
	for _, f := range w.faults {
		w.say("%v", f)
	}
	for lives := 0; lives < 4; lives++ {
		ended = w.life(lives)
		if w.wrong != "" || !w.killed {
			break
		}
		w.revive()
	}
	w.bury()
	return w.wrong, w.hash, ended
}

// prepare puts files where the runner looks for them.
func (w *world) prepare() {
	write := func(name string, data []byte) { _ = os.WriteFile(w.file(name), data, 0o600) }
	write("image", w.image)
	write("out", []byte("old"))
	for range w.inputs {
		frame := make([]byte, images.TensorBytes)
		for i := range frame {
			frame[i] = byte(w.random.Uint32())
		}
		w.frames = append(w.frames, frame)
	}
	if len(w.frames) > 0 {
		write("in", w.frames[0])
	}
	for _, b := range append(w.options.Inputs, w.options.Outputs...) {
		path, isRing := strings.CutPrefix(b.Path, "ring:")
		if !isRing {
			continue
		}
		if b.Name == "in" {
			w.in.path = path
		} else {
			w.out.path = path
		}
		if w.ring == 1 {
			slots := w.random.IntN(9) // of a ring that its maker did not finish
			_ = os.WriteFile(path, make([]byte, min(slots, 1)*4096+slots*images.TensorBytes), 0o600)
		}
	}
	if w.piped {
		_ = unix.Mkfifo(w.file("in.pipe"), 0o600)
		w.flow = bytes.Join(w.frames, nil)
		w.flow = w.flow[:max(0, len(w.flow)-w.cuts)]
	}
	write("watchdog", nil)
}

// revive makes the machine what it is when a process has been killed and the next
// is started: its events are over.
func (w *world) revive() {
	w.killed, w.begun = false, false
	w.events, w.calls = nil, nil
	leftovers, _ := filepath.Glob(w.file(".*.part"))
	for _, path := range leftovers {
		os.Remove(path)
	}
	_ = os.WriteFile(w.file("image"), w.image, 0o600)
	_ = os.Truncate(w.file("watchdog"), 0)
	if w.pipe >= 0 || w.piped { // what a pipe held is gone, its writer begins anew
		unix.Close(w.pipe)
		_ = os.Remove(w.file("in.pipe"))
		_ = unix.Mkfifo(w.file("in.pipe"), 0o600)
		w.flow, w.taken = bytes.Join(w.frames, nil), 0
	}
	for _, d := range w.devices {
		d.faults = nil
	}
	w.faults, w.mapFails, w.masterFails = nil, -1, false
}

// bury gives back what the world took.
func (w *world) bury() {
	if w.pipe >= 0 {
		unix.Close(w.pipe)
	}
	for _, r := range []*partner{&w.in, &w.out} {
		if r.memory != nil {
			_ = unix.Munmap(r.memory)
		}
	}
}

// life is one process of the runner's, from its file to its exit status; -1 where
// it was killed.
func (w *world) life(number int) (status int) {
	w.old = map[string][]byte{}
	for _, name := range []string{"out", "again"} {
		w.old[name], _ = os.ReadFile(w.file(name))
	}
	// what a later look is held against; of a spoilt file, mostly nothing
	w.view, _ = fbs.Verify(bytes.Clone(w.image))
	stopRequested.Store(0)
	w.model, w.devices = nil, nil
	w.said, w.hurt, w.committing, w.unsynced, w.armed, w.open, w.maps = [3][]byte{}, false, false,
		false, 0, nil, map[uintptr]uintptr{}
	w.born, w.steps, w.over, status = w.now, 0, 0, -1
	if w.piped {
		w.pipe, _ = unix.Open(w.file("in.pipe"), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	var end outcome
	var f *frameLoop
	w.live(func() {
		runtime.DedicateProcess()
		w.asleep = false
		f, end = w.run()
		status = printOutcome(w.options, end)
	})
	if w.model != nil {
		w.model.stop()
	}
	if w.killed {
		status = -1
	}
	w.say("life %d ends with %d: %v", number, status, end.err)
	w.judge(f, end, status)
	for _, fd := range w.open {
		unix.Close(fd)
	}
	for address, size := range w.maps {
		_ = unix.Munmap(bytesOf(address, size))
	}
	w.look()
	w.drain(1 << 20)
	return status
}

// live runs a process to its exit. What it panics with is a violation.
func (w *world) live(process func()) {
	over := make(chan bool)
	go func() {
		defer close(over)
		defer func() {
			w.asleep = true
			if r := recover(); r != nil {
				w.violate("panic: %v %s", r, debug.Stack())
			}
		}()
		process()
	}()
	<-over
	debug.SetGCPercent(100)
}

// run is what the runner does between its command line and its report, with our
// devices in the place of those it would open.
func (w *world) run() (f *frameLoop, end outcome) {
	file, err := runtime.Open(w.options.Image)
	if err != nil {
		return nil, outcome{err: err}
	}
	view, err := file.Verify()
	if err != nil {
		return nil, outcome{err: err}
	}
	w.view, w.payload = view, bytes.Clone(view.Payload)
	f, err = planRuns(view, w.options)
	if err != nil {
		return f, outcome{err: err}
	}
	devices := w.build()
	w.model = newModel(w)
	return f, f.runOnDevices(devices, view, w.options)
}

// begins is told of each run of an image of ours.
func (w *world) begins(sequence int) {
	m, o := w.model, &w.options
	name := w.name(sequence)
	first := m.begun == 0
	m.begun++
	w.begun = true
	w.say("sequence %s", name)
	switch {
	case name == "safe":
		if m.safe++; m.safe > 1 {
			w.violate("safe runs a second time")
		}
	case m.failed != nil || m.safe > 0:
		w.violate("%s runs after a failure", name)
	case name == "before":
		if !first || o.Before == "" {
			w.violate("before runs where it is not to")
		}
		m.before = true
	case name == "main":
		if m.after || m.before != (o.Before != "") || m.stopped || o.Loop != 0 && m.runs >= o.Loop {
			w.violate("main runs after %d runs, stopped %v, after %v, before %v", m.runs, m.stopped,
				m.after, m.before)
		}
		w.input()
	case name == "after":
		if m.after || o.After == "" {
			w.violate("after runs where it is not to")
		}
		m.after = true
	default:
		w.violate("sequence %d runs", sequence)
	}
}

// input gives the model the data of a run.
func (w *world) input() {
	r := &w.in
	switch {
	case r.path != "" && !r.cut:
		w.current = int(r.count(readAt))
	case r.path != "": // the data came before the cut
		w.current = int(r.moved)
	case w.piped:
		w.current = w.taken
		w.taken++
	case len(w.options.Inputs) == 0:
		return
	default:
		w.current = 0
	}
	if w.current >= len(w.frames) {
		w.violate("a run begins with input %d of %d", w.current, len(w.frames))
		return
	}
	copy(w.model.arena[0], w.frames[w.current])
}

// completed notes the results of a good run.
func (w *world) completed() {
	for i := range w.view.Tensors {
		if w.view.Tensors[i].Role == gen.RoleOutput {
			w.results = append(w.results, bytes.Clone(w.model.arena[i]))
		}
	}
	w.done = w.current + 1
}
