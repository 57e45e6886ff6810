//go:build world

package main

import (
	"crypto/ed25519"
	"crypto/sha512"
	"fmt"
	"math/rand/v2"
	"os"
	goruntime "runtime"
	"slices"
	"time"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/check/fakekernel"
	"lightmetal/tools/check/simulate/images"
	"lightmetal/tools/check/simulate/kernel"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// processRun is a world in which the runner runs from its command line to its exit status. It opens
// the devices itself, on a machine that simulates its system calls. The complete result of the run
// is computed before it begins.
type processRun struct {
	w              *world
	machine        *machine
	publicKey      ed25519.PublicKey
	faultNumber    int // index of the next fault to inject; consecutive runs inject all of them
	faults         []injectedFault
	wrongArguments []string // arguments added to the command line
	events         []runEvent
	image          *oracle.Image
	reference      *referenceMachine
	expected       expectation
	runsBegun      int // number of runs of main that have begun
	outputPipe     int // read end of an output that is a pipe; -1: none
	pipeData       []byte
	exitStatus     int
}

// runEvent is an event that happens before a run of the sequence main. Runs are counted from 1.
type runEvent struct {
	beforeRun, kind, function int
}

// Kinds of a runEvent.
const (
	eventDeviceGone = iota
	eventBusErrors
	eventDMAFault
	eventBusMasterOff
	eventSignal
	eventPause
	runEventKinds
)

func (e *processRun) random() *rand.Rand { return e.w.random }

// runWithMachine simulates one process run. It returns what was wrong, the hash of the accesses,
// and the exit status.
func (w *world) runWithMachine(number int) (firstError string, hash uint64, status int) {
	e := &processRun{w: w, outputPipe: -1, exitStatus: -1, faultNumber: number}
	if err := e.prepare(); err != nil {
		return err.Error(), 0, 0
	}
	w.now = 1e12
	w.startTime, w.mappings = w.now, map[uintptr]uintptr{}
	kernel.ResolvePath, kernel.OnOpen = e.machine.resolvePath, e.fileOpened
	kernel.ElapsedTime, kernel.OnExit = e.elapsedTime, e.exit
	kernel.OnEnter, kernel.OnSystemCall = e.step, e.handleSystemCall
	kernel.RunnerArguments = e.commandLine()
	w.logf("%q, backend %s, events %v", kernel.RunnerArguments, e.machine.backend, e.events)
	w.runInGoroutine(func() {
		stopRequested.Store(0)
		w.inactive = false
		runner()
	})
	kernel.ResolvePath, kernel.OnOpen, kernel.ElapsedTime, kernel.OnExit = nil, nil, nil, nil
	e.check()
	e.tearDown()
	return w.firstError, w.hash, e.exitStatus
}

// elapsedTime returns the virtual time, which advances at each call.
func (e *processRun) elapsedTime() time.Duration {
	e.w.now += accessNs
	return time.Duration(e.w.now)
}

// exit records the exit status and ends the simulated process.
func (e *processRun) exit(status int) {
	e.exitStatus = status
	goruntime.Goexit()
}

func (e *processRun) fileOpened(path string, fd int) {
	e.machine.RecordOpen(path, fd)
	e.w.openFDs = append(e.w.openFDs, fd)
}

// prepare generates the image, the machine, the command line and the faults.
func (e *processRun) prepare() error {
	w, random := e.w, e.w.random
	backend := []string{"pci", "vfio", "tt"}[random.IntN(3)]
	e.machine = newMachine(w, backend)
	image, err := lmb.Encode(e.randomImage(backend))
	if err != nil {
		return err
	}
	public, private, _ := ed25519.GenerateKey(rand.NewChaCha8([32]byte{byte(random.Uint32())}))
	digest := sha512.Sum512(image)
	e.publicKey = public
	w.image = append(image, lmb.SignatureBlock(0, public, ed25519.Sign(private, digest[:]))...)
	if w.view, err = fbs.Verify(slices.Clone(w.image)); err != nil {
		return err
	}
	var fault *oracle.Fault
	if e.image, fault = oracle.Verify(slices.Clone(w.image)); fault != nil {
		return fault
	}
	for i := range w.view.Devices {
		e.machine.addFunction(w.view.Devices[i].Vendor, w.view.Devices[i].Device,
			*w.view.Devices[i].MinBarSizes())
	}
	e.machine.WriteFile(fakekernel.SysfsDir+"/0000:00:00.0/modalias",
		fakekernel.Modalias(0x1b36, 8, 0x1234, 0))
	_ = os.WriteFile(w.path("image"), w.image, 0o600)
	_ = os.WriteFile(w.path("watchdog"), nil, 0o600)
	_ = os.WriteFile(w.path("out"), []byte("old"), 0o640)
	e.chooseOptions()
	for range []int{1, 1, 0}[random.IntN(3)] {
		fault := injectedFaults[e.faultNumber%len(injectedFaults)]
		if e.faultNumber += 1 + random.IntN(len(injectedFaults)); !fault.inject(e) {
			return e.retry()
		}
		e.faults = append(e.faults, fault)
	}
	e.computeExpectation()
	return nil
}

// retry prepares another world, because the chosen fault does not exist on this machine.
func (e *processRun) retry() error {
	e.machine.Release()
	_ = os.RemoveAll(e.w.dir)
	_ = os.Mkdir(e.w.dir, 0o700)
	e.w.callFailures, e.w.frames = nil, nil
	if e.outputPipe >= 0 {
		unix.Close(e.outputPipe)
	}
	*e = processRun{w: e.w, outputPipe: -1, exitStatus: -1, faultNumber: e.faultNumber}
	return e.prepare()
}

// chooseOptions chooses the options of the command line and the events between runs.
func (e *processRun) chooseOptions() {
	w, random := e.w, e.w.random
	w.options = args.Options{Image: w.path("image"), Sequence: "main",
		RunCount: uint64(1 + random.IntN(6)), MaxSequenceNs: 3600e9,
		FirstTLBWindow: runtime.AnyTLBWindow, PrintJSON: random.IntN(2) == 0,
		Seal: random.IntN(3) == 0, CheckOnly: random.IntN(20) == 0}
	o := &w.options
	if random.IntN(4) == 0 {
		e.useKeyFile("")
	}
	for _, name := range []struct {
		to   *string
		name string
	}{{&o.SequenceBefore, "before"}, {&o.SequenceAfter, "after"}} {
		if random.IntN(2) == 0 {
			*name.to = name.name
		}
	}
	for _, f := range e.machine.functions {
		o.Devices = append(o.Devices, e.machine.deviceName(f.Address))
	}
	if random.IntN(2) == 0 {
		frame := make([]byte, images.TensorBytes)
		for i := range frame {
			frame[i] = byte(random.Uint32())
		}
		_ = os.WriteFile(w.path("in"), frame, 0o600)
		w.frames = [][]byte{frame}
		o.Inputs = []args.Binding{{Name: "in", Path: w.path("in")}}
	}
	switch random.IntN(4) {
	case 0:
		o.Outputs = []args.Binding{{Name: "out", Path: w.path("out")}}
	case 2:
		o.Outputs = []args.Binding{{Name: "out", Path: w.path("out")},
			{Name: "out", Path: w.path("again")}}
	case 1:
		path := w.path("out.pipe")
		_ = unix.Mkfifo(path, 0o600)
		e.outputPipe, _ = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		_, _ = unix.FcntlInt(uintptr(e.outputPipe), unix.F_SETPIPE_SZ, 4096)
		o.Outputs = []args.Binding{{Name: "out", Path: path}}
	}
	if random.IntN(3) == 0 {
		e.useWatchdog()
		e.machine.watchdog.timeoutNs = 1
		if random.IntN(2) == 0 {
			e.machine.watchdog.requestedSeconds = int64(1 + random.IntN(60))
			o.Watchdog = fmt.Sprintf("%s=%d", o.Watchdog, e.machine.watchdog.requestedSeconds)
		}
		e.machine.watchdog.timeoutNs = []int64{1, 4, 60}[random.IntN(3)] * 1e9
	}
	for random.IntN(2) == 0 {
		e.events = append(e.events, runEvent{1 + random.IntN(6), random.IntN(runEventKinds),
			random.IntN(len(e.machine.functions))})
	}
}

// deviceName returns the name by which the command line selects the device at a PCI address.
func (m *machine) deviceName(address string) string {
	if m.backend == "tt" {
		index := 77
		for _, f := range m.functions {
			if f.Address == address {
				index = f.Index
			}
		}
		return fmt.Sprintf("tt:/dev/tenstorrent/%d", index)
	}
	return m.backend + ":" + address
}

// unknownKey returns a public key that did not sign the image.
func (e *processRun) unknownKey() string {
	public, _, _ := ed25519.GenerateKey(rand.NewChaCha8([32]byte{1, 2}))
	return fmt.Sprintf("%x\n", public)
}

// forgeSignature replaces the signature by another one, in a block with a valid checksum.
func (e *processRun) forgeSignature() {
	e.patchImage(func(image []byte) []byte {
		value := slices.Clone(image[len(image)-64:])
		value[e.random().IntN(32)] ^= 1
		return append(image[:len(image)-128], lmb.SignatureBlock(0, e.publicKey, value)...)
	})
}

// bindDriver binds a driver of the kernel to the first function.
func (e *processRun) bindDriver(driver string) {
	e.machine.BindDriver(e.firstFunction().Function, driver)
}

// addIdenticalFunction adds a function with the IDs of the first one, and selects the device by
// these IDs.
func (e *processRun) addIdenticalFunction() {
	f := e.firstFunction()
	e.machine.WriteFile(fakekernel.SysfsDir+"/0000:55:00.0/modalias",
		fakekernel.Modalias(f.Vendor, f.Device, 0x1234, 0))
	e.w.options.Devices[0] = fmt.Sprintf("%s:%04x:%04x", e.machine.backend, f.Vendor, f.Device)
}

// halveBAR halves the size of BAR 0 of the first function.
func (e *processRun) halveBAR() {
	f := e.firstFunction()
	f.Bars[0] /= 2
	text, _ := os.ReadFile(e.machine.Dir + f.Path("resource"))
	line := fmt.Sprintf("0x%016x 0x%016x 0x%016x\n", uint64(1)<<44, uint64(1)<<44+f.Bars[0]-1,
		0x14220c)
	e.machine.WriteFile(f.Path("resource"), line+string(text[len(line):]))
}

// commandLine returns the options as arguments, in a random one of their notations.
func (e *processRun) commandLine() (list []string) {
	o, random := &e.w.options, e.random()
	addValue := func(name, value string) {
		switch dash := []string{"-", "--"}[random.IntN(2)]; {
		case value == "":
		case random.IntN(2) == 0:
			list = append(list, dash+name+"="+value)
		default:
			list = append(list, dash+name, value)
		}
	}
	addFlag := func(name string, isSet bool) {
		if isSet {
			list = append(list, "-"+name)
		}
	}
	addFlag("json", o.PrintJSON)
	addFlag("seal", o.Seal)
	for _, b := range o.Inputs {
		addValue("input", b.Name+"="+b.Path)
	}
	list = append(list, o.Image)
	for _, b := range o.Outputs {
		addValue("output", b.Name+"="+b.Path)
	}
	// Without -device, the runner selects devices by the IDs in the image.
	if e.machine.backend != "pci" || len(e.faults) > 0 || random.IntN(2) == 0 {
		for _, name := range o.Devices {
			addValue("device", name)
		}
	}
	if o.Sequence != "main" || random.IntN(2) == 0 {
		addValue("sequence", o.Sequence)
	}
	addValue("before", o.SequenceBefore)
	addValue("after", o.SequenceAfter)
	addValue("watchdog", o.Watchdog)
	addValue("key", o.KeyFile)
	if o.RunCount != 1 {
		addValue("loop", fmt.Sprint(o.RunCount))
	}
	if o.DeadlineNs != 0 {
		addValue("deadline", fmt.Sprintf("%dus", o.DeadlineNs/1000))
	}
	if o.MaxSequenceNs != 3600e9 {
		addValue("longest", fmt.Sprintf("%dus", o.MaxSequenceNs/1000))
	}
	addFlag("check", o.CheckOnly)
	return append(list, e.wrongArguments...)
}

// tearDown releases the resources that the simulated process has left.
func (e *processRun) tearDown() {
	for _, fd := range e.w.openFDs {
		unix.Close(fd)
	}
	for _, h := range e.machine.Mappings {
		_ = unix.MunmapPtr(unsafe.Pointer(h.Address), h.Size)
	}
	e.machine.Release()
	for address, size := range e.w.mappings {
		_ = unix.Munmap(memoryAt(address, size))
	}
	if e.outputPipe >= 0 {
		unix.Close(e.outputPipe)
	}
	hal.ResetSharedState()
}
