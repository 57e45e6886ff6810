package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/report"
	"lightmetal/tools/files"
)

// This file runs a sequence in a loop, with new data for each run. What it calls between
// prepareRuns and the end allocates nothing and makes no system call that a seal forbids.

// frameLoop has what the runs of an invocation need.
type frameLoop struct {
	replay   *runtime.Replay
	sequence int
	before   int           // index of the sequence of -before, -1: none
	after    int           // index of the sequence of -after, -1: none
	clock    hal.Device    // its Now measures the runs
	limit    int64         // of a run, in nanoseconds; 0: none
	streams  []stream      // inputs, followed by outputs
	files    files.Outputs // of the outputs that are not rings
	watchdog watchdog
	sealed   bool
}

// openStreams opens inputs, outputs and the watchdog, before the seal and before the
// first store, so that a bad path costs no run. The watchdog comes last: once it is
// started, only a completed run or a reset ends it.
func (f *frameLoop) openStreams(r *runtime.Replay, clock hal.Device) (err error) {
	defer f.recoverRingFault(&err)
	f.replay, f.clock = r, clock
	r.SetStopFlag(&stopping)
	for i := range f.streams {
		s := &f.streams[i]
		err = s.open(r)
		if s.file != nil {
			f.files = append(f.files, s.file)
		}
		if err != nil {
			return err
		}
	}
	return f.watchdog.start()
}

// runLoop executes all runs and finishes the outputs. If something other than a command
// fails, such as an input, the sequence safe runs as well, except if the results of the
// last run cannot be written.
func (f *frameLoop) runLoop(count uint64) (end outcome) {
	end.least = 1<<63 - 1
	end.err = f.runFrames(count, &end)
	if end.err == nil {
		end.err = f.finishOutputs(end.runs)
		return end
	}
	if end.result.Code == hal.OK {
		f.runSafe(&end)
	}
	return end
}

// runSafe runs the sequence safe, if there is one, after a failure that no command
// caused.
func (f *frameLoop) runSafe(end *outcome) {
	end.result.Code, end.result.Command = hal.CodeOf(end.err), -1
	if safe := f.replay.View().SequenceByName("safe"); safe >= 0 {
		f.replay.SetLimit(0)
		end.result.Safe, end.result.SafeRan = f.replay.Run(safe).Code, true
	}
}

// runFrames runs the sequence before, the runs, and the sequence after. The runs end when
// count is reached (0: never), the inputs end, a signal comes or a run fails.
func (f *frameLoop) runFrames(count uint64, end *outcome) error {
	err := f.runSequence(f.before, 0, end)
	ended := false
	for err == nil && !ended && (count == 0 || end.runs < count) && stopping.Load() == 0 {
		ended, err = f.runFrame(end)
	}
	if err == nil {
		err = f.runSequence(f.after, 0, end)
	}
	if err != nil {
		return err
	}
	// A device may complete all commands although its DMA did not reach memory.
	code := f.replay.Diagnose()
	if code != hal.OK {
		err = hal.NewFault(code, "after the last run")
	}
	return err
}

// runFrame receives the inputs of one run, runs the sequence, sends the outputs and feeds
// the watchdog. It reports whether the inputs ended in place of the run.
func (f *frameLoop) runFrame(end *outcome) (ended bool, err error) {
	ended, err = f.receiveInputs()
	if ended && end.runs == 0 && stopping.Load() == 0 {
		err = hal.NewFault(hal.BadTensor, "the inputs ended before the first run")
	}
	if ended || err != nil {
		return ended, err
	}
	start := f.clock.Now()
	if err = f.runSequence(f.sequence, f.limit, end); err != nil {
		return false, err
	}
	now := f.clock.Now()
	end.countRun(now - start)
	if err = f.sendOutputs(); err == nil {
		f.watchdog.feed(now)
	}
	return false, err
}

// countRun adds a completed run, which took so many nanoseconds.
func (end *outcome) countRun(took int64) {
	end.runs++
	end.total += took
	end.least = min(end.least, took)
	end.most = max(end.most, took)
}

// runSequence runs one sequence, if there is one, for at most limit nanoseconds (0: no
// deadline).
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
		return hal.NewFault(code, "an input without default data needs -input NAME=FILE")
	default:
		text := report.AppendFailure(nil, f.replay.View(), &end.result)
		return hal.NewFault(code, string(text))
	}
}

// recoverRingFault, deferred, turns a fault in the memory of a ring into an error that
// names its file. Any other panic becomes an internal error with the panic's text, after
// which the sequence safe runs too.
func (f *frameLoop) recoverRingFault(err *error) {
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
		if r := f.streams[i].ring; r != nil && r.contains(fault.Addr()) {
			const reason = ": the memory of the ring is gone; was the file cut short?"
			*err = hal.NewFault(hal.IO, r.path+reason)
		}
	}
}
