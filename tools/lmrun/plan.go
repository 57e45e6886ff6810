package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// planRuns checks that the options match the image, and that no output would overwrite another file
// of this lmrun. It opens no device, so that -check needs none.
func planRuns(view *fbs.View, o args.Options) (f *runLoop, err error) {
	f = &runLoop{view: view, runTimeLimitNs: o.DeadlineNs}
	view.TimeLimitUs = uint64(o.MaxSequenceNs) / 1000
	if err = f.findSequences(view, o); err == nil {
		err = f.bindTensors(view, o.Inputs, gen.RoleInput)
	}
	if err == nil {
		err = f.bindTensors(view, o.Outputs, gen.RoleOutput)
	}
	if err == nil {
		f.watchdog, err = parseWatchdog(o.Watchdog)
	}
	if err == nil {
		err = checkDeviceFlags(view, o)
	}
	if err == nil {
		err = runtime.CheckWorstCaseTimes(view, "; -longest raises the limit")
	}
	if err == nil {
		inputs := append(bindingPaths(o.Inputs), o.Image, o.KeyFile)
		outputs := append(bindingPaths(o.Outputs), o.FaultFile, o.VersionCounterFile)
		err = files.RejectAliases(outputs, inputs...)
	}
	return f, err
}

func (f *runLoop) findSequences(view *fbs.View, o args.Options) error {
	for i, name := range [...]string{o.Sequence, o.SequenceBefore, o.SequenceAfter} {
		index := view.SequenceByName(name)
		if name != "" && index < 0 {
			return args.UsageError("the image has no sequence " + name + "; it has" +
				sequenceNames(view))
		}
		*[...]*int{&f.sequenceIndex, &f.beforeSequenceIndex, &f.afterSequenceIndex}[i] = index
	}
	return nil
}

// safeWarning returns a warning if the image has no sequence "safe".
func safeWarning(view *fbs.View) string {
	if view.SequenceByName("safe") >= 0 {
		return ""
	}
	return "the image has no sequence safe for the time after a failure; it has" +
		sequenceNames(view)
}

// sequenceNames returns the names of all sequences, each after a space.
func sequenceNames(view *fbs.View) (names string) {
	for i := range view.Sequences {
		names += " " + view.Name(view.Sequences[i].Name)
	}
	return names
}

func checkDeviceFlags(view *fbs.View, o args.Options) error {
	for _, name := range o.Devices {
		if _, err := parseDeviceName(name); err != nil {
			return err
		}
	}
	// Without -check, runtime.Load checks the number of devices.
	devices, targets := uint64(len(o.Devices)), uint64(len(view.Devices))
	if o.CheckOnly && devices != 0 && devices != targets {
		return args.UsageError(fbs.Text("the image is for %d device(s), but -device names %d; "+
			"name one device for each, or omit -device", targets, devices))
	}
	if o.FirstTLBWindow != runtime.AnyTLBWindow && !hasTLBWindow(view) {
		return args.UsageError("-window: the image has no TLB window; omit this flag")
	}
	return nil
}

func hasTLBWindow(view *fbs.View) bool {
	for i := range view.Windows {
		if view.Windows[i].Kind == gen.WindowKindTlb {
			return true
		}
	}
	return false
}

// maxStopTimeUs returns the longest time between a signal and the end of lmrun. At worst, the
// signal arrives in a run or in the sequence of -before; that of -after and `safe` still run. The
// sum cannot overflow, because -longest is at most 2^62 ns.
func (f *runLoop) maxStopTimeUs(view *fbs.View) uint64 {
	// After a signal, the limit of a run is -deadline, or else StopGraceNs; that of -before and
	// -after is StopGraceNs; `safe` has only -longest.
	runLimit := uint64(f.runTimeLimitNs)
	if runLimit == 0 {
		runLimit = runtime.StopGraceNs
	}
	run := maxSequenceUs(view, f.sequenceIndex, runLimit)
	before := maxSequenceUs(view, f.beforeSequenceIndex, runtime.StopGraceNs)
	after := maxSequenceUs(view, f.afterSequenceIndex, runtime.StopGraceNs)
	safe := maxSequenceUs(view, view.SequenceByName("safe"), 1<<63)
	return max(run, before) + after + safe
}

// maxSequenceUs returns the longest time that a sequence takes after a signal: its worst case or
// limitNs, and the time until it notices signal and limit. It is 0 if the index is -1.
func maxSequenceUs(view *fbs.View, sequence int, limitNs uint64) uint64 {
	if sequence < 0 {
		return 0
	}
	return min(view.WorstCaseUs[sequence], limitNs/1000) + runtime.StopLagNs/1000
}

// bindingPaths returns the paths of files, without the prefix of rings.
func bindingPaths(bindings []args.Binding) (paths []string) {
	for _, b := range bindings {
		paths = append(paths, strings.TrimPrefix(b.Path, ringPrefix))
	}
	return paths
}
