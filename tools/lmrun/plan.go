package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/runtime"
	"lightmetal/tools/files"
	"lightmetal/tools/lmrun/args"
)

// This file checks the options against the verified image, before a device is opened.
// All that it checks, -check reports as well.

// planRuns checks the options against the image and returns the loop that they describe.
func planRuns(view *fbs.View, o args.Options) (f *frameLoop, err error) {
	f = &frameLoop{limit: o.Deadline}
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

// findSequences looks up the sequences of -sequence, -before and -after.
func (f *frameLoop) findSequences(view *fbs.View, o args.Options) error {
	for i, name := range [...]string{o.Sequence, o.Before, o.After} {
		index := view.SequenceByName(name)
		if name != "" && index < 0 {
			return args.UsageError("no sequence " + name + " in the image; it has" +
				sequenceNames(view))
		}
		*[...]*int{&f.sequence, &f.before, &f.after}[i] = index
	}
	return nil
}

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
	// Without -check, Load reports the wrong number, and with it the devices' names.
	devices, targets := uint64(len(o.Devices)), uint64(len(view.Devices))
	if o.Check && devices != 0 && devices != targets {
		return args.UsageError(fbs.Text("devices: the image is for %d, %d given", targets,
			devices))
	}
	if o.Window != runtime.AnySlot && !hasTlbWindow(view) {
		return args.UsageError("-window: no window of the image moves; omit the flag")
	}
	return nil
}

func hasTlbWindow(view *fbs.View) bool {
	for i := range view.Windows {
		if view.Windows[i].Kind == gen.WindowKindTlb {
			return true
		}
	}
	return false
}

// longestStopUs returns the longest time, in microseconds, from a signal to the end: that
// of the run that continues or the sequence before it, of the sequence after, and of safe.
// No sum overflows, since CheckTime has bounded each by -longest, which is below 2^62 ns.
func (f *frameLoop) longestStopUs(view *fbs.View) uint64 {
	// A run with a deadline ends by that. All else ends within the grace, except safe.
	runLimit := uint64(f.limit)
	if runLimit == 0 {
		runLimit = runtime.StopGrace
	}
	run := boundedUs(view, f.sequence, runLimit)
	before := boundedUs(view, f.before, runtime.StopGrace)
	after := boundedUs(view, f.after, runtime.StopGrace)
	safe := boundedUs(view, view.SequenceByName("safe"), 1<<63)
	return max(run, before) + after + safe
}

// boundedUs returns the longest time of a sequence, or limitNs if that is less, in
// microseconds. It returns 0 if there is no sequence.
func boundedUs(view *fbs.View, sequence int, limitNs uint64) uint64 {
	if sequence < 0 {
		return 0
	}
	return min(view.WorstCaseUs[sequence], limitNs/1000)
}

func bindingPaths(bindings []args.Binding) (list []string) {
	for _, b := range bindings {
		list = append(list, strings.TrimPrefix(b.Path, ringPrefix))
	}
	return list
}
