package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/report"
	"lightmetal/tools/files"
	"lightmetal/tools/lmrun/args"
)

// frames runs one sequence again and again, with new data each time.
type frameLoop struct {
	replay   *runtime.Replay
	sequence int
	before   int // -1: none
	after    int // the same
	clock    hal.Device
	limit    int64         // of a run, in nanoseconds; 0: none
	streams  []stream      // inputs, and behind them outputs
	files    files.Outputs // of the outputs that are no rings
	watchdog watchdog
	sealed   bool
}

// plan holds the options against the image, before a device is opened for it.
func planRuns(view *fbs.View, o args.Options) (f *frameLoop, err error) {
	f = &frameLoop{limit: o.Deadline}
	for i, name := range [...]string{o.Sequence, o.Before, o.After} {
		index := view.SequenceByName(name)
		if name != "" && index < 0 {
			return f, args.UsageError("no sequence " + name + " in the image; it has" +
				sequenceNames(view))
		}
		*[...]*int{&f.sequence, &f.before, &f.after}[i] = index
	}
	if err = f.bindTensors(view, o.Inputs, gen.RoleInput); err == nil {
		err = f.bindTensors(view, o.Outputs, gen.RoleOutput)
	}
	if err == nil {
		f.watchdog, err = parseWatchdog(o.Watchdog)
	}
	view.TimeLimitUs = uint64(o.Longest) / 1000
	for i := 0; i < len(o.Devices) && err == nil; i++ {
		_, err = parseDeviceName(o.Devices[i])
	}
	moves := false
	for i := range view.Windows {
		moves = moves || view.Windows[i].Kind == gen.WindowKindTlb
	}
	switch devices, targets := uint64(len(o.Devices)), uint64(len(view.Devices)); {
	case err != nil:
	case o.Check && devices != 0 && devices != targets: // Load asks otherwise
		err = args.UsageError(fbs.Text("devices: the image is for %d, %d given", targets, devices))
	case o.Window != runtime.AnySlot && !moves:
		err = args.UsageError("-window: no window of the image moves")
	default:
		if err = runtime.CheckWorstCase(view); err == nil {
			err = files.RejectAliases(bindingPaths(o.Outputs),
				append(bindingPaths(o.Inputs), o.Image, o.Key)...)
		}
	}
	return f, err
}

// longestStopUs returns the longest time, in microseconds, from a signal to the end: the
// run that goes on or the sequence before it, the sequence after, and safe. No sum
// overflows, since CheckTime has bounded each by -longest, which is below 2^62 ns.
func (f *frameLoop) longestStopUs(view *fbs.View) uint64 {
	longest := func(sequence int) uint64 {
		if sequence < 0 {
			return 0
		}
		return view.WorstCaseUs[sequence]
	}
	run := longest(f.sequence)
	if f.limit != 0 {
		run = min(run, uint64(f.limit)/1000)
	}
	return max(run, longest(f.before)) + longest(f.after) + longest(view.SequenceByName("safe"))
}

func bindingPaths(bindings []args.Binding) (list []string) {
	for _, b := range bindings {
		list = append(list, strings.TrimPrefix(b.Path, ringPrefix))
	}
	return list
}

// open opens all that the runs need, before the seal and before the first store,
// so that a bad path costs no run. The watchdog comes last: from then on there is no
// way back but a run or a reset.
func (f *frameLoop) openStreams(r *runtime.Replay, clock hal.Device) (err error) {
	defer f.recoverRingFault(&err)
	f.replay, f.clock = r, clock
	r.SetStopFlag(&stopping)
	for i := 0; i < len(f.streams) && err == nil; i++ {
		s := &f.streams[i]
		if err = s.open(r); s.file != nil {
			f.files = append(f.files, s.file)
		}
	}
	if err == nil {
		err = f.watchdog.probe()
	}
	return err
}

// loop carries out all runs. A failure that is no command's brings the devices to
// rest as one of a command does, but for one of handing on the last results.
func (f *frameLoop) runLoop(count uint64) (end outcome) {
	end.least = 1<<63 - 1
	end.err = f.runFrames(count, &end)
	if end.err != nil && end.result.Code == hal.OK {
		end.result.Code, end.result.Command = hal.CodeOf(end.err), -1
		if safe := f.replay.View().SequenceByName("safe"); safe >= 0 {
			f.replay.SetLimit(0)
			end.result.Safe, end.result.SafeRan = f.replay.Run(safe).Code, true
		}
	}
	if end.err == nil {
		end.err = f.finishOutputs(end.runs)
	}
	return end
}

// runs runs until the count is reached (0: never), the inputs end, a signal
// comes or a run fails. Then it asks the devices whether all went well that no
// command looked at: one may go on as if its DMA had reached memory.
func (f *frameLoop) runFrames(count uint64, end *outcome) error {
	err := f.runSequence(f.before, 0, end)
	for err == nil && (count == 0 || end.runs < count) && stopping.Load() == 0 {
		ended, fault := f.receiveInputs()
		if ended && end.runs == 0 && stopping.Load() == 0 {
			fault = hal.NewFault(hal.BadTensor, "the inputs ended before the first run")
		}
		if err = fault; ended || err != nil {
			break
		}
		began := f.clock.Now()
		if err = f.runSequence(f.sequence, f.limit, end); err != nil {
			break
		}
		now := f.clock.Now()
		end.runs++
		end.total += now - began
		end.least, end.most = min(end.least, now-began), max(end.most, now-began)
		if err = f.sendOutputs(); err == nil {
			f.watchdog.feed(now)
		}
	}
	if err == nil {
		err = f.runSequence(f.after, 0, end)
	}
	if err == nil {
		code := f.replay.Diagnose()
		if code != hal.OK {
			err = hal.NewFault(code, "after the last run")
		}
	}
	return err
}

// run runs one sequence, if there is one, for so many nanoseconds at most (0:
// as long as it takes).
func (f *frameLoop) runSequence(sequence int, limit int64, end *outcome) error {
	if sequence < 0 {
		return nil
	}
	f.replay.SetLimit(limit)
	end.result = f.replay.Run(sequence)
	switch code := end.result.Code; code {
	case hal.OK:
		return nil
	case hal.InputMissing:
		return hal.NewFault(code, "an input without recorded data needs -input NAME=FILE")
	default:
		return hal.NewFault(code, string(report.AppendFailure(nil, f.replay.View(), &end.result)))
	}
}

// recoverRingFault, deferred, returns a fault in the memory of a ring as an error of
// its file. Any other panic is an internal error with the panic's own text, after which
// the sequence safe runs too.
func (f *frameLoop) recoverRingFault(err *error) {
	problem := recover()
	if problem == nil {
		return
	}
	*err = hal.NewFault(hal.Internal, problem.(error).Error())
	fault, ok := problem.(interface{ Addr() uintptr })
	for i := range f.streams {
		if r := f.streams[i].ring; ok && r != nil && r.contains(fault.Addr()) {
			const reason = ": the memory of the ring is gone; was the file cut short?"
			*err = hal.NewFault(hal.IO, r.path+reason)
		}
	}
}
