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

// world is an image, its devices and a host, in which the runner runs and may be restarted. Its
// time is virtual. The seed determines a world, including each access.
type world struct {
	random           *rand.Rand
	dir              string
	verbose          bool
	firstError       string // the first error of the world; "": none
	hash             uint64 // of all accesses
	inaccessiblePage uintptr

	scenario
	view         *fbs.View
	model        *model
	devices      []*device
	memories     []*plainMemory // by device; they outlive a process
	busAddresses []uint64       // by window of the image
	windowByTLB  map[int]uint16 // index of a window by 1000 * device + TLB window

	now, startTime   int64 // virtual time and start of the process, in nanoseconds
	clockJump        int64 // sum of the jumps of the clock since the last load of a poll
	steps            int
	stepsAfterInputs int  // steps since the last input was read
	inactive         bool // no events happen
	exitCleanups     int  // resets at exit that were registered with a driver

	inRing, outRing  ringPeer
	frames           [][]byte // inputs in their order
	pipeWriter       int      // write end of the input's pipe; -1: none
	pendingPipeData  []byte   // data that have not been written to the pipe yet
	pipeInputsRead   int      // inputs from a pipe with which runs have begun
	currentInput     int
	completedInputs  int // inputs whose runs were successful
	results          [][]byte
	printed          [3][]byte // by file descriptor
	openFDs          []int
	mappings         map[uintptr]uintptr
	oldFiles         map[string][]byte // content of the outputs before the process began
	sequenceBegan    bool              // in this process
	killed           bool
	disturbed        bool // a system call failed, or a ring was truncated
	imageOverwritten bool
	committing       bool // the runner has begun to write its outputs
	syncFailed       bool // a sync failed: outputs may not be on the disk
	renamed          bool // an output has taken its place
}

// errorf records an error of the world, unless one is recorded already.
func (w *world) errorf(format string, values ...any) {
	if w.firstError == "" {
		w.firstError = fmt.Sprintf("step %d: ", w.steps) + fmt.Sprintf(format, values...)
		w.logf("ERROR: %s", w.firstError)
	}
}

// logf prints a step if the option -verbose is set.
func (w *world) logf(format string, values ...any) {
	if w.verbose {
		fmt.Fprintf(os.Stderr, "%8d %12d "+format+"\n", append([]any{w.steps, w.now}, values...)...)
	}
}

// hashAccess adds an access to the hash, which must be equal in two runs of a seed.
func (w *world) hashAccess(a access) {
	for _, n := range [...]uint64{uint64(w.now), uint64(a.kind), uint64(a.window), a.offset,
		uint64(a.width), a.value} {
		w.hash = (w.hash ^ n) * 0x100000001b3
	}
	if w.verbose {
		w.logf("%s window %d +%#x width %d value %#x",
			[...]string{"", "load", "store", "point", "sleep"}[a.kind], a.window, a.offset, a.width,
			a.value)
	}
}

// sequenceName returns the name of a sequence, or "" if there is no sequence with this index.
func (w *world) sequenceName(sequence int) string {
	if sequence < 0 || sequence >= len(w.view.Sequences) {
		return ""
	}
	return w.view.Name(w.view.Sequences[sequence].Name)
}

// runWorld runs the world of a seed. It returns the error, the hash of the accesses, and the exit
// status of the last process.
func runWorld(seed uint64, verbose bool) (firstError string, hash uint64, status int) {
	w := &world{random: rand.New(rand.NewPCG(seed, 0x516)), verbose: verbose, pipeWriter: -1,
		inactive: true, inaccessiblePage: mapInaccessiblePage()}
	defer func() { _ = unix.Munmap(memoryAt(w.inaccessiblePage, 4096)) }()
	var err error
	// The files are in memory, if possible.
	if w.dir, err = os.MkdirTemp("/dev/shm", "world"); err != nil {
		w.dir, err = os.MkdirTemp("", "world")
	}
	if err != nil {
		return err.Error(), 0, 0
	}
	defer os.RemoveAll(w.dir)
	if seed%3 == 0 {
		return w.runWithMachine(int(seed / 3))
	}
	if w.scenario, err = newScenario(w); err != nil {
		return err.Error(), 0, 0
	}
	kernel.OnEnter, kernel.OnSystemCall = func(string) { w.step() }, w.handleSystemCall
	w.prepareFiles()
	w.logf("%+v", w.options)
	for _, f := range w.deviceFaults {
		w.logf("%v", f)
	}
	for number := 0; number < 4; number++ {
		status = w.runWithMocks(number)
		if w.firstError != "" || !w.killed {
			break
		}
		w.restart()
	}
	w.tearDown()
	return w.firstError, w.hash, status
}

