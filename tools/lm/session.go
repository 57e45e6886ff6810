package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/files"
	"lightmetal/tools/look/report"
)

// session is an image loaded on its devices.
type session struct {
	path           string
	view           *fbs.View
	devices        []hal.Device
	replay         *runtime.Replay
	profiler       *report.Profiler // nil: no profile
	sequenceIndex  int              // index of the sequence that runs
	beforeIndex    int              // index of the sequence of --before; -1: none
	afterIndex     int
	suppliedInputs map[int]bool // inputs that --input filled
	inputs         []tensorFile
	outputs        []tensorFile
	outputFiles    files.Outputs // the open file of each of outputs
	stop           stopRequest
	fresh          *freshness // nil: no --check-fresh
}

// tensorFile is a tensor and its file: the value of one --input or --output.
type tensorFile struct {
	tensorIndex int    // index of the tensor in the image
	path        string // path of the file; for --input also a value or a list of values
}

// prepare does everything that comes before the first store.
func (f *replayFlags) prepare(path string) *session {
	file, view := f.checkedImage(path)
	return f.prepareView(path, file, view)
}

// checkedImage verifies an image and checks the flags that need no device.
func (f *replayFlags) checkedImage(path string) (*runtime.File, *fbs.View) {
	if f.loop < 1 || f.warmUp < 0 {
		failUsage("--loop %d --warm-up %d: --loop must be at least 1, and --warm-up at least 0",
			f.loop, f.warmUp)
	}
	rejectDuplicates("--input ", f.inputs)
	file, view := openVerified(path)
	if len(f.devices) == 0 {
		failUsage("--device is missing: use --device mock:%s or --device %s; "+
			"lm replay --help lists all kinds",
			mockNameOf(view, path), runtime.DeviceNames(view)[0])
	}
	if f.window != runtime.AnyTLBWindow && !hasTLBWindow(view) {
		failUsage("--window: %s has no TLB window; omit this flag", path)
	}
	return file, view
}

// hasTLBWindow reports whether at least one window of the image uses a TLB window of the device.
func hasTLBWindow(view *fbs.View) bool {
	return slices.ContainsFunc(view.Windows,
		func(w fbs.Window) bool { return w.Kind == gen.WindowKindTlb })
}

// prepareView loads a verified image. Opened devices come before those of --device.
func (f *replayFlags) prepareView(path string, file *runtime.File, view *fbs.View,
	opened ...hal.Device) *session {
	s := &session{path: path, view: view, devices: opened, suppliedInputs: map[int]bool{}}
	if err := fail.Try(func() { f.openSession(s) }); err != nil {
		s.close()
		fail.On(err)
	}
	if s.profiler != nil {
		s.profiler.SetImage(filepath.Base(path), view.ID())
		s.profiler.Calibrate()
	}
	return s
}

// mockNameOf returns the name that follows mock: for the first device of an image.
func mockNameOf(view *fbs.View, path string) string {
	if t := &view.Devices[0]; boards.FindByID(t.Vendor, t.Device) == nil {
		return path
	}
	return view.Board(0).Name
}

// openSession checks the flags, opens the devices, loads the image, reads the inputs and opens the
// outputs, in the order of lmrun: it opens no device if a flag does not match the image, and makes
// no store if an output cannot be opened.
func (f *replayFlags) openSession(s *session) {
	f.checkNames(s)
	s.view.TimeLimitUs = uint64(max(f.longest, 0).Microseconds())
	failAtPath(s.path, runtime.CheckWorstCaseTimes(s.view, longestRemedy))
	for _, name := range f.devices {
		s.devices = append(s.devices, openDevice(name))
	}
	connectMocks(s.devices)
	failAtPath(s.path, f.loadImage(s))
	if notice := s.replay.Warnings; notice != "" {
		fmt.Fprint(stderr, "lm: warning: "+notice)
	}
	for _, input := range s.inputs {
		s.readInput(input)
	}
	for _, o := range s.outputs {
		s.outputFiles = append(s.outputFiles, fail.Must(openOutput(o.path, 0o666)))
	}
}

