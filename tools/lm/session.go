package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/look/report"
)

// session is an image loaded on its devices.
type session struct {
	path           string
	view           *fbs.View
	devices        []hal.Device
	replay         *runtime.Replay
	profiler       *report.Profiler // nil: no profile
	index          int              // of the sequence
	before         int              // of the one before, -1: none
	after          int
	suppliedInputs map[int]bool // inputs that --input filled
}

// prepare does everything that comes before the first store.
func (f *replayFlags) prepare(path string) *session {
	if f.loop < 1 || f.warmUp < 0 {
		failUsage("--loop %d --warm-up %d: --loop must be at least 1, and --warm-up at least 0",
			f.loop, f.warmUp)
	}
	rejectDuplicates("--input ", f.inputs)
	file, view := openVerified(path)
	if len(f.devices) == 0 {
		failUsage("no device: use --device mock:%s or --device %s; lm replay --help lists all "+
			"kinds",
			mockNameOf(view, path), runtime.DeviceNames(view)[0])
	}
	return f.prepareView(path, file, view)
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
		s.profiler.Name(filepath.Base(path), report.ImageID(file.Bytes()))
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

func (f *replayFlags) openSession(s *session) {
	for _, name := range f.devices {
		s.devices = append(s.devices, openDevice(name))
	}
	connect(s.devices)
	for _, named := range []struct {
		name  string
		index *int
	}{{f.sequence, &s.index}, {f.before, &s.before}, {f.after, &s.after}} {
		if *named.index = s.view.SequenceByName(named.name); *named.index < 0 &&
			(named.name != "" || named.index == &s.index) {
			failUsage("there is no sequence %q in %s; it has %s", named.name, s.path,
				sequenceNames(s.view))
		}
	}
	failAt(s.path, f.loadImage(s))
	if notice := s.replay.Warnings; notice != "" {
		fmt.Fprint(stderr, "lm: warning: "+notice)
	}
	for _, spec := range f.inputs {
		s.readInput(spec)
	}
	for _, spec := range f.outputs {
		s.findTensor(spec, gen.RoleOutput, "--output")
	}
}

// loadImage loads the image, instrumented if a profile is wanted.
func (f *replayFlags) loadImage(s *session) (err error) {
	s.view.TimeLimitUs = uint64(max(f.longest, 0).Microseconds())
	if f.profile == "" {
		s.replay, err = runtime.Load(s.view, f.window, s.devices...)
		return err
	}
	if s.profiler, err = report.NewProfiler(s.view, s.index, f.window, clockOf(s.devices[0]),
		s.devices...); err == nil {
		s.replay = s.profiler.Replay()
	}
	return err
}

// run runs the sequence once; a profile does not count a warm-up.
func (s *session) run(warmUp bool) runtime.Result {
	if s.profiler != nil {
		return s.profiler.Run(s.index, warmUp)
	}
	return s.replay.Run(s.index)
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

func (s *session) close() {
	if s.replay != nil {
		s.replay.Close()
	}
	for _, device := range s.devices {
		device.Close()
	}
}

func sequenceNames(view *fbs.View) string {
	return english.Join(view.Sequences, ", ",
		func(s fbs.Sequence) string { return view.Name(s.Name) })
}

// findTensor splits NAME=FILE and finds the tensor.
func (s *session) findTensor(spec string, role gen.Role, flag string) (index int, path string) {
	name, path, ok := strings.Cut(spec, "=")
	if !ok || name == "" || path == "" {
		failUsage("%s takes NAME=FILE, not %q", flag, spec)
	}
	return tensorNamed(s.view, s.path, name, flag, role), path
}

// npyHeaderMax is more than any header of a .npy file that is read here.
const npyHeaderMax = 1 << 20

// readInput fills an input tensor.
func (s *session) readInput(spec string) {
	index, path := s.findTensor(spec, gen.RoleInput, "--input")
	e := elementsOf(s.view, &s.view.Tensors[index])
	copy(s.replay.Input(index), e.readData(path))
	s.suppliedInputs[index] = true
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
