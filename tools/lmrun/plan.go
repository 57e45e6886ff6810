package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// This file checks the options against the verified image before a device is opened. -check
// performs the same checks.

// planRuns checks the options against the image and returns the loop that the options describe.
func planRuns(view *fbs.View, o args.Options) (f *frameLoop, err error) {
	f = &frameLoop{limitNs: o.Deadline}
	view.TimeLimitUs = uint64(o.Longest) / 1000
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
		err = checkDevices(view, o)
	}
	if err == nil {
		err = runtime.CheckWorstCase(view)
	}
	if err == nil {
		inputs := append(bindingPaths(o.Inputs), o.Image, o.Key)
		err = files.RejectAliases(bindingPaths(o.Outputs), inputs...)
	}
	return f, err
}

// findSequences looks up the sequences named by -sequence, -before and -after, and stores their
// indices in f.
func (f *frameLoop) findSequences(view *fbs.View, o args.Options) error {
	for i, name := range [...]string{o.Sequence, o.Before, o.After} {
		index := view.SequenceByName(name)
		if name != "" && index < 0 {
			return args.UsageError("the image has no sequence " + name + "; it has" +
				sequenceNames(view))
		}
		*[...]*int{&f.sequence, &f.sequenceBefore, &f.sequenceAfter}[i] = index
	}
	return nil
}

// sequenceNames returns the names of all sequences, each after a space.
func sequenceNames(view *fbs.View) (names string) {
	for i := range view.Sequences {
		names += " " + view.Name(view.Sequences[i].Name)
	}
	return names
}

// checkDevices checks -device and -window without opening a device.
func checkDevices(view *fbs.View, o args.Options) error {
	for _, name := range o.Devices {
		if _, err := parseDeviceName(name); err != nil {
			return err
		}
	}
	// Compare the number of devices only with -check; without it, runtime.Load does so later.
	devices, targets := uint64(len(o.Devices)), uint64(len(view.Devices))
	if o.Check && devices != 0 && devices != targets {
		return args.UsageError(fbs.Text("-device: the number of devices must be %d, not %d",
			targets, devices))
	}
	if o.Window != runtime.AnySlot && !hasTlbWindow(view) {
		return args.UsageError("-window: the image has no TLB window; omit this flag")
	}
	return nil
}

// hasTlbWindow reports whether the image uses a TLB window of the hardware.
func hasTlbWindow(view *fbs.View) bool {
	for i := range view.Windows {
		if view.Windows[i].Kind == gen.WindowKindTlb {
			return true
		}
	}
	return false
}

// longestStopUs returns the longest time from a signal to the end of lmrun, in microseconds: the
// time of the current run or of the sequence of -before, plus the time of the sequence of -after,
// plus the time of the sequence safe. The sum does not overflow, since runtime.CheckWorstCase has
// limited each sequence to the time of -longest, which is at most 2^62 ns.
func (f *frameLoop) longestStopUs(view *fbs.View) uint64 {
	// A run with a deadline ends by its deadline. Other runs and the sequences of -before and
	// -after end within runtime.StopGrace. The sequence safe is limited only by -longest.
	runLimit := uint64(f.limitNs)
	if runLimit == 0 {
		runLimit = runtime.StopGrace
	}
	run := longestSequenceUs(view, f.sequence, runLimit)
	before := longestSequenceUs(view, f.sequenceBefore, runtime.StopGrace)
	after := longestSequenceUs(view, f.sequenceAfter, runtime.StopGrace)
	safe := longestSequenceUs(view, view.SequenceByName("safe"), 1<<63)
	return max(run, before) + after + safe
}

// longestSequenceUs returns the longest time that the sequence with the given index can take,
// in microseconds. The result is at most limitNs, and 0 if the index is -1.
func longestSequenceUs(view *fbs.View, sequence int, limitNs uint64) uint64 {
	if sequence < 0 {
		return 0
	}
	return min(view.WorstCaseUs[sequence], limitNs/1000)
}

// bindingPaths returns the path of each binding, without ringPrefix.
func bindingPaths(bindings []args.Binding) (paths []string) {
	for _, b := range bindings {
		paths = append(paths, strings.TrimPrefix(b.Path, ringPrefix))
	}
	return paths
}