// prepareFiles writes the files that the runner opens.
func (w *world) prepareFiles() {
	write := func(name string, data []byte) { _ = os.WriteFile(w.path(name), data, 0o600) }
	write("image", w.image)
	write("out", []byte("old"))
	for range w.inputCount {
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
			w.inRing.path = path
		} else {
			w.outRing.path = path
		}
		if w.ringVariant == 1 {
			slots := w.random.IntN(9) // of a ring that its creator did not finish
			_ = os.WriteFile(path, make([]byte, min(slots, 1)*4096+slots*images.TensorBytes), 0o600)
		}
	}
	if w.inputIsPipe {
		_ = unix.Mkfifo(w.path("in.pipe"), 0o600)
		w.pendingPipeData = bytes.Join(w.frames, nil)
		w.pendingPipeData = w.pendingPipeData[:max(0, len(w.pendingPipeData)-w.missingBytes)]
	}
	write("watchdog", nil)
}

// restart prepares the next process after one was killed. The events of the world are over.
func (w *world) restart() {
	w.killed, w.sequenceBegan = false, false
	w.events, w.callFailures = nil, nil
	leftovers, _ := filepath.Glob(w.path(".*.part"))
	for _, path := range leftovers {
		os.Remove(path)
	}
	_ = os.WriteFile(w.path("image"), w.image, 0o600)
	_ = os.Truncate(w.path("watchdog"), 0)
	if w.pipeWriter >= 0 || w.inputIsPipe { // the pipe loses its data, and its writer begins again
		unix.Close(w.pipeWriter)
		_ = os.Remove(w.path("in.pipe"))
		_ = unix.Mkfifo(w.path("in.pipe"), 0o600)
		w.pendingPipeData, w.pipeInputsRead = bytes.Join(w.frames, nil), 0
	}
	for _, d := range w.devices {
		d.faults = nil
	}
	w.deviceFaults, w.failingMap, w.busMasterFails = nil, -1, false
}

// tearDown releases the resources of the world.
func (w *world) tearDown() {
	if w.pipeWriter >= 0 {
		unix.Close(w.pipeWriter)
	}
	for _, r := range []*ringPeer{&w.inRing, &w.outRing} {
		if r.memory != nil {
			_ = unix.Munmap(r.memory)
		}
	}
}

