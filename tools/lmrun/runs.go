package main

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/report"
	"lightmetal/tools/lmrun/files"
)

// This file executes runs in a loop, with new data for each run. A run, also called a frame, is one
// execution of the sequence that the flag -sequence names. From the first run on, the code in this
// file must not make system calls that runtime.Seal forbids, and allocates memory only for errors.

// runLoop contains the sequences, limits and data streams of the runs of one lmrun process.
type runLoop struct {
	view                *fbs.View // the verified image
	replay              *runtime.Replay
	sequenceIndex       int            // index of the sequence that each run executes
	beforeSequenceIndex int            // index of the sequence that -before names; -1: not given
	afterSequenceIndex  int            // index of the sequence that -after names; -1: not given
	clock               hal.Device     // device whose method Now measures the duration of runs
	runTimeLimitNs      int64          // value of -deadline, in nanoseconds; 0: not given
	streams             []tensorStream // one for each -input, followed by one for each -output
	outputFiles         files.Outputs  // the files and pipes to which lmrun writes outputs
	watchdog            watchdog
	faultRecorder       faultRecorder
	counterUpdate       counterUpdate
	isSealed            bool // runtime.Seal has installed its seccomp filter
}

// openFiles opens the inputs and outputs, and then the watchdog, whose timeout starts
// when it is opened. The caller must call openFiles before runtime.Seal, which forbids
// opening files, and before the first run, so that lmrun reports a bad path before it stores
// anything to a device.
func (f *runLoop) openFiles(r *runtime.Replay, clock hal.Device) (err error) {
	defer f.recoverPanic(&err)
	f.replay, f.clock = r, clock
	r.SetStopFlag(&stopRequested)
	for i := range f.streams {
		s := &f.streams[i]
		err = s.openOrReadFile(r)
		if s.outputFile != nil {
			f.outputFiles = append(f.outputFiles, s.outputFile)
		}
		if err != nil {
			return err
		}
	}
	return f.watchdog.start()
}

// runAndCommit executes all runs and then writes the output files. If a run fails, the sequence
// named `safe` is executed: by Replay.Run if a command has failed, and otherwise by runAndCommit,
// for example if an input cannot be read. If all runs complete and only the output files cannot be
// written, `safe` is not executed.
func (f *runLoop) runAndCommit(runCount uint64) (end outcome) {
	end.shortestRunNs = 1<<63 - 1
	end.err = f.executeRuns(runCount, &end)
	if end.err == nil {
		end.err = f.commitOutputs(end.runs)
		return end
	}
	if end.result.Code == hal.OK {
		f.runSafeSequence(&end)
	}
	return end
}

// runSafeSequence runs the sequence named `safe`, if the image has one, and stores its result in
// end.result. This sequence brings the devices into a safe state. If a command has failed, the
// caller must not call runSafeSequence, because Replay.Run has already run `safe`.
func (f *runLoop) runSafeSequence(end *outcome) {
	end.result.Code, end.result.Command = hal.CodeOf(end.err), -1
	if safe := f.view.SequenceByName("safe"); safe >= 0 {
		f.replay.SetLimit(0)
		end.result.SafeSequenceCode, end.result.SafeRan = f.replay.Run(safe).Code, true
	}
}

// executeRuns executes the sequence that -before names, then the runs, and then the sequence that
// -after names. The runs end after `runCount` runs (0: no limit), at the end of the inputs, or
// after a signal. After a failure, executeRuns returns without executing the sequence that -after
// names. If a signal has arrived already, it does nothing.
func (f *runLoop) executeRuns(runCount uint64, end *outcome) error {
	if stopRequested.Load() != 0 {
		return nil
	}
	err := f.runSequence(f.beforeSequenceIndex, 0, end)
	ended := false
	for err == nil && !ended && (runCount == 0 || end.runs < runCount) &&
		stopRequested.Load() == 0 {
		ended, err = f.executeRun(end)
	}
	if err == nil {
		err = f.runSequence(f.afterSequenceIndex, 0, end)
	}
	if end.result.Code != hal.OK {
		return err
	}
	// A DMA transfer can fail although all commands have succeeded. This failure takes precedence
	// over that of an input or output.
	code := f.replay.Diagnose()
	if code != hal.OK {
		err = hal.NewFault(code, "device error after the last run; output files are not written")
	}
	return err
}

// executeRun executes one run: it receives the inputs, runs the sequence, sends the outputs and
// feeds the watchdog. After the first run it raises the version counter. If the inputs have ended,
// executeRun does not run the sequence and returns true.
func (f *runLoop) executeRun(end *outcome) (ended bool, err error) {
	ended, err = f.receiveInputs()
	if ended && end.runs == 0 && stopRequested.Load() == 0 {
		err = hal.NewFault(hal.BadTensor, "the inputs ended before they had data for one run")
	}
	if ended || err != nil {
		return ended, err
	}
	start := f.clock.Now()
	if err = f.runSequence(f.sequenceIndex, f.runTimeLimitNs, end); err != nil {
		return false, err
	}
	now := f.clock.Now()
	end.countRun(now - start)
	if err = f.finishRun(); err == nil {
		err = f.counterUpdate.raiseVersion()
	}
	if err == nil {
		f.watchdog.feed(now)
	}
	return false, err
}

// countRun adds one completed run with the given duration to the statistics in the outcome.
func (end *outcome) countRun(durationNs int64) {
	end.runs++
	end.totalRunNs += durationNs
	end.shortestRunNs = min(end.shortestRunNs, durationNs)
	end.longestRunNs = max(end.longestRunNs, durationNs)
}

// runSequence runs the sequence with the given index and stores the result in end.result. If the
// index is -1, runSequence does nothing. The sequence fails if it takes longer than limitNs
// nanoseconds, or longer than the value of -longest if limitNs is 0.
func (f *runLoop) runSequence(sequence int, limitNs int64, end *outcome) error {
	if sequence < 0 {
		return nil
	}
	f.replay.SetLimit(limitNs)
	end.result = f.replay.Run(sequence)
	end.ignoredFailures += uint64(end.result.IgnoredFailures)
	switch code := end.result.Code; code {
	case hal.OK:
		return nil
	case hal.InputMissing:
		for i := range f.view.Tensors {
			t := &f.view.Tensors[i]
			if t.HasData == 0 && t.Role == gen.RoleInput && !f.hasStream(i) {
				name := hal.TextOf(f.view.NameBytes(t.Name))
				return hal.JoinFault(code, "-input ", name, "=FILE is missing")
			}
		}
		return code
	default:
		text := report.AppendFailure(messageRoom[:0], f.view, &end.result)
		return hal.NewFault(code, hal.TextOf(text))
	}
}

// recoverPanic converts a panic of the calling function into the error *err, so that the
// process can continue and run the sequence `safe`. The caller must call recoverPanic with defer.
//
// A panic is expected if another process truncates the file of a ring: an access to the mapped file
// then causes a memory fault. In this case the error names the file. For any other panic, the error
// has the code hal.Internal and the text of the panic.
func (f *runLoop) recoverPanic(err *error) {
	problem := hal.DescribePanic(recover())
	if problem.Cause == nil {
		return
	}
	for i := range f.streams {
		r := f.streams[i].ring
		if r != nil && problem.IsFault && r.containsAddress(problem.Address) {
			const reason = ": another process has truncated the ring; remove the file to get a " +
				"new ring"
			*err = hal.JoinFault(hal.IO, r.path, reason)
			return
		}
	}
	*err = hal.NewFault(hal.Internal, hal.PanicText(problem.Cause))
}
