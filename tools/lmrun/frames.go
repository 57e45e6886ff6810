package main

import (
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/report"
	"lightmetal/tools/lmrun/files"
)

// This file executes runs in a loop, with new data for each run. A run, also called a frame, is one
// execution of the sequence that the flag -sequence names. From the first run on, the code in this
// file makes no system call that runtime.Seal forbids, and it allocates memory only for errors.

// frameLoop contains the sequences, limits and data streams of the runs of one lmrun process.
type frameLoop struct {
	replay         *runtime.Replay
	sequence       int            // index of the sequence that each run executes
	sequenceBefore int            // index of the sequence that -before names; -1: not given
	sequenceAfter  int            // index of the sequence that -after names; -1: not given
	clock          hal.Device     // device whose method Now measures the duration of runs
	deadlineNs     int64          // value of -deadline, in nanoseconds; 0: not given
	streams        []tensorStream // one for each -input, followed by one for each -output
	outputFiles    files.Outputs  // the files and pipes to which lmrun writes outputs
	watchdog       watchdog
	faults         faultRecorder
	counter        versionCounter
	isSealed       bool // runtime.Seal has installed its seccomp filter
}

// openStreams opens inputs, outputs and the watchdog. The caller must call it before runtime.Seal,
// which forbids opening files. The caller must also call it before the first run, so that lmrun
// reports a bad path before it stores anything to a device. openStreams opens the watchdog last. An
// open watchdog resets the machine unless lmrun completes a run within the watchdog's timeout.
func (f *frameLoop) openStreams(r *runtime.Replay, clock hal.Device) (err error) {
	defer f.recoverPanic(&err)
	f.replay, f.clock = r, clock
	r.SetStopFlag(&stopRequested)
	for i := range f.streams {
		s := &f.streams[i]
		err = s.open(r)
		if s.file != nil {
			f.outputFiles = append(f.outputFiles, s.file)
		}
		if err != nil {
			return err
		}
	}
	return f.watchdog.start()
}

// runAndCommit executes all runs and then writes the output files. If a command fails, Replay.Run
// runs the sequence named `safe`. After any other failure during the runs, such as an input that
// cannot be read, runAndCommit runs `safe` itself. If only the output files cannot be written,
// runAndCommit does not run `safe`, because all runs have completed.
func (f *frameLoop) runAndCommit(runCount uint64) (end outcome) {
	end.leastNs = 1<<63 - 1
	end.err = f.runFrames(runCount, &end)
	if end.err == nil {
		end.err = f.commitOutputs(end.runs)
		return end
	}
	if end.result.Code == hal.OK {
		f.runSafe(&end)
	}
	return end
}

// runSafe runs the sequence named `safe`, if the image has one, and stores its result in
// end.result. This sequence brings the devices into a safe state. The caller must not call runSafe
// after a command has failed, because Replay.Run has then already run `safe`.
func (f *frameLoop) runSafe(end *outcome) {
	end.result.Code, end.result.Command = hal.CodeOf(end.err), -1
	if safe := f.replay.View().SequenceByName("safe"); safe >= 0 {
		f.replay.SetLimit(0)
		end.result.SafeCode, end.result.SafeRan = f.replay.Run(safe).Code, true
	}
}

// runFrames executes the sequence that -before names, then the runs, and then the sequence that
// -after names. The runs end after `runCount` runs (0: no limit), at the end of the inputs, or
// after a signal. After a failure, runFrames returns without executing the sequence that -after
// names.
func (f *frameLoop) runFrames(runCount uint64, end *outcome) error {
	err := f.runSequence(f.sequenceBefore, 0, end)
	ended := false
	for err == nil && !ended && (runCount == 0 || end.runs < runCount) &&
		stopRequested.Load() == 0 {
		ended, err = f.runFrame(end)
	}
	if err == nil {
		err = f.runSequence(f.sequenceAfter, 0, end)
	}
	if err != nil {
		return err
	}
	// Check the error status of the devices, because a DMA transfer can fail although no command
	// has failed.
	code := f.replay.Diagnose()
	if code != hal.OK {
		err = hal.NewFault(code, "found after the last run; output files are not written")
	}
	return err
}

// runFrame executes one run: it receives the inputs, runs the sequence, sends the outputs and feeds
// the watchdog. After the first run it raises the version counter. If the inputs have ended,
// runFrame does not run the sequence and returns true.
func (f *frameLoop) runFrame(end *outcome) (ended bool, err error) {
	ended, err = f.receiveInputs()
	if ended && end.runs == 0 && stopRequested.Load() == 0 {
		err = hal.NewFault(hal.BadTensor, "the inputs ended before they had data for one run")
	}
	if ended || err != nil {
		return ended, err
	}
	start := f.clock.Now()
	if err = f.runSequence(f.sequence, f.deadlineNs, end); err != nil {
		return false, err
	}
	now := f.clock.Now()
	end.countRun(now - start)
	if err = f.sendOutputs(); err == nil {
		err = f.counter.raiseVersion()
	}
	if err == nil {
		f.watchdog.feed(now)
	}
	return false, err
}

// countRun adds one completed run with the given duration to the statistics in the outcome.
func (end *outcome) countRun(durationNs int64) {
	end.runs++
	end.totalNs += durationNs
	end.leastNs = min(end.leastNs, durationNs)
	end.mostNs = max(end.mostNs, durationNs)
}

// runSequence runs the sequence with the given index and stores the result in end.result. The
// sequence fails if it takes longer than limitNs nanoseconds. If limitNs is 0, only -longest limits
// the time. If the index is -1, runSequence does nothing.
func (f *frameLoop) runSequence(sequence int, limitNs int64, end *outcome) error {
	if sequence < 0 {
		return nil
	}
	f.replay.SetLimit(limitNs)
	end.result = f.replay.Run(sequence)
	switch code := end.result.Code; code {
	case hal.OK:
		return nil
	case hal.InputMissing:
		view := f.replay.View()
		for i := range view.Tensors {
			t := &view.Tensors[i]
			if t.HasData == 0 && t.Role == gen.RoleInput && !f.hasStream(i) {
				return hal.NewFault(code, "-input "+view.Name(t.Name)+"=FILE is missing")
			}
		}
		return code
	default:
		text := report.AppendFailure(nil, f.replay.View(), &end.result)
		return hal.NewFault(code, string(text))
	}
}

// recoverPanic converts a panic of the calling function into the error *err, so that the
// process can continue and run the sequence `safe`. The caller must call recoverPanic with defer.
//
// A memory fault in a ring causes such a panic, for example after another process has truncated the
// file of the ring. The error then names that file. For any other panic, the error has the code
// hal.Internal and the text of the panic.
func (f *frameLoop) recoverPanic(err *error) {
	problem := recover()
	if problem == nil {
		return
	}
	*err = hal.NewFault(hal.Internal, problem.(error).Error())
	fault, ok := problem.(interface{ Addr() uintptr })
	if !ok {
		return
	}
	for i := range f.streams {
		if r := f.streams[i].ring; r != nil && r.containsAddress(fault.Addr()) {
			const reason = ": another process has truncated the ring; remove the file to get a " +
				"new ring"
			*err = hal.NewFault(hal.IO, r.path+reason)
		}
	}
}