// runWithMocks runs one process of the runner on mocks, from opening the image to the exit status.
// It returns -1 if the process was killed.
func (w *world) runWithMocks(number int) (status int) {
	w.oldFiles = map[string][]byte{}
	for _, name := range []string{"out", "again"} {
		w.oldFiles[name], _ = os.ReadFile(w.path(name))
	}
	// The view for the checks. Corrupted images mostly have none.
	w.view, _ = fbs.Verify(bytes.Clone(w.image))
	stopRequested.Store(0)
	w.model, w.devices = nil, nil
	w.printed, w.openFDs, w.mappings = [3][]byte{}, nil, map[uintptr]uintptr{}
	w.disturbed, w.committing, w.exitCleanups = false, false, 0
	w.syncFailed, w.renamed = false, false
	w.startTime, w.steps, w.stepsAfterInputs, status = w.now, 0, 0, -1
	if w.inputIsPipe {
		w.pipeWriter, _ = unix.Open(w.path("in.pipe"),
			unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	var end outcome
	var f *runLoop
	w.runInGoroutine(func() {
		runtime.DedicateProcess()
		w.inactive = false
		f, end = w.runImage()
		status = printOutcome(w.options, end)
	})
	if w.model != nil {
		w.model.stop()
	}
	if w.killed {
		status = -1
	}
	w.logf("process %d ends with status %d: %v", number, status, end.err)
	w.checkProcess(f, end, status)
	for _, fd := range w.openFDs {
		unix.Close(fd)
	}
	for address, size := range w.mappings {
		_ = unix.Munmap(memoryAt(address, size))
	}
	w.checkRings()
	w.drainRing(1 << 20)
	return status
}

// runInGoroutine runs a process until it exits. A panic is an error of the world.
func (w *world) runInGoroutine(process func()) {
	done := make(chan bool)
	go func() {
		defer close(done)
		defer func() {
			w.inactive = true
			if r := recover(); r != nil {
				w.errorf("panic: %v %s", r, debug.Stack())
			}
		}()
		process()
	}()
	<-done
	debug.SetGCPercent(100)
}

// runImage does what the runner does between its command line and its report, but on mocks instead
// of the devices that it would open.
func (w *world) runImage() (f *runLoop, end outcome) {
	file, err := runtime.Open(w.options.Image)
	if err != nil {
		return nil, outcome{err: err}
	}
	view, err := file.Verify()
	if err != nil {
		return nil, outcome{err: err}
	}
	w.view = view
	f, err = planRuns(view, w.options)
	if err != nil {
		return f, outcome{err: err}
	}
	devices := w.buildDevices()
	w.model = newModel(w)
	return f, f.runOnDevices(devices, view, w.options)
}

// sequenceBegins is called when a sequence of a generated image begins.
func (w *world) sequenceBegins(sequence int) {
	m, o := w.model, &w.options
	name := w.sequenceName(sequence)
	first := m.sequencesBegun == 0
	m.sequencesBegun++
	w.sequenceBegan = true
	w.logf("sequence %s", name)
	switch {
	case name == "safe":
		if m.safeRuns++; m.safeRuns > 1 {
			w.errorf("sequence safe runs a second time")
		}
	case m.failure != nil || m.safeRuns > 0:
		w.errorf("sequence %s runs after a failure", name)
	case name == "before":
		if !first || o.SequenceBefore == "" {
			w.errorf("sequence before runs, but must not")
		}
		m.beforeRan = true
	case name == "main":
		if m.afterRan || m.beforeRan != (o.SequenceBefore != "") || m.stopped ||
			o.RunCount != 0 && m.runs >= o.RunCount {
			w.errorf("sequence main runs after %d runs, stopped %v, after %v, before %v", m.runs,
				m.stopped, m.afterRan, m.beforeRan)
		}
		w.loadInput()
	case name == "after":
		if m.afterRan || o.SequenceAfter == "" {
			w.errorf("sequence after runs, but must not")
		}
		m.afterRan = true
	default:
		w.errorf("unexpected sequence %d runs", sequence)
	}
}

// loadInput copies the input of a run to the model.
func (w *world) loadInput() {
	r := &w.inRing
	switch {
	case r.path != "" && !r.truncated:
		w.currentInput = int(r.load(readOffset))
	case r.path != "": // the data were written before the ring was truncated
		w.currentInput = int(r.movedSlots)
	case w.inputIsPipe:
		w.currentInput = w.pipeInputsRead
		w.pipeInputsRead++
	case len(w.options.Inputs) == 0:
		return
	default:
		w.currentInput = 0
	}
	if w.currentInput >= len(w.frames) {
		w.errorf("a run begins with input %d, but there are only %d", w.currentInput, len(w.frames))
		return
	}
	w.model.SetInput(0, w.frames[w.currentInput])
}

// recordResults records the results of a successful run of main.
func (w *world) recordResults() {
	for i := range w.view.Tensors {
		if w.view.Tensors[i].Role == gen.RoleOutput {
			w.results = append(w.results, bytes.Clone(w.model.Tensor(i)))
		}
	}
	w.completedInputs = w.currentInput + 1
}
