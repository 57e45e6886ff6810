package main

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/report"
	"lightmetal/tools/lmrun/files"
)

// From the first run on, the code in this file makes no system call that runtime.Seal forbids, and
// allocates memory only for errors.

// runLoop is what the runs of this process need. Indices of sequences are -1 if a flag is not
// given.
type runLoop struct {
	view                *fbs.View
	replay              *runtime.Replay
	sequenceIndex       int            // executed by each run
	beforeSequenceIndex int            // -before
	afterSequenceIndex  int            // -after
	clock               hal.Device     // measures the duration of runs
	runTimeLimitNs      int64          // -deadline; 0: not given
	streams             []tensorStream // of each -input, then of each -output
	outputFiles         files.Outputs  // also pipes
	watchdog            watchdog
	faultRecorder       faultRecorder
	counterUpdate       counterUpdate
	isSealed            bool
}

// setReplay also makes signals end the runs.
func (f *runLoop) setReplay(r *runtime.Replay, clock hal.Device) {
	f.replay, f.clock = r, clock
	r.SetStopFlag(&stopRequested)
}

// runAndCommit executes all runs and writes the output files. After a failure, except of writing
// these files, `safe` has run: Replay.Run runs it after a failed command.
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

// runSafeSequence runs `safe` after a failure other than that of a command.
func (f *runLoop) runSafeSequence(end *outcome) {
	end.result.Code, end.result.Command = hal.CodeOf(end.err), -1
	if safe := f.view.SequenceByName("safe"); safe >= 0 {
		f.replay.SetLimit(0)
		end.result.SafeSequenceCode, end.result.SafeRan = f.replay.Run(safe).Code, true
	}
}

// executeRuns executes -before, the runs and -after. The runs end after runCount runs (0: no
// limit), at the end of the inputs, or after a signal; nothing runs if that has arrived already.
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
	// A DMA transfer can fail although all commands have succeeded. This failure hides that of an
	// input or output.
	code := f.replay.Diagnose()
	if code != hal.OK {
		err = hal.NewFault(code, "device error after the last run; output files are not written")
	}
	return err
}

// executeRun executes one run, unless the inputs have ended. After the first run it raises the
// version counter.
func (f *runLoop) executeRun(end *outcome) (ended bool, err error) {
	ended, err = f.receiveInputs()
	if ended && end.runs == 0 && stopRequested.Load() == 0 {
		err = hal.NewFault(hal.BadTensor, "the inputs ended before they had data for one run; "+
			"write the data of at least one run to each -input")
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

func (end *outcome) countRun(durationNs int64) {
	end.runs++
	end.totalRunNs += durationNs
	end.shortestRunNs = min(end.shortestRunNs, durationNs)
	end.longestRunNs = max(end.longestRunNs, durationNs)
}

// runSequence runs a sequence (-1: none) with a time limit; if limitNs is 0, that of -longest.
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
	case hal.RingUnset:
		name := hal.TextOf(f.view.NameBytes(f.view.Sequences[sequence].Name))
		return hal.JoinFault(code, "sequence ", name,
			" advances a ring; name the sequence that resets it by -before")
	default:
		text := report.AppendFailure(messageRoom[:0], f.view, &end.result, "")
		return hal.NewFault(code, hal.TextOf(text))
	}
}

// recoverPanic, called with defer, converts a panic into *err, so that `safe` can still run. A
// memory fault is expected if another process truncates the file of a ring: the error then names
// this file.
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