// checkNames finds the sequences and the tensors that flags name, and the golden data.
func (f *replayFlags) checkNames(s *session) {
	for _, named := range []struct {
		name  string
		index *int
	}{{f.sequence, &s.sequenceIndex}, {f.before, &s.beforeIndex}, {f.after, &s.afterIndex}} {
		if *named.index = -1; named.name != "" || named.index == &s.sequenceIndex {
			*named.index = sequenceNamed(s.view, s.path, named.name)
		}
	}
	for _, spec := range f.inputs {
		s.inputs = append(s.inputs, s.findTensor(spec, gen.RoleInput, "--input"))
	}
	for _, spec := range f.outputs {
		s.outputs = append(s.outputs, s.findTensor(spec, gen.RoleOutput, "--output"))
	}
	hasGolden := func(t fbs.Tensor) bool { return t.Role == gen.RoleOutput && t.HasData != 0 }
	if f.checkGolden && !slices.ContainsFunc(s.view.Tensors, hasGolden) {
		failUsage("--check-golden: %s has no output with golden data", s.path)
	}
	f.checkFreshFlags(s)
}

// loadImage loads the image, with a Profiler if --profile is given.
func (f *replayFlags) loadImage(s *session) (err error) {
	if f.profile == "" {
		s.replay, err = runtime.Load(s.view, f.window, s.devices...)
		return err
	}
	clock := describeClock(s.devices[0])
	s.profiler, err = report.NewProfiler(s.view, s.sequenceIndex, f.window, clock, s.devices...)
	if err == nil {
		s.replay = s.profiler.Replay()
	}
	return err
}

// run runs the sequence once; a profile does not count a warm-up.
func (s *session) run(warmUp bool) runtime.Result {
	if s.profiler != nil {
		return s.profiler.Run(s.sequenceIndex, warmUp)
	}
	return s.replay.Run(s.sequenceIndex)
}

// runOnce runs a sequence that is neither counted nor profiled. It does nothing if index is
// negative.
func (s *session) runOnce(index int) runtime.Result {
	switch {
	case index < 0:
		return runtime.Result{}
	case s.profiler != nil:
		return s.profiler.RunUntimed(index)
	}
	return s.replay.Run(index)
}

// close removes outputs that are not written, stops the DMA of all devices and closes them. It
// returns the first error. Later calls do nothing.
func (s *session) close() (err error) {
	s.outputFiles.Discard()
	if s.replay != nil {
		err = s.replay.Close()
	}
	for _, device := range s.devices {
		err = cmp.Or(err, device.Close())
	}
	s.replay, s.devices, s.outputFiles = nil, nil, nil
	return err
}

// sequenceNamed returns the index of the sequence that a flag names.
func sequenceNamed(view *fbs.View, path, name string) int {
	index := view.SequenceByName(name)
	if index < 0 {
		failUsage("there is no sequence %q in %s; use one of: %s", name, path, sequenceNames(view))
	}
	return index
}

func sequenceNames(view *fbs.View) string {
	return english.Join(view.Sequences, ", ",
		func(s fbs.Sequence) string { return view.Name(s.Name) })
}

// findTensor splits NAME=FILE and finds the tensor.
func (s *session) findTensor(spec string, role gen.Role, flag string) tensorFile {
	name, path, ok := strings.Cut(spec, "=")
	if !ok || name == "" || path == "" {
		failUsage("%s takes NAME=FILE, not %q", flag, spec)
	}
	return tensorFile{tensorNamed(s.view, s.path, name, flag, role), path}
}

// npyHeaderMax is larger, in bytes, than the header of any .npy file that lm reads.
const npyHeaderMax = 1 << 20

func (s *session) readInput(input tensorFile) {
	e := elementsOf(s.view, &s.view.Tensors[input.tensorIndex])
	copy(s.replay.Input(input.tensorIndex), e.readData(input.path))
	s.suppliedInputs[input.tensorIndex] = true
}

// missingInput returns the name of the first input without data.
func (s *session) missingInput() string {
	for i := range s.view.Tensors {
		t := &s.view.Tensors[i]
		if t.Role == gen.RoleInput && t.HasData == 0 && !s.suppliedInputs[i] {
			return s.view.Name(t.Name)
		}
	}
	return ""
}
