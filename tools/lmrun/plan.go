package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// This file checks that the options match the verified image. lmrun performs these checks before it
// opens a device, and also with -check, which opens no device. This file also computes the longest
// time that lmrun may need to stop.

// planRuns checks that the options match the image, and that no output would overwrite another file
// of this lmrun. It returns a runLoop with the sequences, tensors, limits and watchdog from the
// options. It opens no input, output or device.
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

// findSequences looks up the sequences that -sequence, -before and -after name, and stores their
// indices in f. For -before and -after, the index is -1 if the flag is not given.
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

// sequenceNames returns the names of all sequences in the image, with a space before each name.
func sequenceNames(view *fbs.View) (names string) {
	for i := range view.Sequences {
		names += " " + view.Name(view.Sequences[i].Name)
	}
	return names
}

// checkDeviceFlags checks the values of -device and -window without opening a device.
func checkDeviceFlags(view *fbs.View, o args.Options) error {
	for _, name := range o.Devices {
		if _, err := parseDeviceName(name); err != nil {
			return err
		}
	}
	// Check the number of devices only if -check is given. Otherwise runtime.Load checks it.
	devices, targets := uint64(len(o.Devices)), uint64(len(view.Devices))
	if o.CheckOnly && devices != 0 && devices != targets {
		return args.UsageError(fbs.Text("the image is for %d device(s), but -device names %d",
			targets, devices))
	}
	if o.FirstTLBWindow != runtime.AnyTLBWindow && !hasTLBWindow(view) {
		return args.UsageError("-window: the image has no TLB window; omit this flag")
	}
	return nil
}

// hasTLBWindow reports whether at least one window of the image uses a TLB window of the device.
func hasTLBWindow(view *fbs.View) bool {
	for i := range view.Windows {
		if view.Windows[i].Kind == gen.WindowKindTlb {
			return true
		}
	}
	return false
}

// maxStopTimeUs returns the longest time that lmrun may need to end after a signal, in
// microseconds. In the worst case, the signal arrives during a run or during the sequence that
// -before names, and lmrun then still runs the sequence that -after names and the sequence `safe`.
//
// The sum cannot overflow, because -longest is at most 2^62 ns.
func (f *runLoop) maxStopTimeUs(view *fbs.View) uint64 {
	// After a signal, the time limit of a run is -deadline, or runtime.StopGraceNs if -deadline is
	// not given. The limit of the sequences that -before and -after name is runtime.StopGraceNs.
	// The sequence `safe` has only the limit -longest.
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

// maxSequenceUs returns the longest time in microseconds that a sequence can take with the given
// limit, with the time until it notices a signal and the limit; 0 if the index is -1.
func maxSequenceUs(view *fbs.View, sequence int, limitNs uint64) uint64 {
	if sequence < 0 {
		return 0
	}
	return min(view.WorstCaseUs[sequence], limitNs/1000) + runtime.StopLagNs/1000
}

// bindingPaths returns the file path of each binding. For a ring, this is the path without
// ringPrefix.
func bindingPaths(bindings []args.Binding) (paths []string) {
	for _, b := range bindings {
		paths = append(paths, strings.TrimPrefix(b.Path, ringPrefix))
	}
	return paths
}
